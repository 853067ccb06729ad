"""Compares a journal with references and reports whether its figures reach them."""

from __future__ import annotations

import sys
from pathlib import Path

from cclmark.cli.percent import percent_of
from cclmark.errors import EXIT_OK, EXIT_WRONG, UsageError
from cclmark.plan.sizes import parse_size
from cclmark.printable import plain
from cclmark.recording.atomic import refuse_to_lose
from cclmark.recording.output import print_out
from cclmark.references.matching import kinds_of
from cclmark.references.reference_checks import below, check_results
from cclmark.references.reference_store import load_references
from cclmark.references.reference_subjects import SUBJECTS
from cclmark.report.kinds import report_kind
from cclmark.report.lists.reference_check import (
    ReferenceCheck,
    check_csv,
    check_json,
    check_lines,
    check_markdown,
    percent,
)
from cclmark.document.paint import ansi, unpainted
from cclmark.document.reference_notes import ReferenceNotes, share_text
from cclmark.document.remarks import lacking
from cclmark.results.journal import Journal, read_journal


def check_journal(
    journal: str, fail_below: str | None, begin: str | None, format: str, output: Path | None
) -> int:
    """Prints every figure of ``journal`` with its reference and returns the exit code.

    Raises UsageError for a journal without figures and, with ``fail_below``, if no figure has a
    verdict; OutputError.
    """
    least_share = None if fail_below is None else _share(fail_below)
    least_bytes = None if begin is None else _size(begin)
    refuse_to_lose(output, [Path(journal)])
    run = read_journal(Path(journal))
    _require_figures(run, journal)
    if lacks := lacking(run):
        print(f"cclmark: {plain(journal)}: {'; '.join(lacks)}", file=sys.stderr)
    notes = ReferenceNotes(lambda kinds: load_references(kinds=kinds))
    header = run.header
    found = check_results(
        run.cases,
        run.transfers,
        lambda result: notes.match(result, header),
        lambda result: notes.match_transfer(result, header),
        least_bytes,
    )
    bad = [one for one in found if one.bad]
    if least_share is not None and not bad and not any(one.judged for one in found):
        reasons = dict.fromkeys(one.unjudged for one in found if one.unjudged != "skipped")
        raise UsageError(
            f"{journal}: no result can be judged: {' / '.join(map(plain, list(reasons)[:3]))}. "
            f"cclmark references lists the references for {_devices(run)} and others; cclmark "
            "references add makes the journal of a trusted machine a reference"
        )
    check = ReferenceCheck(journal, found, notes, least_share)
    print_out(output, lambda to: [_printed(check, format, colours=to.takes_colours)])
    if least_share is None:
        return EXIT_OK
    low = below(found, least_share)
    if low:
        worst = min(low, key=lambda one: one.match.share if one.match is not None else 0.0)
        assert worst.match is not None
        print(
            f"cclmark: {len(low)} below {percent(least_share)} of their reference, the worst "
            f"{plain(worst.thing.describe())}: {share_text(worst.match.share, 1)} of "
            f"{plain(worst.match.words)}",
            file=sys.stderr,
        )
    if bad:
        print(f"cclmark: {len(bad)} without valid figures", file=sys.stderr)
    return EXIT_WRONG if low or bad else EXIT_OK


def _require_figures(run: Journal, name: str) -> None:
    kind = report_kind(run.kind)
    if not run.results or not kind.has_times:
        what = kind.noun if run.results else "no results"
        raise UsageError(f"{name} holds {what}, but no figures to compare with references")
    if not any(one.item.work in SUBJECTS for one in run.timed):
        raise UsageError(f"{name} holds only barriers, which move no data and have no references")


def _devices(run: Journal) -> str:
    return plain(", ".join(kinds_of(run.header))) or "its devices"


def _share(text: str) -> float:
    """Parses a percentage as a share of 1. Raises UsageError."""
    percent = percent_of("--fail-below", text, "90%")
    if percent == 0:
        raise UsageError(f"--fail-below {text}: no share is below 0: write a share such as 90%")
    return percent / 100


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except UsageError as error:
        raise UsageError(f"-b: {error}") from None


def _printed(check: ReferenceCheck, format: str, *, colours: bool) -> str:
    if format == "json":
        return check_json(check)
    if format == "csv":
        return check_csv(check)
    if format == "markdown":
        return check_markdown(check)
    return "\n".join(check_lines(check, ansi if colours else unpainted)) + "\n"
