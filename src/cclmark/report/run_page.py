"""The page of one journal, or of several side by side: its sections, and documents in them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec

from cclmark.base.grouping import by_key
from cclmark.base.printable import plain, printable
from cclmark.base.version import VERSION
from cclmark.document.blocks import (
    Bars,
    Document,
    Facts,
    HeadFigure,
    Listing,
    Severity,
    Stages,
    Table,
    unhandled,
)
from cclmark.document.case_fields import SHARE_COLUMNS
from cclmark.document.chart_model import Chart, Heat, key_of, marked
from cclmark.document.columns import Cell, Column
from cclmark.document.connection_words import connections_of, ring_text, transport_groups, tree_text
from cclmark.document.device_labels import device_labels
from cclmark.document.document_text import Compose, document_of
from cclmark.document.explained import RAN_NOTE, ran_tables
from cclmark.document.head import head_facts, origin_of
from cclmark.document.insight_words import amount, capitalised, listed, of_all_ranks, sentence
from cclmark.document.naming import NamedRun
from cclmark.document.page.drawings import (
    Diagram,
    DiagramLayout,
    DiagramLine,
    StageBars,
    places_of_devices,
    stage_bars,
)
from cclmark.document.page.page import shortened
from cclmark.document.page.page_model import Page, Rows, Section
from cclmark.document.peaks import peaks_of
from cclmark.document.remarks import left_out
from cclmark.document.step_words import STEPS_HEAD, STEPS_TITLE, notes_of_steps, steps_row
from cclmark.document.text import BYTES_PER_GB, counted
from cclmark.document.why import prediction_tables
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import HEADER_BEGIN, Journal, with_checksum, without_checksum
from cclmark.journal.page_journals import (
    JOURNALS_ID,
    MOST_BYTES,
    PAGE_VERSION,
    PackedJournals,
    pack,
)
from cclmark.journal.sample_times import FIGURE_DIGITS
from cclmark.journal.schema import Explanation, Header, Paths, Trace, TracedStage
from cclmark.kinds.experiment.document import variant_name
from cclmark.kinds.experiment.figures import experiment_of
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import KINDS, report_kind
from cclmark.report.overview import (
    headline,
    insights,
    measured_words,
    of_definitions,
    of_methods,
    together,
    verdict,
    verdict_rows,
)
from cclmark.work.sizes import format_size

DOCUMENTS_ID = "cclmark-documents"
DOCUMENT_VERSION = 2
_BLOCKS = ("opening", "blocks", "closing")
# For each run of a page, of journals with their raw samples, and of these journals compressed.
MOST_WITH_SAMPLES_BYTES = 300_000
_MOST_COMPRESSED_BYTES = 60_000
_MOST_RESULTS = 3000  # of runs whose documents are in the page
_SAMPLES = b'"samples":{'
_NOTICE = (
    "the page that contains this journal has no raw samples, and figures of five digits: the "
    "original journal has all"
)


def embedded(runs: Sequence[NamedRun]) -> tuple[dict[str, str], str]:
    """Returns JSON texts by the id of their script element, and what the page has to say of them.

    In the JSON of documents, fields have the names and units of the dataclasses in ``blocks.py``
    and ``chart_model.py``. The ``type`` of a block is the name of its class in small letters. A
    number that JSON does not support (infinity, NaN) is null.

    Journals that are large together are without raw samples, and left out if even that is too
    large, as are the documents of runs with many results, such as soaks.
    """
    contents = [run.content or _encoded(run.journal) for run in runs]
    what = "journals of its runs" if len(runs) > 1 else "journal of the run"
    note = f"This file contains the {what}: cclmark reads it in the place of a journal"
    if _are_large(contents):
        shorter = [
            without_samples(content, run.journal.results)
            for content, run in zip(contents, runs, strict=True)
        ]
        if shorter != contents:
            note += (
                ". Raw samples are left out and figures have five digits: the original journals "
                "have all"
            )
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


def _are_large(contents: Sequence[bytes]) -> bool:
    sizes = map(len, contents), (len(zlib.compress(one)) for one in contents)
    most = MOST_WITH_SAMPLES_BYTES, _MOST_COMPRESSED_BYTES
    return any(sum(found) > each * len(contents) for found, each in zip(sizes, most, strict=True))


def _documents(runs: Sequence[NamedRun]) -> str:
    found = []
    for run in runs:
        kind = run.journal.kind
        document = plain_document(document_of(report_kind(kind).document, run))
        try:
            content = msgspec.json.encode(document)
        except UnicodeEncodeError:  # lone surrogates: journals that are read have none
            content = msgspec.json.encode(printable(document))
        found.append({"name": plain(run.name), "kind": kind, "zlib": zlib.compress(content, 9)})
    return msgspec.json.encode({"version": DOCUMENT_VERSION, "runs": found}).decode()


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


def without_samples(content: bytes, results: Sequence[Result]) -> bytes:
    """A journal without raw samples, as its header says; damaged lines stay.

    ``results``: its own, with the figures that its lines leave out. Figures of results that had
    samples get as many digits as those of journals of today.
    """
    figures = {(one.index, one.cycle): one for one in results if one.summarised is not None}
    found = []
    has_some = False
    for line in content.splitlines():
        whole = without_checksum(line)
        try:
            is_long = whole is not None and _SAMPLES in whole
            shorter = json.loads(whole or b"", object_hook=_shorter) if is_long else None
        except (ValueError, RecursionError):  # the last line of a journal that was cut off
            shorter = None
        if shorter is None:
            found.append(line + b"\n")
            continue
        has_some = True
        _complete(shorter, figures)
        # Without a checksum: the page has one.
        found.append(json.dumps(shorter, separators=(",", ":")).encode() + b"\n")
    if has_some and found[0].startswith(HEADER_BEGIN):
        found[0] = _noticed(found[0])
    return b"".join(found)


def _complete(line: Any, figures: Mapping[Any, Any]) -> None:
    """Adds the figures that a line leaves out because they follow from its samples."""
    place = (line.get("index"), line.get("cycle", 0)) if isinstance(line, dict) else (None, None)
    result = figures.get(place) if all(isinstance(one, int) for one in place) else None
    if result is None:
        return
    for stored, own in ((line, result), (line.get("device"), result.device)):
        summary = stored.get("summary") if isinstance(stored, dict) else None
        if isinstance(summary, dict) and "samples" not in summary and own is not None:
            summary.update(_builtins(own.summary))


def _shorter(fields: dict[str, Any]) -> dict[str, Any]:
    for name, value in fields.items():
        if name == "samples" and isinstance(value, dict):
            fields[name] = None
        elif isinstance(value, float):
            in_time = name.endswith("at_s")  # seconds since 1970
            fields[name] = round(value, 3) if in_time else float(f"{value:.{FIGURE_DIGITS}g}")
    return fields


def _noticed(line: bytes) -> bytes:
    """Returns the header with a further notice; a damaged one as it is."""
    whole = without_checksum(line)
    try:
        header = json.loads(whole or b"")
        header["notices"] = [*header.get("notices", []), _NOTICE]
    except (ValueError, TypeError, RecursionError):
        return line
    return with_checksum(json.dumps(header, separators=(",", ":")).encode())


_MOST_COLUMNS = 32


def _marked(runs: Sequence[NamedRun]) -> Iterator[tuple[NamedRun, str, str]]:
    """Yields each run with the ends of its keys and of its titles, empty for a single run."""
    for number, run in enumerate(runs):
        several = len(runs) > 1
        yield run, f"-{number}" if several else "", f" ({run.name})" if several else ""


def sections_of(compose: Compose, key: str, runs: Sequence[NamedRun]) -> list[Section]:
    """Returns a section with the blocks of every run that has some; listings before it."""
    found = []
    keys: set[str] = set()
    for run, mark, name in _marked(runs):
        document = document_of(compose, run)
        tables: list[Table] = []
        bars: list[StageBars] = []
        charts: list[Chart] = []
        facts: list[tuple[str, str]] = []
        for block in document.all_blocks:
            match block:
                case Table():
                    if block.on_page:
                        tables.append(block)
                case Bars():
                    bars.append(_bars(block))
                case Stages():
                    bars.append(_stages(block))
                case Heat():
                    _add_heat(block, charts, tables)
                case Chart():
                    charts.append(block)
                case Facts():
                    facts += block.rows
                case Listing():
                    title = f"{capitalised(block.title)}{name}"
                    listing = "\n".join(map(plain, block.lines))
                    found.append(
                        Section(key_of(f"{block.title}{mark}", keys), title, listing=listing)
                    )
                case _:
                    unhandled(block)
        if tables or bars or charts or facts:
            found.append(
                Section(
                    f"{key}{mark}",
                    f"{document.title}{name}",
                    [*document.notes, *([sentence(document.outcome)] if document.outcome else [])],
                    charts=marked(charts, mark),
                    tables=tables,
                    facts=[Facts(facts)] if facts else [],
                    bars=bars,
                )
            )
    return found


def _add_heat(heat: Heat, charts: list[Chart], tables: list[Table]) -> None:
    """Adds a chart; of devices without any value a table, unless it has too many columns."""
    notes = [*heat.meaning, *heat.notes, *heat.reasons]
    if not heat.of_devices or any(value is not None for row in heat.values for value in row):
        charts.append(replace(heat, notes=notes))
    elif not heat.is_detail and 0 < len(heat.columns) <= _MOST_COLUMNS:
        rows = [[name, *texts] for name, texts in zip(heat.rows, heat.texts, strict=True)]
        head = [heat.column_title, *heat.columns]
        tables.append(Table(heat.title, head, rows, "<" * len(head), notes))


def _bars(bars: Bars) -> StageBars:
    rows: list[tuple[str, list[TracedStage]]] = []
    for row, parts in bars.rows:
        begin_s = 0.0
        stages = []
        for name, time_s in parts:
            stages.append(TracedStage(name, begin_s, time_s))
            begin_s += time_s
        rows.append((row, stages))
    return _stages(Stages(bars.title, bars.noun, rows))


def _stages(one: Stages) -> StageBars:
    stages = {number: own for number, (_, own) in enumerate(one.rows)}
    return stage_bars(one.title, one.noun, stages, dict(enumerate(name for name, _ in one.rows)))


_MOST_MAPPED = 16  # devices
_LONGEST_VALUE = 2000  # characters of a variable


def machine_sections(runs: Sequence[NamedRun]) -> list[Section]:
    """Returns sections on the machine and its libraries, the environment, and each run's method."""
    facts, environment, method = [], [], []
    diagrams: list[Diagram] = []
    for run in runs:
        name = f" of {run.name}" if len(runs) > 1 else ""
        header = run.journal.header
        machine = header.machine
        rows = [
            ("host", machine.hostname),
            ("system", f"{machine.system}, kernel {machine.kernel}"),
            (
                "processor",
                f"{machine.processor}, {machine.processors} processors, "
                f"{machine.numa_nodes} NUMA node{'s' * (machine.numa_nodes > 1)}",
            ),
            ("memory", format_size(machine.memory_bytes)),
        ]
        if header.imported is not None:  # another tool reports few of these fields
            rows = []
        rows += head_facts(header)
        rows += [
            (
                "another host",
                f"{one.machine.hostname}, {one.machine.system}, kernel {one.machine.kernel}",
            )
            for one in header.hosts[1:]
        ]
        rows += [("notice", text) for text in header.notices]
        rows += _device_rows(header)
        diagrams += [*device_map(header), *places_of_devices(header)]
        facts.append(Facts(rows, f"Machine and libraries{name}"))
        if header.environment:
            environment.append(
                Facts(
                    [(key, _cut(value)) for key, value in sorted(header.environment.items())],
                    run.name if len(runs) > 1 else "",
                )
            )
        method.append(Facts(_method_rows(run), run.name if len(runs) > 1 else ""))
    sections = [Section("machine", "Machine", facts=facts, diagrams=diagrams)]
    if environment:
        sections.append(Section("environment", "Environment", facts=environment))
    sections.append(Section("method", "Method", words=_method_words(runs), facts=method))
    return sections


def _device_rows(header: Header) -> Iterator[tuple[str, str]]:
    """Where the devices are, and how they are connected if all pairs are alike."""
    names = device_labels(header.devices)
    places = [
        f"{name}: {one.pci_bus_id}" + (f", NUMA node {one.numa_node}" if one.numa_node >= 0 else "")
        for name, one in zip(names, header.devices, strict=True)
        if one.pci_bus_id
    ]
    if 0 < len(places) <= _MOST_MAPPED:
        yield "places", "; ".join(places)
    kinds = {(one.kind, one.limit_bytes_per_s) for one in header.relations}
    if len(kinds) == 1:
        kind, limit = kinds.pop()
        rate = f", {limit / BYTES_PER_GB:.0f} GB/s in one direction" if limit else ""
        yield "connections", f"{kind} between all {counted(len(header.relations), 'pair')}{rate}"


def device_map(header: Header) -> list[Diagram]:
    """A drawing of the connections of devices; none if all are alike, or devices too many."""
    by_kind = by_key((one.kind, (one.first, one.second)) for one in header.relations)
    hosts = {device.rank: device.host for device in header.devices}
    if not 1 < len(by_kind) <= _MOST_TRANSPORTS or not 2 < len(hosts) <= _MOST_MAPPED:
        return []
    words = "; ".join(f"{kind} between {counted(len(of), 'pair')}" for kind, of in by_kind.items())
    return [
        DiagramLayout(hosts).drawn(
            "Connections of the devices",
            f"The connection of every two devices: {words}.",
            [DiagramLine(*pair, look) for look, of in enumerate(by_kind.values()) for pair in of],
            [*enumerate(by_kind)],
        )
    ]


def _cut(value: str) -> str:
    more = len(value) - _LONGEST_VALUE
    return f"{value[:_LONGEST_VALUE]} … {more} characters more" if more > 0 else value


def _method_words(runs: Sequence[NamedRun]) -> list[str]:
    """Explains the figures of each kind of work in the runs."""
    present = {run.journal.kind for run in runs}
    words = dict.fromkeys(report_kind(name).method_words for name in KINDS if name in present)
    return [text for text in words if text]


def _method_rows(run: NamedRun) -> list[tuple[str, str]]:
    journal = run.journal
    header, settings = journal.header, journal.header.settings
    kind = report_kind(journal.kind)
    rows = [
        ("command", " ".join(header.command)),
        ("started", header.started_at),
        ("in words", kind.method(header)),
    ]
    if header.imported is None and kind.by_session:
        rows += [
            ("timing", settings.timing),
            ("across ranks", settings.across_ranks),
            ("barrier", settings.barrier),
            ("clock", settings.clock),
        ]
    if header.imported is None and kind.has_samples:
        at_most = f"at most {settings.max_time_s:g} s"
        rows.append(("precision", f"±{settings.precision * 100:.3g} % of the median, {at_most}"))
    if header.imported is None:
        rows.append(("seed", str(settings.seed)))
    rows.append(("run", header.run_id))
    if header.launcher:
        rows.append(("started by", header.launcher))
    if journal.footer is not None:
        rows.append(
            ("took", f"{journal.footer.duration_s:.1f} s, exit code {journal.footer.exit_code}")
        )
    return rows


_RUN_COLUMN = Column("run", "text", "Name of the run.")


def rows_of(runs: Sequence[NamedRun], file_name: str) -> Rows:
    """Returns all results of all runs; columns without any value are left out."""
    lines: list[dict[str, Cell]] = []
    parts: list[int] = []
    notes: dict[str, None] = {}
    for run in runs:
        first: dict[str, Cell] = {"run": run.name} if len(runs) > 1 else {}
        kind = report_kind(run.journal.kind)
        parts += [[*KINDS].index(run.journal.kind)] * len(run.journal.results)
        cells = kind.cells_of(run)
        lines += [{**first, **cells(result)} for result in run.journal.results]
        notes |= dict.fromkeys(kind.page_notes(run.journal.results))
    present = {run.journal.kind for run in runs}
    columns = [one for kind in KINDS if kind in present for one in report_kind(kind).page_columns]
    by_name: dict[str, Column] = {}
    for column in (_RUN_COLUMN, *columns, *SHARE_COLUMNS):
        by_name.setdefault(column.name, column)
    # Without what is empty in all rows, or as usual in all of them.
    usual: dict[str, tuple[Cell, ...]] = {"cycle": (None, "", 0)}
    used = [
        name
        for name in by_name
        if any(line.get(name) not in usual.get(name, (None, "", "ok")) for line in lines)
    ]
    return Rows(
        [by_name[name] for name in used],
        [
            [shortened(cell) if isinstance(cell, float) else cell for cell in map(line.get, used)]
            for line in lines
        ],
        file_name,
        [*notes],
        parts if len(present) > 1 else [],
    )


def steps_sections(runs: Sequence[NamedRun]) -> list[Section]:
    """Returns a section with a row for each run that has steps; none if there is only one."""
    named = []
    for run in runs:
        step_runs = report_kind(run.journal.kind).step_runs
        if step_runs is not None:
            named += [(run.name, one) for one in step_runs(run.journal)]
    if len({name for name, _ in named}) < 2:
        return []
    rows = [steps_row(name, one) for name, one in named]
    sides = "<<" + ">" * (len(STEPS_HEAD) - 2)
    table = Table(STEPS_TITLE, STEPS_HEAD, rows, sides, notes_of_steps(named))
    return [Section("steps", "Steps", tables=[table])]


_OPEN = {
    "perfetto": "Open it at https://ui.perfetto.dev, which reads it in the browser and uploads "
    "nothing.",
    "chrome": "Open it at https://ui.perfetto.dev or in chrome://tracing.",
}


def trace_sections(runs: Sequence[NamedRun]) -> list[Section]:
    """Returns a section for each trace."""
    sections = []
    for run, mark, name in _marked(runs):
        what = report_kind(run.journal.kind).traced
        for trace in run.journal.traces:
            words = [_timeline_place(trace)]
            footer = run.journal.footer
            if footer is not None:
                words += [f"{problem}." for problem in footer.problems]
            bars = [stage_bars("Stages", what, trace.stages)] if trace.stages else []
            sections.append(
                Section(
                    f"trace{mark}",
                    f"Timeline{name}",
                    words,
                    bars=bars,
                    listing="\n".join(trace.summary),
                )
            )
    return sections


def _timeline_place(trace: Trace) -> str:
    """Where the timeline is."""
    what = f"The timeline of {trace.operations} operations after the measurement"
    if not trace.file:
        return f"{what} could not be written."
    return f"{what} is in the file {trace.file}. {_OPEN.get(trace.format, '')}".rstrip()


_MOST_RANKS = 64  # in a drawing
_MOST_SHAPES = 4  # rings, and trees, that are drawn
_MOST_TRANSPORTS = 6
_UNKNOWN = "unknown"


def ran_sections(runs: Sequence[NamedRun]) -> list[Section]:
    """Returns a section for each run in which something was explained."""
    sections = []
    for run, mark, name in _marked(runs):
        cases = of_all_ranks(run.journal)
        tables = [*ran_tables(cases), *_variant_tables(run.journal), *prediction_tables(cases)]
        facts, diagrams = _connections(run.journal)
        if tables or facts:
            sections.append(
                Section(
                    f"what-ran{mark}",
                    f"What ran{name}",
                    [RAN_NOTE],
                    tables=tables,
                    facts=facts,
                    diagrams=diagrams,
                )
            )
    return sections


def _variant_tables(journal: Journal) -> list[Table]:
    """What ran with each variant at each size, a table for each operation; none if unknown."""
    experiment = experiment_of(journal.of(TrialResult), journal.header.settings.timing)
    tables = []
    for cases in experiment.groups:
        rows: list[list[str]] = []
        for variant in experiment.variants:
            found = [experiment.compared.get((variant, case)) for case in cases]
            if variant == experiment.variants[0]:
                usual = [_ran(one.usual if one else None) for one in found]
                rows += [["default", *usual]] if any(usual) else []
            ran = [_ran(one.explanation if one else None) for one in found]
            rows.append([variant_name(variant), *ran])
        if any(cell not in ("", _UNKNOWN) for row in rows for cell in row[1:]):
            head = ["variant", *(case.size_words() for case in cases)]
            title = cases[0].series().group_words()
            tables.append(Table(title, head, rows, "<" * len(head)))
    return tables


def _ran(explanation: Explanation | None) -> str:
    return "" if explanation is None else explanation.choice_with_channels or _UNKNOWN


def _connections(journal: Journal) -> tuple[list[Facts], list[Diagram]]:
    facts, diagrams = [], []
    for paths in journal.paths:
        found = connections_of(journal.header, paths)
        title = f"Connections of {found.ccl}" + ("" if found.reason else f" ({found.source})")
        rows = [("unknown", found.reason)] if found.reason else list(found.parts)
        rows += [("warning", text) for text in found.warnings]
        if rows:
            facts.append(Facts(rows, title))
        if not found.reason:
            diagrams += diagrams_of(journal.header, paths)
    return facts, diagrams


def diagrams_of(header: Header, paths: Paths) -> list[Diagram]:
    """Returns drawings of the transports, rings and trees; none for few or too many ranks."""
    hosts = {device.rank: device.host for device in header.devices}
    if not 2 < len(hosts) <= _MOST_RANKS:
        return []
    layout = DiagramLayout(hosts)
    found = []
    if groups := transport_groups(paths):
        shown = list(groups.items())[:_MOST_TRANSPORTS]
        words = "; ".join(f"{name} between {counted(len(of), 'pair')}" for name, of in shown)
        found.append(
            layout.drawn(
                f"{paths.ccl}: transport between ranks",
                f"The transport between every two ranks: {words}.",
                [DiagramLine(*pair, look) for look, (_, of) in enumerate(shown) for pair in of],
                [(look, name) for look, (name, _) in enumerate(shown)],
            )
        )
    for ring in paths.rings[:_MOST_SHAPES]:
        ways = pairwise([*ring.ranks, ring.ranks[0]])
        found.append(
            layout.drawn(
                f"{paths.ccl}: ring of {counted(ring.channels, 'channel')}",
                f"A ring of ranks: {ring_text(ring)}.",
                [DiagramLine(*way, arrow=True) for way in ways],
            )
        )
    for tree in paths.trees[:_MOST_SHAPES]:
        found.append(
            layout.drawn(
                f"{paths.ccl}: tree of {counted(tree.channels, 'channel')}, towards its root",
                f"A tree of ranks: {tree_text(tree)}.",
                [
                    DiagramLine(rank, parent, arrow=True)
                    for rank, parent in enumerate(tree.parents)
                    if parent >= 0
                ],
            )
        )
    return found


_MOST_DETAILED = 2  # kinds of work described in a title
_MOST_LED = 3  # runs described one by one above the table of peaks
_MOST_JUDGED = 8  # runs whose verdicts open the page


def page_of(runs: Sequence[NamedRun], title: str = "", *, embeds: bool = True) -> Page:
    """Creates the page with all results of ``runs``. Requires at least one run.

    ``embeds``: it contains their journals and documents, so that cclmark can read it.
    """
    several = len(runs) > 1
    texts, note = embedded(runs) if embeds else ({}, "")
    return Page(
        title=title or _title(runs),
        subtitle=_subtitle(runs),
        lead=_lead(runs),
        verdicts=[
            (run.name if several else "", _verdict_rows(run, 3 if len(runs) <= _MOST_LED else 1))
            for run in (runs if len(runs) <= _MOST_JUDGED else ())
        ],
        insights=together(
            [(run.name if several else "", insights(run)) for run in runs],
            [
                *of_definitions([run.journal for run in runs]),
                *of_methods([(run.name, run.journal) for run in runs]),
            ],
        ),
        sections=[
            *steps_sections(runs),
            *chart_sections(runs),
            *ran_sections(runs),
            *trace_sections(runs),
            *machine_sections(runs),
        ],
        rows=rows_of(runs, f"{key_of(title or _title(runs), set())}.csv"),
        peaks=peaks_of(runs),
        overview=_overview(runs),
        figures=_head_figures(runs),
        made_by=f"{_made_by(runs)} {note}".rstrip(),
        embedded=texts,
    )


def _overview(runs: Sequence[NamedRun]) -> Sequence[Chart]:
    """The charts of the first kind of work that has some for the top of a page."""
    for name, own in by_key((run.journal.kind, run) for run in runs).items():
        if charts := report_kind(name).overview(own):
            return charts
    return ()


def _head_figures(runs: Sequence[NamedRun]) -> Sequence[HeadFigure]:
    """Those of a single run."""
    if len(runs) != 1:
        return ()
    return document_of(report_kind(runs[0].journal.kind).document, runs[0]).head_figures


def _made_by(runs: Sequence[NamedRun]) -> str:
    text = f"Made by cclmark {VERSION}."
    if not any(report_kind(run.journal.kind).has_samples for run in runs):
        return text
    return (
        f"{text} Times are medians over samples of the slowest rank unless the method says "
        "otherwise, times of imported runs as their tool printed them; GB/s are 10⁹ bytes per "
        "second."
    )


def _verdict_rows(run: NamedRun, most: int) -> tuple[Severity, list[tuple[str, str]]]:
    """The severity of the verdict on a run, and ``most`` of its lines."""
    found = verdict(run)
    # Readers of a page have its path, not that of the journal.
    return found.severity, verdict_rows(replace(run, path=""), found, on_page=True)[:most]


def _lead(runs: Sequence[NamedRun]) -> list[str]:
    """Describes the work and the main figure of each run; many runs are grouped by their work."""
    if len(runs) == 1:
        run = runs[0]
        figure = headline(run)
        # Figures contain that of collectives. Where nothing judges it, the verdict does.
        answer = verdict(run).answer
        is_said = (run.findings and _head_figures(runs)) or figure.rstrip(".") in answer
        done = report_kind(run.journal.kind).done
        return [f"{done}: {measured_words(run.journal)} {'' if is_said else figure}".rstrip()]
    if len(runs) <= _MOST_LED:
        return [f"{run.name}: {measured_words(run.journal)} {headline(run)}" for run in runs]
    alike = by_key((measured_words(run.journal), run.name) for run in runs)
    return [
        f"{names[0]}: {words}" if len(names) == 1 else f"{len(names)} runs, of each: {words}"
        for words, names in alike.items()
    ]


def chart_sections(runs: Sequence[NamedRun]) -> list[Section]:
    """Returns the sections with charts, by kind of work."""
    present = {run.journal.kind for run in runs}
    return [
        section
        for name in KINDS
        if name in present
        for section in _sections_of(name, [run for run in runs if run.journal.kind == name])
    ]


def _sections_of(name: str, runs: Sequence[NamedRun]) -> list[Section]:
    kind = report_kind(name)
    if kind.sections is not None:
        return kind.sections(runs)
    return sections_of(kind.document, name, runs)


def _title(runs: Sequence[NamedRun]) -> str:
    what = _work(runs)
    measured = [run for run in runs if report_kind(run.journal.kind).done == "Measured"]
    places = {_place(run.journal.header) for run in measured}
    return f"{what} on {places.pop()}" if len(places) == 1 else what


def _work(runs: Sequence[NamedRun]) -> str:
    """Returns the work of all runs: in detail for few kinds, the names of the kinds for more."""
    by_kind = by_key((run.journal.kind, run) for run in runs)
    if len(by_kind) <= _MOST_DETAILED:
        return "; ".join(report_kind(kind).titled(of_kind) for kind, of_kind in by_kind.items())
    return listed([report_kind(kind).title for kind in by_kind])


def _place(header: Header) -> str:
    names = list(dict.fromkeys(device.name for device in header.devices))
    number = len(header.devices)
    if header.imported is not None and not number:
        return amount(header.imported.ranks, "rank")
    if len(names) == 1 and names[0]:
        return f"{number} × {names[0]}"
    return amount(number, "device")


def _subtitle(runs: Sequence[NamedRun]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs: " + ", ".join(run.name for run in runs)
    header = runs[0].journal.header
    if header.imported is not None:
        return f"imported {origin_of(header.imported)}"
    started = header.started_at.replace("T", " ")[:16]
    version = header.cclmark_version
    return f"{header.machine.hostname}, {started} UTC, cclmark {version}"
