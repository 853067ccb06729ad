"""References as text, Markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from cclmark.analysis.statistics import median
from cclmark.document.columns import Cell, csv_line
from cclmark.document.paint import Paint, unpainted
from cclmark.document.reference_notes import NORMAL_FROM, ReferenceNotes, share_text
from cclmark.document.text import BYTES_PER_GB, US_PER_S, counted, escape, format_time_us
from cclmark.references.match import reference_name
from cclmark.references.reference import Reference, Source, devices_text
from cclmark.references.reference_checks import Checked, below
from cclmark.work.sizes import format_size

_MOST_REASONS = 6
_COLUMNS = (
    *("case", "size_bytes", "time_us", "gbps", "reference", "reference_gbps", "reference_us"),
    *("share", "exact", "judged", "remark", "by_device"),
)


@dataclass(frozen=True)
class ReferenceCheck:
    """The results of the journal ``name``. ``least_share``: the required share, None without."""

    name: str
    found: Sequence[Checked]
    notes: ReferenceNotes
    least_share: float | None = None


def check_lines(check: ReferenceCheck, paint: Paint = unpainted) -> list[str]:
    """Returns a table for each operation, the legend of the references, and the counts."""
    lines = [f"{check.name} against references"]
    for name, group in _in_groups(check.found).items():
        head = f"{'size':>10} {'time µs':>11} {'GB/s':>9} {'reference':>12} {'share':>9}"
        lines += ["", paint(name, "bold"), paint(head, "dim")]
        lines += [_row(check, one, paint) for one in group]
    lines.append("")
    lines += [paint(f"  {line}", "dim") for line in check.notes.legend()]
    lines.append(f"  {tally(check)}")
    lines += [f"  {text}" for text in (*_of_devices(check), *_reasons(check))]
    return lines


def _in_groups(found: Sequence[Checked]) -> dict[str, list[Checked]]:
    """Groups the shown results by table, in order of the tables' first results."""
    groups: dict[str, list[Checked]] = {}
    for one in found:
        if one.match is not None or one.bad:
            groups.setdefault(one.thing.group_words(), []).append(one)
    return groups


def tally(check: ReferenceCheck) -> str:
    """Counts results with a reference and judged results, and describes the range of shares."""
    least = NORMAL_FROM if check.least_share is None else check.least_share
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


def check_markdown(check: ReferenceCheck) -> str:
    """Returns the counts, the low results, and all results in a folded section."""
    least = NORMAL_FROM if check.least_share is None else check.least_share
    low = below(check.found, least)
    shown = [one for group in _in_groups(check.found).values() for one in group]
    table, legend = _markdown_table(check, shown), check.notes.legend()
    parts = [f"**{escape(check.name)} against references**: {escape(tally(check))}."]
    parts += [_markdown_table(check, low)] if low else []
    parts.append(
        "\n".join(f"- {escape(line)}" for line in [*legend, *_of_devices(check), *_reasons(check)])
    )
    if shown:
        parts.append(f"<details><summary>All {len(shown)}</summary>\n\n{table}\n\n</details>")
    return "\n\n".join(part for part in parts if part) + "\n"


def check_csv(check: ReferenceCheck) -> str:
    """Returns a line for each case; GB/s are 10^9 bytes per second, a share is a fraction of 1."""
    lines = [csv_line(_COLUMNS)]
    for one in check.found:
        match = one.match
        lines.append(
            csv_line(
                [
                    one.thing.describe(),
                    one.thing.size_bytes,
                    None if one.time_s is None else one.time_s * US_PER_S,
                    None if one.bandwidth is None else one.bandwidth / BYTES_PER_GB,
                    None if match is None else match.words,
                    None if match is None else (match.bandwidth / BYTES_PER_GB or None),
                    None if match is None else match.time_s * US_PER_S,
                    None if match is None else match.share,
                    None if match is None else int(match.exact),
                    int(one.judged),
                    one.bad or one.unjudged,
                    int(one.by_device),
                ]
            )
        )
    return "".join(lines)


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


def _row(check: ReferenceCheck, one: Checked, paint: Paint) -> str:
    size, time, rate, reference, share = _cells(check, one)
    text = f"{size:>10} {time:>11} {rate:>9} {reference:>12} {share:>9}{_flows(one)}"
    least = NORMAL_FROM if check.least_share is None else check.least_share
    style = "yellow" if check.least_share is None else "red"
    if one.bad:
        text, style = f"{text}  {one.bad}", "red"
    elif not below([one], least):
        return text if one.judged else f"{text}  not judged"
    else:
        text += "  low"
    return paint(text, style)


def _cells(check: ReferenceCheck, one: Checked) -> list[str]:
    return [
        one.thing.size_words(),
        "-" if one.time_s is None else format_time_us(one.time_s),
        "-" if not one.bandwidth else f"{one.bandwidth / BYTES_PER_GB:.2f}",
        "-" if one.match is None else one.match.figure,
        check.notes.cell(one.match),
    ]


def _flows(one: Checked) -> str:
    words = one.thing.flow_words()
    return f"  {words}" if words else ""


def _markdown_table(check: ReferenceCheck, found: Sequence[Checked]) -> str:
    lines = [
        "| case | size | time us | GB/s | reference | share | |",
        "| :--- | ---: | ---: | ---: | ---: | ---: | :--- |",
    ]
    for one in found:
        remark = one.bad or ("" if one.judged else "not judged")
        cells = [escape(f"{one.thing.group_words()}{_flows(one)}"), *_cells(check, one), remark]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


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


_REFERENCE_COLUMNS = (
    *("source", "devices", "hosts", "operation", "library", "version", "tool", "dtype"),
    *("reduction", "placement", "multicast", "launch", "kind", "approximate", "size_bytes"),
    *(
        "time_us",
        "device_us",
        "algbw_gbps",
        "busbw_gbps",
        "measure",
        "direction",
        "engine",
        "kernel",
        "method",
    ),
    *("from", "to", "hops", "root", "conditions", "title", "published", "url"),
)


_UNTOLD_IF_0 = ("hosts", "size_bytes", "limit_bytes_per_s")
_LAUNCHES = {"one thread": ", one thread for all", "thread": ", a thread each"}


def source_lines(references: Sequence[Reference], paint: Paint = unpainted) -> list[str]:
    """Describes each source: its devices and operations, the number of figures, and its origin."""
    lines: list[str] = []
    for source, own in _by_source(references):
        devices = dict.fromkeys(devices_text(one.devices) for one in own)
        operations = dict.fromkeys(one.operation for one in own)
        lines.append(_source_title(source, paint))
        what = f"{', '.join(devices)}: {', '.join(operations)}; {len(own)} figures"
        lines.append(f"  {what}")
        lines += [f"  {text}" for text in (source.note, source.url, _file(source)) if text]
        lines.append("")
    lines.append("Their figures: cclmark references --source NAME, --device NAME, --operation NAME")
    return lines


def figure_lines(references: Sequence[Reference], paint: Paint = unpainted) -> list[str]:
    """Returns a table for each series of a source; for pairs the median and the extremes."""
    lines: list[str] = []
    for source, own in _by_source(references):
        lines.append(_source_title(source, paint))
        lines += [f"  {text}" for text in (source.note, source.url) if text]
        series: dict[Reference, list[Reference]] = {}
        for one in own:
            series.setdefault(_series(one), []).append(one)
        for common, points in series.items():
            lines += ["", f"  {paint(_series_title(common), 'bold')}"]
            if common.conditions:
                lines.append(f"  {common.conditions}")
            lines += _pairs(points) if common.subject.by_pair else _points(points, paint)
        lines.append("")
    return lines[:-1]


def references_csv(references: Iterable[Reference]) -> str:
    """Returns a line for each figure; GB/s are 10^9 bytes per second. Empty means unknown."""
    return csv_line(_REFERENCE_COLUMNS) + "".join(
        csv_line(_reference_cells(one)) for one in references
    )


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


def references_markdown(references: Sequence[Reference]) -> str:
    """Returns a section for each source, with a table."""
    parts = []
    for source, own in _by_source(references):
        head = [f"## {escape(source.title)}"]
        head += [escape(text) for text in (source.published, source.note, source.url) if text]
        lines = [
            "| what | size | time us | algbw GB/s | busbw GB/s | device us |",
            "| :--- | ---: | ---: | ---: | ---: | ---: |",
        ]
        for one in own:
            pair = "" if one.pair is None else f", {one.pair[0]} to {one.pair[1]}"
            what = escape(_series_title(one) + pair)
            lines.append(f"| {what} | {_size(one)} | {' | '.join(_figures(one))} |")
        parts.append("\n\n".join([*head, "\n".join(lines)]))
    return "\n\n".join(parts) + "\n"


def _by_source(references: Iterable[Reference]) -> list[tuple[Source, list[Reference]]]:
    found: dict[Source, list[Reference]] = {}
    for one in references:
        found.setdefault(one.source, []).append(one)
    return list(found.items())


def _source_title(source: Source, paint: Paint) -> str:
    published = f" ({source.published})" if source.published else ""
    return f"{paint(source.name, 'bold')}: {source.title}{published}"


def _file(source: Source) -> str:
    return f"yours: {source.file}" if source.own else ""


def _series(one: Reference) -> Reference:
    size_bytes = one.size_bytes if one.subject.by_pair else 0
    return msgspec.structs.replace(one.series(), pair=None, hops=None, size_bytes=size_bytes)


def _series_title(one: Reference) -> str:
    words = one.subject.describe(one)
    launch = _LAUNCHES.get(one.launch, "")
    name = reference_name(one, with_source=False)
    return f"{' '.join(filter(None, words))} · {name}{launch}"


def _points(points: Sequence[Reference], paint: Paint) -> list[str]:
    apart = any(one.device_s is not None for one in points)
    head = f"{'size':>10} {'time µs':>11} {'algbw':>10} {'busbw':>10}"
    if apart:
        head = f"{head} {'device µs':>11}"
    lines = [f"  {paint(head, 'dim')}"]
    for one in points:
        time, algbw, busbw, device = _figures(one)
        line = f"  {_size(one):>10} {time:>11} {algbw:>10} {busbw:>10}"
        lines.append(f"{line} {device:>11}" if apart else line)
    return lines


def _pairs(points: Sequence[Reference]) -> list[str]:
    """Returns the median and the extremes of pairs, by length of the path."""
    by_hops: dict[int | None, list[Reference]] = {}
    for one in points:
        by_hops.setdefault(one.hops, []).append(one)
    lines = []
    for hops, own in sorted(by_hops.items(), key=lambda entry: entry[0] or 0):
        times = sorted(one.time_s * US_PER_S for one in own if one.time_s is not None)
        rates = sorted(
            one.busbw_bytes_per_s / BYTES_PER_GB for one in own if one.busbw_bytes_per_s is not None
        )
        paths = "" if hops is None else f", paths of {hops}"
        for values, unit in ((times, "µs"), (rates, "GB/s")):
            if len(values) == 1:
                lines.append(f"  {values[0]:g} {unit}{paths}")
            elif values:
                ends = f"from {values[0]:g} to {values[-1]:g}"
                lines.append(
                    f"  median {median(values):g} {unit}, {ends}: {len(values)} pairs{paths}"
                )
    return lines


def _size(one: Reference) -> str:
    return format_size(one.size_bytes) if one.size_bytes else "-"


def _figures(one: Reference) -> list[str]:
    """Returns the time in microseconds, both bandwidths, and the devices' time, as published."""
    time, device = (
        "-" if time_s is None else format_time_us(time_s) for time_s in (one.time_s, one.device_s)
    )
    rates = (one.algbw_bytes_per_s, one.busbw_bytes_per_s)
    texts = ["-" if rate is None else f"{rate / BYTES_PER_GB:.6g}" for rate in rates]
    return [time, *texts, device]


def _reference_cells(one: Reference) -> list[Cell]:
    scaled = [
        None if value is None else value * unit
        for value, unit in (
            (one.time_s, US_PER_S),
            (one.device_s, US_PER_S),
            (one.algbw_bytes_per_s, 1 / BYTES_PER_GB),
            (one.busbw_bytes_per_s, 1 / BYTES_PER_GB),
        )
    ]
    return [
        *(one.source.name, devices_text(one.devices).replace("×", "x"), one.hosts or None),
        *(one.operation, one.library, one.version, one.tool, one.dtype, one.reduction),
        {True: "in-place", False: "out-of-place", None: ""}[one.in_place],
        {True: "on", False: "off", None: ""}[one.multicast],
        *(one.launch, one.kind, int(one.approximate), one.size_bytes or None),
        *scaled,
        *(one.measure, one.direction, one.engine, one.kernel, one.method),
        *(one.pair or (None, None)),
        *(
            one.hops,
            one.root,
            one.conditions,
            one.source.title,
            one.source.published,
            one.source.url,
        ),
    ]
