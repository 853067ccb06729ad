"""The table of all results of a page, also offered as a file."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.document.columns import Cell
from cclmark.document.naming import Run
from cclmark.document.page.encode import shortened
from cclmark.document.page.page import Rows
from cclmark.kinds.registry import KINDS, report_kind

_SHARE_COLUMNS = ("of_link_limit_percent", "of_reference_percent", "reference")


def rows_of(runs: Sequence[Run], file_name: str) -> Rows:
    """Returns all results of all runs; columns without any value are left out."""
    lines: list[dict[str, Cell]] = []
    parts: list[int] = []
    notes: dict[str, None] = {}
    for run in runs:
        first: dict[str, Cell] = {"run": run.name} if len(runs) > 1 else {}
        kind = report_kind(run.journal.kind)
        parts += [[*KINDS].index(run.journal.kind)] * len(run.journal.results)
        lines += [first | dict(kind.page_cells(run, result)) for result in run.journal.results]
        notes |= dict.fromkeys(kind.page_notes(run.journal.results))
    present = {run.journal.kind for run in runs}
    names = [name for kind in KINDS if kind in present for name in report_kind(kind).page_columns]
    order = dict.fromkeys(("run", *names, *_SHARE_COLUMNS))
    used = [name for name in order if any(line.get(name) not in (None, "", "ok") for line in lines)]
    used = [name for name in used if name != "cycle" or any(line.get(name) for line in lines)]
    return Rows(
        used,
        [[_clean(line.get(name)) for name in used] for line in lines],
        file_name,
        [*notes],
        parts if len(present) > 1 else [],
    )


def _clean(cell: Cell) -> Cell:
    if isinstance(cell, float):
        return shortened(cell)
    return cell
