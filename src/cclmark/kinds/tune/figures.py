"""The proof of rules, from rounds that the search has not seen.

The search chose its rules because their times were low, partly by luck. So the rules are measured
again, all together, as they will be used, in fresh processes, next to the default and the default
once more (the control).

- A size of a rule is *guarded*: the 95 % interval of its ratio must exclude a loss of LARGEST_LOSS.
  If it does not, the default stays at this size, and the remaining parts of the rule are judged
  as rules of their own.
- Where the judged times are those of the device, a call must not cost more either: a rule with more
  channels takes the device less time and the host more. Calls vary too much between processes to
  exclude a small loss, so the estimate decides.
- A rule is *proven* if it is faster than the default over all its sizes, beyond the noise floor,
  and by chance with at most ``false_share`` over all rules together (Bonferroni).

A rule selects nothing at sizes outside of it. So if one is dropped, the rounds of the others hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from cclmark.analysis.paired import (
    LEAST_COMPARED_ROUNDS,
    LEAST_ROUNDS,
    at_least_as_uncertain,
    chance_of_gain,
    improves,
    noise_floor,
    paired_ratio,
)
from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.grouping import by_key
from cclmark.kinds.tune.result import FALSE_SHARE, Dropped, EnvironmentProof, Place, Proof, Proven
from cclmark.kinds.tune.search import LARGEST_LOSS, Rule, is_loss
from cclmark.work.sizes import format_size


@dataclass(frozen=True)
class Trio:
    """The times of one size in one round, in seconds; None if a run failed there.

    ``control_s``: of the default, measured again. ``tuned_s``: with all rules.
    """

    default_s: float | None
    control_s: float | None
    tuned_s: float | None


# The times of one round by size in bytes.
ProofRound = Mapping[int, Trio]


def prove(
    rules: Sequence[Rule],
    rounds: Sequence[ProofRound],
    calls: Mapping[int, RatioEstimate] | None = None,
    false_share: float = FALSE_SHARE,
) -> Proof:
    """Judges rules by rounds that the search has not used, LEAST_ROUNDS of each size or more.

    ``calls``: the ratios of the costs of a call, at the sizes whose times in ``rounds`` are those
    of the device.

    A rule is judged by all measured sizes that it covers, including sizes that the search has not
    measured. A rule whose tuned run failed once is dropped. Rounds without the default or its
    repetition at a size of a rule are no rounds of this rule.
    """
    dropped: list[Dropped] = []
    parts: list[_Measured] = []
    for rule in rules:
        measured = _measured(rule, rounds)
        if isinstance(measured, Dropped):
            dropped.append(measured)
            continue
        kept, lost = _guarded(measured, calls or {})
        parts += kept
        dropped += lost
    share = false_share / max(1, len(rules), len(parts))
    proven: list[Proven] = []
    for part in parts:
        if reason := part.objection(share):
            dropped.append(Dropped(part.rule, reason, part.ratio))
        else:
            proven.append(part.proven())
    return Proof(proven, sorted(dropped, key=lambda one: one.rule.low_bytes))


def objection(estimate: RatioEstimate, control: RatioEstimate, largest_chance: float) -> str:
    """The reason why a ratio is not proven to be a gain; empty if it is.

    The arguments are those of paired.improves. ``largest_chance`` is that of one of several rules.
    """
    if improves(estimate, control, largest_chance):
        return ""
    ratio, floor = at_least_as_uncertain(estimate, control), noise_floor(control)
    if ratio.difference >= 0:
        return f"not faster than the default: {change(ratio)}"
    if -ratio.difference <= floor:
        largest = f"{math.expm1(floor):.1%}"
        return f"{change(ratio)} is within the noise of the default, up to {largest}"
    chance = chance_of_gain(ratio)
    return (
        f"{change(ratio)} is chance with a probability of {chance:.2g}, more than the "
        f"{largest_chance:.2g} allowed: more rounds may prove it"
    )


@dataclass(frozen=True)
class _Measured:
    """A rule with the logarithms of ratios to the default by size, of the same rounds."""

    rule: Rule
    tuned: Mapping[int, Sequence[float]]
    control: Mapping[int, Sequence[float]]

    @property
    def ratio(self) -> RatioEstimate:
        return paired_ratio(list(self.tuned.values()))

    @property
    def floor(self) -> RatioEstimate:
        return paired_ratio(list(self.control.values()))

    @property
    def certain(self) -> RatioEstimate:
        return at_least_as_uncertain(self.ratio, self.floor)

    def objection(self, largest_chance: float) -> str:
        """The reason why this is not proven to be a gain; empty if it is."""
        return objection(self.ratio, self.floor, largest_chance)

    def part(self, sizes: Sequence[int]) -> _Measured:
        return _Measured(
            Rule(sizes[0], sizes[-1], self.rule.variant),
            {size: self.tuned[size] for size in sizes},
            {size: self.control[size] for size in sizes},
        )

    def proven(self) -> Proven:
        by_size = {size: paired_ratio([logs]) for size, logs in self.tuned.items()}
        certain = self.certain
        return Proven(self.rule, certain, chance_of_gain(certain), by_size)


def _measured(rule: Rule, rounds: Sequence[ProofRound]) -> _Measured | Dropped:
    sizes = sorted({size for one in rounds for size in one if rule.covers(size)})
    for number, times in enumerate(rounds, 1):
        trios = [times.get(size) for size in sizes]
        if all(one and None not in (one.default_s, one.control_s) for one in trios):
            for size, trio in zip(sizes, trios, strict=True):
                if is_failure(trio):
                    where = f"at {format_size(size)} in round {number}"
                    return Dropped(rule, f"the tuned run failed {where}")
    complete, tuned, control = _complete_logs(rounds, sizes)
    if complete < LEAST_ROUNDS or not sizes:
        return Dropped(rule, _too_few(complete))
    return _Measured(rule, tuned, control)


def _guarded(
    measured: _Measured, calls: Mapping[int, RatioEstimate]
) -> tuple[list[_Measured], list[Dropped]]:
    """The parts of a rule without the sizes that may be slower than the default, and these."""
    by_size = {size: paired_ratio([logs]) for size, logs in measured.tuned.items()}
    objections = {size: _objection(one, calls.get(size)) for size, one in by_size.items()}
    kept, lost = [], []
    for passes, group in groupby(by_size, lambda size: not objections[size]):
        if passes:
            kept.append(measured.part(list(group)))
            continue
        for size in group:
            rule = Rule(size, size, measured.rule.variant)
            lost.append(Dropped(rule, objections[size], by_size[size]))
    return kept, lost


def _objection(ratio: RatioEstimate, call: RatioEstimate | None) -> str:
    """The reason why a size may be slower with the rule; empty without one."""
    if not ratio.excludes_slower_by(LARGEST_LOSS):
        return f"{change(ratio)}: a loss of {LARGEST_LOSS:.0%} is not excluded"
    return "" if call is None else call_objection(ratio, call)


def call_objection(ratio: RatioEstimate, call: RatioEstimate) -> str:
    """The reason why the cost of a call is a loss; empty if it is none.

    ``ratio``: of the device's time. ``call``: of the cost of a call where launches determine it.
    """
    if call.ratio <= 1 + LARGEST_LOSS:
        return ""
    return (
        f"the device needs {change(ratio)}, but a call costs {change(call)}, because launches "
        "determine its time"
    )


def change(ratio: RatioEstimate) -> str:
    """The change of the time with its 95 % interval: ``3.1% more time than the default (…)``."""
    low, high = ratio.low - 1, ratio.high - 1
    word = "more" if ratio.ratio >= 1 else "less"
    return f"{abs(ratio.ratio - 1):.1%} {word} time than the default ({low:+.1%} to {high:+.1%})"


# A size in bytes, or an operation and a size.
K = TypeVar("K", int, tuple[str, int])


def is_failure(trio: Trio | None) -> bool:
    """Whether what is tuned failed where the default did not."""
    return (
        trio is not None and trio.tuned_s is None and None not in (trio.default_s, trio.control_s)
    )


def _complete_logs(
    rounds: Sequence[Mapping[K, Trio]], keys: Sequence[K]
) -> tuple[int, dict[K, list[float]], dict[K, list[float]]]:
    """The rounds that have all times, and in these the logarithms of ratios to the default.

    Those of what is tuned, and of the default's repetition, by key.
    """
    complete = 0
    tuned: dict[K, list[float]] = {key: [] for key in keys}
    control: dict[K, list[float]] = {key: [] for key in keys}
    for times in rounds:
        trios = [times.get(key) for key in keys]
        if any(one is None or None in (one.default_s, one.control_s, one.tuned_s) for one in trios):
            continue
        complete += 1
        for key in keys:
            one = times[key]
            assert one.default_s and one.control_s and one.tuned_s
            tuned[key].append(math.log(one.tuned_s / one.default_s))
            control[key].append(math.log(one.control_s / one.default_s))
    return complete, tuned, control


def _too_few(rounds: int) -> str:
    return f"{rounds} complete rounds, {LEAST_ROUNDS} are required"


def ratios_of(rounds: Sequence[Mapping[K, Trio]]) -> dict[K, RatioEstimate]:
    """The ratios of tuned and default times where two rounds or more have both."""
    return {at: paired_ratio([logs]) for at, logs in _logs(rounds).items()}


def joint_ratio(rounds: Sequence[Mapping[K, Trio]]) -> tuple[K, RatioEstimate] | None:
    """The largest key, and the ratio of tuned and default times over all of them.

    None without times. Keys with fewer rounds than others are left out.
    """
    logs = _logs(rounds)
    most = max(map(len, logs.values()), default=0)
    whole = {at: one for at, one in logs.items() if len(one) == most}
    return (max(whole), paired_ratio(list(whole.values()))) if whole else None


def _logs(rounds: Sequence[Mapping[K, Trio]]) -> dict[K, list[float]]:
    """The logarithms of the ratios of tuned and default times, if there are enough."""
    found = by_key(
        (at, math.log(trio.tuned_s / trio.default_s))
        for each in rounds
        for at, trio in sorted(each.items())
        if trio.tuned_s and trio.default_s
    )
    return {at: logs for at, logs in sorted(found.items()) if len(logs) >= LEAST_COMPARED_ROUNDS}


def prove_environment(
    rounds: Sequence[Mapping[Place, Trio]],
    calls: Sequence[Mapping[Place, Trio]] = (),
    false_share: float = FALSE_SHARE,
) -> EnvironmentProof:
    """Judges an environment by LEAST_ROUNDS rounds or more, each with the same places.

    ``calls``: the costs of a call in the same rounds, at the places whose times in ``rounds`` are
    those of the device.

    Rounds without the default or its repetition at a place do not count.
    """
    places = sorted({place for one in rounds for place in one})
    failed = [place for place in places if any(is_failure(one.get(place)) for one in rounds)]
    if failed:
        return EnvironmentProof(objection="it failed where the default did not", failed=failed)
    complete, tuned, control = _complete_logs(rounds, places)
    if complete < LEAST_ROUNDS:
        return EnvironmentProof(objection=_too_few(complete))
    ratio, floor = paired_ratio(list(tuned.values())), paired_ratio(list(control.values()))
    certain = at_least_as_uncertain(ratio, floor)
    _, call = joint_ratio(calls) or (None, None)
    reason = objection(ratio, floor, false_share)
    if not reason and call is not None and is_loss(call):
        reason = call_objection(ratio, call)
    return EnvironmentProof(
        certain,
        chance_of_gain(certain),
        reason,
        [(place, paired_ratio([logs])) for place, logs in tuned.items()],
        call=call,
        costly=[
            (place, one) for place, one in ratios_of(calls).items() if one.low > 1 + LARGEST_LOSS
        ],
    )
