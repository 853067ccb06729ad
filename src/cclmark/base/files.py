"""Files of users, read with a bounded size and without blocking, and those of the package."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_regular(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file of at most ``most_bytes``.

    Raises OSError with ``strerror`` set for a file that cannot be read, for a FIFO, socket, device
    or directory, and for a larger file. The size is checked during the read, because files in /proc
    and /sys report a size of 0.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file", str(path))
        content = bytearray()
        while piece := file.read(most_bytes + 1 - len(content)):
            content += piece
            if len(content) > most_bytes:
                raise OSError(0, f"larger than {most_bytes} bytes", str(path))
    return bytes(content)


def process_stat(pid: int) -> list[str]:
    """The state of a process of this host, its parent and the other fields of /proc/PID/stat.

    Raises OSError. The fields before them are the process and its name, which may contain blanks.
    """
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


# What a chroot or a container may be without, and what then fails.
_MOUNTS = {
    "/proc/self": (
        "/proc is not mounted on this host: ranks find each other's memory in it. Mount it: mount "
        "-t proc proc /proc, for a chroot at DIR before it is entered: mount -t proc proc DIR/proc"
    ),
    "/dev/shm": (
        "/dev/shm is missing on this host: NCCL, MPI and others have the memory that ranks share "
        "in it. Mount it: mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm"
    ),
}


def missing_mounts() -> list[str]:
    """For each file system that ranks require and this host does not have, what to do."""
    return [text for place, text in _MOUNTS.items() if not Path(place).exists()]


# The engine is a shared library, so the package is a directory and never an archive;
# importlib.resources supports archives, and takes as long to import as everything else here.
_PACKAGE = Path(__file__).parent.parent


def shipped_toml_files(folder: str | Path) -> list[Path]:
    """The TOML files in a folder, if relative one of the package, sorted by name."""
    return sorted((_PACKAGE / folder).glob("*.toml"))
