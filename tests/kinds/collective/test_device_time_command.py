"""--timing auto: the device's time of cases whose time is determined by launches."""

import pytest

from cclmark.document.text import format_time_us

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


def test_throughput_replays_nothing(cclmark, slow_launches):
    run = cclmark("all_reduce", *ARGUMENTS, "--timing", "throughput", env=slow_launches)
    assert all(result.device is None for result in run.journal.results)
    assert "device" not in run.out.partition("all_reduce")[2]


def test_a_rank_that_cannot_capture_leaves_the_cost_of_a_call(cclmark, slow_launches):
    env = {**slow_launches, "CCLMARK_FAKE_NO_CAPTURE": "1"}
    run = cclmark("all_reduce", *ARGUMENTS, env=env)
    for result in run.journal.results:
        assert (result.status, result.device) == ("ok", None)
        assert "cuStreamBeginCapture" in result.device_reason
    assert "launches determine the time up to 256 B; device times unknown: " in run.out


def test_the_host_has_no_graphs_to_replay(cclmark):
    sweep = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-n", "1", "-w", "0")
    journal = cclmark(*sweep, "--timing", "auto").journal
    assert journal.header.settings.timing == "throughput"
    assert {(one.device, one.device_reason) for one in journal.results} == {(None, "")}


def test_graphs_of_several_launches_hold_many_operations(cclmark, fake_cuda):
    """As nccl-tests -G does: a launch of a single operation would be timed instead."""
    run = cclmark(
        *("all_reduce", "-g", "2", "-b", "64", "-e", "64", "-G", "4", "--max-time", "0.05"),
        *("--placement", "out-of-place"),
        env=fake_cuda.env(),
    )
    (result,) = run.journal.results
    time_s, operations = result.summary.time_s, result.samples.operations_per_sample
    assert operations % 4 == 0
    assert operations > 4 or time_s > 2e-3
