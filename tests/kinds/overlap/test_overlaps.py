"""Overlaps: the operations that count, the phases on a rank, summaries and words."""

import math
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from cclmark import _engine as engine
from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.statistics import NORMAL_975
from cclmark.document.blocks import Evidence, RunContent, Table
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import LibraryDescription, Verification, WrongOutput
from cclmark.kinds.experiment.plan import Trial
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.overlap.document import (
    FIELDS,
    against_rows,
    against_title,
    alone_text,
    cells_of,
    document_of_overlaps,
    findings_on_largest,
    ratio_text,
    remarks_of,
    slow_down_text,
    wrong_findings,
)
from cclmark.kinds.overlap.figures import (
    LEAST_SPANS,
    SPANS,
    CountedSpans,
    Lengths,
    SlowDown,
    balanced,
    figures_of,
    lengths_for,
    longer,
    phase_order,
    select,
    summaries_of,
)
from cclmark.kinds.overlap.plan import Overlap
from cclmark.kinds.overlap.result import OverlapFigures, OverlapResult, OverlapTimes
from cclmark.kinds.overlap.run import OverlapRunner
from cclmark.kinds.registry import KINDS
from cclmark.report.exports import replayed
from cclmark.work.cases import Case
from cclmark.work.computations import Compute
from cclmark.work.variants import DEFAULT, PLACEMENT, Assignment, Variant
from goldens import require_golden
from samples import header_of, usual_settings

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


def test_rounds_that_differ_too_much_say_nothing():
    def sentence(*beside_s: float) -> str:
        rounds = [result(n, n, communication_s=time_s) for n, time_s in enumerate(beside_s)]
        (one,) = findings_on_largest(summaries_of(rounds))
        assert (one.severity == "unknown") is ("cannot be said" in one.sentence)
        return one.sentence

    assert "takes 1.252 (" in sentence(5e-3, 5.01e-3, 5.02e-3)
    unknown = sentence(5e-3, 0.5)
    assert "the slow-down of the collective cannot be said, because the 95 % interval" in unknown
    assert "spans more than a factor of 4" in unknown


@pytest.mark.parametrize(("apart", "is_said"), [(1.0, True), (3.99, True), (4.01, False)])
def test_a_ratio_with_a_wide_interval_is_not_said(apart, is_said):
    ratio = RatioEstimate(0.0, math.log(apart) / 2 / NORMAL_975, None, 0.0)
    assert (ratio_text(ratio) == "cannot be said") != is_said
    assert slow_down_text(SlowDown(1e-3, 1e-3, ratio)) == ratio_text(ratio)


def test_the_table_says_why_a_slow_down_is_missing():
    for beside_s, number in (((5e-3, 5.01e-3), 0), ((5e-3, 0.5), 1)):
        rounds = [result(n, n, communication_s=time_s) for n, time_s in enumerate(beside_s)]
        document = document_of_overlaps(RunContent(header_of(usual_settings()), rounds, None))
        (table,) = [one for one in document.blocks if isinstance(one, Table)]
        assert sum("cannot be said" in note for note in table.notes) == number
        assert str(table.rows).count("cannot be said") == number


def test_rounds_without_figures_are_counted_and_the_row_is_not_called_skipped():
    rounds = [result(n, n) for n in range(3)]
    rounds[1] = replace(rounds[1], status="skipped", reason="no operation ran beside", figures=None)
    (one,) = summaries_of(rounds)
    assert one.status == "ok"
    assert "skipped" not in cells_of(one)
    assert [one.sentence for one in remarks_of([one])] == [
        "in 1 of 3 rounds no operation ran entirely beside the other work: these rounds are left "
        "out: default 1 GiB"
    ]
    (none,) = summaries_of([rounds[1]])
    assert none.status == "skipped"
    assert "skipped" in cells_of(none)
    (skipped,) = remarks_of([none])
    assert skipped.sentence == "skipped: no operation ran beside: default 1 GiB"


def test_the_time_alone_is_explained_with_its_number_of_operations():
    marks = [[0.0, 1e-3, 2e-3], [0.0, 1e-3, 2e-3]]
    times = OverlapTimes(marks, [[], []], [], 38, 1)
    (one,) = summaries_of([replace(result(0, 0), communication_alone=times)])
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


def test_failures_are_results():
    died = failed(1)
    assert isinstance(died, OverlapResult)
    assert died.report == "report"
    assert not died.is_measured
    assert isinstance(KINDS["experiment"].failed(0, Trial(FEW, 0, LARGE), "died", ""), TrialResult)
    evidence = [one.evidence for one in remarks_of(summaries_of([doubtful(), died]))]
    assert (Evidence.of("evaluated", 0.2, "default 1 GiB", 0.5),) in evidence


def test_execution_in_turns_is_reported():
    """Then each takes as long as both alone, and the rates that remain add up to one."""
    (turns,) = summaries_of([result(0, 0, communication_s=0.003, compute_s=0.003)])
    assert turns.combined_rate == pytest.approx(
        (turns.communication.alone_s + turns.compute.alone_s) / 0.003
    )
    for together_s, is_reported in ((turns.communication.alone_s + turns.compute.alone_s, True),
                                    (turns.communication.alone_s * 1.1, False)):  # fmt: skip
        figures = {"communication_s": together_s, "compute_s": together_s}
        found = remarks_of(summaries_of([result(0, 0, **figures)]))
        assert any("executed in turns" in one.sentence for one in found) is is_reported


def test_figures_of_no_time_are_rejected():
    line = msgspec.json.encode(result(0, 0))
    assert msgspec.json.decode(line, type=OverlapResult).figures is not None
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            line.replace(b'"compute_s":0.002', b'"compute_s":0.0'), type=OverlapResult
        )


def test_wrong_data_is_attributed_to_the_collective_or_to_the_compute():
    found = [*wrong_findings([wrong()])]
    figures = [(figure.name, figure.value) for one in found for figure in one.evidence]
    assert figures == [("wrong", 3), ("compute_wrong", 1)]
    row = {one.key: one.cell(wrong()) for one in FIELDS.all}
    assert (row["wrong"], row["compute_wrong"]) == (3, 1)
    assert row["slow_down"] == pytest.approx(1.25)
    assert row["compute_beside_per_s"] == pytest.approx(2 * 8192**3 / 2e-3)


def doubtful():
    """Launches set the time of the collective, and little of the compute ran beside it."""
    return result(0, 0, launch_bound=True, compute_evaluated=0.2)


def failed(index):
    overlap = Overlap(FEW, 0, LARGE, MATMUL)
    return KINDS["overlap"].failed(index, overlap, "died", "rank 1 died", "report")


def wrong():
    one = replace(result(0, 0), status="wrong")
    one.verification = Verification(3, [WrongOutput(1, 3, 7, "2", "9")])
    one.compute_findings = [WrongOutput(0, 1, 5, "3", "-3")]
    return one


def skipped(index):
    reason = "no operation ran beside"
    return replace(result(index, index), status="skipped", reason=reason, figures=None)


def beside(*times_s):
    """A round for each time of the collective beside the compute."""
    return [result(n, n, communication_s=time_s) for n, time_s in enumerate(times_s)]


MARKS = [[0.0, 1e-3, 2e-3], [0.0, 1e-3, 2e-3]]
TEXTS = {
    "usual": beside(5e-3, 5.01e-3, 5.02e-3),
    # Rounds that differ too much say nothing.
    "rounds-differ": beside(5e-3, 0.5),
    # Rounds without figures are counted, and the row is not called skipped.
    "round-left-out": [result(0, 0), skipped(1), result(2, 2)],
    "skipped": [skipped(1)],
    # The time alone is explained with its number of operations.
    "alone": [replace(result(0, 0), communication_alone=OverlapTimes(MARKS, [[], []], [], 38, 1))],
    "variants": [
        result(2 * number + place, number, variant, communication_s=5e-3 * factor)
        for number in range(3)
        for place, (variant, factor) in enumerate(((DEFAULT, 1.0), (FEW, 1.5)))
    ],
    "doubtful": [doubtful(), failed(1)],
    "failed": [failed(0)],
    "in-turns": [result(0, 0, communication_s=5.5e-3, compute_s=5.5e-3)],
    "wrong": [wrong()],
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    library = LibraryDescription("nccl", "2.28.9", "/lib/libnccl.so")
    header = header_of(usual_settings(), library, devices=2, planned_cases=len(TEXTS[name]))
    text = "".join(replayed(Journal(header, TEXTS[name]), "table"))
    require_golden(f"texts/overlap-{name}.txt", text.partition("\n\n")[2])


def evenly(begin_s, span_s, spans):
    return [begin_s + span_s * number for number in range(spans + 1)]


def overlap_times(communication=(), compute=(), enqueue_s=(), operations=(1, 1)):
    return OverlapTimes(list(communication), list(compute), list(enqueue_s), *operations)


def alone(*by_rank, operations=1):
    return overlap_times(by_rank, [[]] * len(by_rank), operations=(operations, 1))


def computed(*by_rank, operations=1):
    return overlap_times([[]] * len(by_rank), by_rank, operations=(1, operations))


def test_only_spans_within_the_time_of_both_streams_count():
    # The compute begins during the third collective and ends during the seventh.
    found = select(overlap_times([evenly(0, 10, 10)], [evenly(25, 5, 8)]))
    assert found == CountedSpans((3, 6), ((1, 7),))
    # A product that ends exactly with the collectives counts, a longer one does not.
    assert select(overlap_times([evenly(0, 10, 10)], [evenly(25, 5.001, 8)])) == CountedSpans(
        (3, 6), ((1, 6),)
    )


def test_the_first_span_of_a_stream_does_not_count():
    found = select(overlap_times([evenly(0, 10, 4)], [evenly(0, 10, 4)]))
    assert found == CountedSpans((1, 4), ((1, 4),))


def test_a_collective_counts_if_it_is_beside_compute_on_every_rank():
    late, early = evenly(20, 4, 20), evenly(0, 4, 15)  # until 100 and 60
    found = select(overlap_times([evenly(0, 10, 10), evenly(1, 10, 10)], [late, early]))
    assert found is not None
    # Rank 0 from 20 on, rank 1 until 60: collectives 2 to 4 of both ranks.
    assert found.communication == (2, 5)
    # Products from 20 to 50 on rank 0, without its first one, and from 21 to 51 on rank 1.
    assert found.compute == ((1, 7), (6, 12))


@pytest.mark.parametrize(
    ("communication", "compute"),
    [
        (evenly(0, 10, 5), evenly(60, 10, 5)),  # one after the other
        (evenly(0, 10, 5), evenly(11, 1, 5)),  # the compute is within one collective
        (evenly(11, 1, 5), evenly(0, 10, 5)),
        (evenly(0, 10, 1), evenly(0, 1, 20)),  # a single span, which is the first
    ],
)
def test_nothing_counts_if_no_operation_is_entirely_beside_the_other_work(communication, compute):
    assert select(overlap_times([communication], [compute])) is None
    assert (
        figures_of(alone([0, 1, 2]), computed([0, 1, 2]), overlap_times([communication], [compute]))
        is None
    )


def test_times_are_those_of_one_operation_on_the_slowest_rank():
    figures = figures_of(
        alone([0, 3, 5, 7], [0, 2, 3, 4], operations=2),
        computed([0, 1, 4, 7], [0, 1, 2, 3], operations=3),
        overlap_times(
            [evenly(0, 4, 10), evenly(0, 4, 10)],
            [evenly(0, 6, 7), evenly(0, 9, 5)],
            operations=(2, 3),
        ),
    )
    assert figures is not None
    assert figures.communication_alone_s == 2 / 2  # spans of 2 s after the first, of rank 0
    assert figures.compute_alone_s == 3 / 3
    assert figures.communication_s == 4 / 2
    assert figures.compute_s == 9 / 3  # rank 1
    # Collectives 1 to 9 of 10 (until 40 s). Products from 4 to 40 s: 1 to 5 of 7, and 1 to 3 of 5.
    assert figures.communication_evaluated == 9 / 10
    assert figures.compute_evaluated == 3 / 5


def test_unequal_spans_are_averaged_by_their_time_not_by_their_number_before():
    together = overlap_times([[0, 1, 3, 4, 8, 9]], [evenly(0, 0.5, 30)])
    figures = figures_of(alone([0, 1, 2]), computed([0, 0.5, 1.0]), together)
    assert figures is not None
    assert figures.communication_s == (9 - 1) / 4
    assert figures.compute_s == 0.5


@pytest.mark.parametrize(
    ("communication_s", "compute_s", "duration_s"),
    [(1e-5, 1.5e-3, 0.04), (5e-3, 1.5e-3, 0.04), (0.02, 1e-6, 0.04), (1e-3, 1e-3, 1e-3)],
)
def test_both_streams_alone_take_about_the_same_time(communication_s, compute_s, duration_s):
    lengths = lengths_for(communication_s, compute_s, duration_s)
    sent = lengths.communication[0] * lengths.communication[1] * communication_s
    worked = lengths.compute[0] * lengths.compute[1] * compute_s
    least = max(duration_s, LEAST_SPANS * max(communication_s, compute_s))
    for total_s in (sent, worked):
        assert least <= total_s * 1.0001
        assert total_s < 1.5 * least
    for spans, operations in (lengths.communication, lengths.compute):
        assert LEAST_SPANS <= spans <= SPANS
        assert operations >= 1


def test_the_stream_that_ends_first_gets_more_operations():
    lengths = Lengths((10, 1), (10, 4))
    both = overlap_times([evenly(0, 3, 10)], [evenly(0, 1, 10)])
    assert balanced(lengths, both) == Lengths((10, 1), (24, 5))  # 120 instead of 40 products
    both = overlap_times([evenly(0, 1, 10)], [evenly(0, 2, 10)])
    assert balanced(lengths, both) == Lengths((20, 1), (10, 4))
    both = overlap_times([evenly(0, 100, 10)], [evenly(0, 1, 10)])
    assert balanced(lengths, both) == Lengths((10, 1), (23, 7))  # 4 times 40, in whole spans
    assert longer(Lengths((8, 1), (24, 10))) == Lengths((16, 1), (24, 20))


def test_the_slowest_collectives_and_the_fastest_compute_decide_the_balance():
    lengths = Lengths((10, 1), (10, 1))
    both = overlap_times([evenly(0, 2, 10), evenly(0, 4, 10)], [evenly(0, 1, 10), evenly(0, 2, 10)])
    assert balanced(lengths, both) == Lengths((10, 1), (20, 2))


SPAN_S = 1e-3
PHASES = ("communication", "compute", "together")


class ScriptedSession:
    """Every operation takes 1 ms. The first ``apart`` runs of both that are evaluated are executed
    one after the other. ``enqueue_share``: the host's time over that of the device.
    """

    def __init__(self, apart: int, enqueue_share: float = 0.0, apart_s: float = 0.0) -> None:
        self.phases: list[tuple[str, int, int]] = []
        self.apart = apart
        self.enqueue_share = enqueue_share
        self.apart_s = apart_s
        self.timing = False

    def prepare(self, *_arguments: object) -> None:
        pass

    def run_beside(self, sent, computed, _compute):
        number, other = sent.count * sent.operations, computed.count * computed.operations
        name = (
            "together"
            if sent.count and computed.count
            else ("communication" if sent.count else "compute")
        )
        if self.timing:
            self.phases.append((name, number, other))
        begin_s = 0.0
        if self.timing and name == "together" and self.apart:
            self.apart -= 1
            begin_s = max(SPAN_S * number, self.apart_s)
        marks = marks_of(0.0, sent), marks_of(begin_s, computed)
        end_s = max(row[-1] for row in marks if row)
        enqueue_s = self.enqueue_share * end_s
        return SimpleNamespace(
            communication_s=[marks[0]], compute_s=[marks[1]], enqueue_s=[enqueue_s]
        )


def marks_of(begin_s, spans):
    return evenly(begin_s, SPAN_S * spans.operations, spans.count) if spans.count else []


@pytest.fixture(autouse=True)
def readable_spans(monkeypatch):
    """The engine's own spans have no attributes in Python."""
    monkeypatch.setattr(engine, "Spans", SimpleNamespace)


def measured(session, number=0):
    def enter(phase, _batches=0):
        session.timing = phase == "timing"

    rank = SimpleNamespace(
        enter=enter,
        agreement=SimpleNamespace(gather=lambda _values: [0.0]),
        job=SimpleNamespace(ranks=1),
    )
    compute = SimpleNamespace(implementation="none", path="")
    runner = OverlapRunner(session, rank, SimpleNamespace(check=0, seed=1), compute, is_host=False)
    return runner.run(0, Overlap(DEFAULT, number, SMALL, MATMUL))


def test_phases_have_the_lengths_of_one_attempt_in_the_order_of_the_round():
    for number in range(7):
        session = ScriptedSession(0)
        result = measured(session, number)
        assert result.attempts == 1
        assert [PHASES.index(name) for name, _, _ in session.phases] == list(phase_order(number))
        both = next(one for one in session.phases if one[0] == "together")
        assert ("communication", both[1], 0) in session.phases
        assert ("compute", 0, both[2]) in session.phases


@pytest.mark.parametrize("apart", [1, 3, 9])
def test_all_phases_are_repeated_with_more_operations_and_the_number_is_recorded(apart):
    session = ScriptedSession(apart)
    result = measured(session)
    assert result.attempts == min(4, apart + 1)
    assert len(session.phases) == 3 * result.attempts
    assert (result.status == "ok") == (apart < 4)
    first, last = session.phases[:3], session.phases[-3:]
    for (name, sent, computed), (_, more_sent, more_computed) in zip(first, last, strict=True):
        assert name != "compute" or computed < more_computed
        assert name != "communication" or sent < more_sent
    assert result.communication_alone is not None
    assert result.together is not None
    (alone,), (both,) = result.communication_alone.communication_s, result.together.communication_s
    assert len(alone) == len(both)
    assert result.communication_alone.communication_operations == (
        result.together.communication_operations
    )


def test_a_long_phase_is_not_repeated():
    session = ScriptedSession(9, apart_s=1.0)
    result = measured(session)
    assert (result.status, result.attempts) == ("skipped", 1)
    assert len(session.phases) == 3


def test_launches_are_detected_in_every_phase():
    for share, bound in ((0.5, False), (0.9, True)):
        figures = measured(ScriptedSession(0, share)).figures
        assert figures is not None
        assert figures.launch_bound is bound
        assert figures.compute_launch_bound is bound
        assert figures.together_launch_bound is bound


def test_six_rounds_contain_every_order_and_two_cancel_a_drift():
    orders = [phase_order(number) for number in range(6)]
    assert len(set(orders)) == 6
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    for one, other in zip(orders[::2], orders[1::2], strict=True):
        assert {one.index(phase) + other.index(phase) for phase in range(3)} == {2}
    assert phase_order(6) == orders[0]
