import pytest

from cclmark.cli.trace.summary import copy_trace_summary
from cclmark.trace.copy_timeline import assemble_copies, batch_copy_time, clock_error_ns, overlap_of
from cclmark.trace.rank_trace import ClockPair, RankTrace, Stage, TracedFlow, pieces_of, trace_of
from cclmark.work.transfers import Transfer

MIB = 1 << 20
REFERENCE_NS = 1_000_000
ERROR_NS = 500  # of the reference


def a_transfer(flows=((0, 1),), **more):
    values = {"measure": "unidirectional", "scope": "pairs", "engine": "CE", "direction": "write"}
    return Transfer(**{**values, "flows": flows, "size_bytes": MIB, **more})


def a_flow(number, copies, *, gate_ns=0, by_events=True):
    """A batch of copies, whose begins and ends are nanoseconds after the reference event."""
    return TracedFlow(
        number,
        [REFERENCE_NS + begin for begin, _ in copies],
        [REFERENCE_NS + (begin + 10 if by_events else end) for begin, end in copies],
        [begin * 1e-9 for begin, _ in copies] if by_events else [],
        [end * 1e-9 for _, end in copies] if by_events else [],
        REFERENCE_NS - ERROR_NS,
        REFERENCE_NS + ERROR_NS,
        gate_ns,
        REFERENCE_NS + copies[-1][1],
    )


def a_trace(device, *flows, **more):
    # The device's clock is an hour ahead and exactly as fast as the host's.
    values = {
        "clock_begin": [ClockPair(0, 3_600_000_000_000, 100)],
        "clock_end": [ClockPair(9_000_000, 3_600_009_000_000, 9_000_100)],
        "flows": [*flows],
    }
    return RankTrace(device, "node", "GPU", "cuda", **{**values, **more})


def track(found, device, name):
    (group,) = [one for one in found.timeline.groups if one.number == device]
    (one,) = [one for one in group.tracks if one.name == name]
    return one.slices


def test_both_ends_of_a_copy_are_connected():
    copies = [(1000, 2000), (2500, 3500)]
    traces = [
        a_trace(0, a_flow(0, copies, gate_ns=REFERENCE_NS + 900), stages=[Stage("tracing", 1, 9)]),
        a_trace(1),
    ]
    found = assemble_copies(a_transfer(), traces)
    sent, received = track(found, 0, "copies to device 1"), track(found, 1, "copies from device 0")
    assert [one.begin_ns - REFERENCE_NS for one in sent] == [1000, 2500]
    assert [one.flows_from for one in sent] == [one.flows_to for one in received] == [(1,), (2,)]
    assert sent[0].arguments["GB/s"] == pytest.approx(MIB / 1000, abs=1e-3)
    assert [one.end_ns - one.begin_ns for one in track(found, 0, "calls")] == [10, 10]
    assert found.flows[0].gaps_ns == [500]
    assert batch_copy_time(found).time_s == pytest.approx(1250e-9)
    assert overlap_of(found) is None
    # The reference within half a microsecond, and the steps of events.
    assert ERROR_NS < clock_error_ns(found) <= ERROR_NS + 501
    counter = found.timeline.groups[1].counters[0]
    assert [value for _, value in counter.values] == [0, MIB, 2 * MIB]


def test_the_overlap_of_both_directions():
    transfer = a_transfer(((0, 1), (1, 0)), measure="bidirectional")
    there, back = [(0, 1000), (1000, 2000)], [(1000, 2000), (2000, 4000)]
    found = assemble_copies(transfer, [a_trace(0, a_flow(0, there)), a_trace(1, a_flow(1, back))])
    overlap = overlap_of(found)
    assert overlap.share_of_all == pytest.approx(1 / 4)
    assert overlap.mean_flows == pytest.approx(5 / 4)
    # The slower flow: 3 µs for 2 copies, since its device began.
    assert batch_copy_time(found).time_s == pytest.approx(1500e-9)
    text = "\n".join(copy_trace_summary(found, 2, 1e-6))
    assert "both directions at once for 25.0% of the time in which data moves" in text
    assert "1.50 µs (1398.10 GB/s) each while traced (one batch); untraced 1.00" in text
    assert "+50.0%" not in text  # one batch is not enough
    more = [
        a_trace(0, a_flow(0, there), timed_flows=[a_flow(0, there)] * 4),
        a_trace(1, a_flow(1, back), timed_flows=[a_flow(1, back)] * 4),
    ]
    text = "\n".join(copy_trace_summary(assemble_copies(transfer, more), 2, 1e-6))
    assert "untraced 1.00 µs (2097.15 GB/s) (median, +50.0%)" in text


def test_flows_of_one_device_count_from_its_first_copy():
    transfer = a_transfer(((0, 1), (0, 2)), scope="one-to-all")
    flows = [a_flow(0, [(0, 1000)]), a_flow(1, [(1000, 3000)])]
    found = assemble_copies(transfer, [a_trace(0, *flows), a_trace(1), a_trace(2)])
    assert batch_copy_time(found).time_s == pytest.approx(3e-6)


def test_calls_that_copy():
    trace = a_trace(0, a_flow(0, [(0, 1000)], by_events=False))
    found = assemble_copies(a_transfer(), [trace, a_trace(1)])
    assert not found.flows[0].by_events
    assert [one.length_ns for one in found.flows[0].copies] == [1000]
    assert clock_error_ns(found) == 0
    assert "by the host's calls, which copy" in "\n".join(copy_trace_summary(found, 1, None))


def test_wrong_data_is_in_the_summary_and_copies_travel():
    trace = a_trace(0, a_flow(0, [(0, 10), (20, 30)], gate_ns=5), wrong=3)
    assert trace_of(list(pieces_of(trace))) == trace
    found = assemble_copies(a_transfer(), [trace, a_trace(1)])
    assert "destinations checked: 3 wrong elements" in copy_trace_summary(found, 2, None)[-1]
