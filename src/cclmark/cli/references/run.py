"""Lists references, adds a journal to them, and reads them for the commands that measure."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import tomllib

from cclmark.base.errors import EXIT_OK, EXIT_WRONG, UsageError
from cclmark.base.printable import plain
from cclmark.base.standard_error import folded
from cclmark.cli.references.command import (
    AddReferencesFlags,
    CheckReferencesFlags,
    ListReferencesFlags,
    RemoveReferencesFlags,
    ShowReferencesFlags,
)
from cclmark.cli.references.lists import (
    ReferenceCheck,
    check_csv,
    check_document,
    check_json,
    percent,
    references_csv,
    references_json,
    source_documents,
    source_lines,
)
from cclmark.document.document_text import MarkdownLines, TextLines
from cclmark.document.reference_notes import ReferenceNotes, share_text
from cclmark.document.remarks import lacking
from cclmark.document.report_kind import View
from cclmark.journal.item_results import CaseResult, TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.recording.caller import notice
from cclmark.recording.output import made_directory, print_out, refuse_to_lose
from cclmark.recording.standard_output import say
from cclmark.references.matching import kinds_of, multicast_of
from cclmark.references.reference import SUBJECTS, Reference
from cclmark.references.reference_checks import below, check_results
from cclmark.references.reference_files import parse_references, references_text, weaknesses
from cclmark.references.reference_store import (
    REFERENCES_VARIABLE,
    data_directory,
    load_references,
    shipped_references,
)
from cclmark.work.device_names import kind_of
from cclmark.work.items import P2P
from cclmark.work.operations import OPERATIONS
from cclmark.work.thresholds import meant


def check_references(flags: CheckReferencesFlags) -> int:
    """Prints every figure of a journal with its reference and returns the exit code.

    Raises UsageError for a journal without figures and, with ``fail_below``, if no figure has a
    verdict; OutputError.
    """
    journal, output = flags.journal, flags.output
    least_share = None if flags.fail_below is None else flags.fail_below / 100
    refuse_to_lose(output, [Path(journal)])
    run = read_journal(Path(journal))
    _require_figures(run, journal)
    if lacks := lacking(run):
        notice(f"{plain(journal)}: {'; '.join(lacks)}")
    notes = ReferenceNotes(lambda kinds: load_references(kinds=kinds))
    header = run.header
    found = check_results(
        run.cases,
        run.transfers,
        lambda result: notes.match(result, header),
        lambda result: notes.match_transfer(result, header),
        flags.begin,
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
    print_out(output, lambda to: [_printed(check, flags.format, to.view)], is_wide=flags.wide)
    if least_share is None:
        return EXIT_OK
    low = below(found, least_share)
    if low:
        worst = min(low, key=lambda one: one.match.share if one.match is not None else 0.0)
        assert worst.match is not None
        notice(
            f"{len(low)} below {percent(least_share)} of their reference, the worst "
            f"{plain(worst.thing.describe())}: {share_text(worst.match.share, 1)} of "
            f"{plain(worst.match.words)}"
        )
    if bad:
        notice(f"{len(bad)} without valid figures")
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


def _printed(check: ReferenceCheck, format: str, view: View) -> str:
    if format == "json":
        return check_json(check)
    if format == "csv":
        return check_csv(check)
    lines = (MarkdownLines if format == "markdown" else TextLines)(view)
    return lines.whole(check_document(check))


_ODD = re.compile(r"[^\w.]+")
_LONGEST_STEM = 60

_Weak = tuple[
    CaseResult | TransferResult, list[str]
]  # a measured result, and why it is not good enough


def list_references(flags: ListReferencesFlags) -> int:
    """Prints the sources of the selected references. Raises UsageError, OutputError."""
    return _print(flags, "", lists_figures=False)


def show_references(flags: ShowReferencesFlags) -> int:
    """Prints the selected references. Raises UsageError for unknown names, OutputError."""
    source = flags.source or flags.named or ""
    if not (source or flags.device or flags.operation):
        raise UsageError("NAME is missing: cclmark references list lists the sources")
    return _print(flags, source, lists_figures=True)


def _print(flags: ListReferencesFlags, source: str, *, lists_figures: bool) -> int:
    found = load_references()
    device, operation = flags.device, flags.operation
    if device is not None:
        kind = kind_of(device)
        found = _chosen("--device", kind, found, lambda one: [kind for kind, _ in one.devices])
    if operation is not None:
        if operation not in (*OPERATIONS, P2P):
            raise UsageError(
                "--operation: unknown operation "
                f"{operation!r}{meant(operation, (*OPERATIONS, P2P))}"
            )
        found = _chosen("--operation", operation, found, lambda one: [one.operation])
    if source:
        found = _chosen("NAME", source, found, lambda one: [one.source.name])
    print_out(
        flags.output,
        lambda to: [_written(found, flags.format, to.view, lists_figures=lists_figures)],
        is_wide=flags.wide,
    )
    return EXIT_OK


def add_references(flags: AddReferencesFlags) -> int:
    """Writes a file of references from the results of a journal and returns the exit code.

    Figures that are not good enough (see weaknesses) are named on standard error. They are left
    out, which is EXIT_WRONG, or with ``force`` taken. Raises UsageError if it is not a
    journal, if no figure can be a reference, and if the file exists or cannot be written.
    """
    journal, force, title = flags.journal, flags.force, flags.name.strip()
    if not title:
        raise UsageError("--name is empty: write a title, for example 'our rack, accepted 2026-11'")
    if not title.isprintable():
        raise UsageError(f"--name must be printable, and {title!r} is not")
    run = read_journal(Path(journal))
    header = run.header
    multicast = partial(multicast_of, header.environment, hosts=max(1, len(header.hosts)))
    figures = [one for one in run.timed if one.item.work in SUBJECTS]
    measured = [one for one in figures if one.is_measured and one.status == "ok"]
    weak = [(one, reasons) for one in measured if (reasons := weaknesses(one))]
    words = _weak_words(weak, len(measured))
    if weak and len(weak) == len(measured) and not force:
        raise UsageError(
            f"{journal}: no figure can be a reference: {words}. Measure longer (--max-time), with "
            "nothing else at work on the machine and without -c 0; --force takes them nevertheless"
        )
    taken = run
    if weak and not force:
        left_out = {id(one) for one, _ in weak}
        kept = [one for one in run.results if id(one) not in left_out]
        taken = Journal(header, kept, footer=run.footer)
    note = f" Taken with --force: {words}." if weak and force else ""
    try:
        text = references_text(taken, title, multicast=multicast, note=note)
    except UsageError as error:
        raise UsageError(f"{journal}: {error}") from None
    directory = flags.references_dir or data_directory()
    file = directory / f"{_stem(title, run.header.run_id)}.toml"
    content = text.encode()
    count = len(parse_references(content, str(file), own=True))
    place = "Choose another place with --references-dir DIR"
    made_directory(directory, place)
    try:
        with file.open("xb") as opened:
            opened.write(content)
    except FileExistsError:
        raise UsageError(
            f"{file} already exists: use another --name, or cclmark references remove {file.stem}"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}. {place}") from None
    if lacks := lacking(run):
        only = "only these results are a reference"
        notice(f"{plain(journal)}: {'; '.join(lacks)}: {only}")
    if weak:
        notice(f"{plain(journal)}: {_listed(weak, words, '' if force else file.stem)}")
    say(f"{plain(str(file))}: {count} figures of {plain(title)!r}, used from now on")
    if flags.references_dir is not None and not _is_used(directory):
        notice(
            f"{plain(str(directory))} is not searched for references: add it to "
            f"{REFERENCES_VARIABLE}"
        )
    return EXIT_WRONG if weak and not force else EXIT_OK


def _weak_words(weak: Sequence[_Weak], measured: int) -> str:
    """Counts the figures that are not good enough, and the reasons."""
    counts = Counter(reason for _, reasons in weak for reason in reasons)
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items())
    return f"{len(weak)} of {measured} figures are not good enough ({reasons})"


def _listed(weak: Sequence[_Weak], words: str, stem: str) -> str:
    """Names figures that are not good enough. ``stem``: of the file without them, or empty."""
    remedy = f"left out. To take them: cclmark references remove {plain(stem)}, then add --force"
    outcome = remedy if stem else "taken with --force"
    lines = [f"  {plain(one.item.describe())}: {', '.join(reasons)}" for one, reasons in weak]
    return "\n".join([f"{words}: {outcome}", *lines])


def remove_references(flags: RemoveReferencesFlags) -> int:
    """Deletes the file of the user's references of a name, a source or a title.

    Returns the exit code. Raises UsageError if no file, or several files, have that name, if it is
    shipped with cclmark, and if it cannot be removed.
    """
    name, directory = flags.name, flags.references_dir or data_directory()
    try:
        files = sorted(directory.glob("*.toml"))
    except OSError as error:
        raise UsageError(f"cannot read {directory}: {error.strerror}") from None
    titles = {file: _title_of(file) for file in files}
    # The source of a file is unique in its directory, a title may be that of another one.
    found = [file for file in files if file.stem == name]
    found = found or [file for file in files if titles[file] == name]
    if len(found) > 1:
        stems = ", ".join(plain(file.stem) for file in found)
        raise UsageError(f"several references have the title {name!r}: write one of {stems}")
    if not found:
        raise UsageError(_unknown_reference(name, directory, titles))
    (file,) = found
    try:
        file.unlink()
    except OSError as error:
        raise UsageError(f"cannot remove {file}: {error.strerror}") from None
    say(f"{plain(str(file))}: removed")
    return EXIT_OK


def _title_of(file: Path) -> str:
    """Returns the title of a file of references; empty if it is invalid, which can be removed."""
    try:
        title = tomllib.loads(file.read_text(encoding="utf-8")).get("title")
    except (OSError, ValueError, RecursionError):
        return ""
    return title if isinstance(title, str) else ""


def _unknown_reference(name: str, directory: Path, titles: Mapping[Path, str]) -> str:
    """Returns why the reference cannot be removed, and which ones can."""
    if any(name in (one.source.name, one.source.title) for one in shipped_references()):
        return f"{name!r} ships with cclmark and cannot be removed"
    for place in filter(None, os.environ.get(REFERENCES_VARIABLE, "").split(os.pathsep)):
        files = [Path(place)] if place.endswith(".toml") else sorted(Path(place).glob("*.toml"))
        for file in files:
            if name in (file.stem, _title_of(file)):
                return (
                    f"{name!r} is in {file}, which {REFERENCES_VARIABLE} names: add "
                    f"--references-dir {file.parent}, or remove the file"
                )
    if not titles:
        return f"no references of your own in {directory}: --references-dir DIR names another one"
    known = [file.stem for file in titles]
    choices = ", ".join(map(plain, known))
    suggestion = meant(name, [*known, *filter(None, titles.values())])
    return f"no reference of your own in {directory} is {name!r}{suggestion} Choose from {choices}."


def _is_used(directory: Path) -> bool:
    named = os.environ.get(REFERENCES_VARIABLE, "").split(os.pathsep)
    places = [data_directory(), *(Path(name) for name in named if name)]
    return directory.resolve() in [place.resolve() for place in places]


def _stem(title: str, run_id: str) -> str:
    """Returns a file name for a title."""
    stem = _ODD.sub("-", title.lower()).strip("-.")[:_LONGEST_STEM]
    return stem or f"references-{run_id[:8] or 'journal'}"


def _chosen(
    flag: str,
    wanted: str,
    references: Sequence[Reference],
    values_of: Callable[[Reference], Sequence[str]],
) -> list[Reference]:
    found = [one for one in references if wanted in values_of(one)]
    if not found:
        known = sorted({value for one in references for value in values_of(one)})
        raise UsageError(
            f"{flag}: no reference of {wanted!r}{meant(wanted, known)} Choose from "
            f"{', '.join(map(plain, known))}."
        )
    return found


def _written(found: Sequence[Reference], format: str, view: View, *, lists_figures: bool) -> str:
    if format == "json":
        return references_json(found)
    if format == "csv":
        return references_csv(found)
    if format == "table" and not lists_figures:
        return folded("\n".join(source_lines(found, view.paint)), view.columns) + "\n"
    is_markdown = format == "markdown"
    lines = (MarkdownLines if is_markdown else TextLines)(view)
    return "\n".join(map(lines.whole, source_documents(found, lists_pairs=is_markdown)))
