"""Drift through a soak, and how durations are written."""

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.base.statistics import median_interval
from cclmark.kinds.collective.figures import drift_of
from cclmark.work.sizes import parse_duration

times = st.lists(st.floats(1e-7, 10), min_size=1, max_size=80)


@given(times)
def test_backwards_it_is_the_other_way_round(times_s):
    forth, back = drift_of(times_s), drift_of(times_s[::-1])
    assert forth.ratio * back.ratio == pytest.approx(1)
    assert forth.apart == back.apart
    assert (forth.cycles, forth.part) == (back.cycles, back.part)


@given(times)
def test_the_parts_lie_within_and_the_worst_is_the_longest(times_s):
    drift = drift_of(times_s)
    assert 1 <= drift.part <= max(1, drift.cycles // 2)
    assert min(times_s) <= min(drift.first_s, drift.last_s)
    assert max(drift.first_s, drift.last_s) <= max(times_s)
    assert times_s[drift.worst] == max(times_s)
    assert drift.worst_ratio >= 1
    assert (drift.apart is None) == (len(times_s) < 12)


@given(st.lists(st.floats(1, 1.2), min_size=12, max_size=60), st.floats(1.5, 9))
def test_a_change_beyond_the_noise_is_seen(times_s, factor):
    part = drift_of(times_s).part
    slower = [*times_s[:-part], *(time_s * factor for time_s in times_s[-part:])]
    assert drift_of(slower).apart
    assert drift_of(slower).ratio > 1


def test_noise_is_seldom_called_drift():
    chance = random.Random(1)
    seen = sum(bool(drift_of([chance.gauss(10, 1) for _ in range(30)]).apart) for _ in range(2000))
    assert seen <= 40


@pytest.mark.parametrize("count", [6, 9, 70, 999, 1030, 1100, 20_000])
def test_the_interval_of_a_median_is_the_narrowest_that_covers_95_percent(count):
    """Of as many values as a soak of days has cycles, too."""
    low, high = median_interval(range(count))
    assert low + high == count - 1

    def tail(outside):  # the probability that at most so many values are below the median
        terms, coefficient = 0, 1
        for below in range(outside + 1):
            terms += coefficient
            coefficient = coefficient * (count - below) // (below + 1)
        return Fraction(terms, 1 << count)

    assert tail(low) <= Fraction(1, 40) < tail(low + 1)


def test_durations():
    texts = {"90": 90, "45s": 45, "0.5s": 0.5, "30m": 1800, "1.5H": 5400, " 2 d ": 172800}
    assert {text: parse_duration(text) for text in texts} == texts
    wrong = ("", "0", "0s", "-1s", "1w", "1h30m", "nan", "inf", "1e9", "367d", "९s", "1" * 5000)
    for text in wrong:
        with pytest.raises(UsageError, match="duration"):
            parse_duration(text)
