"""A fake plug-in of torch for the devices of a fake runtime: see fakes/torch_device."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from fake_libraries import DIRECTORY, fake_library
from forked import PLUG_INS_OF_TORCH

_SOURCE = Path(PLUG_INS_OF_TORCH) / "device.cpp"


def _built() -> Path:
    """The compiled source, made once for each torch: by other processes too."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch = Path(spec.origin).parent
    key = hashlib.sha256(_SOURCE.read_bytes() + version("torch").encode()).hexdigest()[:16]
    file = DIRECTORY / "torch_device" / f"lib{key}.so"
    file.parent.mkdir(parents=True, exist_ok=True)
    with (file.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            include = torch / "include"
            command = [
                *(os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-fPIC", "-shared"),
                *(f"-I{include}", f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}"),
                *(str(_SOURCE), "-o", f"{file}.part"),
                *(f"-L{torch / 'lib'}", "-lc10", "-ltorch_cpu"),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.fail(f"{_SOURCE} cannot be compiled: {done.stderr[-2000:]}")
            Path(f"{file}.part").rename(file)
    return file


@dataclass(frozen=True)
class TorchVendor:
    """Devices of a fake runtime, and how torch calls them."""

    runtime: str
    runtime_variable: str
    runtime_file: str
    backend: str
    plug_in: str

    def beside(self, name: str) -> str:
        """A library in the directory of the runtime."""
        return str(fake_library(self.runtime_file).parent / name)

    def env(self, fault: str = "", *, has_plug_in: bool = True) -> dict[str, str]:
        """The environment in which both are found. ``fault``: of the plug-in."""
        found = {
            self.runtime_variable: str(fake_library(self.runtime_file)),
            "CCLMARK_FAKE_TORCH_DEVICE": str(_built()),
            "CCLMARK_FAKE_TORCH": fault,
        }
        return found | ({"PYTHONPATH": PLUG_INS_OF_TORCH} if has_plug_in else {})


MUSA = TorchVendor("musa", "CCLMARK_MUSA_LIBRARY", "musa/libmusart.so", "mccl", "torch_musa")
ACL = TorchVendor("acl", "CCLMARK_ASCENDCL_LIBRARY", "libascendcl.so", "hccl", "torch_npu")
GCU = TorchVendor("tops", "CCLMARK_TOPS_LIBRARY", "tops/libtopsrt.so", "eccl", "torch_gcu")
