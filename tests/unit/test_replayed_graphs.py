"""The graphs from which the device's time of a case is replayed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cclmark.results.journal import read_journal
from cclmark.run import measure
from cclmark.run.measure import CaseRunner

SAMPLE = read_journal(Path(__file__).parent / "journals" / "collective.jsonl")
TIME_S = 5e-6


class Session:
    """Notes which graphs are captured and replayed."""

    def __init__(self):
        self.captured, self.replayed = [], []

    def capture(self, batch):
        self.captured.append(batch.graph)

    def run(self, batch):
        self.replayed.append(batch.graph)
        times_s = [[TIME_S], [TIME_S]]
        return SimpleNamespace(host_s=times_s, device_s=times_s, enqueue_s=times_s)


@pytest.mark.parametrize(
    ("operation", "iterations", "graphs"),
    [("all_reduce", None, 1), ("broadcast", None, 6), ("reduce", None, 6), ("broadcast", 20, 1)],
)
def test_a_case_with_a_root_is_replayed_from_several_graphs(
    monkeypatch, operation, iterations, graphs
):
    """But from one where the user fixes the number of iterations, which are one sample."""
    monkeypatch.setattr(measure, "in_step", lambda _, work, *__: work())
    monkeypatch.setattr(measure.engine, "Batch", SimpleNamespace)
    runner = object.__new__(CaseRunner)
    runner._session, runner._agreement, runner._no_graphs = Session(), None, ""
    runner._settings = msgspec.structs.replace(
        SAMPLE.header.settings, timing="auto", iterations=iterations, precision=0.02, max_time_s=1.0
    )
    runner._fixed = iterations is not None
    runner._decides, runner._enter = (lambda _: True), (lambda *_: None)
    case = msgspec.structs.replace(SAMPLE.results[0].case, operation=operation)
    device, reason = runner._device_time(case, 20, None)
    assert reason == ""
    assert device.summary.time_s == pytest.approx(TIME_S)
    assert runner._session.captured == [*range(graphs)]
    samples = len(device.samples.host_s)
    assert samples == (1 if iterations else 6)
    assert runner._session.replayed == [number % graphs for number in range(samples)]
