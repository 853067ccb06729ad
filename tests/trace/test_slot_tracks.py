import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import RankError, UsageError
from cclmark.cli.trace.summary import trace_summary
from cclmark.trace.rank_trace import RankTrace, TracedBatch
from cclmark.trace.slot_tracks import SlotAction, SlotEvent, most_slot_events, slot_events_of
from cclmark.trace.timeline_assembly import assemble, skew_of
from cclmark.work.cases import Case

CASE = Case("all_reduce", "shm", 2, "float32", 4096, 1024, False, "sum")
PUBLISH, READ, REDUCE = SlotAction.PUBLISH, SlotAction.READ, SlotAction.REDUCE
WAIT_SLOT, WAIT_PUBLISHED = SlotAction.WAIT_SLOT, SlotAction.WAIT_PUBLISHED


def event(action, begin_ns, end_ns, *, sequence=1, size_bytes=0, peer=-1, group=0):
    return SlotEvent(begin_ns, end_ns, sequence, size_bytes, peer, group, action)


def a_trace(rank, *events, calls=((1000, 2000),), **more):
    values = {
        "call_begin_ns": [begin for begin, _ in calls],
        "call_end_ns": [end for _, end in calls],
        "batches": [TracedBatch(calls[0][0], calls[-1][1] + 700, len(calls))],
        "has_slots": True,
        "slots": b"".join(struct.pack("=qqQQiHBx", *one) for one in events),
    }
    return RankTrace(rank, "node", "host", "host", **{**values, **more})


def assembled(*traces):
    return assemble("a case", 4096, [*traces])


def tracks(found, rank):
    return {track.name: track.slices for track in found.timeline.groups[rank].tracks}


@given(st.binary(max_size=200))
def test_damaged_events_are_refused_or_read(content):
    try:
        events = slot_events_of(content)
    except RankError:
        return
    found = assembled(a_trace(0, *events), a_trace(1))
    trace_summary(found, CASE, 1, 1e-6)


def test_each_reader_has_an_arrow_from_the_publication():
    events = {
        0: [event(PUBLISH, 1000, 1010, size_bytes=64), event(REDUCE, 1100, 1200, size_bytes=64)],
        1: [event(PUBLISH, 1050, 1060), event(READ, 1100, 1150, peer=0),
            event(READ, 1150, 1160, peer=0), event(READ, 1160, 1170, peer=1)],
        2: [event(READ, 1100, 1300, peer=0), event(READ, 1300, 1310, peer=9)],
    }  # fmt: skip
    found = assembled(*(a_trace(rank, *of) for rank, of in events.items()))
    published = tracks(found, 0)["slots"][0]
    assert published.name == "publish 64 B"
    first, second = published.flows_from
    read = tracks(found, 1)["slots"]
    assert [one.flows_to for one in read] == [(), (first,), (), ()]
    assert [one.name for one in read[1:]] == ["read from rank 0"] * 2 + ["read from this rank"]
    assert [one.flows_to for one in tracks(found, 2)["slots"]] == [(second,), ()]
    # A reduction from all ranks reads what the others have published.
    assert tracks(found, 0)["slots"][1].flows_to == read[0].flows_from
    counters = {one.name: one for one in found.timeline.groups[0].counters}
    assert counters["bytes published"].values == [(1000, 0.0), (1010, 64.0)]
    assert counters["bytes read"].values == [(1100, 0.0), (1200, 64.0)]


def test_waits_have_their_cause_and_the_skew_is_that_of_publications():
    calls = ((1000, 2000), (3000, 4000))
    early = [
        *(event(PUBLISH, at, at + 10, sequence=n) for n, at in ((1, 1000), (2, 3000))),
        event(WAIT_PUBLISHED, 1020, 1520, peer=1),
        event(WAIT_SLOT, 3020, 3120, peer=1),
    ]
    late = [event(PUBLISH, at, at + 10, sequence=n) for n, at in ((1, 1500), (2, 3050))]
    traces = [a_trace(0, *early, calls=calls), a_trace(1, *late, calls=calls)]
    found = assembled(*traces)
    assert [one.name for one in tracks(found, 0)["waits"]] == [
        "rank 1 has not published",
        "slot not yet read by rank 1",
    ]
    skew = skew_of(found)
    assert skew.published
    assert (skew.median_ns, skew.largest_ns, skew.late_rank, skew.late_times) == (275, 500, 1, 2)
    text = "\n".join(trace_summary(found, CASE, 2, 1e-6))
    assert "ranks begin an operation 0.275 µs apart (median; at most 0.5" in text
    assert "longest wait: 0.500 µs on rank 0 (rank 1 has not published)" in text
    assert "rank 0 waits 30.0% of the time of its calls, most for rank 1" in text
    assert "6 events of slots, 0 lost" in text


def test_what_is_enqueued_is_marked():
    traces = [a_trace(rank, event(PUBLISH, 1000, 1010), slots_enqueued=True) for rank in (0, 1)]
    found = assembled(*traces)
    assert tracks(found, 0)["slots"][0].name == "enqueue: publish 0 B"
    (wait,) = tracks(found, 0)["waits"]
    assert (wait.name, wait.begin_ns, wait.end_ns) == ("the device has not completed", 2000, 2700)
    assert not skew_of(found).published
    text = "\n".join(trace_summary(found, CASE, 1, 1e-6))
    assert "its waits on the devices' streams have no times" in text
    assert "of the time of its calls" not in text


def test_the_limit_of_events(monkeypatch):
    monkeypatch.setenv("CCLMARK_TRACE_EVENTS", "5")
    assert most_slot_events() == 5
    for value in ("five", "0", str(1 << 40)):
        monkeypatch.setenv("CCLMARK_TRACE_EVENTS", value)
        with pytest.raises(UsageError, match="choose from 1 to"):
            most_slot_events()
