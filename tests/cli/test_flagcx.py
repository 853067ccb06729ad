"""The way through FlagCX, on a fake that moves data."""

import json
from pathlib import Path

import pytest

from cclmark.work.operations import COLLECTIVES

SHORT = ("-n", "2", "-w", "1")
FLAGCX = ("--ccl", "flagcx", "-g", "3")


def env_of(fake_cuda, directory):
    library = fake_cuda.nccl.parent / directory / "libflagcx.so"
    return {**fake_cuda.env(), "CCLMARK_FLAGCX_LIBRARY": str(library)}


@pytest.fixture
def env(fake_cuda):
    return env_of(fake_cuda, ".")


@pytest.fixture(params=[".", "old"], ids=["0.13", "0.4"])
def any_env(fake_cuda, request):
    return env_of(fake_cuda, request.param)


def on_device_clock(result) -> bool:
    """Whether the device's events timed every sample."""
    return all(time is not None for row in result.samples.device_s for time in row)


def test_every_operation_is_measured_and_right(cclmark, any_env):
    sizes = ("-b", "480", "-e", "480", "--pattern", "skew:4")
    run = cclmark("collectives", *FLAGCX, *sizes, *SHORT, env=any_env)
    results = run.journal.results
    assert {result.case.operation for result in results} == set(COLLECTIVES)
    for result in results:
        assert (result.status, result.reason) == ("ok", "")
        assert "clusters" not in result.route
        assert on_device_clock(result)
    library = run.journal.header.libraries[0]
    assert (library.name, library.version) == ("flagcx", "10000")
    assert library.path == str(Path(any_env["CCLMARK_FLAGCX_LIBRARY"]).resolve())


def test_types_that_flagcx_lacks_are_skipped(cclmark, env):
    types = ("-d", "fp8e4m3,int16,int8")
    run = cclmark("all_reduce", *FLAGCX, "-b", "64", "-e", "64", *types, *SHORT, env=env)
    assert {it.case.dtype: it.reason for it in run.journal.results if it.status != "ok"} == {
        "fp8e4m3": "flagcx does not support fp8e4m3",
        "int16": "flagcx does not support int16",
    }


def test_an_adaptor_that_tells_of_no_errors_is_measured(cclmark, any_env):
    any_env["CCLMARK_FAKE_FLAGCX_LACKS"] = "CommGetAsyncError"
    run = cclmark("all_reduce", *FLAGCX, "-b", "1K", "-e", "1K", *SHORT, env=any_env)
    assert {it.status for it in run.journal.results} == {"ok"}


@pytest.mark.parametrize(("directory", "code"), [(".", 9), ("old", 8)])
def test_what_an_adaptor_does_not_have_is_skipped_and_the_rest_measured(
    cclmark, fake_cuda, directory, code
):
    env = env_of(fake_cuda, directory)
    env["CCLMARK_FAKE_FLAGCX_LACKS"] = "Gather,GetLastError"
    only = ("collectives", "--only", "gather,all_reduce")
    run = cclmark(*only, *FLAGCX, "-b", "1K", "-e", "1K", *SHORT, env=env)
    found = {(it.case.operation, it.status, it.reason) for it in run.journal.results}
    assert found == {
        ("gather", "skipped", f"flagcxGather failed: not supported (code {code})"),
        ("all_reduce", "ok", ""),
    }


def test_calls_between_clusters_are_timed_by_the_host(cclmark, env):
    env["FLAGCX_CLUSTER_SPLIT_LIST"] = "2"
    run = cclmark(
        *("all_reduce", "--ccl", "flagcx", "-g", "4", "-b", "1K", "-e", "1K", "-o", "sum,prod"),
        *SHORT,
        env=env,
    )
    for result in run.journal.results:
        if result.case.reduction == "prod":
            assert (result.status, result.reason) == (
                "skipped",
                "flagcx does not support prod between clusters",
            )
            continue
        assert result.status == "ok"
        assert result.route == "native, clusters of mixed vendors"
        assert not on_device_clock(result)
    assert run.journal.header.environment["FLAGCX_CLUSTER_SPLIT_LIST"] == "2"


def test_between_clusters_nothing_is_captured(cclmark, env):
    env["FLAGCX_CLUSTER_SPLIT_LIST"] = "2"
    run = cclmark(
        *("all_reduce", "--ccl", "flagcx", "-g", "4", "-b", "1K", "-e", "1K", "--timing", "graph"),
        env=env,
        code=3,
    )
    assert {result.status for result in run.journal.results} == {"skipped"}
    assert all("captured" in result.reason for result in run.journal.results)


def test_a_build_for_another_vendor_is_named(cclmark, env):
    env["CCLMARK_FAKE_FLAGCX_VENDOR"] = "ASCEND"
    run = cclmark("all_reduce", *FLAGCX, "-b", "64", "-e", "64", env=env, code=3)
    assert "was built for ASCEND devices, and these are cuda devices" in run.message


def test_beside_others_one_for_other_devices_is_left_out(cclmark, env):
    env["CCLMARK_FAKE_FLAGCX_VENDOR"] = "ASCEND"
    both = ("--ccl", "flagcx,nccl", "-g", "2", "-N", "2")
    run = cclmark("all_reduce", *both, "-b", "1K", "-e", "1K", *SHORT, env=env)
    found = sorted((it.case.ccl, it.status, it.cycle) for it in run.journal.results)
    assert found == [
        *[("flagcx", "skipped", cycle) for cycle in (0, 0, 1, 1)],
        *[("nccl", "ok", cycle) for cycle in (0, 0, 1, 1)],
    ]
    assert "was built for ASCEND devices" in run.journal.results[0].reason
    assert "flagcx" in run.out.partition("was built for ASCEND")[0]


def test_arguments_that_all_ranks_refuse_are_not_supported(cclmark, env):
    env["CCLMARK_FAKE_NCCL_FAIL"] = "all:AllReduce:4"
    only = ("collectives", "--only", "all_reduce,broadcast")
    run = cclmark(*only, *FLAGCX, "-b", "64", "-e", "64", *SHORT, env=env)
    found = {(one.case.operation, one.status) for one in run.journal.results}
    assert found == {("all_reduce", "skipped"), ("broadcast", "ok")}
    assert "flagcxAllReduce failed: invalid argument" in run.journal.results[0].reason


LOG_LINE = "FLAGCX INFO rank = "


@pytest.mark.parametrize(
    ("level", "subsystems", "lines"),
    [("INFO", "INIT", 3), ("info", "ALL", 3), ("INFO", "NET", 0), ("TRUE", "ALL", 0)],
)
def test_the_log_of_flagcx_goes_to_standard_error_and_its_switches_to_the_journal(
    cclmark, env, level, subsystems, lines
):
    env |= {"FLAGCX_DEBUG": level, "FLAGCX_DEBUG_SUBSYS": subsystems}
    run = cclmark(
        "all_reduce", *FLAGCX, "-b", "64", "-e", "64", *SHORT, "--format", "json", env=env
    )
    assert run.err.count(LOG_LINE) == lines
    assert len(json.loads(run.out)["cases"]) == len(run.journal.results)
    kept = run.journal.header.environment
    assert (kept["FLAGCX_DEBUG"], kept["FLAGCX_DEBUG_SUBSYS"]) == (level, subsystems)


def test_an_explanation_has_a_log_of_its_own(cclmark, env, tmp_path):
    """The user's log is of the measurement: the second pass neither adds to it nor replaces it."""
    log = tmp_path / "flagcx.log"
    env |= {"FLAGCX_DEBUG": "INFO", "FLAGCX_DEBUG_FILE": str(log)}
    run = cclmark(
        *("all_reduce", "--ccl", "flagcx", "-g", "2", "-b", "64", "-e", "64", *SHORT, "--explain"),
        env=env,
    )
    assert LOG_LINE in log.read_text()
    assert run.journal.header.environment["FLAGCX_DEBUG_FILE"] == str(log)
    assert run.journal.paths  # of the second pass
