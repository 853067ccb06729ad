"""Reports of journals as tests need them: without a name, and without references unless given."""

import base64
import dataclasses
import functools
import json
import re
import zlib
from collections.abc import Iterable
from itertools import repeat
from typing import Any

from msgspec.structs import replace

from cclmark.comparison.comparison_document import comparison_document
from cclmark.document.blocks import Finding
from cclmark.document.document_text import DocumentMarkdown, DocumentText, MarkdownLines, TextLines
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import View
from cclmark.explain.paths import Route
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Explanation, Header, Paths, Relation, Ring, Tree
from cclmark.kinds.collective.document import (
    PLACEMENTS,
    CaseView,
    document_of_cases,
    part_of_case,
)
from cclmark.kinds.registry import read_journal
from cclmark.report.overview import headline, insights
from evidence import fields_of, require_evidence
from places import H200X4

COLLECTIVES = read_journal(H200X4 / "report" / "collectives.jsonl")


def page_data(html: str) -> Any:
    """What only the script of a page reads."""
    (text,) = re.findall('<script type="text/plain" id="data">(.*?)</script>', html)
    data = json.loads(zlib.decompress(base64.b64decode(text)))
    if "texts" in data:
        data["texts"] = whole_texts(data["texts"])
    return data


def whole_texts(texts: Any) -> list[str]:
    """The texts of a page, whose words and figures are apart."""
    figures = [zip(*own, strict=True) if own else repeat(()) for own in texts["figures"]]
    found = []
    for form in texts["forms"]:
        first, *words = texts["words"][form]
        found.append(first + "".join(map("".join, zip(next(figures[form]), words, strict=True))))
    return found


def insights_on(journal: Journal, notes: ReferenceNotes | None = None) -> list[Finding]:
    """The statements about a run."""
    found = insights(NamedRun("", journal, notes or ReferenceNotes()))
    require_evidence(found, fields_of(journal.kind))
    return found


def finding_lines(found: Iterable[Finding]) -> list[str]:
    """Findings with their evidence and gain, a line for each part."""
    lines = []
    for one in found:
        subject = f"{one.subject}: " * bool(one.subject)
        lines.append(f"{one.severity} {one.id}: {subject}{one.sentence}")
        lines += [f"  advice: {one.advice}"] * bool(one.advice)
        for figure in one.evidence:
            limit = "" if figure.limit is None else f" {figure.comparison} {figure.limit:.6g}"
            place = f" at {figure.at}" * bool(figure.at)
            lines.append(f"  {figure.name}: {figure.value:.6g}{limit} {figure.unit}{place}")
        if (gain := one.gain) is not None:
            low, high = ("-" if end is None else f"{end:.6g}" for end in (gain.low, gain.high))
            lines.append(f"  gain: {gain.value:.6g} ({low} to {high}) {gain.unit} at {gain.at}")
    return lines


def headline_of(journal: Journal) -> str:
    """The figure of a run to remember."""
    return headline(NamedRun("", journal))


def case_text(
    placements: str = "both",
    *,
    markdown: bool = False,
    columns: int | None = None,
    references: ReferenceNotes | None = None,
    **shown: bool,
) -> DocumentText:
    """What ``cclmark all_reduce`` prints. ``columns``: of the terminal; ``shown``: of CaseView."""
    names = PLACEMENTS if placements == "both" else (placements,)
    return (DocumentMarkdown if markdown else DocumentText)(
        functools.partial(document_of_cases, view=CaseView(names, **shown)),
        View(columns=columns, references=references or ReferenceNotes()),
        functools.partial(part_of_case, placements=len(names)),
        in_order=True,
        keeps_samples=False,
    )


def exported(exporter: Any, journal: Journal) -> str:
    """The text of an exporter for a journal."""
    return (
        exporter.begin(journal.header)
        + "".join(map(exporter.add, journal.results))
        + exporter.end(journal.footer)
    )


def _explanation(result: CaseResult, text: str) -> Explanation:
    """As NCCL's choice: LL, from 512 KiB LL128, from 8 MiB SIMPLE."""
    size = result.case.size_bytes
    protocol = "LL" if size < 512 << 10 else "LL128" if size < 8 << 20 else "SIMPLE"
    return Explanation(
        result.index, "plug-in", "ring", "RING", protocol + text, 4, predicted_s={"RING LL": 1e-5}
    )


def explained(transport: str = "SHM/direct/direct", text: str = "", **more: Any) -> Journal:
    """All-reduces of four ranks with explanations and paths; ``text``: at the protocols' end."""
    results = [
        replace(one, explanation=_explanation(one, text))
        for one in COLLECTIVES.cases
        if one.case.operation == "all_reduce"
    ]
    routes = [Route(a, b, transport, 4) for a in range(4) for b in range(4) if a != b]
    rings = [Ring([0, 1, 2, 3], 3), Ring([0, 2, 1, 3], 1)]
    paths = Paths("nccl", "log", routes=routes, rings=rings, trees=[Tree([-1, 0, 0, 2], 4)], **more)
    links = [Relation(a, b, "NV18", 1) for a in range(4) for b in range(4) if a != b]
    header = replace(COLLECTIVES.header, relations=links)
    return dataclasses.replace(COLLECTIVES, header=header, results=results, paths=[paths])


def hostile_header(header: Header, text: str, **changes: Any) -> Header:
    """A header whose strings are ``text``."""
    given = {
        "command": [text, text],
        "devices": [
            replace(one, name=text, host=text, driver_version=text) for one in header.devices
        ],
        "relations": [replace(one, kind=text) for one in header.relations],
        "machine": replace(header.machine, hostname=text),
        "environment": {text: text, "NCCL_DEBUG": text},
        "notices": [text],
    }
    return replace(header, **given | changes)


def hostile_case(result: CaseResult, text: str) -> CaseResult:
    """A result whose strings are ``text``."""
    case = replace(result.case, operation=text, ccl=text, dtype=text)
    case = replace(case, reduction=case.reduction and text)
    return replace(result, case=case, route=text)


def comparison_text(comparison, *, markdown=False, **view):
    """What ``cclmark compare`` prints."""
    lines, document = MarkdownLines if markdown else TextLines, comparison_document(comparison)
    require_evidence(document.findings, {"time_us": "µs"})
    return lines(View(**view)).whole(document)
