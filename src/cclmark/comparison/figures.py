"""Compares two configurations case by case and separates differences from the noise of runs.

Runs of one command differ by more than their samples do (analysis/run_noise.py). The interval of a
ratio therefore includes the noise from run to run. With three runs of each side it is measured.
With fewer it is that of the machine's own history, or the assumed one on machines for which it was
measured. Elsewhere it is unknown: the samples give the least interval, and there is no verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from cclmark.analysis.ratio import (
    LEAST_RUNS,
    LogTime,
    RatioEstimate,
    RatioVerdict,
    RunMedian,
    WithInterval,
    estimate,
    freedom_of,
    geometric_mean,
    ratio_estimate,
)
from cclmark.analysis.run_noise import (
    LAUNCHES,
    SHARED_PART,
    OwnNoise,
    OwnNoiseOf,
    RunNoise,
    band_of,
    class_of,
    is_measured_machine,
    run_noise,
)
from cclmark.base.statistics import NORMAL_975, median
from cclmark.journal.item_results import CaseResult, TransferResult, device_summary
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Summary, TransferSummary
from cclmark.work.cases import Case
from cclmark.work.transfers import Transfer

MARGIN = 0.05  # the default of the smallest difference that matters


@dataclass(frozen=True)
class Band(WithInterval):
    """The cases of one ``operation`` with similar sizes, for which ``name`` gives the range.

    ``count`` of the ``all_count`` cases were measured by all compared runs and are used. ``ratio``
    is the mean of their ratios, weighted by their precision if there is an ``estimate``. There is
    no estimate for figures without samples.
    """

    operation: str
    name: str
    count: int
    all_count: int
    ratio: float
    verdict: RatioVerdict
    estimate: RatioEstimate | None = None

    @property
    def count_in_words(self) -> str:
        """``8``, or ``7 of 8`` if the same runs did not measure all cases."""
        left_out = self.count < self.all_count
        return f"{self.count} of {self.all_count}" if left_out else f"{self.count}"


def bands(found: Sequence[Compared], margin: float = MARGIN) -> list[Band]:
    """The bands of each operation: of all judged cases, or of all cases with a ratio if no case
    could be judged, for example for imported figures.
    """
    judged = any(one.judged for one in found)
    groups: dict[tuple[str, str], list[ComparedTimes]] = {}
    for one in found:
        if one.figures is not None and one.alike and one.judged is judged:
            groups.setdefault((one.thing.operation_words(), band_of(one.size_bytes)), []).append(
                one.figures
            )
    result = []
    for (operation, name), figures in groups.items():
        used = of_shared_runs(figures) if judged else []
        joint = _joint(used) if used else None
        count = len(figures)
        if joint is None:
            logs = [math.log(one.after_s / one.before_s) for one in figures]
            ratio = math.exp(math.fsum(logs) / len(logs))
            result.append(Band(operation, name, count, count, ratio, "noise unknown"))
        else:
            verdict = joint.verdict(margin)
            result.append(Band(operation, name, len(used), count, joint.ratio, verdict, joint))
    return result


def of_shared_runs(cases: Sequence[ComparedTimes]) -> list[ComparedTimes]:
    """The ``cases`` that the same runs of each side measured, with the points of these runs.

    In a run that ended early, cases are missing. The runs with the fewest cases are left out until
    more than half of the cases have points of all other runs. Returns none if no run of a side is
    left.
    """
    points = [one.points for one in cases]
    having = Counter(
        (side, run) for one in points for side, by_run in enumerate(one) for run in by_run
    )
    # Among runs with equally few cases the last is left out first: a run that ended early is mostly
    # the last.
    rarest_first = sorted(having, key=lambda each: (having[each], -each[1]))
    for left_out in range(len(rarest_first)):
        kept = sorted(rarest_first[left_out:])
        found = [
            (case, one)
            for case, one in zip(cases, points, strict=True)
            if all(run in one[side] for side, run in kept)
        ]
        if 2 * len(found) > len(cases):
            break
    else:
        return []
    before, after = ([run for side, run in kept if side == which] for which in (0, 1))
    if not before or not after:
        return []
    return [
        ComparedTimes([one[0][run] for run in before], [one[1][run] for run in after], case.noise)
        for case, one in found
    ]


def joint_estimate(cases: Sequence[ComparedTimes]) -> RatioEstimate | None:
    """The mean ratio of the ``cases`` that the same runs measured; None if it is unknown.

    Each run is one observation: the weighted mean of its logarithms. SHARED_PART of a case's
    assumed variance from run to run is common to all cases of the run, the rest is independent.
    """
    used = of_shared_runs(cases)
    return _joint(used) if used else None


def _joint(cases: Sequence[ComparedTimes]) -> RatioEstimate | None:
    precisions = [_precision(one) for one in cases]
    whole = math.fsum(precisions)
    weights = [precision / whole for precision in precisions]
    before, after = (
        [
            _observation(points, [one.noise[side] for one in cases], weights)
            for points in zip(*((one.before, one.after)[side] for one in cases), strict=True)
        ]
        for side in (0, 1)
    )
    noise_freedom = freedom_of(noise for one in cases for noise in one.noise)
    return estimate(before, after, noise_freedom)


def _precision(case: ComparedTimes) -> float:
    """The weight of a case, from its assumed noise only, which is known before the measurement."""
    if case.noise[0] is None or case.noise[1] is None:
        return 1.0
    return 1 / (case.noise[0].variance(case.before_s) + case.noise[1].variance(case.after_s))


def _observation(
    points: Sequence[RunMedian], noises: Sequence[RunNoise | None], weights: Sequence[float]
) -> LogTime:
    """One run's weighted mean over cases."""
    log = math.fsum(
        weight * math.log(time_s) for weight, (time_s, _) in zip(weights, points, strict=True)
    )
    samples = 0.0
    shared = own = 0.0
    known = assumed = True
    for weight, (time_s, by_samples), noise in zip(weights, points, noises, strict=True):
        if by_samples is None:
            known = False
        else:
            samples += weight**2 * by_samples
        if noise is None:
            assumed = False
        else:
            variance = noise.variance(time_s)
            shared += weight * math.sqrt(SHARED_PART * variance)
            own += weight**2 * (1 - SHARED_PART) * variance
    return LogTime(log, samples if known else None, shared**2 + own if assumed else None)


@dataclass(frozen=True)
class LaunchCost:
    """The cost of a call in ``count`` launch-bound cases, as geometric means in seconds.

    ``estimate`` is its ratio, with the noise of launches. ``device``: the joint verdict on the
    device times of the same cases.
    """

    count: int
    before_s: float
    after_s: float
    estimate: RatioEstimate
    verdict: RatioVerdict
    device: RatioVerdict


def launch_cost(found: Sequence[Compared], margin: float = MARGIN) -> LaunchCost | None:
    """The cost over all launch-bound cases whose device time was judged; None without any."""
    pairs = [
        (one.figures, one.calls)
        for one in found
        if one.figures is not None and one.calls is not None
    ]
    if not pairs:
        return None
    calls = of_shared_runs([each for _, each in pairs])
    cost = joint_estimate(calls)
    device = joint_estimate([each for each, _ in pairs])
    if cost is None or device is None:
        return None
    return LaunchCost(
        count=len(calls),
        before_s=geometric_mean([one.before_s for one in calls]),
        after_s=geometric_mean([one.after_s for one in calls]),
        estimate=cost,
        verdict=cost.verdict(margin),
        device=device.verdict(margin),
    )


_NO_NOISE = RunNoise(0.0)
_WRONG = "wrong data"
_ABSENT = "not measured "  # before or after: the reason of a case without a result there


@dataclass(frozen=True)
class Side:
    """The runs of one configuration. ``incomplete``: missing parts of their journals, in words.

    ``own_noise``: returns the noise of the machine of a run that its history measured.
    """

    name: str
    runs: Sequence[Journal]
    incomplete: Sequence[str] = ()
    own_noise: OwnNoiseOf = lambda _: {}


@dataclass(frozen=True)
class ComparedTimes:
    """The times of one case on both sides, a point for each run, and each side's noise.

    The noise is assumed, or measured by the history; None if it is unknown.

    ``runs``: the numbers of the runs of each side that the points come from; None for the first
    runs.
    """

    before: Sequence[RunMedian]
    after: Sequence[RunMedian]
    noise: tuple[RunNoise | None, RunNoise | None]
    runs: tuple[Sequence[int], Sequence[int]] | None = None

    @property
    def points(self) -> tuple[dict[int, RunMedian], dict[int, RunMedian]]:
        """The points of each side by the number of the run."""
        if self.runs is None:
            return dict(enumerate(self.before)), dict(enumerate(self.after))
        return (
            dict(zip(self.runs[0], self.before, strict=True)),
            dict(zip(self.runs[1], self.after, strict=True)),
        )

    @property
    def before_s(self) -> float:
        """The geometric mean over the runs of the side."""
        return geometric_mean([time_s for time_s, _ in self.before])

    @property
    def after_s(self) -> float:
        """The geometric mean over the runs of the side."""
        return geometric_mean([time_s for time_s, _ in self.after])

    def estimate(self) -> RatioEstimate | None:
        """The ratio with its interval; None if the interval is unknown."""
        return ratio_estimate(self.before, self.after, self.noise)

    def least_estimate(self) -> RatioEstimate | None:
        """The ratio with the interval of the samples alone, which runs only widen."""
        return ratio_estimate(self.before, self.after, (_NO_NOISE, _NO_NOISE))


@dataclass(frozen=True)
class Compared(WithInterval):
    """A case or transfer that one or both sides measured.

    ``figures`` are the judged times, None if a side has no times. ``alike``: whether they may be
    divided by each other; the verdict is ``not comparable`` otherwise. ``estimate`` is their ratio
    with its interval, None if the interval is unknown: then the verdict is ``noise unknown``, and
    ``least`` the least interval if only the noise from run to run is unknown. ``reason``: why
    there is no estimate. ``calls``: the cost of a call on both sides,
    if the judged figure is the device's time and launches determine the cost of a call on a side.
    ``lost``: whether it was measured before and not after. ``ran``: what the library ran before and
    after, in words, where ``--explain`` observed it; empty texts otherwise.
    """

    thing: Case | Transfer
    verdict: RatioVerdict
    figures: ComparedTimes | None = None
    estimate: RatioEstimate | None = None
    calls: ComparedTimes | None = None
    reason: str = ""
    lost: bool = False
    alike: bool = True
    least: RatioEstimate | None = None
    ran: tuple[str, str] = ("", "")

    @property
    def ran_differently(self) -> bool:
        """Whether both sides were explained and the library ran something else."""
        return all(self.ran) and self.ran[0] != self.ran[1]

    @property
    def judged(self) -> bool:
        """Whether its ratio has an interval."""
        return self.estimate is not None

    @property
    def by_device(self) -> bool:
        """Whether the device's time is judged because launches determine the cost of a call."""
        return self.calls is not None

    @property
    def absent(self) -> str:
        """The side that has no result of it: before or after, empty if both have one."""
        return self.reason.removeprefix(_ABSENT) if self.reason.startswith(_ABSENT) else ""

    @property
    def is_wrong(self) -> bool:
        """Whether its outputs were wrong on a side."""
        return self.reason.startswith(_WRONG)

    @property
    def differs(self) -> bool:
        """Whether it is slower or faster beyond noise."""
        return self.verdict in ("slower", "faster")

    @property
    def before_s(self) -> float | None:
        """The geometric mean of the medians of the runs before."""
        return None if self.figures is None else self.figures.before_s

    @property
    def after_s(self) -> float | None:
        """The geometric mean of the medians of the runs after."""
        return None if self.figures is None else self.figures.after_s

    @property
    def ratio(self) -> float | None:
        """The time after over the time before: above 1 is slower."""
        if self.figures is None or not self.alike:
            return None
        return self.figures.after_s / self.figures.before_s

    @property
    def assumed(self) -> bool:
        """Whether the noise from run to run is assumed."""
        return self.estimate is not None and self.estimate.assumed

    @property
    def size_bytes(self) -> int:
        """The size of the message."""
        return self.thing.size_bytes


@dataclass(frozen=True)
class _Figure:
    """One median. ``variance``: of its logarithm, from its samples; None if unknown."""

    time_s: float
    variance: float | None
    clock: str


@dataclass(frozen=True)
class _Measured:
    """A case in run number ``run`` of its side.

    ``device``: the device's time, None if only calls were timed. ``launch_bound``: whether launches
    determine the cost of a call. ``source``: the tool that measured it, empty for cclmark.
    """

    run: int
    call: _Figure
    device: _Figure | None
    launch_bound: bool
    source: str


@dataclass
class _Found:
    """The results of a case in the runs of a side: figures, or the reason why there are none.

    ``noises``: of calls and of the devices' times.
    """

    thing: Case | Transfer | None = None
    noises: tuple[RunNoise | None, RunNoise | None] = (None, None)
    measured: list[_Measured] = field(default_factory=list)
    problem: str = ""
    ran: str = ""


_NOTHING = _Found()


def compare(before: Side, after: Side, margin: float = MARGIN) -> list[Compared]:
    """Compares everything that a side measured, in the order of the first run, then of the others.

    ``margin``: the largest difference of a time, as a share, that does not matter. If all runs of
    each side measured only one library, a case is compared with the same case of the other side's
    library.
    """
    alike = _library(before) is not None and _library(after) is not None
    first, second = _gathered(before, alike=alike), _gathered(after, alike=alike)
    return [
        _compared(key, first.get(key, _NOTHING), second.get(key, _NOTHING), margin)
        for key in dict.fromkeys(chain(first, second))
    ]


def _library(side: Side) -> str | None:
    """The library of a side; None if the side has several or none."""
    names = {result.case.ccl for run in side.runs for result in run.cases}
    return names.pop() if len(names) == 1 else None


def _gathered(side: Side, *, alike: bool) -> dict[Case | Transfer, _Found]:
    """The results by case. With ``alike``, cases of different libraries have the same key."""
    found: dict[Case | Transfer, _Found] = {}
    for number, run in enumerate(side.runs):
        own_noise = side.own_noise(run.header)
        for key, results in _by_key(run, alike=alike).items():
            thing = results[0].item
            if key not in found:
                call, device = (_noise(run, thing, own_noise, device=one) for one in (False, True))
                found[key] = _Found(thing, (call, device))
            known = found[key]
            if problem := next((text for one in results if (text := _problem(one))), ""):
                known.problem = known.problem or problem
            else:
                known.measured.append(_measured(results, run, number))
            known.ran = known.ran or _ran(results)
    return found


def _by_key(
    run: Journal, *, alike: bool
) -> Mapping[Case | Transfer, list[CaseResult | TransferResult]]:
    """The results of each case or transfer: cycles share a process and are one run."""
    found: dict[Case | Transfer, list[CaseResult | TransferResult]] = {}
    for result in run.timed:
        key = result.item.across_libraries() if alike else result.item
        found.setdefault(key, []).append(result)
    return found


#: What ran where the library did not report it.
UNKNOWN = "unknown"


def _noise(
    run: Journal, thing: Case | Transfer, own_noise: OwnNoise, *, device: bool
) -> RunNoise | None:
    """The noise from run to run of the machine; None if it is unknown."""
    header = run.header
    own = own_noise.get(class_of(thing, device=device))
    if own is not None:
        return own
    if not is_measured_machine([one.name for one in header.devices], len(header.hosts)):
        return None
    settings = header.settings
    return run_noise(thing, settings.timing, settings.barrier, device=device)


def _ran(results: Sequence[CaseResult | TransferResult]) -> str:
    """What the library ran; ``unknown`` if it did not report it, empty without an explanation."""
    explained = [one for it in results if (one := getattr(it, "explanation", None)) is not None]
    if not explained:
        return ""
    return next((text for one in explained if (text := one.choice_with_channels)), UNKNOWN)


def _problem(result: CaseResult | TransferResult) -> str:
    if result.status == "wrong":
        return _WRONG
    if result.status != "ok":
        return f"{result.status}: {result.reason}" if result.reason else result.status
    if result.summary is None or result.summary.time_s <= 0:
        return "no time"
    if isinstance(result, CaseResult) and result.device and result.device.summary.time_s <= 0:
        return "no device time"
    return ""


def _measured(
    results: Sequence[CaseResult | TransferResult], run: Journal, number: int
) -> _Measured:
    """Combines the results of a case in run ``number``, one for each cycle."""
    timing = run.header.settings.timing
    cases = [result for result in results if isinstance(result, CaseResult)]
    device = [found for one in cases if (found := device_summary(one, timing)) is not None]
    # The host's processors have one clock, whichever a run names.
    devices = run.header.devices
    on_host = bool(devices) and all(one.runtime == "host" for one in devices)
    summaries = [result.summary for result in results if result.summary is not None]
    return _Measured(
        run=number,
        call=_figure(summaries, on_host=on_host),
        device=_figure(device, on_host=on_host) if cases and len(device) == len(cases) else None,
        launch_bound=any(one.device is not None for one in cases),
        source="" if run.header.imported is None else run.header.imported.source,
    )


def _figure(summaries: Sequence[Summary | TransferSummary], *, on_host: bool) -> _Figure:
    widths = [one.half_width for one in summaries if one.half_width is not None]
    width = median(widths) if len(widths) == len(summaries) else None
    clock = getattr(summaries[0], "clock", "")
    return _Figure(
        time_s=median([one.time_s for one in summaries]),
        variance=None if width is None else (width / NORMAL_975) ** 2,
        clock="host" if on_host and clock else clock,
    )


def _of_another_tool(first: _Found, second: _Found) -> str:
    """The reason why times of other tools have no verdict: they have no samples."""
    reasons = []
    for found, words in ((first, "before"), (second, "after")):
        without = [one for one in found.measured if one.source and one.call.variance is None]
        if without:
            sources = " and ".join(sorted({one.source for one in without}))
            reasons.append(f"one figure of {sources} {words}, without samples")
    return "; ".join(reasons)


def _compared(key: Case | Transfer, first: _Found, second: _Found, margin: float) -> Compared:
    return replace(_judged(key, first, second, margin), ran=(first.ran, second.ran))


def _judged(key: Case | Transfer, first: _Found, second: _Found, margin: float) -> Compared:
    thing = first.thing or second.thing or key
    for found, words in ((first, "before"), (second, "after")):
        lost = found is second
        if found.thing is None:
            return Compared(thing, "not comparable", reason=f"{_ABSENT}{words}", lost=lost)
        if found.problem:
            reason = f"{found.problem} {words}"
            return Compared(thing, "not comparable", reason=reason, lost=lost)
    everything = [*first.measured, *second.measured]
    by_device = all(one.device is not None for one in everything)
    chosen = [
        [one.device if by_device and one.device is not None else one.call for one in found.measured]
        for found in (first, second)
    ]
    noise = first.noises[by_device], second.noises[by_device]
    runs = ([one.run for one in first.measured], [one.run for one in second.measured])
    figures = _figures(chosen[0], chosen[1], noise, runs)
    calls = None
    if by_device and any(one.launch_bound for one in everything):
        sides = [[one.call for one in found.measured] for found in (first, second)]
        of_calls = _launches(first.noises[0]), _launches(second.noises[0])
        calls = _figures(sides[0], sides[1], of_calls, runs)
    foreign = _of_another_tool(first, second)
    clocks = [sorted({one.clock for one in side}) for side in chosen]
    if clocks[0] != clocks[1]:
        names = [" and ".join(filter(None, each)) for each in clocks]
        reason = f"the {names[0]}'s clock before, the {names[1]}'s clock after"
        if foreign:  # a user who compares tools expects two clocks
            reason = "; ".join(filter(None, (foreign, reason if all(names) else "")))
        verdict: RatioVerdict = "noise unknown" if foreign else "not comparable"
        return Compared(thing, verdict, figures, reason=reason, alike=bool(foreign))
    estimate = figures.estimate()
    if estimate is None:
        few = "too few samples to estimate the error of a time"
        reason = foreign or (unknown_noise(*map(len, chosen)) if None in noise else few)
        least = figures.least_estimate()
        return Compared(thing, "noise unknown", figures, reason=reason, least=least)
    return Compared(thing, estimate.verdict(margin), figures, estimate, calls)


def unknown_noise(before: int, after: int) -> str:
    """Why there is no verdict on a machine of unknown noise. ``before``, ``after``: runs."""
    more = LEAST_RUNS - before
    number = f"{more} more {'run' if more == 1 else 'runs'}" if before == after else "3 runs"
    return f"the noise between runs is unknown for this machine: {number} of each side measure it"


def _launches(noise: RunNoise | None) -> RunNoise | None:
    """The noise of calls whose cost launches determine, if the noise of a case's calls is so."""
    return noise if noise is None or noise.freedom is not None else LAUNCHES


def _figures(
    before: Sequence[_Figure],
    after: Sequence[_Figure],
    noise: tuple[RunNoise | None, RunNoise | None],
    runs: tuple[Sequence[int], Sequence[int]],
) -> ComparedTimes:
    sides = [[(one.time_s, one.variance) for one in side] for side in (before, after)]
    return ComparedTimes(sides[0], sides[1], noise, runs)
