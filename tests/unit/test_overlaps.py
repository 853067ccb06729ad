"""Overlaps: their summaries, their words and their page."""

from __future__ import annotations

import msgspec
import pytest

from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.overlap.document import (
    FIELDS,
    against_rows,
    against_title,
    alone_text,
    cells_of,
    remarks_of,
    share_text,
    slow_down_text,
    wrong_lines,
)
from cclmark.kinds.overlap.figures import summaries_of
from cclmark.kinds.overlap.plan import Overlap, overlaps_of
from cclmark.kinds.overlap.result import OverlapFigures, OverlapResult, OverlapTimes
from cclmark.kinds.registry import KINDS
from cclmark.plan.cases import Case
from cclmark.plan.computations import Compute
from cclmark.plan.variants import DEFAULT, PLACEMENT, Assignment, Variant
from cclmark.results.schema import Verification, WrongOutput

SMALL = Case("all_reduce", "nccl", 2, "float32", 1 << 20, 1 << 18, False, reduction="sum")
LARGE = Case("all_reduce", "nccl", 2, "float32", 1 << 30, 1 << 28, False, reduction="sum")
MATMUL = Compute("matmul", "bfloat16", 8192)
FEW = Variant((Assignment("NCCL_MAX_CTAS", "4", "communicator"),))


def result(index, number, variant=DEFAULT, case=LARGE, **figures):
    values = {
        "communication_alone_s": 4e-3,
        "communication_s": 5e-3,
        "compute_alone_s": 1.5e-3,
        "compute_s": 2e-3,
        "communication_evaluated": 0.8,
        "compute_evaluated": 0.7,
        **figures,
    }
    return OverlapResult(
        index,
        Overlap(variant, number, case, MATMUL),
        "ok",
        implementation="cuBLASLt 12.8.4",
        figures=OverlapFigures(**values),
        verification=Verification(0),
    )


def test_rounds_are_outermost_and_cases_innermost():
    placed = Variant((Assignment(PLACEMENT, "in-place", "communicator"),))
    planned = overlaps_of([SMALL, LARGE], [DEFAULT, placed], 2, MATMUL)
    assert [(one.round, one.variant, one.case.size_bytes) for one in planned[:4]] == [
        (0, DEFAULT, 1 << 20),
        (0, DEFAULT, 1 << 30),
        (0, placed, 1 << 20),
        (0, placed, 1 << 30),
    ]
    assert {one.round for one in planned[4:]} == {1}
    assert planned[2].case.in_place
    assert not planned[0].case.in_place
    assert len({one.series() for one in planned}) == 2


def test_rounds_without_figures_are_counted_and_the_row_is_not_called_skipped():
    rounds = [result(n, n) for n in range(3)]
    rounds[1] = msgspec.structs.replace(
        rounds[1], status="skipped", reason="no operation ran beside", figures=None
    )
    (one,) = summaries_of(rounds)
    assert one.status == "ok"
    assert "skipped" not in cells_of(one)
    assert remarks_of([one]) == [
        "in 1 of 3 rounds no operation ran entirely beside the other work: these rounds are left "
        "out: default 1 GiB"
    ]
    (none,) = summaries_of([rounds[1]])
    assert none.status == "skipped"
    assert "skipped" in cells_of(none)
    assert remarks_of([none]) == ["skipped: no operation ran beside: default 1 GiB"]


def test_the_time_alone_is_explained_with_its_number_of_operations():
    marks = [[0.0, 1e-3, 2e-3], [0.0, 1e-3, 2e-3]]
    times = OverlapTimes(marks, [[], []], [], 38, 1)
    (one,) = summaries_of([msgspec.structs.replace(result(0, 0), communication_alone=times)])
    assert alone_text([one]).startswith(
        "alone: the mean of 76 collectives in a row, as many as beside the compute, of the slowest "
        "rank; a sweep reports the median"
    )
    assert alone_text(summaries_of([result(0, 0)])) == ""


def test_the_work_of_a_compute():
    assert MATMUL.work == 2 * 8192**3
    assert Compute("memory", "float32", 1 << 30).work == 3 << 30


def test_slow_downs_are_ratios_of_each_round():
    """A drift that changes both times of a round alike does not widen the interval."""
    rounds = [
        result(n, n, communication_alone_s=4e-3 * (1 + n), communication_s=5e-3 * (1 + n))
        for n in range(3)
    ]
    (one,) = summaries_of(rounds)
    assert one.communication is not None
    assert one.communication.alone_s == 8e-3
    assert one.communication.ratio == pytest.approx(1.25)
    assert one.communication.estimate is not None
    assert one.communication.estimate.high - one.communication.estimate.low < 1e-9
    assert one.compute is not None
    assert one.compute.ratio == pytest.approx(4 / 3)
    assert one.remaining_compute == pytest.approx(0.75)
    assert one.busbw_alone == pytest.approx((1 << 30) / 8e-3)  # the factor of two ranks is 1
    assert one.busbw_beside == pytest.approx((1 << 30) / 10e-3)
    assert one.rate_alone == pytest.approx(2 * 8192**3 / 1.5e-3)


def test_an_interval_contains_the_scatter_of_the_rounds():
    rounds = [
        result(n, n, communication_s=4e-3 * ratio) for n, ratio in enumerate((1.2, 1.25, 1.3))
    ]
    (one,) = summaries_of(rounds)
    assert one.communication is not None
    assert one.communication.estimate is not None
    assert one.communication.estimate.low < 1.2
    assert one.communication.estimate.high > 1.3
    text = slow_down_text(one.communication)
    assert text.startswith("1.249 (1.")
    (alone,) = summaries_of(rounds[:1])
    assert slow_down_text(alone.communication) == "1.200"  # one round has no interval


def test_variants_are_compared_with_the_default_in_the_same_rounds():
    """A machine that becomes slower from round to round does not widen the interval."""
    results = [
        result(
            2 * number + place,
            number,
            variant,
            communication_s=5e-3 * (1 + number) * factor,
            compute_s=2e-3 * (1 + number) / factor,
        )
        for number in range(4)
        for place, (variant, factor) in enumerate(((DEFAULT, 1.0), (FEW, 1.5)))
    ]
    usual, few = summaries_of(results)
    assert usual.communication.against_usual is None
    assert few.communication.against_usual.ratio == pytest.approx(1.5)
    assert few.communication.against_usual.high == pytest.approx(1.5)
    assert few.compute.against_usual.ratio == pytest.approx(1 / 1.5)
    assert against_rows([usual, few]) == [
        ["1 GiB", "NCCL_MAX_CTAS=4", "1.500 (1.500 to 1.500)", "0.667 (0.667 to 0.667)"]
    ]
    assert against_title([usual, few]).startswith("both at once: times over those of default")
    assert against_rows([usual]) == []
    # A round in which one of them has no figures is not compared.
    results[0].figures = None
    assert summaries_of(results)[1].communication.against_usual.runs == 3
    low, high = few.busbw_interval
    assert low < few.busbw_beside < high


def test_a_placement_is_compared_with_the_default_placement():
    placed = Variant((Assignment(PLACEMENT, "in-place", "communicator"),))
    results = [
        result(2 * number + place, number, variant, variant.applied_to(LARGE), compute_s=compute_s)
        for number in range(3)
        for place, (variant, compute_s) in enumerate(((DEFAULT, 2e-3), (placed, 3e-3)))
    ]
    found = {one.variant: one for one in summaries_of(results)}
    assert found[placed].compute.against_usual.ratio == pytest.approx(1.5)
    assert "default" in against_title([found[placed]])


def test_summaries_are_by_size_and_then_by_variant():
    results = [
        result(index, number, variant, case)
        for index, (number, variant, case) in enumerate(
            (number, variant, case)
            for number in range(2)
            for variant in (DEFAULT, FEW)
            for case in (SMALL, LARGE)
        )
    ]
    assert [(one.case, one.variant) for one in summaries_of(reversed(results))] == [
        (LARGE, FEW),
        (LARGE, DEFAULT),
        (SMALL, FEW),
        (SMALL, DEFAULT),
    ]
    assert [(one.case, one.variant) for one in summaries_of(results)] == [
        (SMALL, DEFAULT),
        (SMALL, FEW),
        (LARGE, DEFAULT),
        (LARGE, FEW),
    ]


def test_failures_and_doubts_are_reported():
    slow = result(0, 0, launch_bound=True, compute_evaluated=0.2)
    died = KINDS["overlap"].failed(
        1, Overlap(FEW, 0, LARGE, MATMUL), "died", "rank 1 died", "report"
    )
    assert isinstance(died, OverlapResult)
    assert died.report == "report"
    assert not died.is_measured
    summaries = summaries_of([slow, died])
    assert cells_of(summaries[1])[:3] == ["1 GiB", "NCCL_MAX_CTAS=4", "died"]
    lines = remarks_of(summaries)
    assert any(line.startswith("launches set the time of the collective") for line in lines)
    assert "less than half of the operations ran entirely beside the other work: default 1 GiB" in (
        lines
    )
    assert "died: rank 1 died: NCCL_MAX_CTAS=4 1 GiB" in lines
    assert share_text(summaries).startswith(
        "at least 80% of the collectives and 20% of the compute"
    )
    assert share_text(summaries[1:]) == ""
    from cclmark.kinds.experiment.plan import Trial

    assert isinstance(KINDS["experiment"].failed(0, Trial(FEW, 0, LARGE), "died", ""), TrialResult)


def test_execution_in_turns_is_reported():
    """Then each takes as long as both alone, and the rates that remain add up to one."""
    (turns,) = summaries_of([result(0, 0, communication_s=0.003, compute_s=0.003)])
    assert turns.combined_rate == pytest.approx(
        (turns.communication.alone_s + turns.compute.alone_s) / 0.003
    )
    for together_s, is_reported in ((turns.communication.alone_s + turns.compute.alone_s, True),
                                    (turns.communication.alone_s * 1.1, False)):  # fmt: skip
        figures = {"communication_s": together_s, "compute_s": together_s}
        lines = remarks_of(summaries_of([result(0, 0, **figures)]))
        assert any("executed in turns" in line for line in lines) is is_reported


def test_figures_of_no_time_are_rejected():
    line = msgspec.json.encode(result(0, 0))
    assert msgspec.json.decode(line, type=OverlapResult).figures is not None
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            line.replace(b'"compute_s":0.002', b'"compute_s":0.0'), type=OverlapResult
        )


def test_wrong_data_is_attributed_to_the_collective_or_to_the_compute():
    wrong = result(0, 0)
    wrong.status = "wrong"
    wrong.verification = Verification(3, [WrongOutput(1, 3, 7, "2", "9")])
    wrong.compute_findings = [WrongOutput(0, 1, 5, "3", "-3")]
    lines = wrong_lines([wrong])
    assert len(lines) == 2
    assert lines[0].startswith("wrong data of the collective in all_reduce")
    assert lines[0].endswith("rank 1: 3 elements, first at index 7: expected 2, got 9")
    assert lines[1].startswith("wrong data of the compute in all_reduce")
    row = {one.key: one.cell(wrong) for one in FIELDS.all}
    assert (row["wrong"], row["compute_wrong"]) == (3, 1)
    assert row["slow_down"] == pytest.approx(1.25)
    assert row["compute_beside_per_s"] == pytest.approx(2 * 8192**3 / 2e-3)
