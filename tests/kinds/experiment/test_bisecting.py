"""The smallest value that keeps a share of the bandwidth, and ``cclmark experiment --bisect``."""

import math
import random
import re
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from cclmark.document.blocks import RunContent
from cclmark.document.document_text import TextLines
from cclmark.document.report_kind import View
from cclmark.journal.schema import Explanation, Footer
from cclmark.kinds.experiment import bisection
from cclmark.kinds.experiment.document import document_of_experiment
from cclmark.kinds.experiment.measured_trials import EndedError
from cclmark.kinds.experiment.plan import parse_bisect
from cclmark.kinds.experiment.request import run_bisection
from cclmark.kinds.experiment.result import as_found
from cclmark.launch.request import Outcome
from cclmark.work.cases import Case
from cclmark.work.variants import PROCESS
from examples import examples, exhaustive
from experiments import HEADER
from goldens import refusal, require_outcomes
from simulated_trials import driven

MIB = 1 << 20
CASES = [
    Case("all_reduce", "nccl", 2, "float32", size, size // 4, False, reduction="sum")
    for size in (64 * MIB, 1024 * MIB)
]


class Simulated:
    """Bandwidth grows up to 24 blocks; values above 48 fail."""

    number = 0

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
        most = {one: int(one.variant.value_of("NCCL_MAX_CTAS") or 24) for one in trials}
        names = (0, "plug-in", "ring", "Ring", "Simple")
        return {one: Explanation(*names, channels=min(most[one], 24)) for one in trials}


def document_of(result):
    line = msgspec.json.encode(Footer("", 0, 1.0, found=as_found(result)))
    footer = msgspec.json.decode(line, type=Footer)
    return document_of_experiment(RunContent(HEADER, [], footer, is_live=True))


def bisected(simulated, values, keep, say=print):
    """The result, the outcome, and the lines of the result."""
    scopes = {"NCCL_MAX_CTAS": PROCESS}
    result, outcome = run_bisection(simulated, CASES, scopes, values, keep, say)
    has_result = result.found is not None
    text = TextLines(View(columns=400)).whole(document_of(result)) if has_result else ""
    return result, outcome, text


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
    assert "  the smallest share of NCCL_MAX_CTAS=24 is " in text
    assert document_of(result).findings[0].severity == "good"


def test_what_has_no_effect_has_no_smallest_value():
    class Same(Simulated):
        def observe(self, trials):
            return {one: replace(it, channels=24) for one, it in super().observe(trials).items()}

    said = []
    _, _, text = bisected(Same(), [24, 32, 48], 0.9, said.append)
    assert "NCCL_MAX_CTAS has no effect: the library ran the same as by default" in text
    assert "smallest value" not in text
    (line,) = said
    assert re.match(r"the first round of 3 values took [\d.]+ s: at least \d+ such rounds", line)


def test_a_result_among_noise_is_not_certain():
    result, _, text = bisected(Simulated(noise=0.5), [22, 23, 24], 0.9)
    assert "  not certain, because another value may be the best one, of whose bandwidth" in text
    assert {"good"}.isdisjoint(one.severity for one in document_of(result).findings)


def test_a_run_that_ends_early_has_the_result_of_its_complete_rounds():
    class Unobserved(Simulated):
        def observe(self, trials):
            raise EndedError(Outcome(4, "rank 1 died"))

    result, outcome, _ = bisected(Unobserved(), [8, 16, 24], 0.9)
    assert result.found.value == 24
    assert outcome == Outcome(4, "what ran was not observed: rank 1 died")
    for rounds, code in ((0, 4), (1, 130)):
        simulated = Simulated(rounds=rounds, ending=Outcome(code, "ended"))
        result, outcome, _ = bisected(simulated, [8, 32], 0.9)
        assert (result.found, outcome.exit_code) == (None, code)
    result, outcome, text = bisected(Simulated(rounds=4), range(1, 49), 0.99)
    assert outcome.exit_code == 130
    assert not result.found.complete
    assert "the run ended before the result was certain" in text
    assert " are certainly below 99 % at a size: 1, 2, 3, 4, 6, 8, 11, 16, 23; " in text
    assert "; certainly 99 % or more at every size: 32, 45, 48\n" in text
    assert "  so far, NCCL_MAX_CTAS=32 is the smallest value that keeps 99 %" in text


def test_requests():
    def values(text):
        name, found = parse_bisect(text)
        assert name == text.partition("=")[0]
        return f"{len(found)} values: {' '.join(map(str, found[:5]))} ... {found[-1]}"

    outcome = partial(refusal, values)
    require_outcomes(Path(__file__).with_name("bisect_requests.txt"), outcome)


@pytest.mark.parametrize(("codes", "code"), [([4, 4], 4), ([3, 4], 4), ([2, 3], 3)])
def test_a_bisection_in_which_every_value_fails_ends_as_they_did(codes, code):
    class Failing(Simulated):
        failures = dict(zip((56, 64), codes, strict=True))  # by variant

        def measure(self, trials):
            return {one: None if one.variant.assignments else 1.0 for one in trials}

    result, outcome, _ = bisected(Failing(), [56, 64], 0.9)
    assert result.found.failed == {56, 64}
    assert outcome.exit_code == code
    assert "every measured value failed" in outcome.message


def run(curve, *, seed=0, sizes=1, keep=0.99, noise=0.0, outliers=0.0, most=None, **options):
    """``curve``: bandwidth by value and size; None for a value that fails. ``most``: the batch
    that is not measured any more.
    """
    draw = random.Random(seed)
    values, chance = options.get("values", range(1, 65)), options.get("chance", 0.05)

    def times_of(batch):
        times = {}
        for value, size in batch.cells:
            rate = curve(value, size)
            log = draw.gauss(0, noise)
            if draw.random() < outliers:
                log += math.log(draw.uniform(1, 3))
            times[value, size] = None if rate is None else math.exp(log) / rate
        return times

    last = math.inf if most is None else most - 1
    return driven(bisection.bisect(values, sizes, keep, chance), times_of, last)


def plateau(value, size):
    return min(1.0, value / (20 + 8 * size))


def two_peaks(value, size):
    """8 reaches 100 % and 40 reaches 99.5 %, with a valley between."""
    return max(0.2, 1 - abs(value - 8) / 10, 0.995 - abs(value - 40) / 30)


def peak(value, size):
    return math.exp(-0.05 * math.log2(value / 24) ** 2)


@pytest.mark.parametrize(
    ("curve", "sizes", "value", "elsewhere"),
    [
        (plateau, 2, 28, []),
        # From 40 on all is well; 4 alone is nearly as good, and is reported.
        (lambda value, _: {4: 0.995}.get(value, 1.0 if value >= 40 else 0.8), 1, 40, [4]),
        (two_peaks, 1, 8, []),  # the best of two peaks is kept
    ],
)
def test_the_smallest_value_for_all_sizes(curve, sizes, value, elsewhere):
    found, _ = run(curve, sizes=sizes)
    assert (found.value, found.elsewhere, found.complete) == (value, elsewhere, True)


def test_there_may_be_no_value_and_failures_are_not_repeated():
    found, _ = run(lambda value, size: value if size else 1 / value, sizes=2)
    assert found.value is None  # sizes disagree
    assert found.complete and found.curve
    found, batches = run(lambda value, size: None if value in (19, 32) else plateau(value, size))
    assert (found.failed, found.value) == ({19, 32}, 20)
    assert sum((32, 0) in batch.cells for batch in batches) == 1
    found, _ = run(lambda *_: None)
    assert (found.value, found.curve) == (None, {})
    assert run(lambda *_: 1.0, values=[5])[0].value == 5


def test_values_may_have_steps_begin_at_zero_and_be_powers():
    steps = range(0, 65537, 1024)
    found, batches = run(lambda value, _: min(1, (value + 1) / 5000), values=steps)
    assert found.value == 5120
    assert {value for batch in batches for value, _ in batch.cells} <= set(steps)
    assert run(lambda *_: 1.0, values=steps)[0].value == 0
    values = [1 << power for power in range(10, 27)]
    found, _ = run(lambda value, _: min(1, value / (4 << 20)), values=values)
    assert found.value == 4 << 20
    assert set(found.curve) == set(values)


@pytest.mark.simulated
@pytest.mark.parametrize(
    ("noise", "outliers"), [(0.0065, 0.05), *(exhaustive(one, 0.0) for one in (0.0065, 0.0002))]
)
def test_decisions_are_right(noise, outliers):
    """All values below 20 have exactly the share, or hardly less, so that every claim is wrong."""
    trials, wrong = examples(100), 0
    how = {"noise": noise, "outliers": outliers, "sizes": 2}
    for seed in range(trials):
        for share in (0.99 * (1 + 1e-9), 0.99 * (1 - 1e-9)):
            found, _ = run(lambda at, _, share=share: 1.0 if at >= 20 else share, seed=seed, **how)
            claimed = found.below if share >= 0.99 else found.above
            wrong += any(value < 20 for value in claimed)
    assert wrong <= 0.05 * 2 * trials


@pytest.mark.simulated
@pytest.mark.parametrize("curve", [plateau, two_peaks, exhaustive(peak)])
def test_the_share_is_kept_in_spite_of_noise(curve):
    """The value's true share is 98 % or more, and a value two smaller would not keep 99.5 %."""
    trials = examples(240)
    good = 0
    for seed in range(trials):
        found, _ = run(curve, seed=seed, sizes=2, noise=0.0065, outliers=0.05)
        best = [max(curve(value, size) for value in range(1, 65)) for size in range(2)]

        def keeps(value, share, best=best):
            return all(curve(value, size) >= share * best[size] for size in range(2))

        good += found.value is not None and (
            keeps(found.value, 0.98) and not keeps(found.value - 2, 0.995)
        )
    assert good >= 0.95 * trials
