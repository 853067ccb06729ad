"""Islands of ranks with libraries of their own, on hosts and on fake devices."""

import re
import signal

import pytest

from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES
from examples import exhaustive

SHORT = ("-n", "2", "-w", "1")
ONCE = ("-n", "1", "-w", "0")
DIRECT = "2 islands, direct peer copies"
NOT_OF_NCCL = {"int16", "uint16"}
THROUGH_HOST = "2 islands, through pinned host memory"
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


def all_right(run, route):
    """Every case was measured that way and found right."""
    for result in run.journal.results:
        assert (result.status, result.reason) == ("ok", ""), result.case.describe()
        assert result.route.removeprefix("copy aside, then ") == route
        assert result.verification.wrong == 0
    return run.journal


@pytest.mark.parametrize(
    ("devices", "islands", "route"),
    [
        ("host:4", "0-1,2-3", DIRECT),
        ("cuda:0-3", "0-1=nccl,2-3=nccl", DIRECT),
        ("cuda:0-2", "0=nccl,1-2=flagcx", DIRECT),
        ("cuda:0-1+host:2", "", THROUGH_HOST),
        exhaustive(*("cuda:0+host:2", "0,1-2=shm", THROUGH_HOST)),
    ],
)
def test_every_operation_is_right_between_islands(cclmark, env, devices, islands, route):
    chosen = ("--islands", islands) if islands else ()
    run = cclmark(
        *("collectives", "--ccl", "bridge", "--devices", devices, *chosen),
        *("-b", "4K", "-e", "128K", "-f", "32", *SHORT),  # whole results, and parts
        env=env | SMALL_PARTS,
    )
    journal = all_right(run, route)
    assert {result.case.operation for result in journal.results} == set(COLLECTIVES)
    names = [library.name for library in journal.header.libraries]
    assert names[0] == "bridge"
    assert set(names[1:]) == {
        island.ccl for island in journal.header.settings.islands if island.last > island.first
    }


def test_every_type_and_reduction_is_added_up_on_devices(cclmark, env):
    run = cclmark(
        *("all_reduce", "--ccl", "bridge", "-g", "3", "--islands", "0-1,2"),
        *("-d", ",".join(set(DTYPE_BYTES) - NOT_OF_NCCL), "-o", "all"),
        *("-b", "12K", "-e", "12K", "--placement", "out-of-place", *ONCE),  # in parts
        env=env | SMALL_STEPS,
    )
    assert len(all_right(run, DIRECT).results) == 60


@pytest.mark.parametrize("islands", ["0-1,2-3", "0,1-3"])
def test_messages_of_several_steps_are_right_on_devices(cclmark, env, islands):
    run = cclmark(
        *("collectives", "--only", "all_reduce,reduce_scatter,reduce,broadcast,all_gather"),
        *("--ccl", "bridge", "-g", "4", "--islands", islands, "-b", "144K", "-e", "144K"),
        *("--placement", "in-place", *ONCE),
        env=env | SMALL_STEPS,
    )
    all_right(run, DIRECT)


def test_what_one_island_cannot_do_is_left_out_by_all(cclmark, env):
    run = cclmark(
        *("all_reduce", "--ccl", "bridge", "-g", "4", "--islands", "0-1=nccl,2-3=flagcx"),
        *("-d", "fp8e4m3,float32", "-b", "4K", "-e", "4K", *SHORT),
        env=env,
    )
    outcomes = {(it.case.dtype, it.status, it.reason) for it in run.journal.results}
    assert outcomes == {
        ("fp8e4m3", "skipped", "on rank 2: flagcx does not support fp8e4m3"),
        ("float32", "ok", ""),
    }


@pytest.mark.parametrize("islands", ["0-1=nccl,2-3=flagcx", "0-1=flagcx,2-3=nccl"])
def test_an_island_whose_library_is_for_other_devices_is_told(cclmark, env, islands):
    run = cclmark(
        *("all_reduce", "--ccl", "bridge", "-g", "4", "--islands", islands),
        *("-b", "4K", "-e", "4K", *SHORT),
        env={**env, "CCLMARK_FAKE_FLAGCX_VENDOR": "ASCEND"},
        code=3,
    )
    assert "was built for ASCEND devices, and these are cuda devices" in run.err


def test_the_way_through_the_host_can_be_asked_for(cclmark, env):
    small_slots = {
        "CCLMARK_BRIDGE_APART_BYTES": "256K",
        "CCLMARK_BRIDGE_HOST_SLOT_BYTES": "384K",  # 1 MiB has three steps
    }
    run = cclmark(
        *("all_reduce", "--ccl", "bridge", "-g", "4", "--islands", "0-1,2-3", "--through-host"),
        *("-b", "1K", "-e", "1M", "-f", "32", *SHORT),
        env=env | SMALL_PARTS | small_slots,
    )
    assert all_right(run, THROUGH_HOST).header.settings.through_host


def test_devices_without_peer_access_meet_in_host_memory(cclmark, env):
    env["CCLMARK_FAKE_NO_PEER"] = "0-2,0-3,1-2,1-3"
    run = cclmark(
        *("all_reduce", "--ccl", "bridge", "-g", "4", "--islands", "0-1,2-3", "-b", "64K"),
        *("-e", "64K", *SHORT),
        env=env,
    )
    all_right(run, THROUGH_HOST)


@pytest.mark.parametrize(
    ("devices", "way"),
    [("cuda:0-1", DIRECT), ("cuda:0+host:1", THROUGH_HOST), ("host:1+cuda:0", THROUGH_HOST)],
)
def test_without_a_compiler_the_host_adds_up_and_says_so(cclmark, env, tmp_path, devices, way):
    """Whichever rank it is."""
    env["CCLMARK_NVRTC_LIBRARY"] = "/nonexistent/libnvrtc.so"
    env["CCLMARK_CACHE_DIR"] = str(tmp_path / "kernels")  # where nobody has compiled before
    run = cclmark(
        *("all_reduce", "--ccl", "bridge", "--devices", devices, "--islands", "0,1"),
        *("-b", "64K", "-e", "64K", *SHORT),
        env=env,
    )
    journal = all_right(run, f"{way}, reduced on the host")
    assert {result.verification.where for result in journal.results} == {"host"}
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
    ended = run.finish()
    assert ended.code == 4
    assert "rank 2" in ended.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--islands", "0-1,1-3"), "rank 1 is already in an earlier island"),
        (("--islands", "0-1,3"), "the islands omit rank 2"),
        (("--islands", "0,1-2"), "the islands omit the ranks from 3 on"),
        (("--islands", "0-1,2-4"), "the ranks are 0 to 3"),
        (("--islands", "2-3,0-1"), "the islands omit rank 0"),
        (("--islands", "0-3"), "bridge requires at least two islands"),
        ((), "bridge requires at least two islands"),
        (("--islands", "0-1,x"), "cannot read the island 'x'"),
        (("--islands", "0-1=,2-3"), "cannot read the island '0-1='"),
        (("--islands", "0-1,2-3=nccl"), "for host devices choose from shm"),
        (("--islands", "host"), "all ranks are on one"),
        (("--islands", "0-1,,2-3"), "cannot read the island ''"),
        (("--islands", "0-1,2-3,"), "cannot read the island ''"),
        (("--islands", "host,0-1"), "cannot read the island 'host'"),
        (("--islands", "host=shm,shm"), "one library for all"),
        (("--islands", "host="), "cannot read 'host='"),
        (("--islands", "0-1,2-3", "--ccl", "shm"), "--islands requires --ccl bridge"),
        (("--through-host", "--ccl", "shm"), "--through-host requires --ccl bridge"),
    ],
)
def test_islands_that_make_no_sense_are_refused(cclmark, arguments, message):
    ccl = () if "--ccl" in arguments else ("--ccl", "bridge")
    run = cclmark("all_reduce", "--devices", "host:4", *ccl, *arguments, code=2)
    assert message in run.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all_reduce", "--devices", "cuda:0+host:1"), "together require --ccl bridge"),
        (("all_reduce", "--devices", "cuda:0+host:1", "-g", "2"), "remove -g and -p"),
        (("p2p", "--devices", "cuda:0+host:1"), "devices of several runtimes"),
        (("pairs", "--ccl", "bridge", "-g", "2"), "not with bridge: use --ccl "),
        (
            ("all_reduce", "--ccl", "bridge", "--devices", "cuda:0+host:2", "--islands", "0-1,2"),
            "a library supports only one kind",
        ),
        (
            ("all_reduce", "--ccl", "bridge,nccl", "--devices", "cuda:0+host:1"),
            "support only --ccl bridge",
        ),
        (
            *(("all_reduce", "--ccl", "nccl,flagcx", "-g", "2", "--ccl-path", "/x/libnccl.so"),),
            "--ccl-path sets one file",
        ),
        (
            (
                *("all_reduce", "--ccl", "bridge", "-g", "4", "--ccl-path", "/x/libnccl.so.2"),
                *("--islands", "0-1=nccl,2-3=flagcx"),
            ),
            "nccl and flagcx are different libraries",
        ),
    ],
)
def test_devices_and_files_that_the_library_excludes(cclmark, env, arguments, message):
    run = cclmark(*arguments, env=env, code=2)
    assert message in run.message


def test_graphs_and_registered_buffers_are_skipped_with_the_reason(cclmark, env):
    islands = ("--ccl", "bridge", "-g", "2", "--islands", "0,1", "-b", "1K", "-e", "1K")
    for more in (("--timing", "graph"), ("--register", "local")):
        run = cclmark("all_reduce", *islands, *more, env=env, code=3)
        assert {result.status for result in run.journal.results} == {"skipped"}
