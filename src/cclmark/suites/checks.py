"""Judges measured results by the thresholds of a suite."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from cclmark.analysis.links import link_limit
from cclmark.analysis.summary import judged_summary
from cclmark.base.errors import (
    EXIT_DIED,
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    EXIT_USAGE,
    EXIT_WRONG,
)
from cclmark.base.statistics import median
from cclmark.journal.item_results import AUTO, CaseResult, Result, TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import WrongOutput
from cclmark.kinds.p2p.figures import LinkLimits, allowed_bytes_per_s, figures
from cclmark.kinds.pairs.figures import places_of
from cclmark.kinds.registry import KINDS
from cclmark.suites.suite import SuiteCommand
from cclmark.work.cases import Case
from cclmark.work.operations import moves_data
from cclmark.work.pair_cases import Pair
from cclmark.work.thresholds import Threshold
from cclmark.work.transfers import Transfer


@dataclass(frozen=True)
class Point:
    """A case, or a flow of a transfer.

    Two points of the same case or flow have the same ``key``. ``figures`` contains all metrics that
    apply, with None if they were not measured or if data was wrong. ``limit_bytes_per_s``: the
    limit of its links, None if unknown. ``half_width``: of the 95 % interval of the median time,
    as a share of it, None if unknown.
    """

    key: Hashable
    words: str
    thing: Case | Transfer
    pairs: list[Pair]
    status: str
    reason: str = ""
    figures: dict[str, float | None] = field(default_factory=dict)
    limit_bytes_per_s: float | None = None
    half_width: float | None = None

    def fits(self, threshold: Threshold) -> bool:
        """Whether the threshold applies to this point."""
        if threshold.metric.name not in self.figures:
            return False
        if threshold.pairs and not set(threshold.pairs) & set(self.pairs):
            return False
        if any(getattr(self.thing, name) not in values for name, values in threshold.where):
            return False
        sizes = threshold.sizes
        return sizes is None or self.thing.is_between(sizes.least_bytes, sizes.most_bytes)


def points_of(journal: Journal, *, device_times: bool = True) -> list[Point]:
    """All points, in the order of the run.

    ``device_times``: cases whose time launches determine have the figures of the device instead of
    the cost of a call.
    """
    limits = LinkLimits(journal.header.relations)
    points = [_of_case(result, journal, limits, device_times) for result in journal.cases]
    for result in journal.transfers:
        points += _of_transfer(result, limits)
    return points


def _of_case(result: CaseResult, journal: Journal, limits: LinkLimits, device_times: bool) -> Point:
    case = result.case
    of_device = device_times and result.device is not None
    summary = judged_summary(result) if of_device else result.summary
    if summary is None or result.status == "wrong":
        values: dict[str, float | None] = dict.fromkeys(("busbw", "algbw", "time"))
    else:
        values = {
            "busbw": summary.busbw_bytes_per_s,
            "algbw": summary.algbw_bytes_per_s,
            "time": summary.time_s,
        }
    if not moves_data(case.operation):
        values = {"time": values["time"]}
    pairs = places_of(case)
    own = min((limits.of(pair) for pair in pairs), default=0.0)
    return Point(
        key=case,
        words=f"{case.describe()}, {case.ccl}{' (device time)' if of_device else ''}",
        thing=case,
        pairs=pairs,
        status=result.status,
        reason=result.reason,
        figures=values,
        limit_bytes_per_s=own or link_limit(journal.header.links, journal.header.hosts),
        half_width=summary.half_width if summary is not None else None,
    )


def _of_transfer(result: TransferResult, limits: LinkLimits) -> Iterator[Point]:
    """One point for each flow with its own figure: both directions together have one."""
    transfer = result.transfer
    metric = "latency" if transfer.measure == "latency" else "bandwidth"
    together = transfer.scope in ("pairs", "local", "host")
    known = dict(_figures(result))
    for flow in transfer.flows[:1] if together else transfer.flows:
        flows = transfer.flows if together else (flow,)
        # Of several flows at once, the samples of the slowest one have an interval.
        is_own = result.summary is not None and (together or len(transfer.flows) == 1)
        yield Point(
            key=(transfer, flow),
            words=msgspec.structs.replace(transfer, flows=flows).describe()
            + ("" if together else f" ({transfer.scope})"),
            thing=transfer,
            pairs=list(flows),
            status=result.status,
            reason=result.reason,
            figures={metric: known.get(flow)},
            limit_bytes_per_s=allowed_bytes_per_s(transfer, flows, limits),
            half_width=result.summary.half_width if result.summary and is_own else None,
        )


def _figures(result: TransferResult) -> list[tuple[Pair, float]]:
    """The figures of pairs, and of copies from and to the host."""
    if not result.transfer.host_memory:
        return figures(result)
    if result.summary is None or result.status == "wrong":
        return []
    return [(result.transfer.flows[0], result.summary.bytes_per_s)]


PASS, FAIL, SKIPPED, ERROR = "pass", "fail", "skipped", "error"
_MOST_FINDINGS = 3


@dataclass(frozen=True)
class CommandRun:
    """One run of a command. ``journal`` is None if it left none.

    ``exit_code`` is negative for a signal. ``message``: the run's own message about its end.
    ``interrupted``: whether it was ended because the suite was interrupted.
    """

    exit_code: int
    journal: Journal | None
    message: str = ""
    interrupted: bool = False
    timed_out: bool = False


class Judgement(msgspec.Struct, frozen=True):
    """One case judged by one threshold, in base units.

    ``values``: one for each run. ``value`` is their median, which decides, ``worst`` the value
    furthest on the wrong side. ``margin``: the distance of the median from ``bound``, as a share of
    ``bound``; negative if the median misses it. ``interval``: from the smallest end of the 95 %
    intervals of the runs' medians to the largest, None if one is unknown; that of a baseline widens
    it. ``decided``: whether all runs, and the interval, are on the same side of the bound; None if
    no run is on the other side and the interval is unknown.
    """

    case: str
    values: list[float]
    value: float
    worst: float
    bound: float
    margin: float
    passed: bool
    interval: tuple[float, float] | None = None
    decided: bool | None = None


class Verdict(msgspec.Struct):
    """The outcome of one test of a command. ``status``: pass, fail, skipped or error.

    ``exit_code``: its contribution to the suite's exit code. ``figure``: the bounded metric, empty
    for the tests that every command has.
    """

    test: str
    status: str
    reason: str = ""
    exit_code: int = EXIT_OK
    figure: str = ""
    judgements: list[Judgement] = []

    @property
    def missed(self) -> list[Judgement]:
        """The judgements that miss the bound, the furthest first."""
        return sorted((one for one in self.judgements if not one.passed), key=order_of)

    @property
    def undecided(self) -> list[Judgement]:
        """The judgements whose bound is within the interval of the medians, the nearest first."""
        found = (one for one in self.judgements if one.decided is False)
        return sorted(found, key=lambda one: abs(one.margin))

    @property
    def tightest(self) -> Judgement | None:
        """The passed judgement with the smallest margin; None if none passed."""
        return min((one for one in self.judgements if one.passed), key=order_of, default=None)


class RunFinding(msgspec.Struct):
    """What stands out in a run of a command, as in a report of it. ``run``: its number, from 1."""

    run: int
    id: str
    severity: str
    sentence: str
    advice: str = ""


class CommandVerdict(msgspec.Struct):
    """The outcome of one command of a suite. ``journals``: the files of its runs.

    ``findings``: those that need attention, or that could not be judged.
    """

    name: str
    arguments: list[str]
    tags: list[str]
    runs: int
    duration_s: float
    journals: list[str]
    verdicts: list[Verdict]
    findings: list[RunFinding] = []


class SuiteVerdict(msgspec.Struct):
    """The outcome of a suite, or of its completed part if it was interrupted."""

    suite: str
    title: str
    hostname: str
    started_at: str
    duration_s: float
    interrupted: bool
    exit_code: int
    commands: list[CommandVerdict]


def suite_exit_code(commands: Sequence[CommandVerdict], *, interrupted: bool) -> int:
    """The exit code of all verdicts together: the most serious one.

    The order is: a rank that died, wrong data or a missed threshold, a mistake in the suite,
    something missing. If nothing was tested, the code is that for something missing.
    """
    if interrupted:
        return EXIT_INTERRUPTED
    verdicts = [verdict for command in commands for verdict in command.verdicts]
    codes = {verdict.exit_code for verdict in verdicts}
    for code in (EXIT_DIED, EXIT_WRONG, EXIT_USAGE, EXIT_MISSING):
        if code in codes:
            return code
    return EXIT_OK if any(verdict.status == PASS for verdict in verdicts) else EXIT_MISSING


def judge(
    command: SuiteCommand, attempts: Sequence[CommandRun], baseline: Journal | None
) -> list[Verdict]:
    """Verdicts on runs' ends, data and thresholds. ``baseline``: None if none refers to it."""
    journals = [attempt.journal for attempt in attempts if attempt.journal is not None]
    ran = _ran(command, attempts)
    verdicts = [ran]
    if journals:
        verdicts.append(_data(journals, ran))
    elif ran.status == PASS:
        raise ValueError("a run cannot pass without a journal")
    # A baseline without device times is comparable only with the cost of a call.
    alike = baseline is None or all(
        one.header.settings.timing == AUTO for one in (*journals, baseline)
    )
    by_run = [points_of(journal, device_times=alike) for journal in journals]
    reference = points_of(baseline, device_times=alike) if baseline is not None else []
    verdicts += [_judge(one, by_run, reference, ran) for one in command.thresholds]
    for verdict in verdicts:
        if verdict.status == SKIPPED and command.optional:
            verdict.exit_code = EXIT_OK
    return verdicts


def _ran(command: SuiteCommand, attempts: Sequence[CommandRun]) -> Verdict:
    """The worst outcome of all runs."""
    outcomes = [_outcome(command, attempt) for attempt in attempts]
    if len(attempts) < command.repeats:
        after = f" after {len(attempts)} run{'s' * (len(attempts) > 1)}" if attempts else ""
        outcomes.append(Verdict("ran", SKIPPED, f"interrupted{after}"))
    seriousness = {PASS: 0, SKIPPED: 1, FAIL: 2, ERROR: 3}
    return max(outcomes, key=lambda one: (seriousness[one.status], one.exit_code))


def _outcome(command: SuiteCommand, attempt: CommandRun) -> Verdict:
    code, journal = attempt.exit_code, attempt.journal
    status, meaning = ERROR, EXIT_DIED
    reason = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    if attempt.interrupted:
        return Verdict("ran", SKIPPED, "interrupted")
    if attempt.timed_out:
        reason = f"did not end within {command.timeout_s:g} s and was ended"
    elif code == EXIT_MISSING:
        status, meaning = SKIPPED, EXIT_MISSING
    elif code == EXIT_USAGE:
        meaning = EXIT_USAGE
    elif code in (EXIT_OK, EXIT_WRONG) and journal is None:
        # For example --help: there is no measurement to judge.
        reason += " and no journal"
        meaning = EXIT_USAGE if code == EXIT_OK else EXIT_DIED
    elif journal is not None and (journal.footer is None or journal.unread_lines):
        reason += ", and its journal is not whole"
    elif code in (EXIT_OK, EXIT_WRONG):
        return Verdict("ran", PASS)
    said = f": {attempt.message}" if attempt.message else ""
    return Verdict("ran", status, reason + said, meaning)


def _data(journals: Sequence[Journal], ran: Verdict) -> Verdict:
    """The verdict on the data: whether an output or a check of a framework was wrong in any run."""
    checked, wrong = 0, []
    for journal in journals:
        for result in journal.results:
            checked += result.is_checked
            if result.status in ("wrong", "failed"):
                wrong.append(_mistake(result))
    if wrong:
        more = [f"and {len(wrong) - _MOST_FINDINGS} more"] if len(wrong) > _MOST_FINDINGS else []
        return Verdict("data", FAIL, "; ".join([*wrong[:_MOST_FINDINGS], *more]), EXIT_WRONG)
    if any(journal.header.settings.check == 0 for journal in journals):
        reason = "outputs were not checked: remove the option that disables it (-c 0, --verify 0)"
        return Verdict("data", ERROR, reason, EXIT_USAGE)
    if not checked:
        reason = (
            "nothing was measured" if ran.status != PASS else "none of these results can be checked"
        )
        return Verdict("data", SKIPPED, reason)
    return Verdict("data", PASS, f"{checked} checked, none wrong")


def _mistake(result: Result) -> str:
    """The item, and its first wrong element or the reason."""
    if not isinstance(result, CaseResult | TransferResult):
        return f"{result.item.describe()}: {result.reason}"
    place = KINDS[result.item.kind].numbers_of_findings
    findings = result.verification.findings if result.verification is not None else []
    found = [_found(finding, place) for finding in findings[:1]]
    return ", ".join([result.item.describe(), *found])


def _found(finding: WrongOutput, place: str) -> str:
    return (
        f"{place} {finding.rank}: {finding.wrong} wrong, the first at element "
        f"{finding.first_element}, expected {finding.expected}, actual {finding.actual}"
    )


def _judge(
    threshold: Threshold,
    by_run: Sequence[Sequence[Point]],
    reference: Sequence[Point],
    ran: Verdict,
) -> Verdict:
    verdict = Verdict(threshold.describe(), PASS, figure=threshold.metric.name)
    fitting = [[point for point in points if point.fits(threshold)] for points in by_run]
    values = _values(threshold, fitting)
    chosen = {point.key: point for points in fitting for point in points}
    absent = _absent(threshold, list(chosen.values()))
    if not chosen or (absent and ran.status == PASS):
        return _nothing_fits(verdict, absent, ran)
    if not values:
        return _nothing_measured(verdict, list(chosen.values()))
    known = {
        key: (median([value for value, _ in found]), found[0][1])
        for key, found in _values(threshold, [reference]).items()
    }
    for key, found in values.items():
        whole, whole_width = known.get(key, (0.0, None))
        bound = _bound(threshold, chosen[key], whole)
        if bound is None:
            return _without_bound(verdict, threshold, chosen[key])
        width = whole_width if threshold.bound.of == "baseline" else 0.0
        verdict.judgements.append(_held_against(chosen[key].words, found, bound, width, threshold))
    if verdict.missed:
        verdict.status, verdict.exit_code = FAIL, EXIT_WRONG
    unmeasured = [point for key, point in chosen.items() if key not in values]
    if unmeasured:
        first = unmeasured[0]
        why = f": {first.reason}" if first.reason else ""
        verdict.reason = f"{len(unmeasured)} not judged, as {first.words}: {first.status}{why}"
    return verdict


#: A figure, and the half width of its interval, see Point.
_Value = tuple[float, float | None]


def _values(
    threshold: Threshold, by_run: Sequence[Sequence[Point]]
) -> dict[Hashable, list[_Value]]:
    """The bounded figure of each case, from every run that has it."""
    values: dict[Hashable, list[_Value]] = {}
    for points in by_run:
        for point in points:
            value = point.figures.get(threshold.metric.name)
            if value is not None:
                values.setdefault(point.key, []).append((value, point.half_width))
    return values


def _absent(threshold: Threshold, points: Sequence[Point]) -> list[str]:
    """The listed values of the threshold that no case has. They would wrongly count as tested."""
    absent = [
        str(value)
        for name, values in threshold.where
        for value in values
        if all(getattr(point.thing, name) != value for point in points)
    ]
    return absent + [
        f"pair {pair[0]}-{pair[1]}"
        for pair in threshold.pairs
        if all(pair not in point.pairs for point in points)
    ]


def _nothing_fits(verdict: Verdict, absent: Sequence[str], ran: Verdict) -> Verdict:
    """The verdict for a threshold without cases.

    If the command ran to its end, this is a mistake in the suite: the test could never fail.
    """
    if ran.status != PASS:
        verdict.status, verdict.reason = SKIPPED, f"not measured: {ran.reason}"
        return verdict
    verdict.status, verdict.exit_code = ERROR, EXIT_USAGE
    what = f", with {' and '.join(absent)}," if absent else ""
    verdict.reason = f"the command has no case{what} to which this applies: it could never fail"
    return verdict


def _nothing_measured(verdict: Verdict, points: Sequence[Point]) -> Verdict:
    first = points[0]
    if any(point.status == "wrong" for point in points):
        verdict.status, verdict.exit_code = FAIL, EXIT_WRONG
        verdict.reason = "wrong data: the times are not valid"
        return verdict
    verdict.status, verdict.exit_code = SKIPPED, EXIT_MISSING
    verdict.reason = f"{first.words}: {first.reason or first.status}"
    return verdict


def _bound(threshold: Threshold, point: Point, baseline: float) -> float | None:
    """The bound in base units; None if it is a share of an unknown value, 0 of the baseline."""
    bound = threshold.bound
    if not bound.of:
        return bound.value
    whole = point.limit_bytes_per_s if bound.of == "limit" else baseline
    return bound.value * whole if whole else None


def _without_bound(verdict: Verdict, threshold: Threshold, point: Point) -> Verdict:
    verdict.judgements = []
    if threshold.bound.of == "limit":
        verdict.status, verdict.exit_code = SKIPPED, EXIT_MISSING
        verdict.reason = f"the link limit is unknown: {point.words}"
        return verdict
    verdict.status, verdict.exit_code = ERROR, EXIT_USAGE
    verdict.reason = f"the baseline has no figure for {point.words}"
    return verdict


def _held_against(
    words: str,
    found: Sequence[_Value],
    bound: float,
    bound_width: float | None,
    threshold: Threshold,
) -> Judgement:
    """``bound_width``: the half width of the interval of the bound, None if unknown."""
    at_least = threshold.metric.at_least
    values = [value for value, _ in found]
    # A journal may contain negative or infinite values, which are invalid. NaN never passes.
    sound = [value if 0 <= value < math.inf else math.nan for value in values]
    value = math.nan if any(map(math.isnan, sound)) else median(sound)
    margin = (value / bound - 1) if at_least else (1 - value / bound)
    passed = value >= bound if at_least else value <= bound
    interval = None if math.isnan(value) else _interval(found, bound_width, of_times=not at_least)
    upward = passed == at_least  # of the bound, the figures are above it
    decided: bool | None = None
    if not math.isnan(value):
        if not all(one >= bound if upward else one <= bound for one in values):
            decided = False
        elif interval is not None:
            decided = interval[0] >= bound if upward else interval[1] <= bound
    return Judgement(
        case=words,
        values=values,
        value=value,
        worst=value if math.isnan(value) else (min(sound) if at_least else max(sound)),
        bound=bound,
        margin=margin,
        passed=passed,
        interval=interval,
        decided=decided,
    )


def _interval(
    found: Sequence[_Value], bound_width: float | None, *, of_times: bool
) -> tuple[float, float] | None:
    """The ends of all intervals, each widened by that of the bound; None if one is unknown.

    Bandwidths are inverse to times, whose half widths are known.
    """
    ends: list[float] = []
    for value, width in found:
        if width is None or bound_width is None or math.isnan(width + bound_width):
            return None
        whole = width + bound_width
        if of_times:
            ends += [value * max(0.0, 1 - whole), value * (1 + whole)]
        else:
            ends += [value / (1 + whole), value / (1 - whole) if whole < 1 else math.inf]
    return min(ends), max(ends)


def order_of(judgement: Judgement) -> float:
    """The margin, for the order of judgements: a value that is no number comes first."""
    return -math.inf if math.isnan(judgement.margin) else judgement.margin
