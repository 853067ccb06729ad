"""A soak on the terminal: the first cycle as a table, periodic summaries, the drift at the end."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from cclmark.analysis.statistics import median, median_interval
from cclmark.document.connection_words import connection_lines
from cclmark.document.explained import explained_lines
from cclmark.document.exporter import Exporter
from cclmark.document.paint import Paint
from cclmark.document.remarks import problems
from cclmark.document.text import clock_text, format_time_us
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Condition, Explanation, Footer, Header, Paths
from cclmark.work.cases import Case

_LEAST_IN_PART = 6  # fewer have no 95 % interval of their median


@dataclass(frozen=True)
class Drift:
    """The times of one case through the cycles of a soak.

    ``first_s`` and ``last_s`` are medians over the first and the last ``part`` cycles. ``apart``:
    whether their 95 % confidence intervals do not overlap, which is more than noise; None with too
    few cycles for intervals. ``worst`` is the place of the longest time, ``worst_ratio`` that time
    over the median of all.
    """

    cycles: int
    part: int
    first_s: float
    last_s: float
    apart: bool | None
    worst: int
    worst_ratio: float

    @property
    def ratio(self) -> float:
        """The time at the end over that at the beginning."""
        return self.last_s / self.first_s


def drift_of(times_s: Sequence[float]) -> Drift:
    """The drift of positive times, one for each cycle. Raises ValueError without times.

    The parts are thirds, which show a slow drift best, or halves if thirds would have no intervals.
    """
    number = len(times_s)
    third = number // 3
    part = max(1, third if third >= _LEAST_IN_PART else number // 2)
    first, last = times_s[:part], times_s[-part:]
    before, after = median_interval(first), median_interval(last)
    apart = None
    if before is not None and after is not None:
        apart = after[0] > before[1] or after[1] < before[0]
    worst = max(range(number), key=lambda place: times_s[place], default=0)
    usual_s = median(times_s)
    return Drift(
        cycles=number,
        part=part,
        first_s=median(first),
        last_s=median(last),
        apart=apart,
        worst=worst,
        worst_ratio=times_s[worst] / usual_s,
    )


@dataclass
class Range:
    """The smallest and the largest of values; None before the first value."""

    least: float | None = None
    most: float | None = None

    def add(self, value: float | None) -> None:
        """Adds a value unless it is None."""
        if value is not None:
            self.least = value if self.least is None else min(self.least, value)
            self.most = value if self.most is None else max(self.most, value)

    @property
    def width(self) -> float:
        """The largest minus the smallest value."""
        return 0.0 if self.least is None or self.most is None else self.most - self.least


@dataclass
class DeviceConditions:
    """The observed conditions of one device, in constant memory."""

    readings: int = 0
    clock_hz: Range = field(default_factory=Range)
    memory_clock_hz: Range = field(default_factory=Range)
    temperature_c: Range = field(default_factory=Range)
    power_w: Range = field(default_factory=Range)
    throttle_count: Range = field(default_factory=Range)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, condition: Condition) -> None:
        """Adds a reading."""
        self.readings += 1
        self.clock_hz.add(condition.clock_hz)
        self.memory_clock_hz.add(condition.memory_clock_hz)
        self.temperature_c.add(condition.temperature_c)
        self.power_w.add(condition.power_w)
        self.throttle_count.add(condition.throttle_count)
        self.reasons.update(condition.reasons)


_FIRST_SUMMARY_S = 10.0
_MOST_BETWEEN_S = 600.0
_MOST_UNKNOWN = 8  # cases with too few cycles that have their own line
_HEADS = f"{'cycles':>8}{'first µs':>11}{'last µs':>11}{'ratio':>8}  worst"


@dataclass
class _Times:
    """The median times of one case by cycle. ``summarised``: the number of reported cycles."""

    times_s: array[float] = field(default_factory=lambda: array("d"))
    cycles: array[int] = field(default_factory=lambda: array("Q"))
    summarised: int = 0
    at_first_s: float = 0.0


class SoakTable(Exporter[CaseResult]):
    """Prints a soak; requires only a few bytes of memory for each result."""

    explains_at_end = True

    def __init__(
        self, make_table: Callable[[], Exporter[CaseResult]], paint: Paint, every_s: float
    ) -> None:
        """``make_table`` creates the exporter of a first cycle, one for each library.

        ``every_s``: the interval of summaries, 0 for a growing interval.
        """
        self._make_table = make_table
        self._paint = paint
        self._every_s = every_s
        self._due_s = every_s or _FIRST_SUMMARY_S
        self._table: Exporter[CaseResult] | None = None
        self._ccl = ""
        self._begun_s: float | None = None
        self._elapsed_s = 0.0
        self._times: dict[Case, _Times] = {}
        self._conditions: dict[int, DeviceConditions] = {}
        self._paths: list[Paths] = []
        self._first: dict[int, CaseResult] = {}  # of the first cycle, without figures
        self._results = self._checked = self._wrong = self._skipped = 0

    def begin(self, header: Header) -> str:
        """Returns the head of the table, with the duration of the soak."""
        settings = header.settings
        once = msgspec.structs.replace(settings, cycles=1, duration_s=0.0)
        self._header = msgspec.structs.replace(header, settings=once, planned_cases=0)
        self._several = len({library.name for library in header.libraries}) > 1
        self._table = self._make_table()
        return self._table.begin(self._header) + f"  soak       {clock_text(settings.duration_s)}\n"

    def add(self, result: CaseResult) -> str:
        """Returns a row of a first cycle; later only problems, and a summary if one is due."""
        text = ""
        if result.case.ccl != self._ccl:
            if self._ccl:
                text += self._close_table()
                self._table = self._make_table()
                self._table.begin(self._header)
            self._ccl = result.case.ccl
        self._count(result)
        if result.cycle == 0:
            found = result.explanation
            self._first[result.index] = CaseResult(result.index, result.case, "", explanation=found)
        if result.cycle == 0 and self._table is not None:
            return text + self._table.add(result)
        text += self._close_table()
        for problem in problems(result):
            where = f"cycle {result.cycle}, {self._label(result.case)}"
            text += (
                self._paint(f"  {clock_text(self._elapsed_s)}  {where}: {problem}", "red") + "\n"
            )
        return text + self._summary_if_due(result.cycle)

    def observe(self, condition: Condition) -> None:
        """Records the ranges of the observed conditions."""
        self._conditions.setdefault(condition.rank, DeviceConditions()).add(condition)

    def explain(self, explanation: Explanation) -> None:
        """Keeps the explanation for the end."""
        if explanation.index in self._first:
            self._first[explanation.index].explanation = explanation

    def connect(self, paths: Paths) -> None:
        """Keeps the paths of a library for the end."""
        self._paths.append(paths)

    def end(self, footer: Footer | None) -> str:
        """Returns each case's drift, the devices' conditions, and the counts of checks."""
        lines = self._drift_lines()
        lines += [_condition_line(rank, it) for rank, it in sorted(self._conditions.items())]
        lines += explained_lines(self._first.values())
        lines += connection_lines(self._header, self._paths, self._paint)
        text = f"  {self._checked} of {self._results} results checked, {self._wrong} wrong"
        if self._skipped:
            text += f", {self._skipped} skipped"
        lines.append(self._paint(text, "red") if self._wrong else text)
        if footer is not None and footer.message:
            ended = f"  ended early: {footer.message.splitlines()[0]}"
            lines.append(self._paint(ended, "red"))
        return self._close_table() + "\n".join(lines) + "\n"

    def _close_table(self) -> str:
        table, self._table = self._table, None
        return table.end(Footer("", 0, 0.0)) if table is not None else ""

    def _count(self, result: CaseResult) -> None:
        self._results += 1
        self._checked += result.verification is not None
        self._wrong += result.status == "wrong"
        self._skipped += result.status == "skipped"
        if result.started_at_s:
            if self._begun_s is None:
                self._begun_s = result.started_at_s
            self._elapsed_s = result.started_at_s + result.duration_s - self._begun_s
        if result.summary is not None and result.summary.time_s > 0:
            times = self._times.setdefault(result.case, _Times())
            times.times_s.append(result.summary.time_s)
            times.cycles.append(max(0, result.cycle))

    def _label(self, case: Case) -> str:
        return f"{case.ccl} {case.describe()}" if self._several else case.describe()

    def _summary_if_due(self, cycle: int) -> str:
        if self._elapsed_s < self._due_s:
            return ""
        if self._every_s:
            self._due_s = self._every_s * (self._elapsed_s // self._every_s + 1)
        else:
            self._due_s = self._elapsed_s + min(self._elapsed_s, _MOST_BETWEEN_S)
        ratios = self._ratios()
        text = f"  {clock_text(self._elapsed_s)}  cycle {cycle}: {self._checked} results checked, "
        text += f"{self._wrong} wrong"
        if ratios:
            most, case = max(ratios, key=lambda it: it[0])
            text += f"; time over that at first: median {median([it for it, _ in ratios]):.3f}, "
            text += f"most {most:.3f} ({self._label(case)})"
        hottest = [it.temperature_c.most for it in self._conditions.values()]
        degrees = [it for it in hottest if it is not None]
        return text + (f"; up to {max(degrees):.0f} °C\n" if degrees else "\n")

    def _ratios(self) -> list[tuple[float, Case]]:
        """Returns the times since the last summary over the times before the first one."""
        ratios = []
        for case, times in self._times.items():
            recent = times.times_s[times.summarised :]
            if recent and times.summarised:
                ratios.append((median(recent) / times.at_first_s, case))
            elif recent:
                times.at_first_s = median(recent)
            times.summarised = len(times.times_s)
        return ratios

    def _drift_lines(self) -> list[str]:
        drifts = {case: drift_of(times.times_s) for case, times in self._times.items()}
        if not drifts:
            return []
        unknown = sum(drift.apart is None for drift in drifts.values())
        if unknown > _MOST_UNKNOWN:
            drifts = {case: drift for case, drift in drifts.items() if drift.apart is not None}
        if not drifts:
            return ["", f"  drift: {unknown} cases, all with too few cycles"]
        labels = {case: self._label(case) for case in drifts}
        width = max(map(len, labels.values()))
        title = f"  drift: the {_parts(list(drifts.values()))}, medians"
        lines = ["", self._paint(title, "bold"), self._paint(f"    {'':<{width}}{_HEADS}", "dim")]
        for case, drift in drifts.items():
            cycle = self._times[case].cycles[drift.worst]
            line = (
                f"    {labels[case]:<{width}}{drift.cycles:>8}{format_time_us(drift.first_s):>11}"
                f"{format_time_us(drift.last_s):>11}{drift.ratio:>8.3f}"
                f"  × {drift.worst_ratio:.2f} in cycle {cycle}"
            )
            if drift.apart:
                verdict = "  slower" if drift.ratio > 1 else "  faster"
                line += self._paint(verdict, "yellow")
            lines.append(line)
        apart = [drift for drift in drifts.values() if drift.apart]
        slower = sum(drift.ratio > 1 for drift in apart)
        text = f"  {slower} slower and {len(apart) - slower} faster beyond their 95 % intervals"
        lines.append(text + (f", {unknown} with too few cycles" if unknown else ""))
        return lines


def _parts(drifts: list[Drift]) -> str:
    parts = {drift.part for drift in drifts}
    if parts == {1}:
        return "first and the last cycle"
    number = f"{min(parts)} to {max(parts)}" if len(parts) > 1 else str(max(parts))
    return f"first and the last {number} cycles"


def _condition_line(rank: int, seen: DeviceConditions) -> str:
    texts = [
        _range("clock", seen.clock_hz, 1e6, "MHz"),
        _range("memory", seen.memory_clock_hz, 1e6, "MHz"),
        _range("", seen.temperature_c, 1, "°C"),
        _range("", seen.power_w, 1, "W"),
    ]
    texts += [
        f"{reason} {number / seen.readings:.0%}" for reason, number in seen.reasons.most_common()
    ]
    if seen.throttle_count.width:
        texts.append(f"throttled {seen.throttle_count.width:.0f} times for heat")
    return f"  rank {rank}: {', '.join(filter(None, texts))}"


def _range(label: str, values: Range, unit: float, name: str) -> str:
    if values.least is None or values.most is None:
        return ""
    least, most = f"{values.least / unit:.0f}", f"{values.most / unit:.0f}"
    return f"{label} {least if least == most else f'{least}–{most}'} {name}".strip()
