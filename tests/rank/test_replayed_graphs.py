from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from cclmark.kinds.registry import read_journal
from cclmark.rank import measure
from cclmark.rank.measure import CaseRunner
from places import TESTS

SAMPLE = read_journal(TESTS / "journals" / "collective.jsonl")
TIME_S = 5e-6


class Session:
    """Notes which graphs are captured and replayed; their places differ by 10 %."""

    def __init__(self, *, spaces):
        self.captured, self.replayed = [], []
        self._spaces = spaces

    def spaces_graphs(self):
        return self._spaces

    def capture(self, batch):
        if batch.graph not in self.captured:
            self.captured.append(batch.graph)

    def run(self, batch):
        self.replayed.append(batch.graph)
        time_s = TIME_S * (1 + 0.1 * (batch.graph * 7 % 11 / 11))
        times_s = [[time_s], [time_s]]
        return SimpleNamespace(host_s=times_s, device_s=times_s, enqueue_s=times_s)


def device_time(monkeypatch, operation, *, spaces=True, **settings):
    """The device time of a case, and the session that measured it."""
    monkeypatch.setattr(measure, "in_step", lambda _, work, *__: work())
    monkeypatch.setattr(measure.engine, "Batch", SimpleNamespace)
    runner = object.__new__(CaseRunner)
    runner._session, runner._no_graphs = Session(spaces=spaces), ""
    runner._agreement = SimpleNamespace(gather=lambda values: values * 2)
    values = {"timing": "auto", "iterations": None, "precision": 0.02, "max_time_s": 1.0}
    runner._settings = replace(SAMPLE.header.settings, **(values | settings))
    runner._fixed = runner._settings.iterations is not None
    runner._decides, runner._enter = (lambda _: True), (lambda *_: None)
    case = replace(SAMPLE.results[0].case, operation=operation)
    device, reason = runner._device_time(case, 20, None)
    assert reason == ""
    return device, runner._session


@pytest.mark.parametrize(
    ("operation", "settings", "graphs"),
    [
        ("all_reduce", {}, 1),
        ("broadcast", {}, 6),
        ("broadcast", {"iterations": 20}, 1),  # one sample
        ("broadcast", {"spaces": False}, 1),  # they would be side by side
    ],
)
def test_samples_of_a_case_with_a_root_are_of_different_graphs(
    monkeypatch, operation, settings, graphs
):
    # The places differ by more than the precision, so that a few samples do not suffice.
    precision = 0.2 if graphs > 1 else 0.02
    device, session = device_time(monkeypatch, operation, precision=precision, **settings)
    samples = len(device.samples.host_s)
    assert samples == (1 if "iterations" in settings else 6)
    assert session.captured == [*range(graphs)]
    assert session.replayed == [number % graphs for number in range(samples)]


def test_more_precision_takes_more_graphs(monkeypatch):
    device, session = device_time(monkeypatch, "broadcast", precision=0.025)
    samples = len(device.samples.host_s)
    assert 6 < samples <= 32
    assert session.replayed == [*range(samples)]
    assert device.summary.half_width <= 0.025
