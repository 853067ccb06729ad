"""Islands of ranks with libraries of their own, on hosts and on fake devices."""

import re
import signal

import pytest
from vendors import outcomes

from cclmark.work.operations import DTYPE_BYTES
from goldens import require_golden

SHORT = ("-n", "2", "-w", "1")
ONCE = ("-n", "1", "-w", "0")
NOT_OF_NCCL = {"int16", "uint16"}
# A sixteenth of what is usual: messages of 128 KiB take the ways of 2 MiB.
SMALL_PARTS = {"CCLMARK_BRIDGE_WHOLE_BYTES": "16K", "CCLMARK_BRIDGE_KERNEL_BYTES": "32K"}
# The smallest step, and what is usual beside it: messages of 144 KiB take the steps of 72 MiB.
SMALL_STEPS = {
    "CCLMARK_BRIDGE_WHOLE_BYTES": "4K",
    "CCLMARK_BRIDGE_KERNEL_BYTES": "4K",
    "CCLMARK_BRIDGE_APART_BYTES": "8K",
    "CCLMARK_BRIDGE_STEP_BYTES": "64K",
    "CCLMARK_BRIDGE_DIRECT_SLOT_BYTES": "128K",
}


@pytest.fixture
def env(fake_cuda):
    return {
        **fake_cuda.env(),
        "CCLMARK_FLAGCX_LIBRARY": str(fake_cuda.nccl.parent / "libflagcx.so"),
    }


BRIDGE = ("--ccl", "bridge", "--devices")
IN_TWO = (*BRIDGE, "cuda:0-3", "--islands", "0-1,2-3")
WHOLE_AND_PARTS = ("-b", "4K", "-e", "128K", "-f", "32", *SHORT)
LARGE = ("-b", "144K", "-e", "144K", "--placement", "in-place", *ONCE)
STEPPED = ("collectives", "--only", "all_reduce,reduce_scatter,reduce,broadcast,all_gather")
OF_64K = ("-b", "64K", "-e", "64K", *SHORT)
TYPES = ("-d", ",".join(set(DTYPE_BYTES) - NOT_OF_NCCL), "-o", "all")
UNCOMPILED = {"CCLMARK_NVRTC_LIBRARY": "/nonexistent/libnvrtc.so"}
SMALL_SLOTS = {
    "CCLMARK_BRIDGE_APART_BYTES": "256K",
    "CCLMARK_BRIDGE_HOST_SLOT_BYTES": "384K",  # 1 MiB has three steps
}
RUNS = {
    **{
        f"on-{name}": (("collectives", *BRIDGE, *islands, *WHOLE_AND_PARTS), SMALL_PARTS)
        for name, *islands in (
            ("host", "host:4", "--islands", "0-1,2-3"),
            ("cuda", "cuda:0-3", "--islands", "0-1=nccl,2-3=nccl"),
            ("flagcx", "cuda:0-2", "--islands", "0=nccl,1-2=flagcx"),
            ("both", "cuda:0-1+host:2"),
            ("both-unequal", "cuda:0+host:2", "--islands", "0,1-2=shm"),
        )
    },
    "types": (
        (
            *("all_reduce", *BRIDGE, "cuda:0-2", "--islands", "0-1,2", *TYPES),
            *("-b", "12K", "-e", "12K", "--placement", "out-of-place", *ONCE),  # in parts
        ),
        SMALL_STEPS,
    ),
    **{
        f"steps-{islands}": (
            (*STEPPED, *BRIDGE, "cuda:0-3", "--islands", islands, *LARGE),
            SMALL_STEPS,
        )
        for islands in ("0-1,2-3", "0,1-3")
    },
    "left-out": (
        (
            *("all_reduce", *BRIDGE, "cuda:0-3", "--islands", "0-1=nccl,2-3=flagcx"),
            *("-d", "fp8e4m3,float32", *OF_64K),
        ),
        {},
    ),
    "through-host": (
        ("all_reduce", *IN_TWO, "--through-host", "-b", "1K", "-e", "1M", "-f", "32", *SHORT),
        SMALL_PARTS | SMALL_SLOTS,
    ),
    "no-peers": (("all_reduce", *IN_TWO, *OF_64K), {"CCLMARK_FAKE_NO_PEER": "0-2,0-3,1-2,1-3"}),
    **{
        f"uncompiled-{devices}": (
            ("all_reduce", *BRIDGE, devices, "--islands", "0,1", *OF_64K),
            UNCOMPILED,
        )
        for devices in ("cuda:0-1", "cuda:0+host:1", "host:1+cuda:0")
    },
    "graph": (("all_reduce", *IN_TWO, *OF_64K, "--timing", "graph"), {}),
    "registered": (("all_reduce", *IN_TWO, *OF_64K, "--register", "local"), {}),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_becomes_of_every_case(cclmark, env, tmp_path, name):
    arguments, settings = RUNS[name]
    if name.startswith("uncompiled"):  # with an empty cache of kernels
        settings = settings | {"CCLMARK_CACHE_DIR": str(tmp_path / "kernels")}
    run = cclmark(*arguments, env=env | settings, code=(0, 3))
    require_golden(f"fakes/bridge-{name}.txt", outcomes(run))
    assert run.journal.header.settings.through_host == (name == "through-host")
    if name.startswith("uncompiled"):
        assert "outputs are checked on the host" in run.out + run.err


def test_beside_other_libraries_it_has_its_place_in_the_table(cclmark, env):
    run = cclmark(
        *("all_reduce", "--ccl", "nccl,flagcx,bridge", "-g", "2", "--islands", "0,1"),
        *("-b", "1K", "-e", "1K", *SHORT),
        env=env,
    )
    assert [library.name for library in run.journal.header.libraries] == [
        "nccl",
        "flagcx",
        "bridge",
    ]
    assert re.search(r"nccl +flagcx +/ nccl +bridge +/ nccl", run.out)


def test_wrong_data_from_an_island_is_seen(cclmark, env):
    env["CCLMARK_FAKE_NCCL_CORRUPT"] = "0:ReduceScatter:7"
    run = cclmark(
        *("all_reduce", "--ccl", "bridge", "-g", "4", "--islands", "0-1,2-3", "-b", "64K"),
        *("-e", "64K", *SHORT),
        env=env | SMALL_PARTS,
        code=1,
    )
    for result in run.journal.results:
        assert result.status == "wrong"
        assert {finding.rank for finding in result.verification.findings} == {0, 1, 2, 3}


def test_a_rank_that_dies_ends_the_run(background, env, no_leaks):
    run = background(
        *("all_reduce", "--ccl", "bridge", "-g", "3", "--islands", "0-1,2", "-b", "16K"),
        *("-e", "16K", "-n", "2", "-w", "1", "-N", "0", "--timeout", "20"),
        env=env,
    )
    ranks = run.wait_for_ranks(1)
    run.signal(ranks[2], signal.SIGKILL)
    ended = run.finish(code=4)
    assert "rank 2" in ended.message
