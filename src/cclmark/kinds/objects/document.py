"""Reports of object calls: Python objects through torch.distributed, and the same as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cclmark.document.chart_model import Chart, ChartCurve, Level, Lines, key_of, marked
from cclmark.document.columns import Cell, Layout, columns
from cclmark.document.exporter import Exporter
from cclmark.document.head import opening_lines
from cclmark.document.insight_words import Insight, amount
from cclmark.document.markdown import escape
from cclmark.document.naming import Run
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.page.page import PageTable, Section
from cclmark.document.paint import Paint, unpainted
from cclmark.document.remarks import ending
from cclmark.document.report_kind import ReportKind, RunLabels, View
from cclmark.document.soundness import of_completeness
from cclmark.document.text import US_PER_S, format_time_us, half_width_text
from cclmark.kinds.objects.plan import FLAG, FLAG_CALL, OBJECT_CALLS, ObjectCall
from cclmark.kinds.objects.result import ObjectFigures, ObjectResult
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.results.schema import Footer, Header

#: The titles of the columns of ``cells_of``, and the side of each.
HEAD = ("size", "objects µs", "±%", "tensors µs", "±%", "ratio (95 %)", "pickling µs", "share")
SIDES = ">" * len(HEAD)
WIDTHS = (10, 11, 5, 11, 5, 26, 11, 6)
_MOST_NAMED = 4
_COUNTED_CALLS = 1000  # of a flag, as scripts that compare the two print it


def method_of_objects(header: Header) -> str:
    """Describes in a line how object calls were measured."""
    check = "received data compared" if header.settings.check else "received data not compared"
    return (
        "calls in a row, with objects and with the same data as tensors in every round, slowest "
        f"rank, host clock, {check}"
    )


def group_title(call: ObjectCall) -> str:
    """The calls that are compared: the title of a group."""
    row = OBJECT_CALLS.get(call.operation)
    ranks = f"{call.ranks} rank{'s' * (call.ranks > 1)}"
    if call.operation == FLAG_CALL:
        return (
            f"flag: all_gather_object of a bool, all_reduce of an int32 · {call.backend}, {ranks}"
        )
    against = f" and {row.tensor_call}" if row is not None else ""
    return f"{call.operation}{against} · {call.content}, {call.backend}, {ranks}"


def size_text(call: ObjectCall) -> str:
    """The size of a pickled object: ``1 KiB``."""
    return format_size(call.size_bytes)


def ratio_text(figures: ObjectFigures) -> str:
    """The ratio with its interval: ``4.39 (4.31 to 4.47)``."""
    return f"{figures.ratio:.3g} ({figures.ratio_low:.3g} to {figures.ratio_high:.3g})"


def cells_of(result: ObjectResult) -> list[str]:
    """The cells of a line."""
    figures = result.figures
    if figures is None:
        return [size_text(result.call), result.status, *["-"] * (len(HEAD) - 2)]
    return [
        size_text(result.call),
        format_time_us(figures.object_s),
        _half_width(figures.object_low_s, figures.object_high_s, figures.object_s),
        format_time_us(figures.tensor_s),
        _half_width(figures.tensor_low_s, figures.tensor_high_s, figures.tensor_s),
        ratio_text(figures),
        format_time_us(figures.pickling_s),
        f"{figures.pickling_s / figures.object_s:.0%}",
    ]


def _half_width(low_s: float, high_s: float, middle_s: float) -> str:
    return half_width_text((high_s - low_s) / 2 / middle_s)


def wrong_lines(results: Iterable[ObjectResult]) -> list[str]:
    """A line for each rank with wrong data."""
    return [
        plain(f"wrong {one.of} of {result.call.describe()} on rank {one.rank}: {one.text}")
        for result in results
        for one in result.findings
    ]


def remarks_of(results: Sequence[ObjectResult]) -> list[str]:
    """Skipped calls with the reason, and medians that are less precise than requested."""
    found: dict[str, list[str]] = {}
    for one in results:
        if one.status not in ("ok", "wrong"):
            found.setdefault(f"{one.status}: {one.reason}", []).append(one.call.describe())
    lines = [f"{text}: {_named(names)}" for text, names in found.items()]
    coarse = sum(not one.converged for one in results)
    if coarse:
        lines.append(
            f"{coarse} of {len(results)} calls reached --max-time before both medians had the "
            "precision of --precision: see ±%"
        )
    return [plain(line) for line in lines]


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def flag_lines(results: Iterable[ObjectResult]) -> list[str]:
    """A sentence on each flag with the times of 1000 calls, as scripts print them."""
    return [
        f"a flag of each rank by all_gather_object takes {ratio_text(one.figures)} times as "
        f"long as by all_reduce: {one.figures.object_s * _COUNTED_CALLS:.4f} against "
        f"{one.figures.tensor_s * _COUNTED_CALLS:.4f} s for {_COUNTED_CALLS} calls"
        for one in results
        if one.call.content == FLAG and one.figures is not None
    ]


def early_end(footer: Footer | None) -> str:
    """Why the run ended early, in a line; empty for a regular end."""
    if footer is not None and not footer.message:
        return ""
    reason = ending(None) if footer is None else plain(footer.message.splitlines()[0])
    return f"ended early: {reason}"


def outcome_of(results: Sequence[ObjectResult]) -> str:
    """The numbers of measured, checked and wrong calls."""
    measured = [one for one in results if one.is_measured]
    checked = sum(one.is_checked for one in measured)
    wrong = sum(one.status == "wrong" for one in results)
    return f"{len(measured)} of {len(results)} measured; {checked} checked, {wrong} wrong"


_CALL = "operation tensor_call backend ranks content size_bytes status reason"
_FIGURES = (
    "objects_us objects_low_us objects_high_us tensors_us tensors_low_us tensors_high_us ratio "
    "ratio_low ratio_high pickling_us"
)
_OTHERS = "rounds calls tensor_calls converged wrong_ranks"
_TEXTS = "operation tensor_call backend content status reason"
_WHOLE = "ranks size_bytes rounds calls tensor_calls wrong_ranks"


def object_cells(result: ObjectResult) -> list[Cell]:
    """Returns a cell for each column."""
    call, times = result.call, result.times
    return [
        call.operation,
        call.tensor_call,
        call.backend,
        call.ranks,
        call.content,
        call.size_bytes,
        result.status,
        result.reason,
        *_figure_cells(result),
        None if times is None else len(times.objects_s),
        None if times is None else times.calls,
        None if times is None else times.tensor_calls,
        int(result.converged),
        len({one.rank for one in result.findings}) if result.checked else None,
    ]


def _figure_cells(result: ObjectResult) -> list[Cell]:
    figures = result.figures
    if figures is None:
        return [None] * len(_FIGURES.split())
    times_s = [figures.object_s, figures.object_low_s, figures.object_high_s]
    times_s += [figures.tensor_s, figures.tensor_low_s, figures.tensor_high_s]
    return [
        *(time_s * US_PER_S for time_s in times_s),
        figures.ratio,
        figures.ratio_low,
        figures.ratio_high,
        figures.pickling_s * US_PER_S,
    ]


OBJECTS_LAYOUT = Layout(
    columns(f"{_CALL} {_FIGURES} {_OTHERS}", texts=_TEXTS, whole=_WHOLE, flags="converged"),
    lambda header: lambda result: [object_cells(result)],
)


OBJECT_METRICS = (
    Metric("cclmark_objects_seconds", "seconds", "Time of one call with objects."),
    Metric("cclmark_objects_tensors_seconds", "seconds", "Time of one call with tensors."),
    Metric("cclmark_objects_pickling_seconds", "seconds", "Time of pickling for one call."),
    Metric("cclmark_objects_ok", "", "1 for a call that was measured and not wrong, else 0."),
)


def measure_objects(series: Series, result: ObjectResult, run: RunLabels) -> None:
    """Sets the gauges of one call."""
    call = result.call
    labels = labels_of(
        [
            ("operation", call.operation),
            ("backend", call.backend),
            ("ranks", str(call.ranks)),
            ("content", call.content),
            ("size_bytes", str(call.size_bytes)),
            *run.where,
        ]
    )
    series.begin(labels)
    series.set("cclmark_objects_ok", labels, float(result.status == "ok"))
    if result.figures is not None:
        series.set("cclmark_objects_seconds", labels, result.figures.object_s)
        series.set("cclmark_objects_tensors_seconds", labels, result.figures.tensor_s)
        series.set("cclmark_objects_pickling_seconds", labels, result.figures.pickling_s)


_MOST_WRONG = 8


class ObjectTable:
    """Prints a line for each call as soon as it has been measured."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        self._paint = paint
        self._results: list[ObjectResult] = []
        self._group = ""

    def begin(self, header: Header) -> str:
        """Returns the devices, torch with the backend, and the method."""
        lines = opening_lines(header, "rank", method_of_objects(header), self._paint)
        return "\n".join(lines) + "\n"

    def add(self, result: ObjectResult) -> str:
        """Returns a line, after the head of a new group."""
        self._results.append(result)
        title = group_title(result.call)
        lines = []
        if title != self._group:
            self._group = title
            head = _line(list(HEAD))
            lines += ["", self._paint(f"  {plain(title)}", "bold"), self._paint(head, "dim")]
        line = _line(cells_of(result))
        lines.append(self._paint(line, "red") if result.status == "wrong" else line)
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the flag in words, remarks, and what was checked."""
        results = self._results
        lines = ["", *(f"  {line}" for line in flag_lines(results))]
        lines += [f"  {self._paint(line, 'yellow')}" for line in remarks_of(results)]
        wrong = wrong_lines(results)
        lines += [f"  {self._paint(line, 'red')}" for line in wrong[:_MOST_WRONG]]
        outcome = f"  {outcome_of(results)}"
        lines.append(self._paint(outcome, "red") if wrong else outcome)
        if early := early_end(footer):
            lines.append(self._paint(f"  {early}", "red"))
        return "\n".join(lines) + "\n"


class ObjectMarkdown:
    """The same as Markdown tables."""

    def __init__(self) -> None:
        self._results: list[ObjectResult] = []
        self._group = ""

    def begin(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        lines = opening_lines(header, "rank", method_of_objects(header), unpainted)
        return "\n".join(["# Objects and tensors", "", "```text", *lines, "```", ""])

    def add(self, result: ObjectResult) -> str:
        """Returns a row, after the head of a new group."""
        self._results.append(result)
        title = group_title(result.call)
        lines = []
        if title != self._group:
            self._group = title
            lines += ["", f"## {escape(title)}", ""]
            lines += [f"| {' | '.join(HEAD)} |", f"|{'---:|' * len(HEAD)}"]
        lines.append(f"| {' | '.join(map(escape, cells_of(result)))} |")
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the remarks, and what was checked."""
        results = self._results
        notes = [*flag_lines(results), *remarks_of(results), *wrong_lines(results)[:_MOST_WRONG]]
        lines = ["", *(f"- {escape(note)}" for note in [*notes, outcome_of(results)])]
        if early := early_end(footer):
            lines += ["", escape(early)]
        return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    parts = zip(cells, SIDES, WIDTHS, strict=True)
    return "  " + "  ".join(f"{cell:{side}{width}}" for cell, side, width in parts)


def title_of_objects(runs: Sequence[Run]) -> str:
    """Returns the backends."""
    results = [result for run in runs for result in run.journal.of(ObjectResult)]
    backends = dict.fromkeys(one.call.backend for one in results)
    return f"objects and tensors with {', '.join(backends)}"


def headline_of_objects(run: Run) -> str:
    """Returns the flag in words, else the ratio of the largest object; empty without figures."""
    results = run.journal.of(ObjectResult)
    if flags := flag_lines(results):
        return flags[0]
    known = [one for one in results if one.figures is not None]
    return _sentence(max(known, key=lambda one: one.call.size_bytes)) if known else ""


def _sentence(one: ObjectResult) -> str:
    assert one.figures is not None
    return (
        f"{one.call.operation} of {size_text(one.call)} takes {ratio_text(one.figures)} times as "
        f"long as {one.call.tensor_call} of the same data; pickling is "
        f"{one.figures.pickling_s / one.figures.object_s:.0%} of it"
    )


def insights_on_objects(run: Run) -> list[Insight]:
    """Returns the largest and the flag's ratios, wrong data, and what limits the figures."""
    results = run.journal.of(ObjectResult)
    found = [Insight("bad", f"{line[0].upper()}{line[1:]}.") for line in wrong_lines(results)]
    if not found and any(one.is_checked for one in results):
        found.append(Insight("good", f"All received data were correct: {outcome_of(results)}."))
    found += [Insight("note", f"{line[0].upper()}{line[1:]}.") for line in flag_lines(results)]
    for group in _grouped(results).values():
        known = [one for one in group if one.figures is not None and one.call.content != FLAG]
        if known:
            largest = max(known, key=lambda one: one.call.size_bytes)
            found.append(Insight("note", f"{_sentence(largest)}."))
    found += [Insight("look", f"{line}.") for line in remarks_of(results)]
    return [*found, *of_completeness(run.journal, [])]


def object_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the charts and the tables of every run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        groups = _grouped(run.journal.of(ObjectResult))
        charts = _charts(groups)
        tables = [
            PageTable(title, list(HEAD), [cells_of(one) for one in group], len(HEAD), [])
            for title, group in groups.items()
        ]
        if tables:
            title = f"Objects and tensors{name}"
            sections.append(
                Section(f"objects{mark}", title, charts=marked(charts, mark), tables=tables)
            )
    return sections


def _grouped(results: Sequence[ObjectResult]) -> dict[str, list[ObjectResult]]:
    groups: dict[str, list[ObjectResult]] = {}
    for one in results:
        groups.setdefault(group_title(one.call), []).append(one)
    return groups


def _charts(groups: Mapping[str, Sequence[ObjectResult]]) -> list[Chart]:
    keys: set[str] = set()
    curves: list[ChartCurve] = []
    charts: list[Chart] = []
    for group in groups.values():
        known = [one for one in group if one.figures is not None and one.call.content != FLAG]
        if len(known) < 2:
            continue
        curves.append(_ratios(known, len(curves)))
        charts.append(_times(known, keys))
    if not curves:
        return []
    ratios = Lines(
        key=key_of("objects ratio", keys),
        title="Objects against tensors",
        says="The time of a call with objects over the time with the same data as tensors, by "
        "size.",
        x_title="size of a pickled object",
        y_title="time with objects / time with tensors",
        series=curves,
        levels=[Level("equal", 1.0)],
    )
    return [ratios, *charts]


def _ratios(group: Sequence[ObjectResult], number: int) -> ChartCurve:
    figures = [one.figures for one in group if one.figures is not None]
    return ChartCurve(
        name=group[0].call.operation,
        x=[one.call.size_bytes for one in group],
        y=[one.ratio for one in figures],
        low=[one.ratio_low for one in figures],
        high=[one.ratio_high for one in figures],
        colour=number,
    )


def _times(group: Sequence[ObjectResult], keys: set[str]) -> Lines:
    call = group[0].call
    figures = [one.figures for one in group if one.figures is not None]
    sizes = [one.call.size_bytes for one in group]
    parts = (
        (call.operation, [(one.object_s, one.object_low_s, one.object_high_s) for one in figures]),
        (
            call.tensor_call,
            [(one.tensor_s, one.tensor_low_s, one.tensor_high_s) for one in figures],
        ),
        ("pickling alone", [(one.pickling_s,) * 3 for one in figures]),
    )
    return Lines(
        key=key_of(f"objects {call.operation} {call.content}", keys),
        title=f"{call.operation} and {call.tensor_call}",
        says=f"{group_title(call)}: the time of one call by size.",
        x_title="size of a pickled object",
        y_title="time of a call, µs",
        series=[
            ChartCurve(
                name=name,
                x=sizes,
                y=[one[0] * US_PER_S for one in times_s],
                low=[one[1] * US_PER_S for one in times_s],
                high=[one[2] * US_PER_S for one in times_s],
                colour=number,
            )
            for number, (name, times_s) in enumerate(parts)
        ],
        y_log=True,
    )


def cells_of_object(run: Run, result: ObjectResult) -> Mapping[str, Cell]:
    """Returns the cells of a call by column."""
    names = [column.name for column in OBJECTS_LAYOUT.columns]
    return dict(zip(names, object_cells(result), strict=True))


PAGE_COLUMNS = (
    *("operation", "tensor_call", "backend", "ranks", "content", "size_bytes", "status", "reason"),
    *("objects_us", "tensors_us", "ratio", "ratio_low", "ratio_high", "pickling_us", "rounds"),
    "wrong_ranks",
)


def _table(view: View) -> Exporter[ObjectResult]:
    return ObjectTable(paint=view.paint)


def _markdown(view: View) -> Exporter[ObjectResult]:
    return ObjectMarkdown()


KIND = ReportKind(
    noun="object calls",
    title="object calls",
    has_times=False,
    csv=OBJECTS_LAYOUT,
    exported=OBJECTS_LAYOUT,
    formats={"table": _table, "markdown": _markdown},
    metrics=OBJECT_METRICS,
    measure=measure_objects,
    counted=lambda journal: amount(len(journal.results), "object call"),
    headline=headline_of_objects,
    insights=insights_on_objects,
    titled=title_of_objects,
    method=method_of_objects,
    sections=object_sections,
    by_session=False,
    page_columns=PAGE_COLUMNS,
    page_cells=cells_of_object,
)
