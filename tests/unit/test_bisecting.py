"""``cclmark experiment --bisect`` on a simulated device."""

from __future__ import annotations

import random
import re

import msgspec
import pytest

from cclmark.errors import UsageError
from cclmark.kinds.experiment.bisection import LEAST_ROUNDS_TO_DECIDE, bisection_lines
from cclmark.kinds.experiment.measured_trials import EndedError
from cclmark.kinds.experiment.request import parse_bisect, run_bisection
from cclmark.launch.request import Outcome
from cclmark.plan.cases import Case
from cclmark.plan.variants import PROCESS
from cclmark.results.schema import Explanation

replace = msgspec.structs.replace

MIB = 1 << 20
CASES = [
    Case("all_reduce", "nccl", 2, "float32", size, size // 4, False, reduction="sum")
    for size in (64 * MIB, 1024 * MIB)
]


class Simulated:
    """Bandwidth grows up to 24 blocks; values above 48 fail."""

    number = 0
    usual_channels = 24

    def __init__(self, *, noise=0.001, rounds=None, ending=Outcome(130, "interrupted")):  # noqa: B008
        """``rounds``: that are measured before the run ends with ``ending``."""
        self._random = random.Random(1)
        self._noise, self._left, self._ending = noise, rounds, ending
        self.values = set()
        self.rounds = []

    def measure(self, trials):
        if self._left == len(self.rounds):
            raise EndedError(self._ending)
        self.rounds.append([one.variant.is_default for one in trials])
        self.number += len(trials)
        found = {}
        for one in trials:
            text = one.variant.value_of("NCCL_MAX_CTAS")
            value = int(text or 32)
            self.values |= {value} if text else set()
            time_s = one.case.size_bytes / (300e9 * min(value, 24) / 24)
            noise = self._random.lognormvariate(0, self._noise)
            found[one] = None if value > 48 else time_s * noise
        return found

    def observe(self, trials):
        """The channels, which the default has 24 of."""
        return {
            one: Explanation(
                index=0,
                source="plug-in",
                kernel="ring",
                algorithm="Ring",
                protocol="Simple",
                channels=min(int(one.variant.value_of("NCCL_MAX_CTAS") or 24), 24),
            )
            for one in trials
        }


def bisected(simulated, values, keep, say=print):
    """The result, the outcome, and the lines of the result."""
    name = "NCCL_MAX_CTAS"
    result, outcome = run_bisection(simulated, CASES, name, PROCESS, values, keep, say)
    if result.found is None:
        return result, outcome, ""
    lines = bisection_lines(result.found, name, CASES, keep, result.without_effect)
    return result, outcome, "\n".join(lines)


def test_the_smallest_value_that_keeps_the_share():
    simulated = Simulated()
    result, outcome, text = bisected(simulated, range(1, 65), 0.99)
    assert outcome == Outcome(0)
    assert result.found.value == 24
    assert {22, 23, 25, 26} <= simulated.values  # its neighbours
    assert "NCCL_MAX_CTAS=24 is the smallest value that keeps 99 % of the best bandwidth" in text
    assert "all_reduce 1 GiB" in text
    assert "  failed: " in text
    assert "  no effect with 24, 25, 26, " in text
    assert "the library ran the same as by default: ring Simple × 24" in text
    assert "not certain" not in text


def test_what_has_no_effect_has_no_smallest_value():
    class Same(Simulated):
        def observe(self, trials):
            return {
                one: replace(found, channels=24) for one, found in super().observe(trials).items()
            }

    said = []
    _, _, text = bisected(Same(), [24, 32, 48], 0.9, said.append)
    assert "NCCL_MAX_CTAS has no effect: the library ran the same as by default" in text
    assert "smallest value" not in text
    assert len(said) == 1
    assert re.match(r"the first round of 3 values took [\d.]+ s: at least \d+ such rounds", said[0])


def test_a_result_among_noise_is_not_certain():
    _, _, text = bisected(Simulated(noise=0.5), [22, 23, 24], 0.9)
    assert "  not certain, because another value may be the best one, of whose bandwidth" in text


def test_observations_that_fail_keep_the_result():
    class Unobserved(Simulated):
        def observe(self, trials):
            raise EndedError(Outcome(4, "rank 1 died"))

    result, outcome, _ = bisected(Unobserved(), [8, 16, 24], 0.9)
    assert result.found.value == 24
    assert outcome == Outcome(4, "what ran was not observed: rank 1 died")


@pytest.mark.parametrize(("rounds", "code"), [(0, 4), (1, 130)])
def test_a_run_that_ends_before_it_has_rounds_has_no_result(rounds, code):
    simulated = Simulated(rounds=rounds, ending=Outcome(code, "ended"))
    result, outcome, _ = bisected(simulated, [8, 32], 0.9)
    assert (result.found, outcome.exit_code) == (None, code)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("NCCL_MAX_CTAS=1:64", range(1, 65)),
        ("CCLMARK_SHM_INLINE_BYTES=0:64K:4K", range(0, 65537, 4096)),
        ("NCCL_BUFFSIZE=1M:8M:x2", [1 << 20, 2 << 20, 4 << 20, 8 << 20]),
        ("A=3:100:x3", [3, 9, 27, 81]),
    ],
)
def test_requests(text, values):
    name, found = parse_bisect(text)
    assert (name, list(found)) == (text.partition("=")[0], list(values))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NCCL_MAX_CTAS", "write NAME=LOW:HIGH"),
        ("NCCL_MAX_CTAS=4:4", "below the last one"),
        ("NCCL_MAX_CTAS=1:9999", "9999 values, but 2 to 4096 .* NAME=LOW:HIGH:STEP"),
        ("NCCL_BUFFSIZE=0:4:x2", "first value of 1 or more"),
        ("NCCL_BUFFSIZE=1:4:x1", "factor of at least 2"),
        ("NCCL_BUFFSIZE=1:4:0", "step must be at least 1"),
        ("NCCL_BUFFSIZE=1:4:9", "1 values, but 2 to 4096"),
        ("NCCL_BUFFSIZE=a:b", "'a' is not a number"),
        ("NCCL_BUFFSIZE=1:4:2:1", "write NAME=LOW:HIGH"),
        ("registration=1:2", "use --vary registration="),
        ("placement=1:2", "use --vary placement="),
        ("library=1:2", "--library for libraries"),
    ],
)
def test_invalid_requests(text, message):
    with pytest.raises(UsageError, match=message):
        parse_bisect(text)


def test_an_interrupted_bisection_has_the_result_of_its_complete_rounds():
    result, outcome, text = bisected(Simulated(rounds=4), range(1, 49), 0.99)
    assert outcome.exit_code == 130
    assert not result.found.complete
    assert "the run ended before the result was certain" in text
    assert "    certainly below 99 % at a size: 1, 2, 3, 4, 6, 8, 11, 16, 23\n" in text
    assert "    certainly 99 % or more at every size: 32, 45, 48\n" in text
    assert "  so far, NCCL_MAX_CTAS=32 is the smallest value that keeps 99 %" in text


def test_an_early_end_lists_values_that_are_not_decided():
    result, _, text = bisected(Simulated(rounds=3, noise=0.01), [1, 8, 23, 24], 0.96)
    assert "    not decided: " in text
    assert {*result.found.below, *result.found.above} < {1, 8, 23, 24}


def test_the_default_is_measured_beside_the_first_rounds_of_each_value():
    simulated = Simulated()
    bisected(simulated, range(22, 27), 1.0)
    assert all(any(one) for one in simulated.rounds[:LEAST_ROUNDS_TO_DECIDE])
    assert not any(simulated.rounds[-1])


@pytest.mark.parametrize(("codes", "code"), [([4, 4], 4), ([3, 3], 3), ([3, 4], 4), ([2, 3], 3)])
def test_a_bisection_in_which_every_value_fails_ends_as_they_did(codes, code):
    class Failing(Simulated):
        failures = dict(zip((56, 64), codes, strict=True))  # by variant

        def measure(self, trials):
            return {one: None if one.variant.assignments else 1.0 for one in trials}

    result, outcome, _ = bisected(Failing(), [56, 64], 0.9)
    assert result.found.failed == {56, 64}
    assert outcome.exit_code == code
    assert "every measured value failed" in outcome.message
