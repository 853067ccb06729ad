"""Overlaps: the operations that count, the phases on a rank, summaries and words."""

import math
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from cclmark import _engine as engine
from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.statistics import NORMAL_975
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import LibraryDescription, Verification, WrongOutput
from cclmark.kinds.overlap import document as documents
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
from cclmark.work.variants import DEFAULT, Assignment, Variant
from goldens import require_golden
from samples import header_of, usual_settings

SMALL = Case("all_reduce", "nccl", 2, "float32", 1 << 20, 1 << 18, False, reduction="sum")
LARGE = Case("all_reduce", "nccl", 2, "float32", 1 << 30, 1 << 28, False, reduction="sum")
MATMUL = Compute("matmul", "bfloat16", 8192)
FEW = Variant((Assignment("NCCL_MAX_CTAS", "4", "communicator"),))


def result(index, number, variant=DEFAULT, case=LARGE, **figures):
    values = {
        **{"communication_alone_s": 4e-3, "communication_s": 5e-3},
        **{"compute_alone_s": 1.5e-3, "compute_s": 2e-3},
        **{"communication_evaluated": 0.8, "compute_evaluated": 0.7},
    }
    return OverlapResult(
        index,
        Overlap(variant, number, case, MATMUL),
        "ok",
        implementation="cuBLASLt 12.8.4",
        figures=OverlapFigures(**{**values, **figures}),
        verification=Verification(0),
    )


def beside(*times_s):
    """A round for each time of the collective beside the compute."""
    return [result(n, n, communication_s=time_s) for n, time_s in enumerate(times_s)]


@pytest.mark.parametrize(("apart", "is_said"), [(1.0, True), (3.99, True), (4.01, False)])
def test_a_ratio_with_a_wide_interval_is_not_said(apart, is_said):
    ratio = RatioEstimate(0.0, math.log(apart) / 2 / NORMAL_975, None, 0.0)
    assert (documents.ratio_text(ratio) == "cannot be said") != is_said
    found = documents.slow_down_text(SlowDown(1e-3, 1e-3, ratio))
    assert found == documents.ratio_text(ratio)


def in_turn(variants, rounds, **figures):
    """Rounds of variants; ``figures``: functions of the round and the variant's place."""
    return [
        result(
            *(number * len(variants) + place, number, variant, variant.applied_to(LARGE)),
            **{name: figure(number, place) for name, figure in figures.items()},
        )
        for number in range(rounds)
        for place, variant in enumerate(variants)
    ]


def slower_and_slower():
    """A drift that changes all times of a round alike does not widen the intervals."""
    return in_turn(
        *([DEFAULT, FEW], 4),
        communication_alone_s=lambda number, _: 4e-3 * (1 + number),
        communication_s=lambda number, place: 5e-3 * (1 + number) * (1 + place / 2),
        compute_alone_s=lambda number, _: 1.5e-3 * (1 + number),
        compute_s=lambda number, place: 2e-3 * (1 + number) / (1 + place / 2),
    )


def test_a_round_in_which_a_variant_has_no_figures_is_not_compared():
    results = slower_and_slower()
    few = summaries_of(results)[1]
    low, high = few.busbw_interval
    assert low < few.busbw_beside < high
    results[0].figures = None
    usual, few = summaries_of(results)
    assert few.communication.against_usual.runs == 3
    assert usual.remaining_compute == pytest.approx(0.75)


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
    "variants": slower_and_slower(),
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


def overlap_times(communication=(), compute=(), operations=(1, 1)):
    return OverlapTimes(list(communication), list(compute), [], *operations)


def alone(*by_rank, operations=1):
    return overlap_times(by_rank, [[]] * len(by_rank), operations=(operations, 1))


def computed(*by_rank, operations=1):
    return overlap_times([[]] * len(by_rank), by_rank, operations=(1, operations))


# The compute begins during the third collective and ends during the seventh.
TEN, LATE, EARLY = evenly(0, 10, 10), evenly(20, 4, 20), evenly(0, 4, 15)  # until 100 and 60


@pytest.mark.parametrize(
    ("communication", "compute", "counted"),
    [
        # Only spans within the time of both streams.
        ([TEN], [evenly(25, 5, 8)], ((3, 6), ((1, 7),))),
        # A product that ends exactly with the collectives counts, a longer one does not.
        ([TEN], [evenly(25, 5.001, 8)], ((3, 6), ((1, 6),))),
        # The first span of a stream does not count.
        ([evenly(0, 10, 4)], [evenly(0, 10, 4)], ((1, 4), ((1, 4),))),
        # A collective counts if it is beside compute on every rank: rank 0 from 20 on, rank 1
        # until 60, so collectives 2 to 4 of both. Products from 20 to 50 on rank 0, without its
        # first one, and from 21 to 51 on rank 1.
        ([TEN, evenly(1, 10, 10)], [LATE, EARLY], ((2, 5), ((1, 7), (6, 12)))),
        # None: one after the other, the compute within one collective, and a single span, which is
        # the first.
        ([evenly(0, 10, 5)], [evenly(60, 10, 5)], None),
        ([evenly(0, 10, 5)], [evenly(11, 1, 5)], None),
        ([evenly(0, 10, 1)], [evenly(0, 1, 20)], None),
    ],
)
def test_operations_that_count_are_entirely_beside_the_other_work(communication, compute, counted):
    together = overlap_times(communication, compute)
    assert select(together) == (None if counted is None else CountedSpans(*counted))
    if counted is None:
        assert figures_of(alone([0, 1, 2]), computed([0, 1, 2]), together) is None


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
    assert figures.communication_alone_s == 2 / 2  # spans of 2 s after the first, of rank 0
    assert figures.compute_alone_s == 3 / 3
    assert figures.communication_s == 4 / 2
    assert figures.compute_s == 9 / 3  # rank 1
    # Collectives 1 to 9 of 10 (until 40 s). Products from 4 to 40 s: 1 to 5 of 7, and 1 to 3 of 5.
    assert figures.communication_evaluated == 9 / 10
    assert figures.compute_evaluated == 3 / 5


@pytest.mark.parametrize(
    ("communication_s", "compute_s", "duration_s"),
    [(1e-5, 1.5e-3, 0.04), (5e-3, 1.5e-3, 0.04), (0.02, 1e-6, 0.04), (1e-3, 1e-3, 1e-3)],
)
def test_both_streams_alone_take_about_the_same_time(communication_s, compute_s, duration_s):
    lengths = lengths_for(communication_s, compute_s, duration_s)
    least = max(duration_s, LEAST_SPANS * max(communication_s, compute_s))
    for (spans, operations), time_s in (
        (lengths.communication, communication_s),
        (lengths.compute, compute_s),
    ):
        assert least / 1.0001 <= spans * operations * time_s < 1.5 * least
        assert LEAST_SPANS <= spans <= SPANS
        assert operations >= 1


@pytest.mark.parametrize(
    ("products", "communication", "compute", "lengths"),
    [
        # The stream that ends first gets more operations: 120 instead of 40 products.
        (4, [evenly(0, 3, 10)], [evenly(0, 1, 10)], ((10, 1), (24, 5))),
        # 4 times 40, in whole spans.
        (4, [evenly(0, 100, 10)], [evenly(0, 1, 10)], ((10, 1), (23, 7))),
        # The slowest collectives and the fastest compute decide.
        (
            *(1, [evenly(0, 2, 10), evenly(0, 4, 10)], [evenly(0, 1, 10), evenly(0, 2, 10)]),
            ((10, 1), (20, 2)),
        ),
    ],
)
def test_lengths_are_balanced(products, communication, compute, lengths):
    both = overlap_times(communication, compute)
    assert balanced(Lengths((10, 1), (10, products)), both) == Lengths(*lengths)


SPAN_S = 1e-3


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
        alone = "communication" if sent.count else "compute"
        name = "together" if sent.count and computed.count else alone
        if self.timing:
            self.phases.append((name, number, other))
        begin_s = 0.0
        if self.timing and name == "together" and self.apart:
            self.apart -= 1
            begin_s = max(SPAN_S * number, self.apart_s)
        marks = marks_of(0.0, sent), marks_of(begin_s, computed)
        enqueue_s = self.enqueue_share * max(row[-1] for row in marks if row)
        return SimpleNamespace(
            communication_s=[marks[0]], compute_s=[marks[1]], enqueue_s=[enqueue_s]
        )


def marks_of(begin_s, spans):
    return evenly(begin_s, SPAN_S * spans.operations, spans.count) if spans.count else []


@pytest.fixture(autouse=True)
def readable_spans(monkeypatch):
    """The engine's own spans have no attributes in Python."""
    monkeypatch.setattr(engine, "Spans", SimpleNamespace)


def measured(session):
    def enter(phase, _batches=0):
        session.timing = phase == "timing"

    agreement = SimpleNamespace(gather=lambda _values: [0.0])
    rank = SimpleNamespace(enter=enter, agreement=agreement, job=SimpleNamespace(ranks=1))
    compute = SimpleNamespace(implementation="none", path="")
    runner = OverlapRunner(session, rank, SimpleNamespace(check=0, seed=1), compute, is_host=False)
    return runner.run(0, Overlap(DEFAULT, 0, SMALL, MATMUL))


@pytest.mark.parametrize("apart", [1, 3, 9])
def test_all_phases_are_repeated_with_more_operations_and_the_number_is_recorded(apart):
    long = ScriptedSession(apart, apart_s=1.0)
    found = measured(long)
    assert (found.status, found.attempts, len(long.phases)) == ("skipped", 1, 3)  # no repetition
    session = ScriptedSession(apart)
    result = measured(session)
    assert result.attempts == min(4, apart + 1)
    assert len(session.phases) == 3 * result.attempts
    assert (result.status == "ok") == (apart < 4)
    first, last = session.phases[:3], session.phases[-3:]
    for (name, sent, computed), (_, more_sent, more_computed) in zip(first, last, strict=True):
        assert name != "compute" or computed < more_computed
        assert name != "communication" or sent < more_sent
    alone, both = result.communication_alone, result.together
    assert len(alone.communication_s[0]) == len(both.communication_s[0])
    assert alone.communication_operations == both.communication_operations
    assert longer(Lengths((8, 1), (24, 10))) == Lengths((16, 1), (24, 20))


@pytest.mark.parametrize(("share", "bound"), [(0.5, False), (0.9, True)])
def test_launches_are_detected_in_every_phase(share, bound):
    figures = measured(ScriptedSession(0, share)).figures
    found = (figures.launch_bound, figures.compute_launch_bound, figures.together_launch_bound)
    assert found == (bound,) * 3


def test_six_rounds_contain_every_order_and_two_cancel_a_drift():
    orders = [phase_order(number) for number in range(6)]
    assert len(set(orders)) == 6
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    for one, other in zip(orders[::2], orders[1::2], strict=True):
        assert {one.index(phase) + other.index(phase) for phase in range(3)} == {2}
    assert phase_order(6) == orders[0]
