"""The ratios of an experiment's variants to the default, size by size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import msgspec

from cclmark.analysis.paired import Rounds, at_least_as_uncertain, noise_floor
from cclmark.analysis.ratio import RatioEstimate, geometric_mean
from cclmark.base.grouping import by_key
from cclmark.base.statistics import median
from cclmark.journal.item_results import AUTO
from cclmark.journal.schema import Explanation
from cclmark.kinds.experiment.plan import PROOF
from cclmark.kinds.experiment.result import TrialResult
from cclmark.work.cases import Case
from cclmark.work.library_settings import find_setting, foreign_setting, is_listed
from cclmark.work.variants import LIBRARY, PLACEMENT, Assignment, Variant

MARGIN = 0.02  # a smaller difference does not matter
MOST_NOISE = 0.25  # above: settings that are worth using would not be found

_UNRANKED = ("within noise", "no effect", "failed", "wrong", "skipped")

Effect = Literal[
    "faster",
    "slower",
    "no difference",
    "inconclusive",
    "within noise",
    "no effect",
    "failed",
    "wrong",
    "skipped",
]


@dataclass(frozen=True)
class VariantResult:
    """A variant compared with the default in one case.

    ``case``: as the default measured it. ``times_s`` and ``default_times_s``: the compared times by
    round; ``by_device``: they are device times, because launches determine the cost of a call.
    ``estimate``: the time over the default's, None without two rounds of both. ``control``: the
    same of the default to itself. ``effect`` and ``reason``: the verdict. ``explanation``,
    ``usual``: what ran, with the variant and with the default.
    """

    variant: Variant
    case: Case
    effect: Effect
    reason: str = ""
    times_s: tuple[float, ...] = ()
    default_times_s: tuple[float, ...] = ()
    by_device: bool = False
    estimate: RatioEstimate | None = None
    control: RatioEstimate | None = None
    explanation: Explanation | None = None
    usual: Explanation | None = None

    @property
    def is_ranked(self) -> bool:
        """Whether its speed-up counts: it was measured, is right and took effect."""
        return self.estimate is not None and self.effect not in _UNRANKED

    @property
    def time_s(self) -> float | None:
        """The median over the rounds."""
        return median(self.times_s) if self.times_s else None

    @property
    def speed_up(self) -> float | None:
        """The default's time over this one: above 1 is faster."""
        return None if self.estimate is None else 1 / self.estimate.ratio

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the speed-up."""
        if self.estimate is None:
            return None
        return 1 / self.estimate.high, 1 / self.estimate.low

    @property
    def ran(self) -> str:
        """What the library ran, with the channels; empty if unknown."""
        return "" if self.explanation is None else self.explanation.choice_with_channels


@dataclass(frozen=True)
class Experiment:
    """All comparisons of an experiment. ``variants`` without the default, in the plan's order."""

    cases: Sequence[Case]
    variants: Sequence[Variant]
    compared: Mapping[tuple[Variant, Case], VariantResult]
    defaults_s: Mapping[Case, float]
    controls: Mapping[Case, RatioEstimate]
    rounds: int

    @property
    def groups(self) -> list[list[Case]]:
        """The cases of each series, by size."""
        groups = by_key((case.series(), case) for case in self.cases)
        return [sorted(group, key=lambda case: case.size_bytes) for group in groups.values()]

    def ranked(self, case: Case) -> list[VariantResult]:
        """The variants that count for a case, the fastest first."""
        found = [
            one
            for variant in self.variants
            if (one := self.compared.get((variant, case))) is not None and one.is_ranked
        ]
        return sorted(found, key=lambda one: one.estimate.ratio if one.estimate else math.inf)

    def fastest(self, case: Case) -> VariantResult | None:
        """The fastest variant that is certainly faster than the default; None without one."""
        return next((one for one in self.ranked(case) if one.effect == "faster"), None)

    def not_compared(self, case: Case) -> list[str]:
        """Why no variant could be compared in a case; empty if one was."""
        found = [self.compared[one, case] for one in self.variants]
        if any(one.is_ranked or one.effect == "within noise" for one in found):
            return []
        return [*dict.fromkeys(one.reason or one.effect for one in found)] or ["none was measured"]

    def is_too_noisy(self, case: Case) -> bool:
        """Whether the default differs so much from itself that most variants are undecided."""
        control = self.controls.get(case)
        return control is not None and noise_floor(control) > MOST_NOISE

    def overall(self, variant: Variant) -> float | None:
        """The geometric mean of the speed-ups over the cases; None unless all are conclusive."""
        found = [self.compared.get((variant, case)) for case in self.cases]
        ratios = [
            one.estimate.ratio
            for one in found
            if one is not None and one.is_ranked and one.estimate is not None
            if one.effect != "inconclusive"
        ]
        return 1 / geometric_mean(ratios) if len(ratios) == len(self.cases) and ratios else None

    def means(self) -> list[tuple[Variant, float]]:
        """The variants with such a mean, the fastest first."""
        found = [(one, mean) for one in self.variants if (mean := self.overall(one)) is not None]
        return sorted(found, key=lambda own: own[1], reverse=True)


def experiment_of(results: Iterable[TrialResult], timing: str) -> Experiment:
    """Compares the variants of a journal's results. ``timing``: the setting of the run."""
    every = list(results)
    # Of a tuning run the proof counts: the search compares candidates with few rounds.
    if any(one.trial.stage == PROOF for one in every):
        every = [one for one in every if one.trial.stage == PROOF]
    varied = {one.name for result in every for one in result.trial.variant.assignments}
    by_place: dict[tuple[Variant, Case], dict[int, TrialResult]] = {}
    for result in every:
        place = (result.trial.variant, _compared_case(result.trial.case, varied))
        by_place.setdefault(place, {})[result.trial.round] = result
    variants = list(dict.fromkeys(variant for variant, _ in by_place))
    default = next((one for one in variants if one.is_default and not one.control), Variant())
    control = next((one for one in variants if one.control), None)
    cases = list(dict.fromkeys(case for variant, case in by_place if variant == default))
    # What tune measures for its files is not a setting of a user.
    of_user = {one.trial.variant for one in every if not one.trial.stage}
    unknown = {one: text for one in variants if one in of_user and (text := unknown_settings(one))}
    compared: dict[tuple[Variant, Case], VariantResult] = {}
    controls: dict[Case, RatioEstimate] = {}
    defaults_s: dict[Case, float] = {}
    shown = {case: next(iter(by_place[default, case].values())).trial.case for case in cases}
    for case in cases:
        usual = by_place[default, case]
        default_s = Rounds(usual.values(), partial(_time, device=False)).time_s
        if default_s is not None:
            defaults_s[shown[case]] = default_s
        floor = None
        if control is not None:
            pair = _Pair(by_place.get((control, case), {}), usual, timing)
            floor = pair.estimate()
            if floor is not None:
                controls[shown[case]] = floor
        for variant in variants:
            if not variant.is_default:
                pair = _Pair(by_place.get((variant, case), {}), usual, timing)
                found = pair.compared(variant, shown[case], floor)
                if variant in unknown:
                    found = _beyond_noise(found, unknown[variant])
                compared[variant, shown[case]] = found
    own = [one for one in variants if not one.is_default]
    rounds = len({result.trial.round for result in every})
    return Experiment([shown[case] for case in cases], own, compared, defaults_s, controls, rounds)


def unknown_settings(variant: Variant) -> str:
    """The variables of a variant that no library's file lists, with commas; empty for none."""
    names = [one.name for one in variant.assignments if one.is_variable]
    return ", ".join(name for name in names if not is_listed(name))


def _beyond_noise(found: VariantResult, unknown: str) -> VariantResult:
    """The comparison of a variant with ``unknown`` settings: it counts only beyond the noise.

    Such a variable may be read by nothing, so its time is taken as that of the default once more.
    """
    is_unknown = f"{unknown} {'are' if ',' in unknown else 'is'} unknown to cclmark"
    if found.effect in ("faster", "slower"):
        return replace(found, reason=is_unknown)
    if found.effect not in ("no difference", "inconclusive"):
        return found
    reason = f"{is_unknown}, and no difference exceeds the noise of the default against itself"
    return replace(found, effect="within noise", reason=reason)


def _compared_case(case: Case, varied: set[str]) -> Case:
    """The case without what variants assign, so that those that are compared are equal."""
    if PLACEMENT in varied:
        case = msgspec.structs.replace(case, in_place=False)
    return msgspec.structs.replace(case, ccl="") if LIBRARY in varied else case


class _Pair:
    """The results of a variant and of the default in one case, by round."""

    def __init__(
        self, own: Mapping[int, TrialResult], usual: Mapping[int, TrialResult], timing: str
    ) -> None:
        self._own = own
        self._usual = usual
        common = [
            number
            for number in sorted(own)
            if number in usual and own[number].is_measured and usual[number].is_measured
        ]
        sides = [[side[number] for number in common] for side in (own, usual)]
        #: Device times, if all are known: where only some are, a replayed time would be compared
        #: with the cost of a call.
        self.by_device = (
            timing == AUTO
            and bool(common)
            and all(one.device is not None for side in sides for one in side)
        )
        self._rounds, self._usual_rounds = (
            Rounds(side, partial(_time, device=self.by_device)) for side in sides
        )

    def estimate(self) -> RatioEstimate | None:
        """The time over the default's; None without two rounds of both."""
        return self._rounds.ratio_to(self._usual_rounds)

    def compared(self, variant: Variant, case: Case, floor: RatioEstimate | None) -> VariantResult:
        """The comparison and its verdict."""
        estimate = self.estimate()
        if estimate is not None and floor is not None:
            estimate = at_least_as_uncertain(estimate, floor)
        explanation, usual = _explanation(self._own), _explanation(self._usual)
        effect, reason = self._effect(variant, case, estimate, floor, explanation, usual)
        return VariantResult(
            variant,
            case,
            effect,
            reason,
            tuple(time_s for _, time_s in self._rounds.times_s),
            tuple(time_s for _, time_s in self._usual_rounds.times_s),
            self.by_device,
            estimate,
            floor,
            explanation,
            usual,
        )

    def _effect(
        self,
        variant: Variant,
        case: Case,
        estimate: RatioEstimate | None,
        floor: RatioEstimate | None,
        explanation: Explanation | None,
        usual: Explanation | None,
    ) -> tuple[Effect, str]:
        if failed := self._failed():
            return failed
        if reason := without_effect(variant, case, explanation, usual):
            return "no effect", reason
        if estimate is None:
            return "inconclusive", "fewer than two rounds"
        return _verdict(estimate, 0.0 if floor is None else noise_floor(floor)), ""

    def _failed(self) -> tuple[Effect, str] | None:
        """The first failure with its reason; None if all trials have figures."""
        statuses: dict[str, Effect] = {
            "timeout": "failed",
            "died": "failed",
            "wrong": "wrong",
            "skipped": "skipped",
        }
        for status, effect in statuses.items():
            for one in self._own.values():
                if one.status == status:
                    return effect, one.reason
        return None


def _verdict(estimate: RatioEstimate, noise: float) -> Effect:
    """``noise``: the largest logarithm of a ratio that the default has to itself."""
    if estimate.high < 1 and -estimate.difference > noise:
        return "faster"
    if estimate.low > 1 and estimate.difference > noise:
        return "slower"
    return "no difference" if estimate.verdict(MARGIN) == "no difference" else "inconclusive"


def _time(result: TrialResult, *, device: bool) -> float | None:
    if result.summary is None:
        return None
    if device and result.device is not None:
        return result.device.summary.time_s
    return result.summary.time_s


def _explanation(results: Mapping[int, TrialResult]) -> Explanation | None:
    return next((one.explanation for one in results.values() if one.explanation is not None), None)


def without_effect(
    variant: Variant, case: Case, explanation: Explanation | None, usual: Explanation | None
) -> str:
    """Why the settings did not take effect, by what the library ran; empty if they may have.

    Only a variable that the library certainly does not read, a library's statement that it ignores
    a setting, or an observation of all ranks counts: a setting that selects (source ``variables``)
    proves nothing, nor does an explanation on which the ranks do not agree.
    """
    ccl = variant.applied_to(case).ccl
    for one in variant.assignments:
        if one.is_variable and (text := foreign_setting(ccl, one.name)):
            return text
    if explanation is None or not _is_observed(explanation):
        return "" if explanation is None else _ignored(variant, explanation)
    for one in variant.assignments:
        if text := _contradicted(one, case.ccl, explanation):
            return text
    if usual is None or usual.is_doubtful or explanation.choice != usual.choice:
        return ""
    visible = all(_observed(one, case.ccl) for one in variant.assignments)
    if usual.choice and visible and explanation.channels == usual.channels:
        return f"the library ran the same as by default: {explanation.choice_with_channels}"
    return ""


def _ignored(variant: Variant, explanation: Explanation) -> str:
    """Why the library ignores one of the settings; empty if it reports none of them."""
    for one in variant.assignments:
        if why := explanation.ignored.get(one.name):
            return f"{one.name}: {why}"
    return ""


def _is_observed(explanation: Explanation) -> bool:
    return explanation.source in ("plug-in", "log", "engine") and not explanation.is_doubtful


def _observed(one: Assignment, ccl: str) -> str:
    setting = find_setting(ccl, one.name) if one.is_variable or one.option else None
    return "" if setting is None else setting.observed


def _contradicted(one: Assignment, ccl: str, explanation: Explanation) -> str:
    """How what ran contradicts a setting, in words; empty if it does not."""
    check = _CHECKS.get(_observed(one, ccl))
    if check is None or check(one.value, explanation):
        return ""
    return f"{one.name}={one.value} had no effect: {explanation.choice_with_channels} ran"


def _among(value: str, ran: str) -> bool:
    """Whether one of the used names is permitted by NCCL's list: ``Ring,Tree`` or ``^LL128``."""
    listed = value.lower().removeprefix("^")
    if ";" in listed or ":" in listed:
        return True  # by operation: not interpreted
    names = {_bare(one) for one in listed.split(",")}
    used = {_bare(one) for one in ran.lower().split(",")}
    return used.isdisjoint(names) if value.startswith("^") else used <= names


def _bare(name: str) -> str:
    return name.strip().replace("_", "")


def _at_most(value: str, explanation: Explanation) -> bool:
    return not value.isdecimal() or explanation.channels <= int(value)


_CHECKS: dict[str, Callable[[str, Explanation], bool]] = {
    "algorithm": lambda value, one: not one.algorithm or _among(value, one.algorithm),
    "protocol": lambda value, one: not one.protocol or _among(value, one.protocol),
    "channels at most": _at_most,
}
