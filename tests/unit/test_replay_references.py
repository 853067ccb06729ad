"""What a step would gain if calls of a group ran at the bandwidth of references."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cclmark.document.reference_notes import ReferenceNotes
from cclmark.kinds.registry import read_journal
from cclmark.kinds.replay.document import reference_lines
from cclmark.kinds.replay.figures import ReplaySummary
from cclmark.kinds.replay.plan import Replay
from cclmark.kinds.replay.result import ReplayedOperation
from cclmark.plan.profiled import ProfiledOperation
from cclmark.plan.variants import DEFAULT
from cclmark.references.reference import Reference, Source

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
HEADER = read_journal(RESULTS / "h200x4" / "report" / "collectives.jsonl").header
MIB = 1 << 20


def reference(ranks, busbw_bytes_per_s):
    return Reference(
        source=Source("rack", "rack", own=True),
        operation="all_reduce",
        devices=(("H200", ranks),),
        library="nccl",
        size_bytes=64 * MIB,
        busbw_bytes_per_s=busbw_bytes_per_s,
    )


REFERENCES = [reference(2, 250e9), reference(4, 300e9)]


def lines(*groups, header=HEADER):
    """The lines of a step of 10 ms; ``groups``: the ranks of each, which calls once for 1 ms."""
    operations = [
        ReplayedOperation(
            ProfiledOperation(
                *("all_reduce", "nccl", number, ranks, "bfloat16", 32 * MIB, 64 * MIB)
            ),
            calls=1,
            program_s=0.0,
            time_s=0.001,
        )
        for number, ranks in enumerate(groups)
    ]
    replay = Replay(DEFAULT, 0, "nccl", 4, "p.jsonl", "", len(groups), len(groups), "keep")
    summary = ReplaySummary(DEFAULT, replay, "ok", "", steps=9, span_s=0.01, operations=operations)
    return reference_lines([summary], header, ReferenceNotes(lambda kinds: REFERENCES))


def test_groups_are_compared_with_references_for_as_many_devices():
    whole, part = lines(4, 2)
    # 64 MiB at a bus bandwidth of 300 GB/s over four take 336 µs, at 250 over two 268.
    assert "if 1 of 1 operation of group 0 ran at reference bandwidth" in whole
    assert "at most 6.6 % (0.664 ms) less" in whole
    assert "4 × H200" in whole
    assert "if 1 of 1 operation of group 1 (2 of 4 ranks) ran at reference bandwidth" in part
    assert "at most 7.3 % (0.732 ms) less" in part
    assert "2 × H200" in part


@pytest.mark.parametrize("other", [{"name": "NVIDIA A100"}, {"host": "elsewhere"}])
def test_a_part_of_devices_that_differ_is_not_compared(other):
    *devices, last = HEADER.devices
    header = msgspec.structs.replace(
        HEADER, devices=[*devices, msgspec.structs.replace(last, **other)]
    )
    assert lines(2, header=header) == []
    assert lines(3) == []  # there is no reference for three
