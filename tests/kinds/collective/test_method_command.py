"""``--barrier``, ``--clock``, ``--timing auto`` and ``--memory``: by which method is measured."""

import pytest

from cclmark.document.text import format_time_us

ALONE = ("--timing", "blocking", "--barrier", "library", "--clock", "device")
SWEEP = ("all_reduce", "-b", "1K", "-e", "8K", "-f", "8", "-n", "4", "-w", "1")


@pytest.mark.parametrize("ccl", ["bridge --islands 0-1=shm,2-3=shm", "torch:gloo"])
def test_each_library_is_measured_right_behind_its_barrier(cclmark, ccl, request):
    if "torch" in ccl:
        request.getfixturevalue("torch")
    run = cclmark(*SWEEP, "--devices", "host:4", "--ccl", *ccl.split(), *ALONE)
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


# Each call of the fake library takes the host that long: many times what its devices need.
LAUNCH_US = 40_000
ITERATIONS = 5
ARGUMENTS = ("-g", "2", "-b", "64", "-e", "256", "-f", "4", "-n", str(ITERATIONS), "-w", "1")


@pytest.fixture(scope="module")
def slow_launches(fake_cuda):
    return fake_cuda.env(CCLMARK_FAKE_NCCL_ENQUEUE_US=str(LAUNCH_US))


def test_a_case_has_the_cost_of_a_call_and_the_time_of_the_devices(cclmark, slow_launches):
    run = cclmark("all_reduce", *ARGUMENTS, env=slow_launches)
    assert run.journal.header.settings.timing == "auto"
    assert len(run.journal.results) == 4
    for result in run.journal.results:
        assert (result.status, result.device_reason) == ("ok", "")
        assert result.summary.time_s > 0.9e-6 * LAUNCH_US
        assert result.device.summary.time_s < 0.5 * result.summary.time_s
        assert result.device.summary.clock == "device"
        assert result.device.samples.operations_per_sample % ITERATIONS == 0
        assert result.verification.wrong == 0
    heads = [line for line in run.out.splitlines() if "busbw" in line and "size" in line]
    assert [line.split().count("device") for line in heads] == [2]
    assert format_time_us(run.journal.results[0].device.summary.time_s) in run.out
    assert "launches determine the time up to 256 B: at 64 B a call costs" in run.out
    assert "replayed from graphs where launches determine the time" in run.out


def test_a_rank_that_cannot_capture_leaves_the_cost_of_a_call(cclmark, slow_launches):
    env = {**slow_launches, "CCLMARK_FAKE_NO_CAPTURE": "1"}
    run = cclmark("all_reduce", *ARGUMENTS, env=env)
    for result in run.journal.results:
        assert (result.status, result.device) == ("ok", None)
        assert "cuStreamBeginCapture" in result.device_reason
    assert "launches determine the time up to 256 B; device times unknown: " in run.out


TWO = ("-g", "2", "-b", "64", "-e", "1K", "-f", "16", "-n", "1", "-w", "0")


def memory_of(run):
    return {one.name: one.memory for one in run.journal.header.libraries}["nccl"]


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        *(
            ("--timing auto", "plain"),
            ("-G 2", "library"),
            ("--timing graph --memory plain", "plain"),
        ),
        *(("--memory vmm", "vmm"), ("-R 1", "library")),
    ],
)
def test_the_memory_of_buffers_is_in_journal_and_head(cclmark, fake_cuda, flags, kind):
    run = cclmark("all_reduce", *TWO, *flags.split(), env=fake_cuda.env())
    assert memory_of(run) == kind
    assert all(result.verification.wrong == 0 for result in run.journal.results)
    is_said = kind != "plain" or "--memory" in flags
    assert ("\n  buffers    " in run.out) == is_said


def test_kinds_of_memory_are_compared_and_exported_under_their_names(cclmark, fake_cuda):
    command, env = ("all_reduce", *TWO, "--timing", "graph"), fake_cuda.env()
    cclmark(*command, "--journal", "a.jsonl", env=env)
    cclmark(*command, "--memory", "plain", "--journal", "b.jsonl", env=env)
    compared = cclmark("compare", "a.jsonl", "b.jsonl")
    assert "memory of nccl's buffers: library before, plain after" in compared.out
    both = cclmark("compare", "a.jsonl,b.jsonl", "b.jsonl", code=2)
    assert "memory of nccl's buffers: library there, plain here" in both.err
    assert "memory library" in cclmark("export", "a.jsonl", "--format", "csv").out
    assert "memory" not in cclmark("export", "b.jsonl", "--format", "csv").out
    resumed = cclmark(*command, "--resume", "b.jsonl", code=2, env=env)
    assert "--memory: plain in the journal, auto in this command" in resumed.err
