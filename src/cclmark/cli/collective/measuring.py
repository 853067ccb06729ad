"""Measures collectives: the cases of the options, with results to journal and screen."""

from __future__ import annotations

import time

from cclmark.cli import like
from cclmark.cli.case_request import request_of, stem_of
from cclmark.cli.chosen_devices import device_count, devices_text
from cclmark.cli.option_values import check_limits, duration_of
from cclmark.cli.options import Flags
from cclmark.cli.usual_references import usual_references
from cclmark.errors import UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.plan.cases import Sweep
from cclmark.plan.items import COLLECTIVE
from cclmark.recording.joining import joined
from cclmark.recording.output import Output
from cclmark.recording.recorder import record
from cclmark.document.exporter import Exporter
from cclmark.report.journal_text import exporter_of
from cclmark.report.kinds.case_table import TableExporter
from cclmark.document.paint import ansi, unpainted
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.results.item_results import CaseResult


def measure(operations: list[str], flags: Flags, pieces: str = "") -> int:
    """Measures ``operations`` with ``flags`` and returns the exit code.

    ``pieces``: the numbers of pieces to divide each message into, empty for one call each.

    Raises CclmarkError before anything is started or written if the flags are invalid.
    """
    began_s = time.monotonic()
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    with joined(
        lambda: devices_text(flags), device_count(flags), flags.timeout_s, mixed=True
    ) as coordinator:
        coordinator.exit_code = _measure(operations, flags, pieces, coordinator, began_s)
        return coordinator.exit_code


def _measure(
    operations: list[str], flags: Flags, pieces: str, coordinator: Coordinator, began_s: float
) -> int:
    every_s = duration_of("--summary-every", flags.summary_every)
    references = _reference_notes(flags)
    request, plan = request_of(operations, flags, coordinator)
    name = operations[0] if len(operations) == 1 else "collectives"
    if pieces:
        from cclmark.cli.collective.piece_measuring import piece_exporter, pieces_request

        return record(
            pieces_request(request, flags, pieces),
            lambda output: piece_exporter(flags, output),
            began_s,
            output=flags.output,
            journal=flags.journal,
            resume=flags.resume,
            stem=stem_of(f"{name}-pieces", plan),
        )
    return record(
        request,
        lambda output: _exporter(flags, plan, output, every_s, references),
        began_s,
        output=flags.output,
        journal=flags.journal,
        resume=flags.resume,
        explain=flags.explain,
        stem=stem_of(name, plan),
    )


def _reference_notes(flags: Flags) -> ReferenceNotes:
    """Returns the references that figures are compared with. Raises UsageError."""
    if not flags.references:
        return ReferenceNotes(usual_references)
    if flags.format not in ("table", "markdown"):
        raise UsageError(
            f"--references requires --format table or markdown, not {flags.format}: for csv and "
            "json use cclmark references check JOURNAL"
        )
    from cclmark.references.reference_store import load_references

    references = load_references()
    return ReferenceNotes(lambda kinds: references)


def _exporter(
    flags: Flags, plan: Sweep, output: Output, every_s: float, references: ReferenceNotes
) -> Exporter[CaseResult]:
    if flags.format == "markdown":
        from cclmark.report.kinds.case_markdown import CaseMarkdown

        return CaseMarkdown(references, shares=flags.references)
    if flags.format != "table":
        return exporter_of(COLLECTIVE, flags.format)
    paint = ansi if output.takes_colours else unpainted

    def table() -> TableExporter:
        return TableExporter(
            paint=paint,
            out_of_place=False in plan.placements,
            in_place=True in plan.placements,
            terminal_columns=output.terminal_columns,
            references=references,
            shares=flags.references,
            why=flags.why,
            gbps=like.shows_gbps(flags.like),
        )

    if not flags.duration:
        return table()
    from cclmark.report.kinds.soak_table import SoakTable

    return SoakTable(table, paint, every_s)
