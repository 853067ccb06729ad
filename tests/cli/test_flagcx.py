"""The way through FlagCX, on a fake that moves data."""

import json
from pathlib import Path

import pytest
from vendors import outcomes

from goldens import require_golden

SHORT = ("-n", "2", "-w", "1")
FLAGCX = ("--ccl", "flagcx", "-g", "3")


def env_of(fake_cuda, directory):
    library = fake_cuda.nccl.parent / directory / "libflagcx.so"
    return {**fake_cuda.env(), "CCLMARK_FLAGCX_LIBRARY": str(library)}


@pytest.fixture
def env(fake_cuda):
    return env_of(fake_cuda, ".")


WHOLE = ("collectives", *FLAGCX, "-b", "480", "-e", "480", "--pattern", "skew:4", *SHORT)
SMALL = ("-b", "1K", "-e", "1K")
TWO_OPERATIONS = ("collectives", "--only", "gather,all_reduce", *FLAGCX, *SMALL, *SHORT)
OF_CLUSTERS = ("all_reduce", "--ccl", "flagcx", "-g", "4", *SMALL, "-o", "sum,prod")
LACKS = "CCLMARK_FAKE_FLAGCX_LACKS"
CLUSTERS = "FLAGCX_CLUSTER_SPLIT_LIST"
REFUSED = "CCLMARK_FAKE_NCCL_FAIL"
RUNS = {
    "recent": (WHOLE, {}),
    "old": (WHOLE, {}),
    "types": (("all_reduce", *FLAGCX, *SMALL, "-d", "fp8e4m3,int16,int8", *SHORT), {}),
    "recent-without-gather": (TWO_OPERATIONS, {LACKS: "Gather,GetLastError"}),
    "old-without-gather": (TWO_OPERATIONS, {LACKS: "Gather,GetLastError"}),
    "recent-without-errors": (TWO_OPERATIONS, {LACKS: "CommGetAsyncError"}),
    "old-without-errors": (TWO_OPERATIONS, {LACKS: "CommGetAsyncError"}),
    "refused": (TWO_OPERATIONS, {REFUSED: "all:AllReduce:4"}),
    "clusters": ((*OF_CLUSTERS, *SHORT), {CLUSTERS: "2"}),
    "clusters-captured": ((*OF_CLUSTERS, "--timing", "graph"), {CLUSTERS: "2"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_becomes_of_every_case(cclmark, fake_cuda, name):
    arguments, settings = RUNS[name]
    env = env_of(fake_cuda, "old" if name.startswith("old") else ".")
    run = cclmark(*arguments, env=env | settings, code=(0, 3))
    require_golden(f"fakes/flagcx-{name}.txt", outcomes(run))
    (library,) = run.journal.header.libraries
    assert library.path == str(Path(env["CCLMARK_FLAGCX_LIBRARY"]).resolve())
    assert settings.get(CLUSTERS) == run.journal.header.environment.get(CLUSTERS)


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
