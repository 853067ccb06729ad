"""Logs of the plug-in that count calls, as it writes them."""

import struct

import pytest

from cclmark.base.errors import UsageError
from cclmark.profile.profile_gaps import losses_of, uncounted_of, unlisted_of
from cclmark.profile.profile_log import is_of, number_by_process, read_profile_log, runs_of
from plugin_logs import ALL_REDUCE, COLLECTIVE, COMMUNICATOR, log, record

CALLED, OPERATION, TIMES, LISTED = 16, 17, 18, 19


def communicator(ranks, rank=0, number=7):
    return record(COMMUNICATOR, rank=rank, communicator=number, count=ranks)


def called(counted, captured=0):
    return record(CALLED, parent=captured, sequence=counted, count=256, texts=ALL_REDUCE)


def ran(counted, parent=0, rank=0, number=7):
    of = {"rank": rank, "communicator": number, "parent": parent, "sequence": counted}
    return record(OPERATION, **of, count=256, device_ns=COLLECTIVE, texts=ALL_REDUCE)


def times(operation, *figures):
    return struct.pack("<I4xQ5Q72x", TIMES, operation, *figures)


def listed(operation):
    """A call of an operation."""
    return record(LISTED, parent=operation)


@pytest.fixture
def read(tmp_path):
    def reading(*records, lost_parents=0, dropped=0, unplaced=0, run=b"", **options):
        path = tmp_path / "log.cclmlog"
        losses = {"dropped": dropped, "losses": (unplaced, 0), "lost_parents": lost_parents}
        losses["claimed"] = len(records) + dropped - unplaced
        path.write_bytes(log(*records, capacity=max(1, len(records)), run=run, **losses))
        return read_profile_log(path, **options)

    return reading


def unreported(found):
    return sum(one.unreported for each in found.processes for one in each.operations)


def test_calls_that_did_not_run_are_known_while_calls_are_matched(read):
    matched = read(communicator(2), called(5), ran(3, parent=2), times(3, 3, 30, 9, 11, 768))
    assert unreported(matched) == 2
    assert uncounted_of([matched]) == []
    lost = read(communicator(2), called(5), ran(3, parent=2), ran(2), lost_parents=1)
    assert unreported(lost) == 0
    assert lost.calls == 5
    (text,) = losses_of([lost])
    assert text.endswith("raise CCLMARK_PLUGIN_PAIRS [16777216]")


def test_calls_that_are_not_read_are_stated(read):
    records = (communicator(2), ran(5), times(2, 5, 50, 9, 11, 1280), *[listed(2)] * 5)
    assert unlisted_of([read(*records)]) == []
    part = read(*records, most_calls=3)
    assert (len(part.processes[0].calls), part.listed, part.unread) == (3, 5, 2)
    (text,) = unlisted_of([part])
    assert "are of the first 3 of up to 5 calls" in text
    assert "raise --calls" not in text


def test_runs_of_one_directory(read):
    """Commands of several hosts have different ranks of a communicator, repetitions the same."""

    def of(run, rank, number=7):
        return read(communicator(2, rank, number), ran(1, rank=rank, number=number), run=run)

    logs = [of(b"a", 0), of(b"b", 1), of(b"c", 0), of(b"c", 1), of(b"d", 0, 8), of(b"", 0, 9)]
    runs = runs_of(logs)
    assert [one.identities for one in runs] == [["a", "b"], ["c"], ["d"], [""]]
    assert [len(one.logs) for one in runs] == [2, 2, 1, 1]
    assert runs[0].text == "a (begun 1970-01-01 00:00:00 UTC, 2 processes on node)"
    assert [is_of(one, "b") for one in runs] == [True, False, False, False]
    assert [is_of(one, "none") for one in runs] == [False, False, False, True]


def test_captured_calls_without_launches_are_named(read):
    without_times = read(communicator(2), called(4, captured=3), ran(4, parent=2))
    assert without_times.captured == 3
    text = "3 captured calls, whose launches are not counted without kernel times"
    assert uncounted_of([without_times]) == [text]
    records = (called(0, captured=1), ran(9, parent=2), times(3, 9, 90, 9, 11, 2304))
    assert read(communicator(2), *records).captured == 0


def test_calls_of_ranks_without_a_device_are_a_problem(read):
    of_four = (*(communicator(4, rank) for rank in (2, 3)), communicator(2, 0, number=8))
    found = read(*of_four, *(ran(5, rank=rank) for rank in (2, 3)), ran(7, rank=0, number=8))
    assert [one.rank for one in found.processes] == [2, 3]
    assert found.unmatched == 7
    assert losses_of([found])[0].startswith("process 42 on node: 7 calls are left out")


@pytest.mark.parametrize(
    "damaged",
    [
        (ran(1), communicator((1 << 20) + 1)),
        (ran(1), communicator(2, rank=1 << 30)),
        (ran(1), ran(1 << 63)),
        (ran(1), times(2, 1, 1 << 63, 1, 1, 1)),
        # Sums that no program reaches, of calls, bytes and times.
        (ran(1 << 62),),
        (called(1 << 44),),
        (ran(1), times(2, 1, 9, 9, 9, 1 << 60), ran(1), times(4, 1, 9, 9, 9, 1 << 60)),
    ],
)
def test_numbers_that_are_too_large_are_damage(read, damaged):
    assert read(communicator(1 << 20), ran(1)).calls == 1
    with pytest.raises(UsageError, match="is damaged: it contains numbers that are too large"):
        read(communicator(2), *damaged)


def test_processes_that_share_a_rank_are_numbered(read):
    processes = [read(communicator(2), ran(1)).processes[0] for _ in range(3)]
    for one, rank in zip(processes, (0, 1, 2), strict=True):
        one.rank = rank
    assert number_by_process(processes) == []
    processes[2].rank = 1
    (note,) = number_by_process(processes)
    assert note.startswith("2 processes on node have rank 1 by their environment")
    assert [one.rank for one in processes] == [-1] * 3
