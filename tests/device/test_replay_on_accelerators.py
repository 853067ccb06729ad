"""``cclmark replay`` on two real accelerators: ``pytest -m device tests/device``."""

import pytest

from cclmark_programs.replay.result import ReplayResult
from kineto_events import kernel, trace

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("two_devices")]

GAP_US = 2000.0
TIME_US = 100.0
STEP_US = 4 * GAP_US
CLOCK_S = 2e-5  # what the times of launches, which are left out, are known to


def call(begin_us, stream, name, elements, group, **more):
    own = {"Collective name": name, "In msg nelems": elements, "Group size": 2, "dtype": "Float"}
    groups = {"Process Group Name": group, "Process Group Ranks": "[0, 1]"}
    own |= groups | more
    return kernel("ncclDevKernel_AllReduce", begin_us, TIME_US, stream, **own)


def trace_of(rank, steps=5):
    """Steps of two groups on two streams, and an exchange, with gaps of 2 ms."""
    events = []
    for number in range(steps):
        begin_us = number * STEP_US
        peers = {"Dst Rank": 1 - rank, "Src Rank": 1 - rank}
        events += [
            call(begin_us, 7, "allreduce", 1 << 20, "0"),
            call(begin_us + GAP_US, 8, "allreduce", 1 << 16, "1"),
            call(begin_us + 2 * GAP_US, 7, "allreduce", 1 << 20, "0"),
            call(begin_us + 3 * GAP_US, 8, "send", 4096, "1", **peers),
            call(begin_us + 3 * GAP_US, 8, "recv", 4096, "1", **peers),
        ]
        marked = {"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{number}"}
        events.append({**marked, "ts": begin_us - 1.0, "dur": STEP_US})
    return trace(events, rank)


@pytest.fixture
def profile(measured, tmp_path):
    """The profile of such a program."""
    files = [tmp_path / f"trace-{rank}.json" for rank in (0, 1)]
    for rank, file in enumerate(files):
        file.write_bytes(trace_of(rank))
    done, _ = measured("import", *files)
    return done.args[-1]


def replayed(measured, profile, gaps):
    done, journal = measured("replay", profile, "--gaps", gaps, "-n", "20")
    (result,) = journal.of(ReplayResult)
    assert result.status == "ok"
    assert result.verification.wrong == 0
    assert [(one.operation.operation, one.calls) for one in result.operations if one.calls] != []
    return done, result


def test_gaps_pass_between_calls_of_two_groups_and_streams(measured, profile):
    gaps_s = 3 * (GAP_US - TIME_US) * 1e-6
    for gaps in ("keep", "fixed"):
        done, result = replayed(measured, profile, gaps)
        for span_s, communication_s in zip(result.span_s, result.communication_s, strict=True):
            for span, communication in zip(span_s, communication_s, strict=True):
                assert communication <= span + 1e-6
                # With fixed moments a late first call shortens the rest.
                assert span >= (gaps_s - CLOCK_S if gaps == "keep" else gaps_s / 2)
        assert "replay against program" in done.stdout


def test_without_gaps_communication_alone_is_left(measured, profile):
    _, kept = replayed(measured, profile, "keep")
    _, dropped = replayed(measured, profile, "drop")
    assert min(map(min, dropped.span_s)) < min(map(min, kept.span_s))
