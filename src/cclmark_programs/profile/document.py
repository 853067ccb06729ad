"""What the profile of a program says, and the fields of its operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from cclmark.analysis.steps import StepRun, steps_of_profile
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Bars,
    Block,
    Document,
    Evidence,
    Facts,
    Finding,
    HeadFigure,
    RunContent,
    Stages,
    Table,
    without_empty_columns,
)
from cclmark.document.fields import Field, Fields, TableField, fields_at
from cclmark.document.insight_words import amount
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.remarks import ending_line
from cclmark.document.report_kind import ReportKind
from cclmark.document.step_words import (
    PROGRAM_HEAD,
    STEP_FIELDS,
    STEPS_TITLE,
    program_row,
    step_notes,
)
from cclmark.document.text import US_PER_S, counted, format_time_us
from cclmark.journal.item_results import ProfileResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    Footer,
    Header,
    Profile,
    ProfiledChoice,
    ProfileFigures,
    ProfileProcess,
    TracedStage,
)
from cclmark.work.sizes import format_size, in_ranges
from cclmark_programs.profile.figures import (
    OperationSum,
    ProcessWait,
    completed,
    of_all_processes,
    parts_of_time,
    sums_of,
    waits_of_processes,
)

_OPERATION_HEAD = (
    *("group", "ranks", "operation", "type", "ran with", "size", "calls", "bytes", "total ms"),
    *("of span", "median µs", "waiting", "exposed"),
)
_OPERATION_SIDES = ">><<<>>>>>>>>"
_PROCESS_HEAD = (
    *("rank", "host", "calls", "span s", "communication", "exposed", "compute", "waiting"),
    *("last in", "steps", "step ms", "of step"),
)
_PROCESS_SIDES = "><" + ">" * 10
_COMMAND, _FLAGS = "profile", ("--no-kernel-times",)
_LONGEST_PROGRAM = 60
_MOST_GROUPS = 8
_MOST_CHOICES = 3
_MOST_PROCESSES = 32
_MOST_OPERATIONS = 48
_MOST_TITLED = 4
_MOST_DRAWN, _MOST_RANKS = 256, 16  # calls of a rank, and ranks, of a drawing
_CLEAR_WAIT = 0.02  # of the span: less is not worth a remark
_CLEAR_LAST = 0.5  # of the compared calls


@dataclass(frozen=True)
class _Row:
    """An operation in one process, or in all together."""

    result: ProfileResult
    figures: ProfileFigures


def _rows(header: Header, result: ProfileResult) -> Iterator[_Row]:
    return (_Row(result, one) for one in result.figures)


FIELDS = Fields(
    [
        *fields_at(
            "result.profiled",
            ("operation", "text", "Operation, as NCCL names it."),
            ("ccl", "text", "Library that performed it."),
            ("group", "int", "Number of the communicator in the journal."),
        ),
        Field(
            "group_ranks",
            "Ranks of the communicator.",
            "result.profiled.group_ranks",
            "int",
            name="ranks",
        ),
        *fields_at(
            "result.profiled",
            ("dtype", "text", "Data type of an element."),
            ("count", "int", "Elements of a call; of a range its beginning."),
            ("size_bytes", "int", "Size of a call, as nccl-tests counts it for the operation."),
        ),
        TableField(
            "range",
            "Whether calls with counts up to twice as large are included.",
            lambda one: int(one.result.profiled.is_range),
            "bool",
        ),
        TableField("process", "Number of the process in the journal.", "figures.process", "int"),
        Field(
            "calls",
            "Calls of an operation by one process of a program, on pages by all.",
            "figures.calls",
            "int",
            gauge="calls",
        ),
        Field("bytes", "Bytes of all calls.", "figures.bytes", "int", gauge="bytes"),
        TableField(
            "unreported",
            "Calls without a report that they were executed.",
            "figures.unreported",
            "int",
        ),
        TableField("timed", "Calls with a time.", "figures.timed", "int"),
        Field(
            "total_us",
            "Time of the kernels of all calls.",
            "figures.total_s",
            gauge="seconds",
        ),
        Field("median_us", "Median time of the kernel of a call.", "figures.median_s"),
        TableField("min_us", "Shortest time of the kernel of a call.", "figures.least_s"),
        TableField("max_us", "Longest time of the kernel of a call.", "figures.most_s"),
        Field(
            "wait_us",
            "How much longer the kernels ran than those of the rank that arrived last.",
            "figures.wait_s",
            gauge="wait_seconds",
        ),
        TableField(
            "compared",
            "Calls that were compared with those of the other ranks.",
            "figures.compared",
            "int",
        ),
        TableField(
            "last", "Calls in which the others waited for this rank.", "figures.last", "int"
        ),
        Field(
            "exposed_us",
            "Time of the kernels while no other kernel ran.",
            "figures.exposed_s",
        ),
        Field(
            "ran",
            "What the library executed.",
            lambda one: _choices_text(one.result.choices),
            "text",
        ),
    ],
    gauges="cclmark_profile",
    labels=(
        *("operation", "ccl", "group", "group_ranks", "dtype", "size_bytes", "count", "process"),
    ),
    rows=_rows,
    page_row=lambda result: _Row(result, of_all_processes(result)),
    common=STEP_FIELDS,
    common_of=lambda profile: steps_of_profile(profile or Profile("")),
)


def _measure(series: Series, result: ProfileResult, run: RunLabels) -> None:
    """Sets the gauges of one operation in every process."""
    for one in result.figures:
        FIELDS.measure(series, _Row(result, one), run)


def document_of_profile(run: RunContent) -> Document:
    """Composes everything that a profile says. Without an operation there are no steps."""
    results = cast("Sequence[ProfileResult]", run.results)
    profile = completed(run.profile, results)
    return Document(
        "Profile",
        method_of_profile(run.header),
        [
            *([Facts(facts)] if (facts := [*_facts(profile)]) else []),
            *(_blocks(results, profile) if results else []),
        ],
        [
            *_findings_of_end(run.footer),
            *_communication(profile),
            *(replace(one, sentence=plain(one.sentence)) for one in remarks_of(results, profile)),
        ],
        noun="process",
        states_end=True,
        head_figures=[*_head_figures(results, profile)],
    )


def _head_figures(results: Sequence[ProfileResult], profile: Profile) -> Iterator[HeadFigure]:
    """The step, and the shares of the rank that communicates most, as far as they are known."""
    step_s = steps_of_profile(profile).step_s
    if step_s is not None:
        yield HeadFigure("step", f"{step_s * 1e3:.4g}", "ms", "median")
    calls = sum(one.calls for one in profile.processes)
    yield HeadFigure("calls", f"{calls:,}", "", f"of {amount(len(results), 'distinct operation')}")
    one = _most_communicating(profile)
    if one is None:
        return
    shares = {
        "time in operations": one.communication_s,
        "without other work of the device": one.exposed_s,
    }
    for label, part_s in shares.items():
        if part_s is not None:
            share = f"{part_s / one.span_s * 100:.1f}"
            yield HeadFigure(label, share, "%", f"of the time of rank {one.rank}")


def _most_communicating(profile: Profile) -> ProfileProcess | None:
    """The rank with the largest share of communication, of those whose share is known."""
    known = [one for one in profile.processes if one.communication_s is not None and one.span_s]
    return max(known, key=lambda own: (own.communication_s or 0.0) / own.span_s, default=None)


def method_of_profile(header: Header) -> str:
    """Describes in a line how the figures were obtained."""
    if header.imported is not None:
        return f"operations of a program, as {header.imported.source} recorded them"
    return (
        "operations as the library reports them; time: from the start of a kernel's "
        "first channel to the end of its last"
    )


def _facts(profile: Profile) -> Iterator[tuple[str, str]]:
    """How long the program ran and how it ended, and its groups."""
    if profile.program_exit_code is not None:
        code = profile.program_exit_code
        end = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
        yield "program", f"{profile.wall_s:.2f} s, {end}"
    for number, group in enumerate(profile.groups[:_MOST_GROUPS]):
        processes = [one for one in group.ranks if one is not None]
        known = sorted(
            profile.processes[one].rank for one in processes if one < len(profile.processes)
        )
        name = f"{group.name}, " if group.name else ""
        of = f" ({in_ranges(known)})" if known else ""
        size = counted(len(group.ranks), "rank") if group.ranks else "size unknown"
        yield f"group {number}", plain(f"{name}{size}{of}")
    more = len(profile.groups) - _MOST_GROUPS
    if more > 0:
        yield "groups", f"{more} more: see the journal"


def _blocks(results: Sequence[ProfileResult], profile: Profile) -> Iterator[Block]:
    steps = steps_of_profile(profile)
    sides = ">" * len(PROGRAM_HEAD)
    yield Table(STEPS_TITLE, PROGRAM_HEAD, [program_row(steps)], sides, step_notes(steps))
    yield _operations(results, profile)
    if profile.processes:
        yield _processes(results, profile)
    noun, numbers = drawn_numbers(profile)
    names = [f"{noun} {number}" for number in numbers]
    times = [
        (name, parts_of_time(one))
        for name, one in zip(names, profile.processes, strict=True)
        if one.communication_s is not None
    ]
    if times:
        yield Bars("Time of the ranks by its use", noun, times)
    yield from _window(results, profile, noun, names)


def _operations(results: Sequence[ProfileResult], profile: Profile) -> Table:
    """The first operations, of all groups of one size and name together."""
    spans = [one.span_s for one in profile.processes if one.span_s]
    span_s = sum(spans) / len(spans) if spans else 0.0
    sums = sums_of(results, profile)
    rows = [_operation_row(one, span_s) for one in sums[:_MOST_OPERATIONS]]
    notes = []
    if rest := sums[_MOST_OPERATIONS:]:
        calls = sum(one.calls for own in rest for one in own.figures)
        notes = [
            f"{len(rest)} more operations, {counted(calls, 'call')} of all ranks: cclmark export "
            "--format csv lists them"
        ]
    return _table("operations of a rank", _OPERATION_HEAD, rows, _OPERATION_SIDES, notes)


def _operation_row(one: OperationSum, span_s: float) -> list[str]:
    operation = one.operation
    least, most = one.calls
    total_s = one.total_s
    return [
        str(operation.group) if len(one.groups) == 1 else in_ranges(sorted(one.groups)),
        str(operation.group_ranks or ""),
        operation.operation,
        operation.dtype,
        _choices_text(one.choices) or ("not reported" if one.unreported else ""),
        f"{'≥ ' if operation.is_range else ''}{format_size(operation.size_bytes)}",
        str(most) if least == most else f"{least}–{most}",
        _bytes_text(one.bytes),
        "" if total_s is None else f"{total_s * 1e3:.2f}",
        _share_text(total_s, span_s),
        "" if one.median_s is None else format_time_us(one.median_s),
        "" if one.wait_share is None else f"{one.wait_share:.0%}",
        _share_text(one.exposed_s, total_s or 0.0),
    ]


def _processes(results: Sequence[ProfileResult], profile: Profile) -> Table:
    more = len(profile.processes) - _MOST_PROCESSES
    notes = [f"{more} more processes: see the journal"] if more > 0 else []
    rows = process_rows(results, profile)
    return _table("ranks", _PROCESS_HEAD, rows, _PROCESS_SIDES, notes)


def process_rows(results: Sequence[ProfileResult], profile: Profile) -> list[list[str]]:
    """Returns the cells of the first processes."""
    waits = waits_of_processes(results)
    return [
        _process_row(one, waits.get(number))
        for number, one in enumerate(profile.processes[:_MOST_PROCESSES])
    ]


def _process_row(one: ProfileProcess, wait: ProcessWait | None) -> list[str]:
    return [
        str(one.rank),
        one.host,
        str(one.calls),
        f"{one.span_s:.4g}",
        _share_text(one.communication_s, one.span_s),
        _share_text(one.exposed_s, one.span_s),
        _share_text(one.compute_s, one.span_s),
        _share_text(None if wait is None else wait.wait_s, one.span_s),
        "" if wait is None else f"{wait.last} of {wait.compared}",
        str(one.steps or ""),
        "" if one.step_s is None else f"{one.step_s * 1e3:.3f}",
        _share_text(one.step_communication_s, one.step_s or 0.0),
    ]


def _table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    sides: str,
    notes: Sequence[str],
) -> Table:
    """A table of the columns with any content."""
    printable = [[*map(plain, row)] for row in rows]
    return without_empty_columns(Table(title, head, printable, sides, notes))


def drawn_numbers(profile: Profile) -> tuple[str, Sequence[int]]:
    """Returns what drawings name processes by: ranks, or their numbers where ranks are equal."""
    ranks = [one.rank for one in profile.processes]
    return ("rank", ranks) if len({*ranks}) == len(ranks) else ("process", range(len(ranks)))


def _window(
    results: Sequence[ProfileResult], profile: Profile, noun: str, names: Sequence[str]
) -> Iterator[Stages]:
    """The calls of one step of each rank."""
    operations = {
        one.index: f"{one.profiled.operation} {format_size(one.profiled.size_bytes)}"
        for one in results
    }
    window = profile.window[:_MOST_RANKS]
    stages = [
        [
            TracedStage(operations.get(one.index, "?"), one.begin_s, one.time_s)
            for one in calls[:_MOST_DRAWN]
            if one.time_s
        ]
        for calls in window
    ]
    rows = [(name, own) for name, own in zip(names, stages, strict=False) if own]
    if not rows:
        return
    has_steps = any(one.steps for one in profile.processes)
    title = "Operations of one step" if has_steps else "Operations from the middle of the program"
    if any(len(calls) > _MOST_DRAWN for calls in window):
        title = f"The first {_MOST_DRAWN} o{title[1:]}"
    yield Stages(title, noun, rows)


def _findings_of_end(footer: Footer | None) -> Iterator[Finding]:
    """The program's failure, and missing calls."""
    if footer is None:
        yield Finding(
            "ended-early", "look", f"{ending_line(footer)}: the profile may be incomplete"
        )
        return
    if footer.message:
        yield Finding("program-failed", "bad", ending_line(footer))
    yield from (Finding("missing-calls", "bad", plain(text)) for text in footer.problems)


def _communication(profile: Profile) -> Iterator[Finding]:
    """The share of communication of the rank that has most, unless it is unknown."""
    one = _most_communicating(profile)
    if one is None:
        return
    share = _share_text(one.communication_s, one.span_s)
    text, at = f"operations run for {share} of the time of rank {one.rank}", f"rank {one.rank}"
    shares = {"communication_percent": one.communication_s, "exposed_percent": one.exposed_s}
    if one.exposed_s is not None:
        share = _share_text(one.exposed_s, one.span_s)
        text += f", and without other work of its device for {share}"
    evidence = tuple(
        Evidence.of(name, part_s / one.span_s, at)
        for name, part_s in shares.items()
        if part_s is not None
    )
    yield Finding("share-of-communication", "note", text, evidence=evidence)


def remarks_of(results: Sequence[ProfileResult], profile: Profile) -> list[Finding]:
    """Returns findings on ranks that wait, and on what is missing."""
    notes = [f"rank {one.rank}: {one.note}" for one in profile.processes if one.note]
    return [
        *_waiting(results, profile),
        *_unreported(results),
        *(Finding("notice", "look", text) for text in (*profile.notes, *notes)),
    ]


def _waiting(results: Sequence[ProfileResult], profile: Profile) -> Iterator[Finding]:
    processes = profile.processes
    waits = {
        number: wait
        for number, wait in waits_of_processes(results).items()
        if number < len(processes)
    }
    waiting = {
        number: wait.wait_s
        for number, wait in waits.items()
        if wait.wait_s > _CLEAR_WAIT * processes[number].span_s > 0
    }
    if not waiting:
        return
    most = max(waiting, key=waiting.__getitem__)
    time_s, span_s, rank = waiting[most], processes[most].span_s, processes[most].rank
    ranks = in_ranges(sorted(processes[number].rank for number in waiting))
    yield Finding(
        "waiting-ranks",
        "look",
        f"rank{'s' * (len(waiting) > 1)} {ranks} wait{'s' * (len(waiting) == 1)} for others: "
        f"rank {rank} for {_seconds_text(time_s)}, {_share_text(time_s, span_s)} of its span",
        evidence=(Evidence.of("wait_us", time_s, f"rank {rank}", _CLEAR_WAIT * span_s),),
    )
    for number, wait in waits.items():
        least = _CLEAR_LAST * wait.compared
        if wait.last > least > 0:
            at = f"rank {processes[number].rank}"
            yield Finding(
                "last-rank",
                "look",
                f"{at} arrives last in {wait.last} of {wait.compared} calls: the others wait for "
                "it",
                evidence=(Evidence.of("last", wait.last, at, least),),
            )


def _unreported(results: Sequence[ProfileResult]) -> Iterator[Finding]:
    number = sum(one.unreported for result in results for one in result.figures)
    if number:
        yield Finding(
            "unreported-calls",
            "look",
            f"{counted(number, 'call')} of all ranks without a report of what was executed: NCCL "
            "reports symmetric kernels and copies from 2.31 on",
            evidence=(Evidence.of("unreported", number, "all ranks", 0),),
        )


def _bytes_text(number: int) -> str:
    """Returns an amount of data with three digits: 1.23 GB."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return ""


def _seconds_text(time_s: float) -> str:
    """Returns a time with three digits in a suitable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if time_s * scale >= 1:
            return f"{time_s * scale:.3g} {unit}"
    return f"{time_s * US_PER_S:.3g} µs"


def _share_text(part_s: float | None, whole_s: float) -> str:
    """Returns a share in percent; empty if it is unknown."""
    return f"{part_s / whole_s:.1%}" if part_s is not None and whole_s else ""


def _choices_text(choices: Sequence[ProfiledChoice]) -> str:
    """Returns what the library chose, the most frequent first: ``ring LL × 16``."""
    texts = []
    for one in choices[:_MOST_CHOICES]:
        channels = f" × {one.channels}" if one.channels else ""
        texts.append(f"{one.kernel} {one.protocol}".strip() + channels)
    if len(choices) > _MOST_CHOICES:
        texts.append("…")
    return ", ".join(texts)


def program_of(header: Header) -> str:
    """Returns the profiled program: its command, or the name of the imported file."""
    if header.imported is not None:
        more = len(header.devices) - 1
        return f"{header.imported.file}{f' and {more} more' * (more > 0)}"
    text = " ".join(_program_words(header.command))
    return text if len(text) <= _LONGEST_PROGRAM else f"{text[:_LONGEST_PROGRAM]}…"


def _program_words(command: Sequence[str]) -> Sequence[str]:
    """The words after those of ``cclmark profile``, or the directory of ``--read``."""
    words = iter(command[1:])
    read = ""
    for word in words:
        if word == "--":
            return [*words]
        name, _, value = word.partition("=")
        if not word.startswith("-"):
            if word != _COMMAND:
                return [word, *words]
        elif name not in _FLAGS:
            value = value or next(words, "")
            read = value if name == "--read" else read
    return [read] if read else []


def _step_runs(journal: Journal) -> list[StepRun]:
    """The steps of the program."""
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


def _titled(runs: Sequence[NamedRun]) -> str:
    """The operations."""
    names = dict.fromkeys(one.profiled.operation for run in runs for one in run.journal.profiled)
    more = "…" if len(names) > _MOST_TITLED else ""
    return f"Profile: {', '.join([*names][:_MOST_TITLED])}{more}"


def _counted(journal: Journal) -> str:
    calls = sum(one.calls for result in journal.profiled for one in result.figures)
    return f"{amount(calls, 'call')} of {amount(len(journal.results), 'distinct operation')}"


REPORT = ReportKind(
    noun="operations",
    title="operations of programs",
    has_times=False,
    fields=FIELDS,
    measure=_measure,
    counted=_counted,
    document=document_of_profile,
    titled=_titled,
    method=method_of_profile,
    by_session=False,
    has_samples=False,
    step_runs=_step_runs,
)
