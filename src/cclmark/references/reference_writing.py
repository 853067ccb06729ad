"""Writes references from a journal: the file of a machine that a user has accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median

import msgspec

from cclmark.analysis.irregularities import NOISY_SPREAD
from cclmark.base.errors import UsageError
from cclmark.base.statistics import interquartile_share
from cclmark.journal.item_results import CaseResult, TransferResult, device_summary
from cclmark.journal.journal_file import Journal
from cclmark.journal.method import unusual_method
from cclmark.journal.schema import DeviceTime, Header
from cclmark.work.device_names import is_known, kind_of
from cclmark.work.items import P2P
from cclmark.work.operations import moves_data
from cclmark.work.transfers import Transfer

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
