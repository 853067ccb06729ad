"""``cclmark overlap`` on two real accelerators: ``pytest -m device tests/device``."""

import pytest

from cclmark.kinds.overlap.figures import phase_order, summaries_of
from cclmark.kinds.overlap.result import OverlapResult

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("two_devices")]


def test_both_are_right_and_neither_is_much_faster_beside_the_other(measured):
    rounds = 2 * len(phase_order(0))
    _, journal = measured(
        "overlap", "all_reduce", "-b", "64M", "-e", "256M", "-f", "4", "--rounds", str(rounds)
    )
    assert {one.status for one in journal.of(OverlapResult)} == {"ok"}
    assert all(one.is_checked and not one.compute_findings for one in journal.of(OverlapResult))
    assert {one.implementation.split()[0] for one in journal.of(OverlapResult)} == {"cuBLASLt"}
    summaries = summaries_of(journal.of(OverlapResult))
    assert [one.case.size_bytes >> 20 for one in summaries] == [64, 256]
    for one in summaries:
        # Both compete for multiprocessors and memory: none is faster by more than its noise.
        assert one.communication.ratio > 0.9
        assert one.compute.ratio > 0.9
        assert one.communication.estimate.low <= one.communication.ratio
        # More than in turns is possible; twice the work in the time of one is not.
        assert 0.8 < one.combined_rate < 2.1
        # Of the messages of 64 MiB, few lie entirely beside a product.
        assert min(one.evaluated) > 0.15
        # 8192³ products take milliseconds, and messages of 64 MiB some hundred microseconds.
        assert not one.compute_launch_bound
        assert not one.launch_bound


def test_few_thread_blocks_are_compared_with_the_default_in_the_same_rounds(measured):
    _, journal = measured(
        *("overlap", "all_reduce", "-b", "256M", "-e", "256M", "--rounds", "4"),
        *("--vary", "NCCL_MAX_CTAS=2", "--explain"),
    )
    usual, few = summaries_of(journal.of(OverlapResult))
    assert few.explanation.channels <= 2
    # Two thread blocks do not move 256 MiB as fast as those that the library chooses.
    assert few.communication.against_usual.ratio > 1.1
    assert few.compute.against_usual is not None
    assert usual.communication.against_usual is None


def test_a_triad_slows_down_and_is_right(measured):
    _, journal = measured(
        *("overlap", "reduce_scatter", "-b", "256M", "-e", "256M", "--rounds", "3"),
        *("--compute", "memory"),
    )
    assert {one.status for one in journal.of(OverlapResult)} == {"ok"}
    (one,) = summaries_of(journal.of(OverlapResult))
    assert one.compute.ratio > 0.95
    assert one.rate_alone > 100e9  # bytes per second: no accelerator has slower memory
