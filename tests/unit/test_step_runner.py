"""Steps of a replay: what ranks wait for each other."""

from __future__ import annotations

import pytest

from cclmark.run.step_runner import WAIT_ROUNDS, corrected_s

US = 1e-6
OWN_S = 10 * US


def waits_of(begins_s):
    """How long ranks wait in a call that ends on all of them together."""
    return [max(begins_s) - begin_s for begin_s in begins_s]


@pytest.mark.parametrize(
    ("begins_us", "wanted_us"),
    [
        ((0, 8), (0, 0)),
        ((0, 8), (3, 0)),
        ((8, 0), (3, 0)),
        ((0, 5, 9), (0, 6, 2)),
    ],
)
def test_ranks_come_to_wait_as_long_as_in_the_program(begins_us, wanted_us):
    begins_s = [one * US for one in begins_us]
    wanted_s = [one * US for one in wanted_us]
    later_s = [0.0] * len(begins_s)
    for _ in range(WAIT_ROUNDS):
        waits_s = waits_of([one + more for one, more in zip(begins_s, later_s, strict=True)])
        later_s = [
            corrected_s(later, waited - wanted, wanted + OWN_S)
            for later, waited, wanted in zip(later_s, waits_s, wanted_s, strict=True)
        ]
    waits_s = waits_of([one + more for one, more in zip(begins_s, later_s, strict=True)])
    assert waits_s == pytest.approx(wanted_s, abs=0.5 * US)


def test_a_correction_has_limits():
    assert corrected_s(0.0, 1.0, 100 * US) == pytest.approx(50 * US)
    assert corrected_s(0.0, -1.0, 10 * US) == pytest.approx(-30 * US)
