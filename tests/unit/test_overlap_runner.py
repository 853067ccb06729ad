"""The phases of an overlap on one rank: their order, their lengths, and what is repeated."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cclmark import _engine as engine
from cclmark.kinds.overlap.figures import phase_order
from cclmark.kinds.overlap.plan import Overlap
from cclmark.kinds.overlap.run import OverlapRunner
from cclmark.plan.cases import Case
from cclmark.plan.computations import Compute
from cclmark.plan.variants import DEFAULT

CASE = Case("all_reduce", "shm", 1, "float32", 1 << 20, 1 << 18, False, reduction="sum")
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
        marks = evenly(0.0, sent), evenly(begin_s, computed)
        end_s = max(row[-1] for row in marks if row)
        enqueue_s = self.enqueue_share * end_s
        return SimpleNamespace(
            communication_s=[marks[0]], compute_s=[marks[1]], enqueue_s=[enqueue_s]
        )


@pytest.fixture(autouse=True)
def readable_spans(monkeypatch):
    """The engine's own spans have no attributes in Python."""
    monkeypatch.setattr(engine, "Spans", SimpleNamespace)


def evenly(begin_s, spans):
    if not spans.count:
        return []
    return [begin_s + SPAN_S * spans.operations * number for number in range(spans.count + 1)]


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
    return runner.run(0, Overlap(DEFAULT, number, CASE, Compute("matmul", "float32", 64)))


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
