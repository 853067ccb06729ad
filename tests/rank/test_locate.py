import sys
from pathlib import Path

import pytest

from cclmark.base.errors import MissingError
from cclmark.rank.locate import find_mpirun, mpi_of_srun, wheel_files
from cclmark.rank.torch_backend import _file_behind


@pytest.mark.parametrize(
    ("ccl", "place"), [("oneccl", "lib/libccl.so.2"), ("nccl", "nvidia/nccl/lib/libnccl.so.2")]
)
def test_a_wheel_is_found(tmp_path, monkeypatch, ccl, place):
    """Below the environment without others, or below site-packages."""
    library = tmp_path / place
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    monkeypatch.setattr(sys, "prefix", str(tmp_path if ccl == "oneccl" else sys.prefix))
    monkeypatch.setattr(sys, "path", [] if ccl == "oneccl" else [str(tmp_path)])
    found = wheel_files(ccl)
    assert found == [str(library)] if ccl == "nccl" else str(library) in found
    library.unlink()
    assert str(library) not in wheel_files(ccl)


@pytest.fixture
def no_mpirun(tmp_path, monkeypatch):
    monkeypatch.delenv("CCLMARK_MPIRUN", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def write_mpirun(directory, says):
    program = directory / "mpirun"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)


def test_srun_takes_no_mpirun(no_mpirun, monkeypatch):
    with pytest.raises(MissingError, match="mpirun, which starts MPI ranks, is not installed"):
        find_mpirun()
    assert {"libmpi.so.40", "libmpi.so.12", "libmpi_abi.so.1"} <= {*mpi_of_srun().libraries}
    monkeypatch.setenv("CCLMARK_MPIRUN", str(no_mpirun / "nothing"))
    with pytest.raises(MissingError, match="no such program"):
        mpi_of_srun()
    monkeypatch.delenv("CCLMARK_MPIRUN")
    write_mpirun(no_mpirun, "mpirun (Open MPI) 5.0.7")
    assert mpi_of_srun().libraries == ["libmpi.so.40", "libmpi_abi.so.1"]


def test_the_library_of_intels_mpirun_lies_where_intel_puts_it(no_mpirun):
    write_mpirun(no_mpirun, "Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619")
    library = no_mpirun.parent / "lib" / "release" / "libmpi.so.12"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    assert find_mpirun().libraries == [str(library), "libmpi.so.12"]


def test_the_file_behind_the_name_of_a_loaded_library():
    assert Path(_file_behind("libc.so.6", "getpid")).name == "libc.so.6"
    # One that is not loaded, or has no such function.
    assert _file_behind("libcclmark-none.so.1", "getpid") == ""
    assert _file_behind("libc.so.6", "ncclGetVersion") == ""
