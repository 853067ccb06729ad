"""Lists references, adds a journal to them, and reads them for the commands that measure."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from cclmark.errors import EXIT_OK, UsageError
from cclmark.plan.device_names import kind_of
from cclmark.plan.items import P2P
from cclmark.plan.operations import OPERATIONS
from cclmark.plan.thresholds import meant
from cclmark.printable import plain
from cclmark.recording.output import print_out
from cclmark.recording.standard_output import say
from cclmark.references.matching import multicast_of
from cclmark.references.reference import Reference
from cclmark.references.reference_files import parse_references
from cclmark.references.reference_store import (
    REFERENCES_VARIABLE,
    data_directory,
    load_references,
)
from cclmark.references.reference_writing import references_text
from cclmark.report.lists.reference_lists import (
    figure_lines,
    references_csv,
    references_json,
    references_markdown,
    source_lines,
)
from cclmark.report.wording.paint import ansi, unpainted
from cclmark.report.wording.remarks import lacking
from cclmark.results.journal import Journal, read_journal

_ODD = re.compile(r"[^\w.]+")
_LONGEST_STEM = 60


def list_references(
    device: str | None,
    operation: str | None,
    source: str | None,
    format: str,
    output: Path | None,
) -> int:
    """Prints the selected references and returns the exit code.

    Raises UsageError for an unknown device, operation or source, OutputError.
    """
    found = load_references()
    asked = any(choice is not None for choice in (device, operation, source))
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
    if source is not None:
        found = _chosen("--source", source, found, lambda one: [one.source.name])
    print_out(output, lambda to: [_printed(found, format, asked=asked, colours=to.takes_colours)])
    return EXIT_OK


def add_references(journal: str, name: str, references_dir: Path | None) -> int:
    """Writes a file of references from the results of ``journal`` and returns the exit code.

    Raises UsageError if ``journal`` is not a journal, if its figures cannot be references, and if
    the file exists or cannot be written.
    """
    title = name.strip()
    if not title:
        raise UsageError("--name is empty: write a title, for example 'our rack, accepted 2026-11'")
    if not title.isprintable():
        raise UsageError(f"--name must be printable, and {title!r} is not")
    run = read_journal(Path(journal))
    header = run.header
    multicast = partial(multicast_of, header.environment, hosts=max(1, len(header.hosts)))
    try:
        text = references_text(run, title, multicast=multicast)
    except UsageError as error:
        raise UsageError(f"{journal}: {error}") from None
    directory = references_dir or data_directory()
    file = directory / f"{_stem(title, run.header.run_id)}.toml"
    content = text.encode()
    count = len(parse_references(content, str(file), own=True))
    place = "Choose another place with --references-dir DIR"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create {directory}: {error.strerror}. {place}") from None
    try:
        with file.open("xb") as opened:
            opened.write(content)
    except FileExistsError:
        raise UsageError(f"{file} already exists: use another --name, or remove it") from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}. {place}") from None
    for doubt in _doubts(run):
        print(f"cclmark: {plain(journal)}: {doubt}", file=sys.stderr)
    say(f"{plain(str(file))}: {count} figures of {plain(title)!r}, used from now on")
    if references_dir is not None and not _is_used(references_dir):
        print(
            f"cclmark: {plain(str(references_dir))} is not searched for references: add it to "
            f"{REFERENCES_VARIABLE}",
            file=sys.stderr,
        )
    return EXIT_OK


def _doubts(run: Journal) -> list[str]:
    """Returns the limitations of references created from the run, safe to print."""
    found = lacking(run)
    if found:
        found = [f"{'; '.join(found)}: only these results are a reference"]
    figures = [one for one in run.results if one.is_measured and one.is_checkable]
    unchecked = sum(not one.is_checked for one in figures)
    if unchecked:
        found.append(f"the data of {unchecked} of {len(figures)} figures was not checked")
    return found


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


def _printed(found: Sequence[Reference], format: str, *, asked: bool, colours: bool) -> str:
    if format == "json":
        return references_json(found)
    if format == "csv":
        return references_csv(found)
    if format == "markdown":
        return references_markdown(found)
    paint = ansi if colours else unpainted
    lines = figure_lines(found, paint) if asked else source_lines(found, paint)
    return "\n".join(lines) + "\n"
