"""Where Python packages keep vendor libraries that the loader does not find by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

# Below site-packages: the library's own wheel, then those of other CUDA versions.
_WHEEL_FILES = {
    "nccl": ("nvidia/nccl/lib/libnccl.so.2",),
    "nvrtc": (
        "nvidia/cu13/lib/libnvrtc.so.13",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.13",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
    ),
}


def wheel_files(library: str) -> list[str]:
    """Files of ``library`` in the packages of this Python, best first."""
    return [
        str(path)
        for directory in _site_directories()
        for name in _WHEEL_FILES.get(library, ())
        if (path := directory / name).is_file()
    ]


def _site_directories() -> Iterator[Path]:
    for entry in dict.fromkeys(sys.path):
        path = Path(entry)
        if entry and (path / "nvidia").is_dir():
            yield path
