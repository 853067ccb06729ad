"""``cclmark experiment --bisect``: the smallest value that keeps a share of the best bandwidth."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from cclmark.analysis.experiments import without_effect
from cclmark.analysis.paired import Times
from cclmark.cli.percent import percent_of
from cclmark.errors import EXIT_OK, UsageError
from cclmark.launch.experiment_launch import worst_of
from cclmark.launch.request import Outcome
from cclmark.plan.cases import Case
from cclmark.plan.sizes import parse_size
from cclmark.kinds.experiment.plan import Trial
from cclmark.plan.variants import DEFAULT, Assignment, Variant
from cclmark.recording.trial_measuring import EndedError, TrialMeasuring
from cclmark.tune.bisection import LEAST_ROUNDS_TO_DECIDE, Bisected, bisect
from cclmark.tune.search import Batch

_REQUEST = re.compile(
    r"((?:config\.)?[A-Za-z_][A-Za-z0-9_]*)=([^:]+):([^:]+)(?::(?:[x×]([0-9]{1,9})|([^:]+)))?",
    re.ASCII,
)
_MOST_VALUES = 4096
_WRITE = (
    "write NAME=LOW:HIGH, for example NCCL_MAX_CTAS=1:64, or with a step or a factor, "
    "NAME=LOW:HIGH:STEP or NAME=LOW:HIGH:x2"
)


def parse_bisect(text: str, keep: str) -> tuple[str, Sequence[int], float]:
    """Parses ``NAME=LOW:HIGH``, with ``:STEP`` or ``:xFACTOR``, and the share of ``--keep``.

    Returns the name of the variable, its values in ascending order, and the share. Raises
    UsageError.
    """
    found = _REQUEST.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--bisect {text!r}: {_WRITE}")
    name = found[1]
    if not (Assignment(name, "").is_variable or Assignment(name, "").option):
        raise UsageError(
            f"--bisect {name}: it varies a variable or an option of the communicator with numeric "
            f"values: use --vary {name}=…, or --library for libraries"
        )
    values = _values(text, found)
    percent = percent_of("--keep", keep, "99%")
    if not 0 < percent <= 100:
        raise UsageError(f"--keep {keep}: a share above 0 and up to 100%")
    return name, values, percent / 100


def _values(text: str, found: re.Match[str]) -> Sequence[int]:
    """The values of a request. Raises UsageError."""
    low, high = _number(text, found[2]), _number(text, found[3])
    if low >= high:
        raise UsageError(f"--bisect {text}: the first value must be below the last one")
    if found[4] is not None:
        factor = int(found[4])
        if factor < 2 or low < 1:
            raise UsageError(
                f"--bisect {text}: a factor of at least 2 requires a first value of 1 or more"
            )
        powers = [low]
        while powers[-1] * factor <= high:
            powers.append(powers[-1] * factor)
        values: Sequence[int] = powers
    else:
        step = 1 if found[5] is None else _number(text, found[5])
        if step < 1:
            raise UsageError(f"--bisect {text}: the step must be at least 1")
        values = range(low, high + 1, step)
    if not 2 <= len(values) <= _MOST_VALUES:
        raise UsageError(
            f"--bisect {text}: {len(values)} values, but 2 to {_MOST_VALUES} can be searched: "
            f"{_WRITE}"
        )
    return values


def _number(text: str, part: str) -> int:
    """A number that is not negative, also with K, M, G or T. Raises UsageError."""
    if part.isdecimal() and part.isascii() and not part.strip("0"):
        return 0
    try:
        return parse_size(part)
    except UsageError as error:
        raise UsageError(f"--bisect {text}: {part!r} is not a number: {_WRITE}") from error


@dataclass(frozen=True)
class BisectionResult:
    """A bisection with what ran. ``found``: None without enough rounds.

    ``without_effect``: for each value with which the setting did not take effect at any size, the
    reason.
    """

    found: Bisected | None
    without_effect: Mapping[int, str]


def run_bisection(
    measuring: TrialMeasuring,
    cases: Sequence[Case],
    name: str,
    scope: str,
    values: Sequence[int],
    keep: float,
    notice: Callable[[str], None],
) -> tuple[BisectionResult, Outcome]:
    """Measures values until the smallest one that keeps the share is certain.

    The default is measured too, for the journal, in rounds with a value that had fewer than
    LEAST_ROUNDS_TO_DECIDE before. A run that ends early has the result of the rounds up to then.
    Afterwards the libraries are observed with every measured value. ``notice`` receives what the
    user should know meanwhile.
    """
    process = bisect(values, len(cases), keep)
    batch = next(process)
    measured: dict[int, list[Trial]] = {}
    rounds: Counter[int] = Counter()
    while True:
        trials = {
            cell: Trial(_variant(name, cell[0], scope), batch.number, cases[cell[1]])
            for cell in batch.cells
        }
        for (value, _), trial in trials.items():
            own = measured.setdefault(value, [])
            if all(trial.case != one.case for one in own):
                own.append(trial)
        present = {value for value, _ in batch.cells}
        compared = any(rounds[value] < LEAST_ROUNDS_TO_DECIDE for value in present)
        usual = [Trial(DEFAULT, batch.number, case) for case in cases if compared]
        rounds.update(present)
        begin_s, before = time.monotonic(), measuring.number
        try:
            times = measuring.measure([*usual, *trials.values()])
            everything = measuring.number - before == len(usual) + len(trials)
            if batch.number == 0 and everything:
                notice(_duration_text(len(measured), time.monotonic() - begin_s))
            batch = process.send({cell: times.get(trial) for cell, trial in trials.items()})
        except EndedError as ended:
            found = _result_so_far(process)
            return BisectionResult(found if found.curve else None, {}), ended.outcome
        except StopIteration as end:
            found, outcome = end.value, _judged(end.value, measuring)
            break
    if outcome.exit_code != EXIT_OK:
        return BisectionResult(found, {}), outcome
    kept = {value: measured[value] for value in found.curve}
    try:
        return BisectionResult(found, _without_effect(measuring, cases, kept)), outcome
    except EndedError as ended:
        message = f"what ran was not observed: {ended.outcome.message}"
        return BisectionResult(found, {}), replace(ended.outcome, message=message)


def _duration_text(values: int, round_s: float) -> str:
    return (
        f"the first round of {values} values took {round_s:.1f} s: at least "
        f"{LEAST_ROUNDS_TO_DECIDE} such rounds follow each other, then shorter ones of values that "
        "are not decided, which find and confirm the result"
    )


def _without_effect(
    measuring: TrialMeasuring, cases: Sequence[Case], measured: Mapping[int, Sequence[Trial]]
) -> dict[int, str]:
    """Observes the measured trials; returns the values without effect, with the reason.

    Raises EndedError.
    """
    usual = [Trial(DEFAULT, 0, case) for case in cases]
    observed = measuring.observe([*usual, *itertools.chain.from_iterable(measured.values())])
    by_default = {trial.case: observed.get(trial) for trial in usual}
    found = {}
    for value, trials in measured.items():
        reasons = [
            without_effect(one.variant, one.case, observed.get(one), by_default[one.case])
            for one in trials
        ]
        if all(reasons):
            found[value] = reasons[0]
    return found


def _result_so_far(process: Generator[Batch, Times | None, Bisected]) -> Bisected:
    """The result of the rounds that are complete."""
    try:
        process.send(None)
    except StopIteration as end:
        found: Bisected = end.value
        return found
    raise AssertionError("a bisection continues after its end")


def _judged(found: Bisected, measuring: TrialMeasuring) -> Outcome:
    """The outcome of a complete bisection: a failure if no value could be measured."""
    if found.curve or not found.failed:
        return Outcome(EXIT_OK)
    code = worst_of(measuring.failures.values())
    return Outcome(code, "every measured value failed: see the messages about each of them")


def _variant(name: str, value: int, scope: str) -> Variant:
    return Variant((Assignment(name, str(value), scope),))
