"""The table of all cases, as the page shows and hands it out."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.limits import link_limit
from cclmark.report.charts.naming import Run
from cclmark.report.formats.csv_format import COLUMNS, Cell, case_cells
from cclmark.report.page.encode import shortened
from cclmark.report.page.page import Rows
from cclmark.report.wording.staging import STAGED_NOTE, staged_mark
from cclmark.report.wording.text import plain
from cclmark.results.kinds import CaseResult, CheckResult, TransferResult

_TRANSFER_COLUMNS = (
    *("measure", "scope", "means", "direction", "flows", "size_bytes", "status", "reason"),
    *("time_us", "min_us", "max_us", "samples", "bandwidth_gbps", "wrong"),
)
_SHARE_COLUMNS = ("of_link_limit_percent", "of_reference_percent", "reference")
_CHECK_COLUMNS = ("check", "status", "reason", "duration_s")


def rows_of(runs: Sequence[Run], file_name: str) -> Rows:
    """All cases of all runs; columns that are empty everywhere are left out."""
    lines: list[dict[str, Cell]] = []
    for run in runs:
        first: dict[str, Cell] = {"run": run.name} if len(runs) > 1 else {}
        for result in run.journal.cases:
            cells = dict(zip(COLUMNS, case_cells(result, run.journal.header.settings), strict=True))
            cells |= _shares(run, result)
            if result.case.pair is not None:
                cells["pair"] = f"{result.case.pair[0]}-{result.case.pair[1]}"
            lines.append(first | cells)
        for copy in run.journal.transfers:
            lines.append(first | _of_transfer(copy))
            if (match := run.notes.match_transfer(copy, run.journal.header)) is not None:
                lines[-1] |= {"of_reference_percent": match.share * 100, "reference": match.words}
        lines += [first | _of_check(one) for one in run.journal.checks]
    order = dict.fromkeys(
        (
            *("run", *COLUMNS[:3], "pair", *COLUMNS[3:]),
            *(*_TRANSFER_COLUMNS, *_CHECK_COLUMNS, *_SHARE_COLUMNS),
        )
    )
    used = [name for name in order if any(line.get(name) not in (None, "", "ok") for line in lines)]
    used = [name for name in used if name != "cycle" or any(line.get(name) for line in lines)]
    staged = any(staged_mark(result) for run in runs for result in run.journal.cases)
    return Rows(
        used,
        [[_clean(line.get(name)) for name in used] for line in lines],
        file_name,
        [f"Route “copy aside, then …”: {STAGED_NOTE}."] if staged else [],
    )


def _shares(run: Run, result: CaseResult) -> dict[str, Cell]:
    """Of what the links allow, and of what others measured."""
    header, cells = run.journal.header, dict[str, Cell]()
    limit = link_limit(header.links, header.hosts)
    if limit and result.summary is not None and result.summary.busbw_bytes_per_s:
        cells["of_link_limit_percent"] = result.summary.busbw_bytes_per_s / limit * 100
    match = run.notes.match(result, header)
    if match is not None:
        cells["of_reference_percent"] = match.share * 100
        cells["reference"] = match.words
    return cells


def _clean(cell: Cell) -> Cell:
    if isinstance(cell, float):
        return shortened(cell)
    return plain(cell) if isinstance(cell, str) else cell


def _of_transfer(result: TransferResult) -> dict[str, Cell]:
    transfer, summary = result.transfer, result.summary
    flows = ", ".join(f"{start}→{end}" for start, end in transfer.flows[:8])
    if transfer.host_memory:
        way = "→" if transfer.to_host else "←"
        flows = f"{transfer.flows[0][0]} {way} {transfer.host_memory} host"
    cells: dict[str, Cell] = {
        "measure": transfer.measure,
        "scope": transfer.scope,
        "means": transfer.means,
        "direction": transfer.direction,
        "flows": flows + (" …" if len(transfer.flows) > 8 else ""),
        "size_bytes": transfer.size_bytes,
        "status": result.status,
        "reason": result.reason,
        "wrong": None if result.verification is None else result.verification.wrong,
    }
    if summary is not None:
        cells |= {
            "time_us": summary.time_s * 1e6,
            "min_us": summary.min_s * 1e6,
            "max_us": summary.max_s * 1e6,
            "samples": summary.samples,
            "bandwidth_gbps": summary.bytes_per_s / 1e9 or None,
        }
    return cells


def _of_check(result: CheckResult) -> dict[str, Cell]:
    return {
        "check": result.check.name,
        "status": result.status,
        "reason": result.reason,
        "duration_s": result.duration_s,
    }
