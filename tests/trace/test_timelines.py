import io
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import RankError
from cclmark.cli.trace.summary import trace_problems, trace_summary
from cclmark.explain.plugin_log import KernelCount
from cclmark.trace import timeline_assembly
from cclmark.trace.clocks import device_clock, event_clock, host_clock, resolution_ns
from cclmark.trace.rank_trace import (
    ClockAhead,
    ClockPair,
    RankTrace,
    Stage,
    TracedBatch,
    pieces_of,
    trace_of,
)
from cclmark.trace.timeline import BatchTime, RankTracks, Slice, Timeline, Track
from cclmark.trace.timeline_assembly import batch_time, skew_of
from cclmark.trace.timeline_files import write_chrome, write_perfetto
from cclmark.work.cases import Case
from goldens import require_golden
from plugin_logs import (
    ALL_REDUCE,
    CALL,
    CHANNEL,
    COLLECTIVE,
    MESSAGE,
    PROXY,
    STATE,
    STEP,
    STOP,
    log,
    record,
)
from timeline_files import perfetto_slices

MIB = 1 << 20
CASE = Case("all_reduce", "nccl", 2, "float32", MIB, MIB // 4, False, "sum")


def assembled(*traces):
    return timeline_assembly.assemble("a case", MIB, [*traces])


def summary_of(found, untraced_s=None):
    return "\n".join(trace_summary(found, CASE, 2, untraced_s))


def kernel(number, begin_ns, end_ns, channel=0, task=COLLECTIVE, function="AllReduce", peer=0):
    """A task that is record ``number``, with one channel."""
    return [
        record(task, count=1024, root=peer, channels=1,
               texts=(function, "RING", "LL", "ncclFloat32")),
        record(CHANNEL, parent=number, device_ns=begin_ns, channels=channel),
        record(STATE, parent=number + 1, sequence=22, device_ns=end_ns),
    ]  # fmt: skip


def pairs(begin_ns, ahead_ns, half_ns=500, rate=1.0):
    """Readings of a device's clock, one of which took the least time."""
    found = []
    for number, extra_ns in enumerate((4000, 0, 9000)):
        at_ns = begin_ns + number * 100_000
        device_ns = int((at_ns) * rate) + ahead_ns
        found.append(ClockPair(at_ns - half_ns - extra_ns, device_ns, at_ns + half_ns))
    return found


def a_trace(rank=0, *, ahead_ns=10**12, rate=1.0, events=(), **more):
    values = {
        "clock_begin": pairs(1_000_000, ahead_ns, rate=rate),
        "clock_end": pairs(9_000_000, ahead_ns, rate=rate),
        "stages": [Stage("start-up", 0, 900_000), Stage("tracing", 2_000_000, 8_000_000, MIB)],
        "call_begin_ns": [2_000_000, 3_000_000],
        "call_end_ns": [2_001_000, 3_001_000],
        "batches": [TracedBatch(2_000_000, 4_000_000, 2)],
        "log": log(*events) if events else b"",
        "log_reason": "" if events else "no plug-in",
    }
    return RankTrace(rank, "node", "GPU", "cuda", **{**values, **more})


def both_kernels(rank_late_ns=0, ahead_ns=10**12, rate=1.0):
    """Two operations on a device whose clock is ``ahead_ns`` ahead and runs at ``rate``."""

    def of_device(time_ns):
        return int(time_ns * rate) + ahead_ns

    events = []
    for number, at_ns in ((1, 2_100_000), (4, 3_100_000)):
        begin_ns = at_ns + rank_late_ns
        events += kernel(number, of_device(begin_ns), of_device(begin_ns + 50_000))
    return events


def test_the_error_of_another_host_is_added():
    trace = a_trace(ahead_ns=0)
    moved = a_trace(ahead_ns=0)
    # The other host's clock gains 1 µs in 10 ms.
    moved.ahead = [ClockAhead(0, 7_000_000, 30_000), ClockAhead(10_000_000, 6_999_000, 20_000)]
    assert host_clock(moved).to_common_ns(0) == 7_000_000
    assert host_clock(moved).to_common_ns(5_000_000) == 5_000_000 + 6_999_500
    here, there = device_clock(trace), device_clock(moved)
    moved_ns = there.to_common_ns(5_000_000) - here.to_common_ns(5_000_000)
    assert moved_ns == pytest.approx(6_999_500, abs=1)
    assert there.error_ns - here.error_ns == 30_000


def test_times_far_from_the_readings_of_another_host():
    """Readings 3 ms apart, each wrong by 40 µs: a line is wrong by 267 ms after 10 s."""
    true_ns = 7_000_000
    trace = a_trace(ahead_ns=0)
    trace.ahead = [
        ClockAhead(10_000_000_000, true_ns - 40_000, 50_000),
        ClockAhead(10_003_000_000, true_ns + 40_000, 50_000),
    ]
    clock = host_clock(trace)
    for at_ns in (0, 5_000_000_000, 10_001_500_000, 20_000_000_000):
        assert abs(clock.to_common_ns(at_ns) - at_ns - true_ns) <= clock.error_ns
    # Stages keep their order.
    times_ns = [clock.to_common_ns(at_ns) for at_ns in range(9_990_000_000, 10_010_000_000, 10_000)]
    assert times_ns == sorted(times_ns)


def test_clocks_that_cannot_be_used():
    assert device_clock(a_trace(clock_begin=[])) is None
    # A clock that does not advance, or goes back.
    assert device_clock(a_trace(clock_end=pairs(1_000_000, 10**12))) is None
    assert event_clock(a_trace()) is None
    # The resolution is what all steps are multiples of.
    begin = [ClockPair(0, 32, 1), ClockPair(5, 64, 6)]
    trace = a_trace(clock_begin=begin, clock_end=[ClockPair(9, 1120, 10)])
    assert resolution_ns(trace) == 32


def test_kernels_of_two_devices_are_on_one_clock():
    late_ns = 20_000
    traces = [
        a_trace(0, ahead_ns=10**12, events=both_kernels(0, 10**12)),
        a_trace(1, ahead_ns=5 * 10**9, events=both_kernels(late_ns, 5 * 10**9)),
    ]
    found = assembled(*traces)
    assert found.source == "kernels"
    skew = skew_of(found)
    assert skew.late_rank == 1
    assert skew.late_times == skew.operations == 2
    assert abs(skew.median_ns - late_ns) <= timeline_assembly.alignment_error_ns(found)
    assert timeline_assembly.operation_time_s(found) == pytest.approx(50e-6, rel=0.01)
    assert batch_time(found.ranks) == BatchTime([pytest.approx(1e-3)], 2)
    counter = found.timeline.groups[1].counters[0]
    assert [value for _, value in counter.values] == [0, MIB, 2 * MIB]


def test_the_cost_of_tracing_requires_several_batches():
    """A difference between one batch and a median of many is noise."""

    def batches(*whole_us):
        return [TracedBatch(10**6, 10**6 + 1000 * one, 2) for one in whole_us]

    def text(batch, *more):
        trace = a_trace(batches=batches(batch), timed_batches=batches(*more))
        found = summary_of(assembled(trace), 100e-6).splitlines()
        (line,) = [line for line in found if "while traced" in line]
        return line

    one = text(400)
    assert "200.00 µs each while traced (one batch); untraced 100.00 µs" in one
    assert "%" not in one
    # One batch of five takes four times as long.
    five = text(800, 220, 210, 230, 190)
    assert "110.00 µs each while traced (median of 5, 95.00 to 400.00); " in five
    assert "; untraced 100.00 µs (median, +10.0%)" in five


@pytest.mark.parametrize(
    ("usual_ns", "slower_ns", "says"),
    [
        (50_000, 40_000, "slowest channel: 1 of rank 0, 90.00 µs (median; the median of all "),
        (50, 200, "no channel stands out: at most "),
    ],
)
def test_the_slowest_channel(usual_ns, slower_ns, says):
    begin_ns = 10**12 + 2_100_000
    end_ns = begin_ns + usual_ns
    events = [*kernel(1, begin_ns, end_ns, 0), *kernel(4, begin_ns, end_ns + slower_ns, 1)]
    found = assembled(a_trace(events=events))
    slow = timeline_assembly.slowest_channel(found.ranks)
    assert (slow.rank, slow.channel) == (0, 1)
    assert slow.median_ns == pytest.approx(usual_ns + slower_ns, abs=2)
    assert says in summary_of(found)


def test_waits_of_network_steps_have_their_cause():
    events = [
        record(COLLECTIVE, texts=ALL_REDUCE),
        record(PROXY, parent=1, root=1, channels=3, texts=("Send", "", "", "")),
        record(STEP, time_ns=2_000_000, parent=2, sequence=9),
        record(STATE, time_ns=2_000_100, parent=3, sequence=20),
        record(STATE, time_ns=2_005_100, parent=3, sequence=8),
        record(STATE, time_ns=2_005_200, parent=3, sequence=9, count=4096),
        record(STOP, time_ns=2_010_000, parent=3),
        record(STEP, time_ns=2_020_000, parent=2, sequence=10),
    ]
    found = assembled(a_trace(events=events))
    (track,) = [one for one in found.timeline.groups[0].tracks if one.name.startswith("network")]
    assert track.name == "network channel 03 to 1 slot 1"
    assert [(one.name, one.end_ns - one.begin_ns) for one in track.slices] == [
        ("Send step 9", 10_000),
        ("wait: no credit from the receiver", 5_000),
        ("wait: the local GPU has not produced the data", 100),
        ("wait: the network sends", 4_800),
    ]
    assert track.slices[0].arguments["bytes"] == 4096
    assert found.ranks[0].events.unfinished == 1  # the step without an end
    text = summary_of(found)
    assert "longest wait of a network step: 5.00 µs on rank 0 (wait: no credit from" in text
    assert "rank 0: 1 event without an end, not in the trace" in trace_problems(found)


def task(number, named, reported, kind=COLLECTIVE, function="AllReduce", peer=0):
    """A task that is record ``number``: on ``named`` channels, with kernels on the first ones."""
    events = [
        record(kind, count=1024, root=peer, channels=named, texts=(function, *ALL_REDUCE[1:]))
    ]
    for channel in range(reported):
        begin_ns = 10**12 + 2_100_000 + number * 10_000
        events.append(record(CHANNEL, parent=number, device_ns=begin_ns, channels=channel))
        parent = number + len(events) - 1
        events.append(record(STATE, parent=parent, sequence=22, device_ns=begin_ns + 50_000))
    return events


def operations(*reported):
    """The records of operations on 4 channels, with so many reported kernels each."""
    events = []
    for kernels in reported:
        events += task(len(events) + 1, 4, kernels)
    return events


WHOLE = {"events": operations(4, 4)}
RING, TREE = (
    record(COLLECTIVE, count=1024, texts=("AllReduce", algorithm, "LL", "ncclFloat32"))
    for algorithm in ("RING", "TREE")
)


#: What differs from the usual trace, for each rank.
RANKS = {
    # The period of an operation is not that of one of its channels.
    "missing-kernels": [WHOLE, {"events": operations(4, 1), "awaited_s": 30}],
    "no-kernels": [{"events": operations(0, 0)}],
    # Without the clock of the device none is expected.
    "no-clock": [{"events": operations(0, 0), "clock_begin": []}],
    "missing-operation": [WHOLE, {"events": operations(4)}],
    "calls-alone": [WHOLE, {"events": [record(CALL, texts=ALL_REDUCE), record(STOP, parent=1)]}],
    "no-events": [WHOLE, {}],
    "unlike-algorithms": [{"events": [RING, RING]}, {"events": [RING, TREE]}],
    "whole": [WHOLE],
    "surplus-kernel": [
        {"events": [*both_kernels(), *kernel(7, 10**12 + 2_100_000, 10**12 + 2_150_000)]}
    ],
}


def test_problems_of_ranks():
    texts = []
    for name, ranks in RANKS.items():
        traces = [a_trace(rank, **more) for rank, more in enumerate(ranks)]
        found = assembled(*traces)
        texts += [name, *trace_problems(found), summary_of(found), ""]
    require_golden("texts/trace-problems.txt", "\n".join(texts))


@pytest.mark.parametrize(("peer_kernels", "is_complete"), [(2, True), (1, False)])
def test_messages_of_a_rank_to_itself_have_no_kernels(peer_kernels, is_complete):
    """As NCCL reports an alltoall: no kernel of the part that stays on the rank."""
    events = []
    for function in ("Send", "Recv"):
        for peer, kernels in ((0, 0), (1, peer_kernels)):
            events += task(len(events) + 1, 2, kernels, MESSAGE, function, peer)
    count = KernelCount()
    count.add(b"".join(events))
    assert (count.records, count.channels, count.ended) == (len(events), 4, 2 * peer_kernels)
    assert count.is_complete is is_complete
    trace = a_trace(events=events, call_begin_ns=[2_000_000], call_end_ns=[2_001_000])
    found = assembled(trace)
    assert found.source == ("kernels" if is_complete else "calls")
    problems = [] if is_complete else ["rank 0: the library did not report 2 kernels"]
    assert trace_problems(found) == problems


def test_messages_are_matched_in_their_order():
    """A lost one shifts no arrow."""

    def messages(function, peer, complete):
        events = []
        for place, has_kernel in enumerate(complete):
            number = len(events) + 1
            begin_ns = 10**12 + 2_000_000 * (place + 1)
            one = kernel(number, begin_ns, begin_ns + 10, 0, MESSAGE, function, peer)
            events += one if has_kernel else one[:1]
        return events

    traces = [
        a_trace(0, events=messages("Send", 1, (True, False, True))),
        a_trace(1, events=messages("Recv", 0, (True, True, True))),
    ]
    groups = assembled(*traces).timeline.groups
    by_name = {track.name: track.slices for group in groups for track in group.tracks}
    assert [one.flows_from for one in by_name["messages sent, peer 1"]] == [(1,), (2,)]
    assert [one.flows_to for one in by_name["messages received, peer 0"]] == [(1,), (), (2,)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), max_size=30))
def test_lanes_hold_every_slice_once_and_are_nested(parts):
    slices = [
        Slice(str(place), begin, begin + length) for place, (begin, length) in enumerate(parts)
    ]
    lanes = Track("t", slices).lanes()
    found = [one for lane in lanes for one in lane.slices]
    assert sorted(one.name for one in found) == sorted(one.name for one in slices)
    for lane in lanes:
        for place, one in enumerate(lane.slices):
            for other in lane.slices[place + 1 :]:
                apart = other.begin_ns >= one.end_ns
                assert apart or other.end_ns <= one.end_ns


@given(st.integers(0, 4096 + 128 * 6))
def test_a_log_that_is_cut_anywhere_leaves_the_rest(end):
    content = log(*both_kernels())[:end]
    found = assembled(a_trace(log=content, log_reason=""))
    assert found.timeline.groups[0].tracks[0].name == "stages"
    assert len(found.ranks[0].by_source[found.source].of_each) == 2  # of kernels, or of calls
    write_chrome(found.timeline, io.BytesIO())


def test_a_trace_travels_in_pieces():
    trace = a_trace(events=both_kernels())
    assert trace_of(list(pieces_of(trace))) == trace
    whole = b"".join(pieces_of(trace))
    for damaged in (whole[:-1], b"\0" + whole[1:], b"", whole[:20]):
        with pytest.raises(RankError, match="trace of a rank"):
            trace_of([damaged])


SLICES = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 100), st.text(max_size=5)), max_size=20
)


@given(SLICES)
def test_both_formats_contain_every_slice(parts):
    # Nested slices: each within all before it.
    slices, begin_ns, end_ns = [], 0, 10**9
    for after_ns, before_ns, name in parts:
        begin_ns, end_ns = begin_ns + after_ns, end_ns - before_ns
        slices.append(Slice(name, begin_ns, end_ns, "c", {"a": 1, "b": "x", "c": 0.5}))
    timeline = Timeline([RankTracks("rank 0", 0, [Track("t", slices)])], {"case": "é"})
    chrome = io.BytesIO()
    write_chrome(timeline, chrome)
    events = json.loads(chrome.getvalue())["traceEvents"]
    assert [one["name"] for one in events if one["ph"] == "X"] == [one.name for one in slices]

    file = io.BytesIO()
    write_perfetto(timeline, file)
    found = perfetto_slices(file.getvalue()).get("t", [])
    assert sorted(found) == sorted((one.name, one.begin_ns, one.end_ns) for one in slices)


@given(
    st.integers(0, 1 << 32).map(random.Random),
    st.floats(-5e-5, 5e-5),
    st.sampled_from([1, 32, 1000]),
)
def test_all_readings_together_limit_the_error(chance, drift, step_ns):
    """True times are within the stated error, which is at most that of the shortest reading."""
    offset_ns = 7e12

    def reading(about_ns):
        at_ns = about_ns + chance.uniform(0, 1000)
        to_ns, back_ns = 400 + chance.expovariate(1 / 300), 400 + chance.expovariate(1 / 300)
        device_ns = (at_ns * (1 + drift) + offset_ns) // step_ns * step_ns
        return ClockPair(int(at_ns - to_ns), int(device_ns), int(at_ns + back_ns) + 1)

    begin = [reading(1e9 + 2500 * place) for place in range(64)]
    end = [reading(2e9 + 2500 * place) for place in range(64)]
    clock = device_clock(a_trace(clock_begin=begin, clock_end=end))
    shortest_ns = max(min(one.after_ns - one.before_ns for one in group) for group in (begin, end))
    assert clock.error_ns <= shortest_ns / 2 + step_ns + 1
    for at_ns in (1e9, 1.5e9, 2e9):
        assert abs(clock.to_common_ns(at_ns * (1 + drift) + offset_ns) - at_ns) <= clock.error_ns
