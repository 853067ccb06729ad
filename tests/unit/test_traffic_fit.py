"""How much memory traffic beside a call makes it take as long as in the program."""

from __future__ import annotations

import pytest

from cclmark.kinds.replay.choices import TRAFFIC_ROUNDS
from cclmark.kinds.replay.run import TrafficFit

MOST = 96
US = 1e-6


def fitted(wanted_s, time_of, most=MOST):
    """The chosen blocks where ``time_of`` gives the time of a call beside so many."""
    fit = TrafficFit(wanted_s, most)
    rounds = 0
    while (blocks := fit.next()) is not None:
        fit.add(blocks, [time_of(call, number) for call, number in enumerate(blocks)])
        rounds += 1
    assert rounds <= TRAFFIC_ROUNDS
    return fit.chosen(), rounds


def linear(_call, blocks):
    return (100 + blocks) * US


def saturated(_call, blocks):
    return (100 + min(blocks, 20) * 2) * US


@pytest.mark.parametrize("wanted_us", [110, 117, 153, 190])
def test_a_call_takes_as_long_as_in_the_program(wanted_us):
    (blocks,), _ = fitted([wanted_us * US], linear)
    assert linear(0, blocks) == pytest.approx(wanted_us * US, rel=0.01)


def test_calls_that_are_not_slowed_down_in_the_program_have_no_traffic():
    # The third has none, whatever its time: nothing runs beside it.
    chosen, rounds = fitted([100 * US, 102 * US, 0.0, 80 * US], linear)
    assert chosen == [0, 0, 0, 0]
    assert rounds == 1


def test_each_call_has_its_own_traffic():
    chosen, _ = fitted([100 * US, 140 * US, 180 * US], linear)
    assert chosen == [0, pytest.approx(40, abs=1), pytest.approx(80, abs=1)]


def test_a_call_that_no_traffic_slows_down_enough_has_what_is_nearest():
    (blocks,), _ = fitted([300 * US], saturated)
    assert saturated(0, blocks) == pytest.approx(140 * US)
    (blocks,), _ = fitted([300 * US], lambda _call, blocks: (120 - blocks) * US)
    assert blocks == 0  # traffic makes it faster


def test_a_jump_between_two_amounts_ends_on_the_nearer_side():
    (blocks,), _ = fitted([140 * US], lambda _call, blocks: (130 if blocks < 30 else 400) * US)
    assert blocks < 30


def test_a_device_of_few_multiprocessors():
    (blocks,), _ = fitted([102.9 * US], linear, most=1)
    assert blocks == 0
    (blocks,), _ = fitted([104 * US], linear, most=1)
    assert blocks == 1
