"""Converts files of msprof to a timeline and to tables of tasks and stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cclmark.base.errors import EXIT_OK, UsageError
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.fields import Field, csv_lines
from cclmark.document.text import BYTES_PER_GB, aligned, counted, format_time_us
from cclmark.recording.caller import notice
from cclmark.recording.output import Output
from cclmark.recording.trace_files import file_for, steps_path, write_steps, written_whole
from cclmark.trace.timeline_files import WRITERS
from cclmark.work.sizes import format_size, in_ranges
from cclmark_importers.device_tasks import (
    DeviceOperation,
    DeviceTask,
    DeviceTrace,
    assemble_tasks,
    stages_of,
)
from cclmark_importers.msprof import read_msprof
from cclmark_importers.msprof_options import MsprofFlags


def convert(flags: MsprofFlags) -> int:
    """Reads all files, prints the tables and writes the timeline.

    Raises UsageError for a file that cannot be read, OutputError for one that cannot be written.
    """
    traces = _read(flags.files)
    operations = operations_of(traces)
    shown = _selected(operations, flags.operation)
    suffix, write = WRITERS[flags.format]
    path = file_for(flags.output, "msprof", suffix)
    steps = steps_path(path) if flags.steps else None
    lines = overview_lines(traces, operations)
    parts = [counter_lines(traces)]
    if shown is not None:
        parts.append(task_lines(shown))
        if flags.steps:
            parts.append(stage_lines(shown, _ranks_of(shown)))
    for part in filter(None, parts):
        lines += ["", *part]
    output = Output(None)
    try:
        output.write("\n".join(map(plain, lines)) + "\n")
    finally:
        output.close()
    with written_whole(path, "trace") as file:
        write(assemble_tasks(traces), file)
    notice(f"trace {path} ({format_size(path.stat().st_size)})")
    if steps is not None:
        write_steps(steps, task_file(traces))
    return EXIT_OK


def _read(files: Iterable[Path]) -> list[DeviceTrace]:
    traces: list[DeviceTrace] = []
    names: dict[int, Path] = {}
    for path in files:
        try:
            with path.open("rb") as file:
                found = read_msprof(file, str(path), len(traces))
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
        for text in found.notes:
            notice(plain(f"{path}: {text}"))
        for trace in found.traces:
            if trace.rank in names:
                raise UsageError(
                    f"{names[trace.rank]} and {path} are both of rank {trace.rank}: convert one "
                    "file for each rank of one run"
                )
            names[trace.rank] = path
            traces.append(trace)
    return traces


def _selected(
    operations: Sequence[list[RankOperation]], name: str | None
) -> list[RankOperation] | None:
    """The operation whose name begins so; the first one that has tasks without a name."""
    if name is None:
        with_tasks = (one for one in operations if any(each.operation.tasks for each in one))
        return next(with_tasks, None)
    for one in operations:
        if one[0].operation.name.startswith(name):
            return one
    known = ", ".join(dict.fromkeys(plain(one[0].operation.name) for one in operations[:8]))
    raise UsageError(f"--operation {name}: the files contain no such operation, but {known}")


def _ranks_of(shown: Sequence[RankOperation]) -> list[int]:
    """The ranks of the operation: those that recorded it, and the other ranks of its tasks."""
    tasks = [task for one in shown for task in one.operation.tasks]
    peers = {task.peer for task in tasks if task.peer is not None}
    return sorted({*(one.rank for one in shown), *peers})


_MOST_LISTED = 12  # operations
_MOST_LINES = 24
_NOTES = (
    "a stage is the tasks of a rank that overlap",
    "other rank: the task reads from it or writes to it, msprof does not report which",
    "µs of RDMASend: of posting it, not of the transfer; its GB/s are msprof's",
    "groups with one name in files of msprof appear as one operation",
)


@dataclass(frozen=True)
class RankOperation:
    """An operation on one rank."""

    rank: int
    operation: DeviceOperation


def operations_of(traces: Sequence[DeviceTrace]) -> list[list[RankOperation]]:
    """Returns the operations in the order of their begin, each on all ranks that recorded it.

    Ranks match by the name, which contains the group and a number, and by their order among those
    of one name. Old versions number groups on each rank by itself.
    """
    found: dict[tuple[str, int], list[RankOperation]] = {}
    for trace in sorted(traces, key=lambda one: one.rank):
        named: Counter[str] = Counter()
        for one in sorted(trace.operations, key=lambda one: one.begin_ns):
            found.setdefault((one.name, named[one.name]), []).append(RankOperation(trace.rank, one))
            named[one.name] += 1
    return sorted(found.values(), key=lambda one: min(each.operation.begin_ns for each in one))


def overview_lines(
    traces: Sequence[DeviceTrace], operations: Sequence[Sequence[RankOperation]]
) -> list[str]:
    """Returns what the files contain, and a table of the operations."""
    tasks = sum(len(one.tasks) for one in traces)
    readings = sum(len(one.values) for trace in traces for one in trace.counters)
    lines = [
        f"{counted(len(traces), 'rank')}, {counted(len(operations), 'operation')}, "
        f"{counted(tasks, 'task')}" + (f", {readings} readings of HBM and HCCS" * bool(readings)),
        "",
    ]
    if operations:
        heads = ("operation", "ranks", "algorithm", "type", "count", "tasks", "µs", "slowest")
        rows = [heads, *(_overview(one) for one in operations[:_MOST_LISTED])]
        lines += aligned(rows, "<<<<>>><")
    if (hidden := len(operations) - _MOST_LISTED) > 0:
        lines.append(f"  and {counted(hidden, 'more operation')}")
    return lines


def _overview(ranks: Sequence[RankOperation]) -> tuple[str, ...]:
    first = ranks[0].operation
    slowest = max(ranks, key=lambda one: one.operation.length_ns)
    return (
        first.name,
        in_ranges([one.rank for one in ranks]),
        first.algorithm or "-",
        first.dtype or "-",
        f"{first.count:,}" if first.count else "-",
        str(sum(len(one.operation.tasks) for one in ranks)),
        format_time_us(slowest.operation.length_ns * 1e-9),
        f"rank {slowest.rank}",
    )


def counter_lines(traces: Sequence[DeviceTrace]) -> list[str]:
    """Returns a table of the counters: median and largest of all ranks."""
    found = by_key((one.name, one) for trace in traces for one in trace.counters)
    rows = [("traffic", "readings", "median MB/s", "largest MB/s")]
    for name, counters in found.items():
        values = [value for one in counters for _, value in one.values]
        if values:
            rows.append((name, str(len(values)), f"{median(values):.1f}", f"{max(values):.1f}"))
    return aligned(rows, "<>>>") if len(rows) > 1 else []


def task_lines(ranks: Sequence[RankOperation]) -> list[str]:
    """Returns the tasks of an operation: how many between two ranks, their sizes and rates.

    An operation that exceeds the library's buffer has several for each pair of ranks.
    """
    tasks = [task for one in ranks for task in one.operation.tasks]
    found = by_key(
        ((not task.moves_data, task.name, task.link, task.transport, task.peer is None), task)
        for task in tasks
    )
    rows = [("task", "link", "transport", "between", "for each", "bytes of a task", "µs", "GB/s")]
    for (signals, name, link, transport, is_local), alike in sorted(found.items()):
        number = by_key(((task.rank, task.peer), task) for task in alike)
        rows.append(
            (
                name,
                link or "-",
                transport or "-",
                "within a rank" if is_local else "two ranks",
                _ends([len(one) for one in number.values()], str),
                "" if signals else _sizes(alike),
                _times(alike),
                "" if signals else _rate(alike),
            )
        )
    title = f"tasks of {ranks[0].operation.name}; µs and GB/s of the median"
    return [f"  {title}", *aligned(rows, "<<<<><>>")]


def _ends(numbers: Iterable[int], text: Callable[[int], str]) -> str:
    ordered = sorted(numbers)
    texts = dict.fromkeys(text(one) for one in (ordered[0], ordered[-1]))
    return " – ".join(texts)


def _sizes(tasks: Iterable[DeviceTask]) -> str:
    return _ends((task.size_bytes for task in tasks), format_size)


def _times(tasks: Iterable[DeviceTask]) -> str:
    return format_time_us(median(task.span.length_ns for task in tasks) * 1e-9)


def _rate(tasks: Iterable[DeviceTask]) -> str:
    """The median rate; of tasks that only post a transfer the profiler's own figure."""
    rates = [
        rate
        for task in tasks
        if (
            rate := task.rate_gb_per_s
            if task.posts
            else task.size_bytes / max(task.span.length_ns, 1) * 1e9 / BYTES_PER_GB
        )
    ]
    return f"{median(rates):.2f}" if rates else "-"


_STAGE_HEADS = (
    *("ranks", "stage", "task", "link", "other rank", "tasks", "bytes of a task", "µs", "GB/s"),
    "times",
)


@dataclass(frozen=True)
class _Row:
    """The tasks of a stage that are alike. ``key``: what several stages have in common."""

    key: tuple[str, ...]
    tasks: list[DeviceTask]


def stage_lines(ranks: Sequence[RankOperation], group_ranks: Sequence[int]) -> list[str]:
    """Returns the stages of an operation; ranks with the same stages share lines.

    ``group_ranks``: all ranks that took part. Stages that repeat, one after another, are one, with
    the number of times.
    """
    by_rank = {one.rank: _stages(one, group_ranks) for one in ranks}
    alike = by_key(
        (tuple(tuple(row.key for row in stage) for stage in stages), rank)
        for rank, stages in by_rank.items()
    )
    rows: list[tuple[str, ...]] = [_STAGE_HEADS]
    for keys, same in alike.items():
        period = _period(keys)
        for place in range(period):
            for number, row in enumerate(by_rank[same[0]][place] if keys else ()):
                tasks = [
                    task
                    for rank in same
                    for stage in by_rank[rank][place::period]
                    for task in stage[number].tasks
                ]
                times = len(keys) // period
                rows.append(
                    (
                        *(in_ranges(same), str(place + 1), *row.key),
                        *(_sizes(tasks), _times(tasks), _rate(tasks)),
                        str(times) if times > 1 else "",
                    )
                )
    name = ranks[0].operation.name
    if len(rows) == 1:
        return [f"  stages of {name}: unknown, no task that moves data was recorded"]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    lines = aligned(rows[: _MOST_LINES + 1], "<><<<><>>>"[: len(rows[0])])
    if (hidden := len(rows) - 1 - _MOST_LINES) > 0:
        lines.append(f"  and {counted(hidden, 'more line')}")
    head = [f"  stages of {name}, reported by msprof", *(f"    {text}" for text in _NOTES)]
    return [*head, "", *lines]


def _stages(one: RankOperation, group_ranks: Sequence[int]) -> list[list[_Row]]:
    others = {*group_ranks} - {one.rank}
    stages = []
    for tasks in stages_of(one.operation):
        found = by_key(((task.name, task.link or "-", task.peer is None), task) for task in tasks)
        stages.append(
            [
                _Row((*key[:2], _others(alike, others), str(len(alike))), alike)
                for key, alike in sorted(found.items())
            ]
        )
    return stages


def _others(tasks: Sequence[DeviceTask], others: set[int]) -> str:
    peers = {task.peer for task in tasks if task.peer is not None}
    if not peers:
        return "within the rank"
    if peers == others:
        return "the other one" if len(others) == 1 else f"all others ({len(others)})"
    return in_ranges(sorted(peers))


def _period(keys: Sequence[object]) -> int:
    """The number of stages after which all repeat; all of them if they do not."""
    for period in range(1, len(keys) // 2 + 1):
        if len(keys) % period == 0 and all(
            one == keys[place % period] for place, one in enumerate(keys)
        ):
            return period
    return len(keys)


@dataclass(frozen=True)
class _Entry:
    """A task with its operation. ``stage``: None for one that moves no data."""

    operation: DeviceOperation
    task: DeviceTask
    stage: int | None
    begin_ns: int


_FIELDS = (
    Field("operation", "Name of the operation.", "operation.name", "text"),
    Field("group", "Group of ranks.", "operation.group", "text"),
    Field("number", "Place of the operation in its group, from 0.", "operation.number", "int"),
    Field("rank", "Rank whose task it is.", "task.rank", "int"),
    Field("stage", "Stage of the rank, from 1.", "stage", "int"),
    Field("task", "Name of the task.", "task.name", "text"),
    Field("other_rank", "The other rank.", "task.peer", "int"),
    Field("link", "Kind of connection.", "task.link", "text"),
    Field("transport", "Engine that moves the data.", "task.transport", "text"),
    Field("dtype", "Element type.", "task.dtype", "text"),
    Field("size_bytes", "Bytes that move.", "task.size_bytes", "int"),
    Field("begin_ns", "Begin, from the first event of all ranks.", "begin_ns", "int"),
    Field("time_ns", "Time.", "task.span.length_ns", "int"),
    Field("gb_per_s", "Bandwidth as msprof wrote it.", "task.rate_gb_per_s", "float"),
    Field("plane", "Plane of the group.", "task.plane", "int"),
    Field("notify", "Number of the signal.", "task.notify", "text"),
)


def task_file(traces: Sequence[DeviceTrace]) -> Iterator[str]:
    """Yields the lines of the file of tasks, rank by rank, without tasks of no operation."""
    begin_ns = min((one.begin_ns for trace in traces for one in trace.operations), default=0)
    return csv_lines(_FIELDS, _entries(traces, begin_ns))


def _entries(traces: Sequence[DeviceTrace], begin_ns: int) -> Iterator[_Entry]:
    for trace in sorted(traces, key=lambda one: one.rank):
        for one in trace.operations:
            stages = {
                id(task): number
                for number, stage in enumerate(stages_of(one), start=1)
                for task in stage
            }
            for task in one.tasks:
                yield _Entry(one, task, stages.get(id(task)), task.begin_ns - begin_ns)
