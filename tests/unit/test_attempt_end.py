"""The end of an attempt after a failure."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from cclmark.launch.attempt import AttemptEnd


@pytest.fixture
def waiting():
    """An end whose ranks never report, with the number of times that it has looked."""
    looks = []
    parts = SimpleNamespace(
        coordinator=SimpleNamespace(agents=[]),
        ranks=SimpleNamespace(any_can_report=lambda _: True, look=lambda **_: None),
        processes=SimpleNamespace(lost_ranks=set),
        messages=SimpleNamespace(receive=lambda _: looks.append(None)),
    )
    return SimpleNamespace(end=AttemptEnd(parts), looks=looks)


def test_reports_of_ranks_are_waited_for_until_a_signal_arrives(waiting, monkeypatch):
    """An mpirun that ends the job sends SIGKILL soon after it."""
    signals = []
    monkeypatch.setattr("cclmark.launch.attempt.noted", lambda: signals)
    since_s = time.monotonic()
    waiting.end._abort_and_gather(set(), 0.02)
    assert time.monotonic() - since_s >= 0.02
    assert waiting.looks
    waiting.looks.clear()
    signals.append(15)
    waiting.end._abort_and_gather(set(), 1000.0)
    assert not waiting.looks
