"""What a page contains for programs: the journals and the documents of its runs.

In the JSON of documents, fields have the names and units of the dataclasses in ``blocks.py`` and
``chart_model.py``. The ``type`` of a block is the name of its class in small letters. A number that
JSON does not support (infinity, NaN) is null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from cclmark.base.printable import plain, printable
from cclmark.document.blocks import Document
from cclmark.document.document_text import document_of
from cclmark.document.naming import NamedRun
from cclmark.document.remarks import left_out
from cclmark.journal.journal_file import HEADER_BEGIN, Journal, with_checksum, without_checksum
from cclmark.journal.page_journals import (
    JOURNALS_ID,
    MOST_BYTES,
    PAGE_VERSION,
    PackedJournals,
    pack,
)
from cclmark.kinds.registry import report_kind

DOCUMENTS_ID = "cclmark-documents"
DOCUMENT_VERSION = 1
_BLOCKS = ("opening", "blocks", "closing")
# Of all journals of a page with their raw samples. Compressed they add less than a third to a page,
# most of which is the script that draws charts.
MOST_WITH_SAMPLES_BYTES = 3 << 20
_MOST_RESULTS = 20_000  # of runs whose documents are in the page
_SAMPLES = b'"samples":{'
_NOTICE = "the page that contains this journal has no raw samples: they are in the original journal"


def embedded(runs: Sequence[NamedRun]) -> tuple[dict[str, str], str]:
    """Returns JSON texts by the id of their script element, and what the page has to say of them.

    Journals that are large together are without raw samples, and left out if even that is too
    large, as are the documents of runs with many results, such as soaks.
    """
    contents = [run.content or _encoded(run.journal) for run in runs]
    what = "journals of its runs" if len(runs) > 1 else "journal of the run"
    note = f"This file contains the {what}: cclmark reads it in the place of a journal"
    if sum(map(len, contents)) > MOST_WITH_SAMPLES_BYTES:
        shorter = [*map(without_samples, contents)]
        if shorter != contents:
            note += ". Raw samples are left out: they are in the original journals"
        contents = shorter
    texts = {}
    if sum(map(len, contents)) > MOST_BYTES:
        note = "The journals of the runs are too large for this file: keep them"
    else:
        packed = [pack(plain(run.name), one) for run, one in zip(runs, contents, strict=True)]
        whole = PackedJournals(PAGE_VERSION, packed)
        texts[JOURNALS_ID] = msgspec.json.encode(whole).decode()
    if sum(len(run.journal.results) for run in runs) <= _MOST_RESULTS:
        texts[DOCUMENTS_ID] = _documents(runs)
    else:
        note += ". Their documents are too large for it"
    return texts, f"{note}."


def _documents(runs: Sequence[NamedRun]) -> str:
    found = []
    for run in runs:
        kind = run.journal.kind
        document = document_of(report_kind(kind).document, run)
        found.append({"name": run.name, "kind": kind, "document": plain_document(document)})
    whole = {"version": DOCUMENT_VERSION, "runs": found}
    try:
        return msgspec.json.encode(whole).decode()
    except UnicodeEncodeError:  # lone surrogates: journals that are read have none
        return msgspec.json.encode(printable(whole)).decode()


def plain_document(document: Document) -> dict[str, Any]:
    """Returns the document as objects and lists, each block with its type."""
    found = _builtins(replace(document, opening=(), blocks=(), closing=()))
    for name in _BLOCKS:
        blocks = getattr(document, name)
        found[name] = [{"type": type(one).__name__.lower(), **_builtins(one)} for one in blocks]
    return found


def _builtins(value: object) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value, enc_hook=list)  # a range and the like
    return found


def _encoded(journal: Journal) -> bytes:
    """Returns the journal without the lines that could not be read, which its header mentions."""
    notices = [*journal.header.notices, *left_out(journal)]
    header = msgspec.structs.replace(journal.header, notices=notices)
    return replace(journal, header=header).encoded()


def without_samples(content: bytes) -> bytes:
    """Returns a journal whose results have no raw samples, and whose header says so.

    Damaged lines remain as they are.
    """
    found = []
    has_some = False
    for line in content.splitlines():
        whole = without_checksum(line)
        place = -1 if whole is None else whole.find(_SAMPLES)
        if whole is None or place < 0:
            found.append(line + b"\n")
            continue
        has_some = True
        parts, begin = [], 0
        while place >= 0:
            parts.append(whole[begin : place + len(_SAMPLES) - 1])
            begin = whole.index(b"}", place) + 1  # samples are lists of numbers
            place = whole.find(_SAMPLES, begin)
        found.append(with_checksum(b"null".join([*parts, whole[begin:]])))
    if has_some and found[0].startswith(HEADER_BEGIN):
        found[0] = _noticed(found[0])
    return b"".join(found)


def _noticed(line: bytes) -> bytes:
    """Returns the header with a further notice; a damaged one as it is."""
    whole = without_checksum(line)
    try:
        header = json.loads(whole or b"")
        header["notices"] = [*header.get("notices", []), _NOTICE]
    except (ValueError, TypeError, RecursionError):
        return line
    return with_checksum(json.dumps(header, separators=(",", ":")).encode())
