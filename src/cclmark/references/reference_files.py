"""Files of references: TOML with a head on the source and a table of figures for each series.

Shipped ones are read; that of a machine that a user has accepted is also written, from a journal.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from cclmark.analysis.irregularities import NOISY_SPREAD
from cclmark.base.errors import UsageError
from cclmark.base.printable import plain, printable
from cclmark.base.statistics import interquartile_share
from cclmark.journal.item_results import CaseResult, TransferResult, device_summary
from cclmark.journal.journal_file import Journal
from cclmark.journal.method import unusual_method
from cclmark.journal.schema import DeviceTime, Header
from cclmark.references.reference import COPIES, SUBJECTS, Reference, Source
from cclmark.work.device_names import is_known, kind_of
from cclmark.work.items import P2P
from cclmark.work.operations import REDUCTIONS, moves_data, parse_dtypes
from cclmark.work.sizes import parse_size
from cclmark.work.thresholds import meant
from cclmark.work.transfers import DIRECTIONS, ENGINES, KERNELS, LATENCY_METHODS, MEASURES, Transfer

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d{1,2})?", re.ASCII)
_NOTHING = ("-", "x")  # in a cell: unknown, or no such pair
_MOST = 1e18  # upper limit of any figure: an exabyte per second


def of_table(text: str, common: Reference) -> list[Reference]:
    """Parses the rows below the row of column names. Raises UsageError."""
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1)]
    rows = [(number, cells) for number, cells in lines if cells and not cells[0].startswith("#")]
    if len(rows) < 2:
        raise UsageError("figures: no row below the column names")
    names, found = rows[0][1], []
    for name in names:
        if name not in _COLUMNS:
            raise UsageError(
                f"figures: unknown column {name!r}{meant(name, _COLUMNS)} Known columns: "
                f"{', '.join(_COLUMNS)}."
            )
    if len(set(names)) < len(names):
        raise UsageError("figures: a column is repeated")
    for number, cells in rows[1:]:
        try:
            found.append(_row(dict(zip(names, cells, strict=True)), common))
        except ValueError:
            raise UsageError(
                f"figures: line {number} has {len(cells)} cells for {len(names)} columns: "
                f"{' '.join(cells)!r}"
            ) from None
        except UsageError as error:
            raise UsageError(f"figures: line {number}: {error}") from None
    return found


def _row(cells: dict[str, str], common: Reference) -> Reference:
    values: dict[str, object] = {}
    for name, cell in cells.items():
        field, read = _COLUMNS[name]
        if cell not in _NOTHING:
            if field in values:
                raise UsageError(f"{name} repeats the value of another column")
            try:
                values[field] = read(cell)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from None
    if not values.keys() & {"time_s", "algbw_bytes_per_s", "busbw_bytes_per_s"}:
        raise UsageError("no figure: write a time, an algbw_gbps or a busbw_gbps")
    start, end = values.pop("from", None), values.pop("to", None)
    if (start is None) != (end is None):
        raise UsageError("from and to require each other")
    if start is not None and end is not None:
        values["pair"] = (start, end)
    return msgspec.structs.replace(common, **values)


def of_matrix(
    text: str, unit: str, size_bytes: int, common: Reference, paths: list[list[str]]
) -> list[Reference]:
    """Parses a figure for each pair: the row is the device that copies, the column its peer.

    ``unit``: GB/s or us; ``paths``: the number of hops of each pair, empty if unknown. Raises
    UsageError.
    """
    cells = grid(text)
    if common.count and len(cells) != common.count:
        raise UsageError(f"matrix: {len(cells)} rows for {common.count} devices")
    fits = common.hosts == 1 and len(paths) == len(cells)
    found = []
    for start, row in enumerate(cells):
        for end, cell in enumerate(row):
            if cell in _NOTHING:
                continue
            try:
                value = _positive(cell, 1e9 if unit == "GB/s" else 1e-6)
            except UsageError as error:
                raise UsageError(f"matrix: row {start + 1}: {error}") from None
            path = paths[start][end] if fits else "-"
            figure = {"busbw_bytes_per_s" if unit == "GB/s" else "time_s": value}
            found.append(
                msgspec.structs.replace(
                    common,
                    size_bytes=size_bytes,
                    pair=(start, end),
                    hops=None if path in _NOTHING else _natural(path),
                    **figure,
                )
            )
    return found


def grid(text: str) -> list[list[str]]:
    """Splits a matrix into cells. Raises UsageError if it is not square."""
    rows = [line.split() for line in text.splitlines() if line.split()]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows):
            raise UsageError(
                f"matrix: row {number} has {len(row)} cells, but the matrix has {len(rows)} rows"
            )
    return rows


def _positive(text: str, unit: float) -> float:
    value = float(text) * unit if _NUMBER.fullmatch(text) else math.nan
    if not 0 <= value < _MOST:
        raise UsageError(f"cannot read the figure {text!r}")
    return value


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 8):
        raise UsageError(f"cannot read the number {text!r}")
    return int(text)


_COLUMNS: dict[str, tuple[str, Callable[[str], object]]] = {
    "size": ("size_bytes", parse_size),
    "time_s": ("time_s", partial(_positive, unit=1.0)),
    "time_us": ("time_s", partial(_positive, unit=1e-6)),
    "device_us": ("device_s", partial(_positive, unit=1e-6)),
    "algbw_gbps": ("algbw_bytes_per_s", partial(_positive, unit=1e9)),
    "busbw_gbps": ("busbw_bytes_per_s", partial(_positive, unit=1e9)),
    "from": ("from", _natural),
    "to": ("to", _natural),
    "hops": ("hops", _natural),
}


_DEVICES = re.compile(r"(?:(\d{1,7})\s*[x×*]\s*)?(\S.*)", re.ASCII)
_UNKNOWN_KEY = re.compile(r"unknown field `(.+?)`")
_PLACE = re.compile(r"`\$\.series\[(\d+)\]")
_CHOICES = {
    "operation": tuple(SUBJECTS),
    "reduction": REDUCTIONS,
    "placement": ("out-of-place", "in-place"),
    "multicast": ("on", "off"),
    "launch": ("process", "thread", "one thread"),
    "kind": ("measured", "floor"),
    "measure": (*MEASURES, "call"),
    "direction": DIRECTIONS,
    "engine": ENGINES,
    "kernel": KERNELS,
    "method": LATENCY_METHODS,
    "unit": ("GB/s", "us"),
}


class _WrittenSeries(msgspec.Struct, forbid_unknown_fields=True):
    """A ``[[series]]`` of a file: conditions, and figures in a table or a matrix."""

    devices: str
    operation: str
    hosts: int = 1
    library: str = ""
    version: str = ""
    tool: str = ""
    dtype: str = ""
    reduction: str = ""
    root: int | None = None
    placement: str = ""
    multicast: str = ""
    launch: str = ""
    kind: str = "measured"
    approximate: bool = False
    conditions: str = ""
    link: str = ""
    measure: str = ""
    direction: str = ""
    engine: str = ""
    kernel: str = ""
    method: str = ""
    link_gbps: float = 0.0
    figures: str = ""
    matrix: str = ""
    size: str | int = ""
    unit: str = ""


# What a reference has as it is written.
_TAKEN_OVER = {*_WrittenSeries.__struct_fields__} & {*Reference.__struct_fields__} - {
    *("devices", "dtype", "multicast")
}


class _WrittenFile(msgspec.Struct, forbid_unknown_fields=True):
    """The content of a file."""

    title: str
    series: list[_WrittenSeries]
    published: str = ""
    url: str = ""
    note: str = ""
    min_path: str = ""


def parse_references(content: bytes, file: str, *, own: bool) -> list[Reference]:
    """The figures of ``file``. ``own``: a user's file. Raises UsageError with the position."""
    try:
        written = msgspec.toml.decode(content, type=_WrittenFile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file}: {_explained(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    if not written.title.strip():
        raise UsageError(f"{file}: title is empty: write the measurement and the machine")
    source = Source(
        name=Path(file).stem,
        title=plain(written.title),
        published=plain(written.published),
        url=plain(written.url),
        note=plain(written.note),
        file=file,
        own=own,
    )
    found: list[Reference] = []
    seen: dict[Reference, int] = {}
    try:
        paths = grid(written.min_path) if written.min_path else []
    except UsageError as error:
        raise UsageError(f"{file}: min_path: {error}") from None
    for number, series in enumerate(written.series, start=1):
        try:
            for reference in _references(series, source, paths):
                key = msgspec.structs.replace(reference.series(), size_bytes=reference.size_bytes)
                if key in seen:
                    raise UsageError(
                        f"series {seen[key]} already contains the figure of "
                        f"{_identity(reference)}: write the difference into conditions"
                    )
                seen[key] = number
                found.append(reference)
        except UsageError as error:
            raise UsageError(f"{file}: series {number}: {error}") from None
    if not found:
        raise UsageError(f"{file}: the file has no [[series]] with figures")
    return found


def parse_devices(text: str) -> tuple[tuple[str, int], ...]:
    """Parses ``4 x H200``, ``2 x A800 + 2 x C550``, ``H100`` (number 0). Raises UsageError."""
    counts: dict[str, int] = {}
    for part in text.split(" + "):
        read = _DEVICES.fullmatch(part.strip())
        numbered = read is not None and read[1] is None and read[2].split()[0].isdecimal()
        if read is None or read[1] == "0" or numbered:
            raise UsageError(f"devices: cannot read {text!r}: write 4 x H200")
        kind = kind_of(read[2])
        counts[kind] = counts.get(kind, 0) + int(read[1] or 0)
    return tuple(sorted(counts.items()))


def _references(series: _WrittenSeries, source: Source, paths: list[list[str]]) -> list[Reference]:
    _check(series)
    common = Reference(
        source=source,
        devices=parse_devices(series.devices),
        dtype=parse_dtypes(series.dtype)[0] if series.dtype else "",
        in_place={"in-place": True, "out-of-place": False}.get(series.placement),
        multicast={"on": True, "off": False}.get(series.multicast),
        limit_bytes_per_s=series.link_gbps * 1e9,
        **{name: printable(getattr(series, name)) for name in _TAKEN_OVER},
    )
    if series.matrix:
        if not series.unit:
            raise UsageError("unit is missing: GB/s or us")
        size_bytes = parse_size(str(series.size)) if series.size else 0
        return of_matrix(series.matrix, series.unit, size_bytes, common, paths)
    return of_table(series.figures, common)


def _check(series: _WrittenSeries) -> None:
    """Raises UsageError for a value that its key does not support."""
    for key, known in _CHOICES.items():
        value = getattr(series, key)
        if value not in known and (value or key == "operation"):
            raise UsageError(
                f"{key}: unknown value {value!r}{meant(value, known)} Choose from "
                f"{', '.join(known)}."
            )
    for key in ("hosts", "link_gbps"):
        if not 0 <= getattr(series, key) < 1e7:
            raise UsageError(f"{key}: {getattr(series, key)} is invalid")
    _check_root(series)
    subject = SUBJECTS[series.operation]
    for key in subject.required:
        if not getattr(series, key):
            raise UsageError(f"{key} is missing: {', '.join(_CHOICES[key])}")
    for key in COPIES.keys:
        if key not in subject.keys and getattr(series, key):
            raise UsageError(f"{key} requires operation = {P2P!r}")
    if bool(series.figures.strip()) == bool(series.matrix.strip()):
        raise UsageError("write either figures, a table, or matrix, a table of pairs")
    if series.figures and (series.size or series.unit):
        raise UsageError("size and unit require matrix: figures have them in their first row")


def _check_root(series: _WrittenSeries) -> None:
    if series.root is None:
        return
    if not SUBJECTS[series.operation].rooted:
        raise UsageError(f"root: {series.operation} has none")
    if not 0 <= series.root < 1e7:
        raise UsageError(f"root: {series.root} is invalid")


def _identity(reference: Reference) -> str:
    """Describes the case of a duplicate figure."""
    pair = "" if reference.pair is None else f" from {reference.pair[0]} to {reference.pair[1]}"
    return f"{reference.operation} {reference.size_bytes or 'without a size'}{pair}"


def _explained(text: str) -> str:
    """Returns msgspec's error, with the number of the series."""
    place = _PLACE.search(text)
    what = text.split(" - at ", maxsplit=1)[0]
    unknown = _UNKNOWN_KEY.search(what)
    if unknown is not None:
        written = _WrittenSeries if place else _WrittenFile
        known = written.__struct_fields__
        what = (
            f"unknown key {unknown[1]!r}{meant(unknown[1], known)} Known keys: {', '.join(known)}."
        )
    what = what.replace("Object missing required field", "missing key")
    key = re.search(r"\.(\w+)`$", text)
    if key is not None and unknown is None:
        what = f"{key[1]}: {what}"
    return f"series {int(place[1]) + 1}: {what}" if place else what


# Why a result is not good enough to be a reference, to follow a number of figures.
UNSETTLED = "did not converge"
NOISY = f"with a spread above {NOISY_SPREAD:.0%}"
UNCHECKED = "not verified"

_Place = tuple[tuple[int, ...], int]  # the pair of a case, empty for all ranks, and its size


def weaknesses(result: CaseResult | TransferResult) -> list[str]:
    """Returns why a result with figures is not good enough to be a reference; empty if it is.

    A case is judged by the time of the devices, where it was measured.
    """
    device: DeviceTime | None = getattr(result, "device", None)
    spread = getattr(result.summary if device is None else device.summary, "spread", None)
    if spread is None:
        rows = [] if result.samples is None else result.samples.device_s
        known = [[time_s for time_s in row if time_s is not None] for row in rows]
        spread = interquartile_share(sorted(max(row) for row in known if row)) if known else None
    found = []
    if not (result.converged and (device is None or device.converged)):
        found.append(UNSETTLED)
    if (spread or 0.0) > NOISY_SPREAD:
        found.append(NOISY)
    if result.is_checkable and not result.is_checked:
        found.append(UNCHECKED)
    return found


def references_text(
    journal: Journal, title: str, *, multicast: Callable[[str], bool | None], note: str = ""
) -> str:
    """Returns a file of references with the results of ``journal``, for reference_files.

    ``multicast`` returns whether an operation used NVLink's, see multicast_of. ``note`` qualifies
    the figures. The file contains measured results that are not wrong, the median over several
    cycles. Raises UsageError if none is left, or if none can be a reference.
    """
    header = journal.header
    wrong = sum(one.status == "wrong" for one in journal.results)
    if wrong:
        raise UsageError(f"{wrong} of its results have wrong data: the run cannot be a reference")
    if header.settings.inject:
        raise UsageError(
            f"it was measured with --inject {header.settings.inject[0]}: the run cannot be a "
            "reference"
        )
    blocks = [*_of_cases(journal, multicast), *_of_transfers(journal)]
    if not blocks:
        raise UsageError("it contains no figures to compare with")
    head = {
        "title": title,
        "published": header.started_at[:10],
        "note": f"From a journal of {header.machine.hostname}, run {header.run_id or '-'}.{note}",
    }
    lines = ["# Written by cclmark references add; edit it as you like."]
    lines += [f"{key} = {quoted(value)}" for key, value in head.items()]
    return "\n".join(lines) + "\n" + "".join(blocks)


def quoted(text: str) -> str:
    """Returns ``text`` as a TOML string on one line."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return "\\uFFFD" if 0xD800 <= code < 0xE000 else f"\\U{code:08X}"


def _of_cases(journal: Journal, multicast: Callable[[str], bool | None]) -> Iterable[str]:
    # Pairs and all ranks have separate tables with different columns.
    curves: dict[tuple[bool, tuple[tuple[str, object], ...]], dict[_Place, list[CaseResult]]] = {}
    for result in journal.cases:
        case = result.case
        if result.summary is None or result.status != "ok" or not moves_data(case.operation):
            continue
        if case.matrix and journal.header.settings.pattern != "uniform":
            continue
        conditions = _conditions(journal.header, result, multicast(case.operation))
        curve = curves.setdefault((case.pair is not None, tuple(conditions.items())), {})
        curve.setdefault((case.pair or (), case.size_bytes), []).append(result)
    timing = journal.header.settings.timing
    for (of_pairs, conditions_of_all), points in curves.items():
        apart = any(one.device is not None for cycles in points.values() for one in cycles)
        names = [*(("from", "to") if of_pairs else ()), "size", "time_us", "busbw_gbps"]
        rows = [[*names, "device_us"] if apart else names]
        for (pair, size_bytes), cycles in sorted(points.items(), key=lambda point: point[0]):
            row = [*map(str, pair), str(size_bytes), *_figures(cycles)]
            rows.append([*row, _device_figure(cycles, timing)] if apart else row)
        yield _block(dict(conditions_of_all), rows)


def _figures(cycles: list[CaseResult]) -> list[str]:
    """Returns the median cost of a call in µs and its bandwidth, as the cells of a row."""
    summaries = [one.summary for one in cycles if one.summary is not None]
    time_s = median(one.time_s for one in summaries)
    first = summaries[0]
    # Bandwidth times time is the same in each cycle, so also for the median of two.
    figure = f"{first.busbw_bytes_per_s * first.time_s / time_s / 1e9 if time_s > 0 else 0:.6g}"
    return [f"{time_s * 1e6:.6f}", "-" if "e" in figure or figure == "0" else figure]


def _device_figure(cycles: list[CaseResult], timing: str) -> str:
    """Returns the median time of the devices in µs as a cell, ``-`` if a cycle lacks it."""
    known = [device_summary(one, timing) for one in cycles]
    times = [one.time_s for one in known if one is not None]
    return f"{median(times) * 1e6:.6f}" if len(times) == len(cycles) else "-"


def _conditions(header: Header, result: CaseResult, multicast: bool | None) -> dict[str, object]:
    case = result.case
    ranks = range(case.ranks) if case.pair is None else case.pair
    library = next((one for one in header.libraries if one.name == case.ccl), None)
    words = [
        f"by {result.route}" if result.route != "native" else "",
        *unusual_method(header, case.ccl),
    ]
    return {
        **_of_devices(header, ranks),
        "operation": case.operation,
        "library": case.ccl,
        "version": library.version if library else "",
        "tool": f"cclmark {header.cclmark_version}",
        "dtype": case.dtype,
        "reduction": case.reduction or "",
        "root": case.root,
        "placement": case.placement,
        "multicast": {True: "on", False: "off", None: ""}[multicast],
        "launch": "process",
        "conditions": ", ".join(filter(None, words)),
    }


def _of_devices(header: Header, ranks: Iterable[int]) -> dict[str, object]:
    wanted = set(ranks)
    own = [device for device in header.devices if device.rank in wanted]
    if len(own) != len(wanted):
        raise UsageError("its header does not contain all devices")
    counts = Counter(kind_of(device.name) for device in own)
    if not all(map(is_known, counts)):
        raise UsageError("its header does not contain the names of its devices")
    devices = " + ".join(f"{count} x {kind}" for kind, count in sorted(counts.items()))
    all_of_them = len(wanted) == len(header.devices)
    hosts = len(header.hosts) if all_of_them else len({device.host for device in own})
    return {"devices": devices, "hosts": max(1, hosts)}


def _of_transfers(journal: Journal) -> Iterable[str]:
    hops = {(one.first, one.second): one.hops for one in journal.header.relations}
    groups: dict[Transfer, dict[tuple[tuple[int, int], int], TransferResult]] = {}
    for result in journal.transfers:
        transfer = result.transfer
        plain = transfer.scope == "pairs" and transfer.peer_access and not transfer.host_memory
        usual = not (transfer.blocks or transfer.threads or transfer.offset_bytes)
        if result.summary is None or result.status != "ok" or not (plain and usual):
            continue
        start, end = transfer.row_and_column(transfer.flows[0])
        if start != end:
            series = msgspec.structs.replace(transfer.series(), size_bytes=0)
            groups.setdefault(series, {})[(start, end), transfer.size_bytes] = result
    for series, cells in groups.items():
        latency = series.measure == "latency"
        rows = [["from", "to", "hops", "size", "time_us" if latency else "busbw_gbps"]]
        for (pair, size_bytes), result in cells.items():
            assert result.summary is not None
            length = hops.get(pair)
            figure = result.summary.time_s * 1e6
            if not latency:
                figure = result.summary.bytes_per_s / 1e9
            rows.append(
                [
                    *(str(number) for number in pair),
                    "-" if length is None else str(length),
                    str(size_bytes) if size_bytes else "-",
                    f"{figure:.6f}",
                ]
            )
        conditions: dict[str, object] = {
            **_of_devices(journal.header, [device.rank for device in journal.header.devices]),
            "operation": P2P,
            "tool": f"cclmark {journal.header.cclmark_version}",
            **{key: getattr(series, key) for key in ("measure", "direction", "engine", "kernel")},
            "method": series.method,
        }
        yield _block(conditions, rows)


def _block(conditions: dict[str, object], rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    lines = ["", "[[series]]"]
    for key, value in conditions.items():
        if value not in ("", None):
            lines.append(f"{key} = {quoted(value) if isinstance(value, str) else value}")
    return "\n".join([*lines, 'figures = """', *table, '"""', ""])
