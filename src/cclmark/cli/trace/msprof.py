"""Converts files of msprof to a timeline and to tables of tasks and stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cclmark.base.errors import EXIT_OK, UsageError
from cclmark.base.printable import plain
from cclmark.cli.trace.files import WRITERS, file_for, steps_path, write_steps, written_whole
from cclmark.cli.trace.msprof_options import MsprofFlags
from cclmark.cli.trace.task_summary import (
    RankOperation,
    counter_lines,
    operations_of,
    overview_lines,
    stage_lines,
    task_file,
    task_lines,
)
from cclmark.recording.caller import notice
from cclmark.recording.output import Output
from cclmark.trace.device_tasks import DeviceTrace, assemble_tasks
from cclmark.work.sizes import format_size
from cclmark_importers.msprof import read_msprof


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
