"""Two configurations beside each other: which differences are more than runs differ by anyway.

Runs of one command differ by more than their samples do (analysis/run_noise.py). So the interval of
a ratio holds what differs from run to run too: measured, where there are three runs of each, else
assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import msgspec

from cclmark.analysis.run_noise import RunNoise, run_noise
from cclmark.analysis.statistics import median
from cclmark.analysis.student import NORMAL_975, student_975
from cclmark.plan.cases import Case
from cclmark.plan.transfers import Transfer
from cclmark.results.journal import Journal
from cclmark.results.schema import CaseResult, TransferResult

Verdict = Literal["faster", "slower", "no difference", "not comparable"]

LEAST_RUNS = 3  # of each side, from which on noise is measured and not assumed

_LARGEST_LOG = 709.0
# The bands of sizes that means are given for: up to so many bytes.
_BANDS = ((32 << 10, "up to 32 KiB"), (1 << 20, "to 1 MiB"), (math.inf, "above 1 MiB"))


@dataclass(frozen=True)
class Side:
    """The runs of one configuration. ``incomplete``: what their journals lack, in words."""

    name: str
    runs: Sequence[Journal]
    incomplete: Sequence[str] = ()


@dataclass(frozen=True)
class Compared:
    """A thing that one or both sides measured, the second against the first.

    Times are geometric means over the runs of their medians. ``ratio`` is the second time over the
    first, above 1 for slower; ``low`` and ``high`` are the ends of its 95 % interval. ``reason``:
    why there is none. ``assumed``: whether the noise from run to run is assumed. ``lost``: whether
    the first measured it and the second did not.
    """

    thing: Case | Transfer
    verdict: Verdict
    before_s: float | None = None
    after_s: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    assumed: bool = False
    lost: bool = False

    @property
    def judged(self) -> bool:
        """Whether it is known to be faster, slower or neither."""
        return self.verdict != "not comparable"

    @property
    def size_bytes(self) -> int:
        """Of the message."""
        return self.thing.size_bytes


@dataclass(frozen=True)
class Band:
    """The geometric mean of the ratios of ``count`` things of like sizes."""

    name: str
    ratio: float
    count: int


@dataclass(frozen=True)
class _Measured:
    """A thing in one run: ``variance`` is that of the median's logarithm by its samples, None where
    there are too few. ``source``: the tool that measured it, empty for cclmark.
    """

    time_s: float
    variance: float | None
    clock: str
    source: str = ""


def compare(before: Side, after: Side) -> list[Compared]:
    """Everything that either side measured, in the order of the first run, then of the others.

    Where every run of a side measured one library and the sides' are two, libraries are compared:
    each case with the same of the other library.
    """
    alike = _library(before) is not None and _library(after) is not None
    first, second = _gathered(before, alike=alike), _gathered(after, alike=alike)
    return [
        _compared(key, first.get(key, _NOTHING), second.get(key, _NOTHING))
        for key in dict.fromkeys(chain(first, second))
    ]


def bands(found: Sequence[Compared]) -> list[Band]:
    """The mean ratio of each band of sizes that has any: of what could be judged, or, where nothing
    could, as of imported figures, of all that has a ratio.
    """
    result = []
    least = -1.0
    if any(one.judged for one in found):
        found = [one for one in found if one.judged]
    for most, name in _BANDS:
        logs = [
            math.log(one.ratio)
            for one in found
            if one.ratio is not None and least < one.size_bytes <= most
        ]
        if logs:
            result.append(Band(name, math.exp(math.fsum(logs) / len(logs)), len(logs)))
        least = most
    return result


def ratio_interval(
    before: Sequence[tuple[float, float | None]],
    after: Sequence[tuple[float, float | None]],
    noise: tuple[RunNoise | None, RunNoise | None] = (None, None),
) -> tuple[float, float, float, bool] | None:
    """The ratio of the second times to the first and the ends of its 95 % interval.

    Each run gives its median time in seconds and the variance of that median's logarithm, None
    where its samples do not tell. The last value: whether noise from run to run is assumed. None
    where nothing tells how sure a median is.

    With three runs of each, the variance of the runs' logarithms is pooled and Student's t taken (a
    two-sample test of logarithms, which are nearer to normal than times); it is not taken for less
    than what the samples say of each run. Else the assumed variance of a run is added to that of
    its samples: two runs that happen to be alike would pass for runs without noise, and all cases
    of a run share its luck.
    """
    sides = [[math.log(time_s) for time_s, _ in side] for side in (before, after)]
    means = [math.fsum(logs) / len(logs) for logs in sides]
    difference = means[1] - means[0]
    inner = [variance for side in (before, after) for _, variance in side if variance is not None]
    assumed = min(len(before), len(after)) < LEAST_RUNS
    if assumed:
        if len(inner) < len(before) + len(after):
            return None
        error = 0.0
        for side, own in zip((before, after), noise, strict=True):
            if own is None:
                return None
            runs = (own.variance(time_s) + (variance or 0.0) for time_s, variance in side)
            error += math.fsum(runs) / len(side) ** 2
        reach = NORMAL_975 * math.sqrt(error)
    else:
        freedom = len(before) + len(after) - 2
        squares = math.fsum(
            (value - mean) ** 2 for logs, mean in zip(sides, means, strict=True) for value in logs
        )
        variance = max(squares / freedom, math.fsum(inner) / len(inner) if inner else 0.0)
        error = variance * (1 / len(before) + 1 / len(after))
        reach = student_975(freedom) * math.sqrt(error)
    ends = (difference, difference - reach, difference + reach)
    ratio, low, high = map(_exp, ends)
    return ratio, low, high, assumed


def _exp(value: float) -> float:
    """Infinite where the number is too large for the machine."""
    return math.exp(value) if value < _LARGEST_LOG else math.inf


@dataclass(frozen=True)
class _Found:
    """What the runs of a side say of a thing: figures, or why there are none."""

    thing: Case | Transfer | None = None
    measured: tuple[_Measured, ...] = ()
    problem: str = ""
    noise: RunNoise | None = None


_NOTHING = _Found()


def _library(side: Side) -> str | None:
    """The only library of a side."""
    names = {result.case.ccl for run in side.runs for result in run.results}
    return names.pop() if len(names) == 1 else None


def _gathered(side: Side, *, alike: bool) -> dict[Case | Transfer, _Found]:
    """By thing; with ``alike`` those of different libraries have the same key."""
    found: dict[Case | Transfer, _Found] = {}
    for run in side.runs:
        for key, results in _by_key(run, alike=alike).items():
            known = found.get(key)
            if known is None:
                known = _Found(_thing(results[0]), noise=_noise(run, _thing(results[0])))
            problem = next((text for one in results if (text := _problem(one))), "")
            measured = known.measured
            if not problem:
                measured += (_measured(results, _source(run)),)
            found[key] = _Found(known.thing, measured, known.problem or problem, known.noise)
    return found


def _by_key(
    run: Journal, *, alike: bool
) -> Mapping[Case | Transfer, list[CaseResult | TransferResult]]:
    """The results of each thing, one for each cycle: they share a process, so they are one run."""
    found: dict[Case | Transfer, list[CaseResult | TransferResult]] = {}
    for result in run.results:
        key = msgspec.structs.replace(result.case, ccl="") if alike else result.case
        found.setdefault(key, []).append(result)
    for copy in run.transfers:
        found.setdefault(copy.transfer, []).append(copy)
    return found


def _thing(result: CaseResult | TransferResult) -> Case | Transfer:
    return result.case if isinstance(result, CaseResult) else result.transfer


def on_host(run: Journal) -> bool:
    """Whether processors take the part of devices: what runs differ by there nobody knows."""
    return any(device.runtime == "host" for device in run.header.devices)


def _noise(run: Journal, thing: Case | Transfer) -> RunNoise | None:
    settings = run.header.settings
    return None if on_host(run) else run_noise(thing, settings.timing, settings.barrier)


def _problem(result: CaseResult | TransferResult) -> str:
    if result.status == "wrong":
        return "wrong data"
    if result.status != "ok":
        return f"{result.status}: {result.reason}" if result.reason else result.status
    if result.summary is None or result.summary.time_s <= 0:
        return "no time"
    return ""


def _source(run: Journal) -> str:
    return "" if run.header.imported is None else run.header.imported.source


def _measured(results: Sequence[CaseResult | TransferResult], source: str) -> _Measured:
    summaries = [result.summary for result in results if result.summary is not None]
    widths = [one.half_width for one in summaries if one.half_width is not None]
    width = median(widths) if len(widths) == len(summaries) else None
    return _Measured(
        time_s=median([one.time_s for one in summaries]),
        variance=None if width is None else (width / NORMAL_975) ** 2,
        clock=getattr(summaries[0], "clock", ""),
        source=source,
    )


def _of_another_tool(first: _Found, second: _Found) -> str:
    """Why there is no verdict on times of other tools: they come without samples."""
    told = []
    for found, words in ((first, "the first"), (second, "the second")):
        without = [one for one in found.measured if one.source and one.variance is None]
        if without:
            sources = " and ".join(sorted({one.source for one in without}))
            told.append(f"{words} is of {sources}: one figure, without samples")
    return "; ".join(told)


def _mean_s(measured: Sequence[_Measured]) -> float:
    """The geometric mean over runs."""
    return math.exp(math.fsum(math.log(one.time_s) for one in measured) / len(measured))


def _compared(key: Case | Transfer, first: _Found, second: _Found) -> Compared:
    thing = first.thing or second.thing or key
    for found, words in ((first, "the first"), (second, "the second")):
        lost = found is second
        if found.thing is None:
            return Compared(thing, "not comparable", reason=f"not in {words}", lost=lost)
        if found.problem:
            reason = f"{found.problem} in {words}"
            return Compared(thing, "not comparable", reason=reason, lost=lost)
    before_s, after_s = _mean_s(first.measured), _mean_s(second.measured)
    foreign = _of_another_tool(first, second)
    clocks = [sorted({one.clock for one in found.measured}) for found in (first, second)]
    if clocks[0] != clocks[1]:
        names = [" and ".join(filter(None, each)) for each in clocks]
        reason = f"the {names[0]}'s clock in the first, the {names[1]}'s in the second"
        if foreign:  # whoever compares tools knows that they are two
            reason = "; ".join(filter(None, (foreign, reason if all(names) else "")))
        ratio = after_s / before_s if foreign else None
        return Compared(thing, "not comparable", before_s, after_s, ratio, reason=reason)
    interval = ratio_interval(
        [(one.time_s, one.variance) for one in first.measured],
        [(one.time_s, one.variance) for one in second.measured],
        (first.noise, second.noise),
    )
    if interval is None:
        of_host = first.noise is None or second.noise is None
        unsure = f"processors differ from run to run: {LEAST_RUNS} runs of each would tell"
        few = "too few samples to know how sure a time is"
        reason = foreign or (unsure if of_host else few)
        return Compared(
            thing, "not comparable", before_s, after_s, after_s / before_s, reason=reason
        )
    ratio, low, high, assumed = interval
    verdict: Verdict = "slower" if low > 1 else "faster" if high < 1 else "no difference"
    return Compared(thing, verdict, before_s, after_s, ratio, low, high, assumed=assumed)
