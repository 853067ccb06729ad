"""Reports of profiles: what programs communicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from cclmark.analysis.steps import StepFigures, StepRun, steps_of_profile
from cclmark.document.columns import Cell, Layout, Row, columns
from cclmark.document.exporter import Exporter
from cclmark.document.head import labelled, opening_lines
from cclmark.document.insight_words import Insight, amount
from cclmark.document.naming import Run
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.page.page import PageTable, Section
from cclmark.document.page.stage_bars import StageBars, stage_bars
from cclmark.document.paint import Paint, unpainted
from cclmark.document.remarks import ending_line, left_out
from cclmark.document.report_kind import ReportKind, RunLabels, View
from cclmark.document.step_words import PROGRAM_HEAD, STEPS_TITLE, program_row, step_notes
from cclmark.document.text import US_PER_S, aligned
from cclmark.kinds.profile.figures import completed
from cclmark.kinds.profile.words import (
    OPERATION_HEAD,
    OPERATION_SIDES,
    PROCESS_HEAD,
    PROCESS_SIDES,
    choices_text,
    group_lines,
    method_of_profile,
    operation_rows,
    process_rows,
    program_lines,
    program_of,
    remarks_of,
    share_text,
    used_columns,
)
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.results.item_results import ProfileResult
from cclmark.results.journal import Journal
from cclmark.results.schema import (
    Footer,
    Header,
    Profile,
    ProfileFigures,
    ProfileProcess,
    TracedStage,
)

_MS_PER_S = 1e3
#: As in the table of trainings.
STEP_NAMES = (
    "step_ms step_low_ms step_high_ms profiled_ms compute_ms exposed_ms idle_ms hidden_ms "
    "communication_ms timed_steps"
)
_OF_RUN = "kind variant work ccl ranks status reason"
STEP_COLUMNS = columns(
    f"{_OF_RUN} {STEP_NAMES}",
    texts="kind variant work ccl status reason",
    whole="ranks timed_steps",
)


def step_cells(one: StepFigures) -> list[Cell]:
    """Returns a cell for each of STEP_NAMES."""
    low_s, high_s = one.interval_s or (None, None)
    times_s = (
        *(one.step_s, low_s, high_s, one.profiled_s, one.compute_s, one.exposed_s),
        *(one.idle_s, one.hidden_s, one.communication_s),
    )
    cells: list[Cell] = [None if time_s is None else time_s * _MS_PER_S for time_s in times_s]
    return [*cells, one.steps or None]


def step_cells_of_profile(profile: Profile | None) -> list[Cell]:
    """Returns a cell for each of STEP_NAMES."""
    return step_cells(steps_of_profile(profile if profile is not None else Profile("")))


def step_run_cells(kind: str, one: StepRun) -> list[Cell]:
    """Returns a cell for each of STEP_COLUMNS."""
    figures = one.figures
    of_run: list[Cell] = [
        kind,
        one.variant,
        one.work,
        one.ccl,
        one.ranks,
        one.status,
        figures.reason,
    ]
    return [*of_run, *step_cells(figures)]


def step_runs_of_profile(journal: Journal) -> list[StepRun]:
    """Returns the steps of the program."""
    profile = journal.profile if journal.profile is not None else Profile("")
    sizes = [len(group.ranks) for group in profile.groups]
    return [
        StepRun(
            variant="",
            work=program_of(journal.header),
            ccl="+".join(dict.fromkeys(one.profiled.ccl for one in journal.profiled)),
            ranks=max([len(profile.processes), *sizes]),
            status="ok",
            figures=steps_of_profile(profile),
        )
    ]


_NAMES = (
    "operation ccl group group_ranks dtype count size_bytes range process calls bytes unreported "
    f"timed total_us median_us min_us max_us wait_us compared last exposed_us ran {STEP_NAMES}"
)
_TEXTS = "operation ccl dtype ran"
_WHOLE = (
    "group group_ranks count size_bytes process calls bytes unreported timed compared last "
    "timed_steps"
)


def _rows(header: Header) -> Callable[[ProfileResult], Iterable[Row]]:
    return lambda result: [profile_cells(result, one) for one in result.figures]


def profile_cells(result: ProfileResult, figures: ProfileFigures) -> list[Cell]:
    """Returns a cell for each column but those of steps, which are of the whole program."""
    operation = result.profiled
    return [
        operation.operation,
        operation.ccl,
        operation.group,
        operation.group_ranks,
        operation.dtype,
        operation.count,
        operation.size_bytes,
        int(operation.is_range),
        figures.process,
        figures.calls,
        figures.bytes,
        figures.unreported,
        figures.timed,
        _us(figures.total_s),
        _us(figures.median_s),
        _us(figures.least_s),
        _us(figures.most_s),
        _us(figures.wait_s),
        figures.compared,
        figures.last,
        _us(figures.exposed_s),
        choices_text(result.choices),
    ]


def _us(time_s: float | None) -> float | None:
    return None if time_s is None else time_s * US_PER_S


PROFILES = Layout(
    columns(_NAMES, texts=_TEXTS, whole=_WHOLE, flags="range"), _rows, common=step_cells_of_profile
)


PROFILE_METRICS = (
    Metric("cclmark_profile_calls", "", "Calls of an operation by one process of a program."),
    Metric("cclmark_profile_bytes", "bytes", "Bytes of all these calls."),
    Metric("cclmark_profile_seconds", "seconds", "Time of the kernels of these calls."),
    Metric("cclmark_profile_wait_seconds", "seconds", "Time that they waited for other ranks."),
)


def measure_profile(series: Series, result: ProfileResult, run: RunLabels) -> None:
    """Sets the gauges of one operation in every process."""
    operation = result.profiled
    for one in result.figures:
        labels = labels_of(
            [
                ("operation", operation.operation),
                ("ccl", operation.ccl),
                ("group", str(operation.group)),
                ("ranks", str(operation.group_ranks)),
                ("dtype", operation.dtype),
                ("size_bytes", str(operation.size_bytes)),
                ("count", str(operation.count)),
                ("process", str(one.process)),
                *run.where,
            ]
        )
        series.begin(labels)
        series.set("cclmark_profile_calls", labels, float(one.calls))
        series.set("cclmark_profile_bytes", labels, float(one.bytes))
        if one.total_s is not None:
            series.set("cclmark_profile_seconds", labels, one.total_s)
        if one.wait_s is not None:
            series.set("cclmark_profile_wait_seconds", labels, one.wait_s)


class _Gathered:
    """Collects the results, which are summed up at the end."""

    def __init__(self, profile: Profile | None = None) -> None:
        self._profile = profile or Profile("")
        self._results: list[ProfileResult] = []

    def profile(self, profile: Profile) -> None:
        """Receives what the profile contains besides its operations."""
        self._profile = profile

    def add(self, result: ProfileResult) -> str:
        """Keeps the result."""
        self._results.append(result)
        return ""

    def _whole(self) -> Profile:
        return completed(self._profile, self._results)

    def _tables(self) -> list[tuple[str, list[list[str]], str]]:
        """The title, the rows with their head, and the sides of the columns of each table."""
        operations = used_columns(
            OPERATION_HEAD, operation_rows(self._results, self._whole()), OPERATION_SIDES
        )
        processes = used_columns(
            PROCESS_HEAD, process_rows(self._results, self._whole()), PROCESS_SIDES
        )
        found = [("operations of a rank", *operations), ("ranks", *processes)]
        return [one for one in found if len(one[1]) > 1]

    def _steps(self) -> tuple[list[list[str]], list[str]]:
        """The steps in the columns of trainings, with their head, and notes on them."""
        figures = steps_of_profile(self._whole())
        return [[*PROGRAM_HEAD], program_row(figures)], step_notes(figures)


class ProfileTable(_Gathered):
    """Two tables, and remarks."""

    def __init__(self, profile: Profile | None = None, *, paint: Paint = unpainted) -> None:
        super().__init__(profile)
        self._paint = paint

    def begin(self, header: Header) -> str:
        """Returns the processes, the library, the program's end and the groups."""
        lines = opening_lines(header, "process", method_of_profile(header), self._paint)
        lines[0] = lines[0].replace("processs", "processes")
        lines += labelled("program", program_lines(self._profile))
        lines += labelled("groups", [plain(line) for line in group_lines(self._profile)])
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the tables and the remarks. Without an operation there are no steps."""
        lines: list[str] = []
        if self._results:
            rows, notes = self._steps()
            shown = aligned(rows, ">" * len(PROGRAM_HEAD))
            title = self._paint(f"  {STEPS_TITLE}", "bold")
            lines += ["", title, self._paint(shown[0], "dim"), *shown[1:]]
            lines += [f"  {note}" for note in notes]
        for title, rows, sides in self._tables():
            shown = aligned([[plain(cell) for cell in row] for row in rows], sides)
            lines += ["", self._paint(f"  {title}", "bold")]
            lines += [self._paint(shown[0], "dim"), *shown[1:]]
        remarks = remarks_of(self._results, self._whole())
        lines += [""] * bool(remarks)
        lines += [self._paint(f"  {plain(line)}", "yellow") for line in remarks]
        if footer is None or footer.message:
            lines.append(self._paint(f"  {ending_line(footer)}", "red"))
        return "\n".join(lines).rstrip("\n") + "\n" * bool(lines)


class ProfileMarkdown(_Gathered):
    """The same as Markdown tables."""

    def begin(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        lines = opening_lines(header, "process", method_of_profile(header), unpainted)
        lines[0] = lines[0].replace("processs", "processes")
        lines += labelled("program", program_lines(self._profile))
        lines += labelled("groups", [plain(line) for line in group_lines(self._profile)])
        return "\n".join(["# Profile", "", "```text", *lines, "```", ""]) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the tables, and the remarks as a list."""
        lines: list[str] = []
        if self._results:
            (head, row), notes = self._steps()
            lines += [f"## {STEPS_TITLE.capitalize()}", "", f"| {' | '.join(head)} |"]
            lines += [f"|{'---:|' * len(head)}", f"| {' | '.join(row)} |", ""]
            lines += [*(f"- {note}" for note in notes), *[""] * bool(notes)]
        for title, rows, sides in self._tables():
            lines += [f"## {title.capitalize()}", ""]
            cells = [[plain(cell).replace("|", "\\|") for cell in row] for row in rows]
            lines.append(f"| {' | '.join(cells[0])} |")
            lines.append("|" + "".join("---:|" if side == ">" else "---|" for side in sides))
            lines += [f"| {' | '.join(row)} |" for row in cells[1:]]
            lines.append("")
        lines += [f"- {plain(line)}" for line in remarks_of(self._results, self._whole())]
        if footer is None or footer.message:
            lines += ["", ending_line(footer)]
        return "\n".join(lines) + "\n"


_MOST_TITLED = 4
_MOST_DRAWN, _MOST_RANKS = 256, 16  # calls of a rank, and ranks, of a drawing


def title_of_profiles(runs: Sequence[Run]) -> str:
    """Returns the operations."""
    names = dict.fromkeys(one.profiled.operation for run in runs for one in run.journal.profiled)
    more = "…" if len(names) > _MOST_TITLED else ""
    return f"Profile: {', '.join([*names][:_MOST_TITLED])}{more}"


def headline_of_profile(run: Run) -> str:
    """Returns the share of communication of the rank that has most; empty if it is unknown."""
    profile = run.journal.profile
    known = [
        one
        for one in (profile.processes if profile is not None else [])
        if one.communication_s is not None and one.span_s
    ]
    if not known:
        return ""
    most = max(known, key=lambda one: (one.communication_s or 0.0) / one.span_s)
    text = (
        f"Operations run for {share_text(most.communication_s, most.span_s)} of the time of rank "
        f"{most.rank}"
    )
    if most.exposed_s is not None:
        text += (
            f", and without other work of its device for {share_text(most.exposed_s, most.span_s)}"
        )
    return f"{text}."


def insights_on_profile(run: Run) -> list[Insight]:
    """Returns the program's failure, missing calls, and remarks."""
    journal = run.journal
    footer = journal.footer
    found = []
    if footer is None:
        found.append(Insight("look", "The journal has no end: its profile may be incomplete."))
    else:
        found += [Insight("bad", f"{_sentence(footer.message)}.")] * bool(footer.message)
        found += [Insight("bad", f"{_sentence(text)}.") for text in footer.problems]
    found += [
        Insight("look", f"{_sentence(text)}.")
        for text in remarks_of(journal.profiled, completed(journal.profile, journal.profiled))
    ]
    found += [Insight("note", f"{_sentence(text)}.") for text in journal.header.notices]
    found += [Insight("look", f"{_sentence(text)}.") for text in left_out(journal)]
    return found


def _sentence(text: str) -> str:
    is_name = "_" in text.partition(" ")[0]  # an operation keeps its spelling
    return (text if is_name else f"{text[:1].upper()}{text[1:]}").rstrip(".")


def profile_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the tables and drawings of every run."""
    sections = []
    for number, run in enumerate(runs):
        results = run.journal.profiled
        profile = completed(run.journal.profile, results)
        if not results:
            continue
        operations = _table(
            "Operations of a rank",
            OPERATION_HEAD,
            operation_rows(results, profile),
            OPERATION_SIDES,
        )
        ranks = _table("Ranks", PROCESS_HEAD, process_rows(results, profile), PROCESS_SIDES)
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        sections.append(
            Section(
                f"profile{mark}",
                f"Operations of the program{name}",
                [f"Group {line}." for line in group_lines(profile)],
                tables=[_steps(profile), operations, ranks],
                bars=[*_time_bars(profile), *_step_bars(profile, results)],
            )
        )
    return sections


def _steps(profile: Profile) -> PageTable:
    figures = steps_of_profile(profile)
    notes = [f"{_sentence(note)}." for note in step_notes(figures)]
    rows = [program_row(figures)]
    return PageTable(STEPS_TITLE.capitalize(), PROGRAM_HEAD, rows, len(PROGRAM_HEAD), notes)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> PageTable:
    used, used_sides = used_columns(head, rows, sides)
    numeric = len(used_sides) - (used_sides.rfind("<") + 1)
    return PageTable(title, used[0], used[1:], numeric)


def _time_bars(profile: Profile) -> list[StageBars]:
    """The parts of the time of each rank, one after another."""
    unit, numbers = drawn_numbers(profile)
    stages = {
        number: _parts(one)
        for number, one in zip(numbers, profile.processes, strict=True)
        if one.communication_s is not None
    }
    if not stages:
        return []
    return [stage_bars("Time of the ranks by its use", unit, stages)]


def drawn_numbers(profile: Profile) -> tuple[str, Sequence[int]]:
    """Returns what drawings name processes by: ranks, or their numbers where ranks are equal."""
    ranks = [one.rank for one in profile.processes]
    return ("rank", ranks) if len({*ranks}) == len(ranks) else ("process", range(len(ranks)))


def _parts(one: ProfileProcess) -> list[TracedStage]:
    communication_s = one.communication_s or 0.0
    if one.compute_s is None or one.exposed_s is None:
        parts = [("communication", communication_s), ("other", one.span_s - communication_s)]
    else:
        overlapped_s = communication_s - one.exposed_s
        parts = [
            ("compute alone", one.compute_s - overlapped_s),
            ("overlapped communication", overlapped_s),
            ("exposed communication", one.exposed_s),
            ("no work of the device", one.span_s - one.compute_s - one.exposed_s),
        ]
    found: list[TracedStage] = []
    for name, time_s in parts:
        begin_s = found[-1].begin_s + found[-1].time_s if found else 0.0
        found.append(TracedStage(name, begin_s, max(0.0, time_s)))
    return found


def _step_bars(profile: Profile, results: Sequence[ProfileResult]) -> list[StageBars]:
    """The calls of one step of each rank."""
    names = {
        one.index: f"{one.profiled.operation} {format_size(one.profiled.size_bytes)}"
        for one in results
    }
    unit, numbers = drawn_numbers(profile)
    stages = {
        number: [
            TracedStage(names.get(one.index, "?"), one.begin_s, one.time_s)
            for one in calls[:_MOST_DRAWN]
            if one.time_s
        ]
        for number, calls in zip(numbers, profile.window[:_MOST_RANKS], strict=False)
    }
    known = {rank: calls for rank, calls in stages.items() if calls}
    if not known:
        return []
    has_steps = any(one.steps for one in profile.processes)
    title = "Operations of one step" if has_steps else "Operations from the middle of the program"
    if any(len(calls) > _MOST_DRAWN for calls in profile.window[:_MOST_RANKS]):
        title = f"The first {_MOST_DRAWN} o{title[1:]}"
    return [stage_bars(title, unit, known)]


def cells_of_profile(run: Run, result: ProfileResult) -> Mapping[str, Cell]:
    """Returns the cells of an operation, over all processes."""
    operation = result.profiled
    times = [one.total_s for one in result.figures if one.total_s is not None]
    medians = [one.median_s for one in result.figures if one.median_s is not None]
    waits = [one.wait_s for one in result.figures if one.wait_s is not None]
    exposed = [one.exposed_s for one in result.figures if one.exposed_s is not None]
    return {
        "operation": operation.operation,
        "ccl": operation.ccl,
        "group": operation.group,
        "ranks": operation.group_ranks,
        "dtype": operation.dtype,
        "count": operation.count,
        "size_bytes": operation.size_bytes,
        "calls": sum(one.calls for one in result.figures),
        "bytes": sum(one.bytes for one in result.figures),
        "total_us": sum(times) * US_PER_S if times else None,
        "median_us": sum(medians) / len(medians) * US_PER_S if medians else None,
        "wait_us": sum(waits) * US_PER_S if waits else None,
        "exposed_us": sum(exposed) * US_PER_S if exposed else None,
        "ran": choices_text(result.choices),
    }


def _table_of_document(view: View) -> Exporter[ProfileResult]:
    return ProfileTable(paint=view.paint)


def _markdown(view: View) -> Exporter[ProfileResult]:
    return ProfileMarkdown()


def _counted(journal: Journal) -> str:
    calls = sum(one.calls for result in journal.profiled for one in result.figures)
    return f"{amount(calls, 'call')} of {amount(len(journal.results), 'distinct operation')}"


KIND = ReportKind(
    noun="operations",
    title="operations of programs",
    has_times=False,
    csv=PROFILES,
    exported=PROFILES,
    formats={"table": _table_of_document, "markdown": _markdown},
    metrics=PROFILE_METRICS,
    measure=measure_profile,
    counted=_counted,
    headline=headline_of_profile,
    insights=insights_on_profile,
    titled=title_of_profiles,
    method=method_of_profile,
    sections=profile_sections,
    by_session=False,
    has_samples=False,
    step_runs=step_runs_of_profile,
    page_columns=(
        *("operation", "ccl", "group", "ranks", "dtype", "count", "size_bytes", "calls", "bytes"),
        *("total_us", "median_us", "wait_us", "exposed_us", "ran"),
    ),
    page_cells=cells_of_profile,
)
