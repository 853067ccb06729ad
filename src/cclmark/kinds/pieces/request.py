"""Runs a collective with ``--pieces``: the same message in one call and in several."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from cclmark.document.exporter import Exporter
from cclmark.document.exporters import exporter_of
from cclmark.document.paint import ansi, unpainted
from cclmark.document.report_kind import View
from cclmark.errors import UsageError
from cclmark.kinds.pieces.kind import KIND
from cclmark.kinds.pieces.plan import parse_pieces, piece_cases
from cclmark.kinds.pieces.result import PieceResult
from cclmark.launch.request import Request
from cclmark.options.flags import Flags
from cclmark.plan.cases import Case
from cclmark.plan.items import items_of
from cclmark.recording.output import Output

_TIMINGS = ("auto", "throughput", "blocking")


_FORMATS = ("table", "json", "csv", "markdown")


def pieces_request(request: Request, flags: Flags, pieces: str) -> Request:
    """Returns the request for the cases of ``request`` in ``pieces`` (``1,10,100``).

    Raises UsageError.
    """
    numbers = parse_pieces(pieces)
    settings = request.settings
    for is_given, option, reason in (
        (bool(flags.like), "--like", "rounds of divisions have a method of their own"),
        (flags.explain, "--explain", "one operation has one explanation"),
        (flags.references, "--references", "references are single messages"),
        (settings.cycles != 1, "-N and --duration", "rounds alternate the divisions already"),
        (settings.iterations is not None, "-n", "--precision and --max-time end the rounds"),
        (settings.warmup is not None, "-w", "the warm-up ends when two batches agree"),
        (settings.group != 1, "-m", "groups of pieces are measured by default"),
    ):
        if is_given:
            raise UsageError(f"--pieces excludes {option}: {reason}")
    if settings.timing not in _TIMINGS:
        raise UsageError(f"--pieces: --timing is throughput or blocking, not {settings.timing}")
    if flags.format not in _FORMATS:
        raise UsageError(f"--pieces: --format is {', '.join(_FORMATS)}, not {flags.format}")
    timing = "throughput" if settings.timing == "auto" else settings.timing
    return replace(
        request,
        kind=KIND,
        settings=msgspec.structs.replace(settings, timing=timing),
        planned=piece_cases(items_of(request.planned, Case), numbers),
    )


def piece_exporter(flags: Flags, output: Output) -> Exporter[PieceResult]:
    """Returns the exporter of ``--format``."""
    view = View(paint=ansi if output.takes_colours else unpainted)
    return exporter_of(KIND, flags.format, view)
