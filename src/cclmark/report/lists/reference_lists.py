"""References as text, Markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from cclmark.analysis.statistics import median
from cclmark.plan.sizes import format_size
from cclmark.references.match import reference_name
from cclmark.references.reference import Reference, Source, devices_text
from cclmark.document.columns import Cell
from cclmark.report.formats.csv_format import csv_line
from cclmark.document.markdown import escape
from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import BYTES_PER_GB, US_PER_S, format_time_us

_COLUMNS = (
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
    return csv_line(_COLUMNS) + "".join(csv_line(_cells(one)) for one in references)


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


def _cells(one: Reference) -> list[Cell]:
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
