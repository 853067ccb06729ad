"""The runs of a history as a table, as JSON and as CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from cclmark.history.history_model import StoredRun
from cclmark.report.formats.csv_format import csv_line
from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import counted

SHORT_ID = 12  # characters of a run's id in tables; commands accept any prefix
_HEADS = ("run", "started (UTC)", "machine", "devices", "measured", "cases", "code", "labels")
_RIGHT = ("cases", "code")
MOST_MEASURED = 3  # operations of a run listed by name
_COLUMNS = (
    *("run_id", "started_at", "hostname", "devices", "operations", "ccls", "libraries", "driver"),
    *("cclmark_version", "cases", "not_ok", "damaged_lines", "exit_code", "labels", "method"),
    *("command", "source", "added_at", "continues"),
)


def runs_table(runs: Sequence[StoredRun], total: int, paint: Paint = unpainted) -> str:
    """Returns a line for each run, and the number of runs that are not shown."""
    if not runs:
        return "no runs\n"
    rows = [_cells(run) for run in runs]
    widths = [max(len(row[place]) for row in (*rows, _HEADS)) for place in range(len(_HEADS))]
    lines = [paint(_line(_HEADS, widths), "dim")]
    for run, row in zip(runs, rows, strict=True):
        line = _line(row, widths)
        lines.append(paint(line, "red") if run.exit_code == 1 or run.not_ok else line)
    if total > len(runs):
        lines += ["", f"{len(runs)} of {total} runs; --limit N shows more, --limit 0 all"]
    return "\n".join(lines) + "\n"


def runs_json(runs: Sequence[StoredRun], total: int) -> str:
    """Returns all fields of each run, and the total number of runs."""
    found = {"total": total, "runs": [run_object(run) for run in runs]}
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"


def run_object(run: StoredRun) -> dict[str, object]:
    """Returns a run's fields for JSON and CSV."""
    values = asdict(run)
    return {name: values[name] for name in (*_COLUMNS, "machine")}


def runs_csv(runs: Sequence[StoredRun]) -> str:
    """Returns a line for each run; several values in a cell are separated by commas."""
    lines = [csv_line(_COLUMNS)]
    for run in runs:
        values = run_object(run)
        lines.append(csv_line([_cell(values[name]) for name in _COLUMNS]))
    return "".join(lines)


def run_lines(run: StoredRun) -> list[str]:
    """Returns the lines above a run's table: the fields that only the history contains."""
    end = "journal without an end" if run.exit_code is None else f"exit code {run.exit_code}"
    lines = [f"run        {run.run_id}"]
    if run.labels:
        lines.append(f"labels     {', '.join(run.labels)}")
    lines += [
        f"started    {run.started_at}",
        f"ended      {end}",
        f"command    {run.command}",
        f"journal    {run.source}",
        f"added      {run.added_at}",
    ]
    if run.damaged_lines:
        lines.append(f"damaged    {counted(run.damaged_lines, 'line')} of the journal, left out")
    return lines


def started_of(run: StoredRun) -> str:
    """Returns the start of the run, to the second."""
    return run.started_at[:19].replace("T", " ")


def _cells(run: StoredRun) -> list[str]:
    code = "-" if run.exit_code is None else str(run.exit_code)
    named = list(run.operations[:MOST_MEASURED])
    if len(run.operations) > len(named):
        named.append("…")
    measured = f"{', '.join(named)} · {', '.join(run.ccls)}"
    cells = [run.run_id[:SHORT_ID], started_of(run), run.hostname, run.devices, measured]
    return [*cells, str(run.cases), code, ", ".join(run.labels)]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    texts = [
        f"{cell:>{width}}" if head in _RIGHT else f"{cell:<{width}}"
        for head, cell, width in zip(_HEADS, cells, widths, strict=True)
    ]
    return "  ".join(texts).rstrip()


def _cell(value: object) -> str | int | None:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if isinstance(value, int) or value is None else str(value)
