"""References as text, Markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import msgspec

from cclmark.base.statistics import median
from cclmark.document.blocks import Document, Severity, TableColumn, table_of
from cclmark.document.fields import Field, csv_lines
from cclmark.document.paint import Paint, unpainted
from cclmark.document.reference_notes import NORMAL_FROM, ReferenceNotes, share_text
from cclmark.document.text import BYTES_PER_GB, US_PER_S, counted, us_text
from cclmark.references.match import reference_name
from cclmark.references.reference import Reference, Source, devices_text
from cclmark.references.reference_checks import Checked, below
from cclmark.work.sizes import format_size

_MOST_REASONS = 6
_FEW_PAIRS = 4  # which are listed


@dataclass(frozen=True)
class ReferenceCheck:
    """The results of the journal ``name``. ``least_share``: the required share, None without."""

    name: str
    found: Sequence[Checked]
    notes: ReferenceNotes
    least_share: float | None = None

    @property
    def least(self) -> float:
        """The share below which a result is low."""
        return NORMAL_FROM if self.least_share is None else self.least_share


def check_document(check: ReferenceCheck) -> Document:
    """Composes a table for each operation, the legend of the references, and the counts."""
    least = check.least

    def look(one: Checked) -> Severity | Literal[""]:
        if one.bad or (below([one], least) and check.least_share is not None):
            return "bad"
        return "look" if below([one], least) else ""

    def remark(one: Checked) -> str:
        low = "low" if below([one], least) else ""
        return one.bad or low or ("" if one.judged else "not judged")

    columns = (
        TableColumn("size", lambda one: one.thing.size_words(), ">"),
        TableColumn("between", lambda one: one.thing.flow_words()),
        TableColumn("time µs", lambda one: us_text(one.time_s), ">"),
        TableColumn("GB/s", lambda one: f"{_gbps(one):.2f}" if one.bandwidth else "-", ">"),
        TableColumn("reference", lambda one: "-" if one.match is None else one.match.figure, ">"),
        TableColumn("share", lambda one: check.notes.cell(one.match), ">", look),
        TableColumn("remark", remark, look=look),
    )
    tables = [
        table_of(name, columns, group, is_detail=not any(map(look, group)))
        for name, group in _in_groups(check.found).items()
    ]
    return Document(
        f"{check.name} against references",
        "",
        tables,
        notes=[*check.notes.legend(), *_of_devices(check), *_reasons(check)],
        outcome=tally(check),
        is_wrong=check.least_share is not None and any(map(look, check.found)),
    )


def _gbps(one: Checked) -> float | None:
    return None if one.bandwidth is None else one.bandwidth / BYTES_PER_GB


def _in_groups(found: Sequence[Checked]) -> dict[str, list[Checked]]:
    """Groups the shown results by table, in order of the tables' first results."""
    groups: dict[str, list[Checked]] = {}
    for one in found:
        if one.match is not None or one.bad:
            groups.setdefault(one.thing.group_words(), []).append(one)
    return groups


def tally(check: ReferenceCheck) -> str:
    """Counts results with a reference and judged results, and describes the range of shares."""
    least = check.least
    judged = [one.match for one in check.found if one.judged and one.match is not None]
    held = sum(one.match is not None for one in check.found)
    text = f"{counted(len(check.found), 'case')}: {held} with a reference, {len(judged)} judged"
    if judged:
        shares = [match.share for match in judged]
        text += f", {len(below(check.found, least))} of them below {percent(least)}"
        text += f"; shares from {share_text(min(shares))} to {share_text(max(shares))}"
    bad = sum(bool(one.bad) for one in check.found)
    return text + (f"; {bad} without valid figures" if bad else "")


def percent(share: float) -> str:
    """Formats a share as the user requested it: ``90%`` or ``99.5%``."""
    return f"{share * 100:.4g}%"


_CHECK = (
    Field("case", "What was measured.", lambda one: one.thing.describe(), "text"),
    Field("size_bytes", "Size of the message.", "thing.size_bytes", "int"),
    Field("time_us", "Its time.", "time_s"),
    Field("gbps", "Its bandwidth.", lambda one: one.bandwidth or None),
    Field("reference", "The nearest reference.", "match.words", "text"),
    Field(
        "reference_gbps",
        "Bandwidth of the reference.",
        lambda one: (one.match.bandwidth or None) if one.match else None,
    ),
    Field("reference_us", "Time of the reference.", "match.time_s"),
    Field(
        "share",
        "Bandwidth over that of the reference, or time of the reference over the time.",
        "match.share",
        direction="higher",
    ),
    Field("exact", "Whether the reference is of the same machine.", "match.exact", "int"),
    Field("judged", "Whether the share was judged.", "judged", "int"),
    Field("remark", "What is wrong, or why not.", lambda one: one.bad or one.unjudged, "text"),
    Field("by_device", "Whether times of the devices were compared.", "by_device", "int"),
)


def check_csv(check: ReferenceCheck) -> str:
    """Returns a line for each case; GB/s are 10^9 bytes per second, a share is a fraction of 1."""
    return "".join(csv_lines(_CHECK, check.found))


def check_json(check: ReferenceCheck) -> str:
    """Returns all results, in base units."""
    cases = []
    for one in check.found:
        match = one.match
        cases.append(
            {
                "what": one.thing.describe(),
                "ccl": one.thing.ccl or None,
                "size_bytes": one.thing.size_bytes,
                "time_s": one.time_s,
                "bytes_per_s": one.bandwidth,
                "judged": one.judged,
                "remark": one.bad or one.unjudged or None,
                "reference": None
                if match is None
                else {
                    "words": match.words,
                    "source": match.reference.source.name,
                    "bytes_per_s": match.bandwidth or None,
                    "time_s": match.time_s,
                    "share": match.share,
                    "by_device": match.by_device,
                    "exact": match.exact,
                    "differences": list(match.differences),
                },
            }
        )
    document = {"journal": check.name, "least_share": check.least_share, "cases": cases}
    return json.dumps(document, indent=1) + "\n"


def _of_devices(check: ReferenceCheck) -> list[str]:
    """Says how many figures are times of the devices, which need no launches."""
    count = sum(one.by_device for one in check.found)
    return [f"{count} by the time of the device, without launches"] if count else []


def _reasons(check: ReferenceCheck) -> list[str]:
    """Counts the reasons why results were not judged, the most frequent first."""
    counts = Counter(one.unjudged for one in check.found if one.unjudged and not one.bad)
    lines = [f"{count} not judged: {reason}" for reason, count in counts.most_common()]
    more = len(lines) - _MOST_REASONS
    return lines[:_MOST_REASONS] + ([f"and {more} more reasons"] if more > 0 else [])


_IN_PLACE = {True: "in-place", False: "out-of-place", None: ""}
_MULTICAST = {True: "on", False: "off", None: ""}
_REFERENCE = (
    Field("source", "Name of the source.", "source.name", "text"),
    Field("devices", "Devices.", lambda one: devices_text(one.devices).replace("×", "x"), "text"),
    Field("hosts", "Number of hosts.", lambda one: one.hosts or None, "int"),
    Field("operation", "Operation, as NCCL names it.", "operation", "text"),
    Field("library", "Library that performed it.", "library", "text"),
    Field("version", "Version of the library.", "version", "text"),
    Field("tool", "Tool that measured.", "tool", "text"),
    Field("dtype", "Data type of an element.", "dtype", "text"),
    Field("reduction", "Reduction.", "reduction", "text"),
    Field("placement", "Placement.", lambda one: _IN_PLACE[one.in_place], "text"),
    Field(
        "multicast", "Whether NVLink SHARP was on.", lambda one: _MULTICAST[one.multicast], "text"
    ),
    Field("launch", "How operations were launched.", "launch", "text"),
    Field("kind", "Kind of the figure.", "kind", "text"),
    Field("approximate", "Whether the figure was read off a chart.", "approximate", "int"),
    Field("size_bytes", "Size of the message.", lambda one: one.size_bytes or None, "int"),
    Field("time_us", "Time of one operation.", "time_s"),
    Field("device_us", "Time that the devices need.", "device_s"),
    Field("algbw_gbps", "Algorithm bandwidth.", "algbw_bytes_per_s"),
    Field("busbw_gbps", "Bus bandwidth.", "busbw_bytes_per_s"),
    Field("measure", "What was measured of copies.", "measure", "text"),
    Field("direction", "Whether devices read or write.", "direction", "text"),
    Field("engine", "What copies: CE or SM.", "engine", "text"),
    Field("kernel", "Kernel that copies.", "kernel", "text"),
    Field("method", "Method of the tool.", "method", "text"),
    Field(
        "from", "Device of a pair.", lambda one: None if one.pair is None else one.pair[0], "int"
    ),
    Field("to", "The other one.", lambda one: None if one.pair is None else one.pair[1], "int"),
    Field("hops", "Links on the way.", "hops", "int"),
    Field("root", "Root.", "root", "int"),
    Field("conditions", "Conditions of the measurement.", "conditions", "text"),
    Field("title", "Title of the source.", "source.title", "text"),
    Field("published", "When it was published.", "source.published", "text"),
    Field("url", "Where it is.", "source.url", "text"),
)
_UNTOLD_IF_0 = ("hosts", "size_bytes", "limit_bytes_per_s")
_LAUNCHES = {"one thread": ", one thread for all", "thread": ", a thread each"}


def source_lines(references: Sequence[Reference], paint: Paint = unpainted) -> list[str]:
    """Describes each source: its devices and operations, the number of figures, and its origin."""
    lines: list[str] = []
    for source, own in _by_source(references):
        devices = dict.fromkeys(devices_text(one.devices) for one in own)
        operations = dict.fromkeys(one.operation for one in own)
        lines.append(paint(_source_title(source), "bold"))
        what = f"{', '.join(devices)}: {', '.join(operations)}; {len(own)} figures"
        lines.append(f"  {what}")
        file = f"yours: {source.file}" if source.own else ""
        lines += [f"  {text}" for text in (source.note, source.url, file) if text]
        lines.append("")
    lines.append("Their figures: cclmark references show NAME, --device NAME or --operation NAME")
    return lines


def source_documents(
    references: Sequence[Reference], *, lists_pairs: bool = False
) -> Iterator[Document]:
    """Composes a document for each source with a table for each series.

    Of many pairs the median and the extremes are shown unless ``lists_pairs``.
    """
    for source, own in _by_source(references):
        series: dict[Reference, list[Reference]] = {}
        for one in own:
            series.setdefault(_series(one), []).append(one)
        tables = []
        for common, points in series.items():
            is_short = common.subject.by_pair and len(points) > _FEW_PAIRS and not lists_pairs
            columns, rows = (_OF_PAIRS, [*_pairs(points)]) if is_short else (_OF_FIGURE, points)
            notes = [common.conditions] if common.conditions else []
            tables.append(table_of(_series_title(common), columns, rows, notes=notes))
        notes = [*filter(None, (source.note, source.url))]
        yield Document(_source_title(source), "", tables, notes=notes)


def references_csv(references: Iterable[Reference]) -> str:
    """Returns a line for each figure; GB/s are 10^9 bytes per second. Empty means unknown."""
    return "".join(csv_lines(_REFERENCE, references))


def references_json(references: Sequence[Reference]) -> str:
    """Returns ``{"sources": […], "figures": […]}`` in base units; null means unknown."""
    sources = [msgspec.to_builtins(source) for source, _ in _by_source(references)]
    figures = []
    for one in references:
        fields = msgspec.to_builtins(one)
        fields["source"] = one.source.name
        fields["devices"] = [{"kind": kind, "count": count or None} for kind, count in one.devices]
        for key in _UNTOLD_IF_0:
            fields[key] = fields[key] or None
        figures.append({key: None if value == "" else value for key, value in fields.items()})
    return json.dumps({"sources": sources, "figures": figures}, indent=1) + "\n"


def _by_source(references: Iterable[Reference]) -> list[tuple[Source, list[Reference]]]:
    found: dict[Source, list[Reference]] = {}
    for one in references:
        found.setdefault(one.source, []).append(one)
    return list(found.items())


def _source_title(source: Source) -> str:
    published = f" ({source.published})" if source.published else ""
    return f"{source.name}: {source.title}{published}"


def _series(one: Reference) -> Reference:
    size_bytes = one.size_bytes if one.subject.by_pair else 0
    return msgspec.structs.replace(one.series(), pair=None, hops=None, size_bytes=size_bytes)


def _series_title(one: Reference) -> str:
    words = one.subject.describe(one)
    launch = _LAUNCHES.get(one.launch, "")
    name = reference_name(one, with_source=False)
    return f"{' '.join(filter(None, words))} · {name}{launch}"


def _rate(name: str) -> Callable[[Reference], str]:
    rate_of = attrgetter(name)
    return lambda one: "" if rate_of(one) is None else f"{rate_of(one) / BYTES_PER_GB:.6g}"


_OF_FIGURE = (
    TableColumn("size", lambda one: format_size(one.size_bytes) if one.size_bytes else "-", ">"),
    TableColumn("between", lambda one: " to ".join(map(str, one.pair or ()))),
    TableColumn("paths of", lambda one: str(one.hops or ""), ">"),
    TableColumn("time µs", lambda one: "" if one.time_s is None else us_text(one.time_s), ">"),
    TableColumn("algbw GB/s", _rate("algbw_bytes_per_s"), ">"),
    TableColumn("busbw GB/s", _rate("busbw_bytes_per_s"), ">"),
    TableColumn(
        "device µs", lambda one: "" if one.device_s is None else us_text(one.device_s), ">"
    ),
)
# Of pairs with paths of one length: that length, the unit, and the sorted figures.
_Pairs = tuple[int | None, str, Sequence[float]]
_OF_PAIRS = (
    TableColumn("paths of", lambda one: "" if one[0] is None else str(one[0]), ">"),
    TableColumn("pairs", lambda one: str(len(one[2])), ">"),
    TableColumn("median", lambda one: f"{median(one[2]):g} {one[1]}", ">"),
    TableColumn("least", lambda one: f"{one[2][0]:g}", ">"),
    TableColumn("most", lambda one: f"{one[2][-1]:g}", ">"),
)


def _pairs(points: Sequence[Reference]) -> Iterator[_Pairs]:
    """Yields the times and the rates of pairs, by length of the path."""
    by_hops: dict[int | None, list[Reference]] = {}
    for one in points:
        by_hops.setdefault(one.hops, []).append(one)
    for hops, own in sorted(by_hops.items(), key=lambda entry: entry[0] or 0):
        times = sorted(one.time_s * US_PER_S for one in own if one.time_s is not None)
        rates = sorted(
            one.busbw_bytes_per_s / BYTES_PER_GB for one in own if one.busbw_bytes_per_s is not None
        )
        yield from ((hops, unit, some) for some, unit in ((times, "µs"), (rates, "GB/s")) if some)
