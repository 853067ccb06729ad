"""``--barrier library`` and ``--clock``: as programs measure that call a library themselves."""

import json

import pytest

ALONE = ("--timing", "blocking", "--barrier", "library", "--clock", "device")
SWEEP = ("all_reduce", "-b", "1K", "-e", "8K", "-f", "8", "-n", "4", "-w", "1")
HOSTS = ("--devices", "host:4")


@pytest.mark.parametrize("ccl", ["bridge --islands 0-1=shm,2-3=shm", "torch:gloo"])
def test_each_library_is_measured_right_behind_its_barrier(cclmark, ccl, request):
    if "torch" in ccl:
        request.getfixturevalue("torch")
    run = cclmark(*SWEEP, *HOSTS, "--ccl", *ccl.split(), *ALONE)
    assert {result.status for result in run.journal.results} == {"ok"}
    settings = run.journal.header.settings
    # The host has one clock: none is another.
    assert (settings.barrier, settings.clock) == ("library", "auto")
    assert "checked after timing, after the library's barrier\n" in run.out


@pytest.mark.parametrize("ccl", ["nccl", "flagcx"])
def test_devices_are_measured_right_behind_their_librarys_barrier(cclmark, flagcx_env, ccl):
    env = flagcx_env()
    run = cclmark(*SWEEP, "--ccl", ccl, "-g", "3", *ALONE, env=env)
    assert {(one.status, one.summary.clock) for one in run.journal.results} == {("ok", "device")}
    for one in run.journal.results:
        for host_s, device_s in zip(one.samples.host_s, one.samples.device_s, strict=True):
            assert all(inner > 0 for inner in device_s)
            assert len(host_s) == 3
    assert "after the library's barrier, the device's clock where it has one\n" in run.out
    run = cclmark(*SWEEP, "--ccl", ccl, "-g", "3", "--timing", "blocking", env=env)
    assert {(one.status, one.summary.clock) for one in run.journal.results} == {("ok", "host")}
    for one in run.journal.results:
        assert all(time is None for row in one.samples.device_s for time in row)


@pytest.mark.parametrize(
    ("ccl", "timing"),
    [("nccl", "graph"), ("flagcx", "per-op")],
)
def test_a_barrier_that_fails_is_told_with_the_librarys_words(cclmark, flagcx_env, ccl, timing):
    # The fake's barrier is its all-reduce; the operation itself is another.
    run = cclmark(
        *("all_gather", "--ccl", ccl, "-g", "3", "-b", "480", "-e", "480", "-n", "2", "-w", "1"),
        *("--timing", timing, "--barrier", "library"),
        env=flagcx_env(CCLMARK_FAKE_NCCL_FAIL="1:AllReduce"),
        code=4,
    )
    assert f"{ccl}AllReduce" in run.err


def test_the_clock_is_the_hosts_where_it_is_asked_for(cclmark, fake_cuda, tmp_path):
    """To ask for what is usual anyway is no other method."""
    journal, env = tmp_path / "usual.jsonl", fake_cuda.env()
    run = cclmark(*SWEEP, "-g", "2", "--clock", "host", env=env)
    for one in run.journal.results:
        assert one.summary.clock == "host"
        assert one.summary.time_s == pytest.approx(max(one.samples.host_s[0]), rel=1e-4)
    assert "the host's clock" in run.out
    cclmark(*SWEEP, "-g", "2", "--clock", "device", "--journal", journal, env=env)
    cclmark(*SWEEP, "-g", "2", "--resume", journal, env=env)
    resumed = cclmark(*SWEEP, "-g", "2", "--clock", "host", "--resume", journal, env=env, code=2)
    assert "--clock: auto in the journal, host in this command" in resumed.err


def test_figures_that_are_the_hosts_although_the_devices_were_asked_for_are_named(
    cclmark, flagcx_env
):
    env = flagcx_env(FLAGCX_CLUSTER_SPLIT_LIST="2")
    run = cclmark(*SWEEP, "--ccl", "nccl,flagcx", "-g", "4", *ALONE, env=env)
    words = "  all_reduce · flagcx: by the host's clock: there are no times of the device"
    assert run.out.splitlines().count(words) == 1


def test_exported_series_tell_where_ranks_met_and_pairs_take_both(cclmark, fake_cuda, tmp_path):
    journal, env = tmp_path / "run.jsonl", fake_cuda.env()
    run = cclmark(
        *("pairs", "-g", "2", "-b", "1K", "-e", "1K", "--only", "all_reduce"),
        *("-n", "4", "-w", "1", *ALONE, "--format", "json", "--journal", journal),
        env=env,
    )
    assert json.loads(run.out)["header"]["settings"]["barrier"] == "library"
    assert {one.summary.clock for one in run.journal.results} == {"device"}
    lines = cclmark("export", journal, "--format", "prometheus").out.splitlines()
    series = [line for line in lines if line.startswith("cclmark_time_seconds")]
    assert series
    assert all('barrier="library"' in line and 'clock="device"' in line for line in series)
