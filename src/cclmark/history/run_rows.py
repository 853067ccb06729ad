"""Converts a journal to rows of the tables: plain values by the names of columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cclmark.base.errors import UsageError
from cclmark.history.history_model import Thing, stored_moment
from cclmark.journal.item_results import CaseResult, Result, TransferResult, device_summary
from cclmark.journal.journal_file import Journal
from cclmark.journal.method import is_timing, unusual_method
from cclmark.journal.schema import (
    DeviceDescription,
    Header,
    LibraryDescription,
    Summary,
    TransferSummary,
)

ColumnValue = str | int | float | bool | None
DatabaseRow = dict[str, ColumnValue]


@dataclass(frozen=True)
class JournalRows:
    """The rows of a run. ``thing`` of each of the ``results`` is the digest of its thing."""

    run: DatabaseRow
    operations: Sequence[DatabaseRow]
    things: Sequence[DatabaseRow]
    results: Sequence[DatabaseRow]


def rows_of(journal: Journal, content: bytes, name: str) -> JournalRows:
    """The rows of a journal called ``name``. Raises UsageError for an invalid start time."""
    header = journal.header
    digest = hashlib.sha256(content).hexdigest()
    try:
        started_at = stored_moment(header.started_at)
    except ValueError:
        raise UsageError(f"{name}: cannot read the start time {header.started_at!r}") from None
    footer = journal.footer
    everything: list[Result] = journal.results
    run_id = _text(header.run_id) or digest[:32]
    machines = [host.machine for host in header.hosts] or [header.machine]
    run: DatabaseRow = {
        "run_id": run_id,
        "digest": digest,
        "size_bytes": len(content),
        "source": _text(name),
        "started_at": started_at,
        "hostname": _text(", ".join(machine.hostname for machine in machines)),
        "devices": devices_of(header),
        "machine": machine_of(header, run_id),
        "method": method_of(header),
        "command": _text(" ".join(header.command)),
        "libraries": _text(", ".join(_library(one) for one in header.libraries)),
        "driver": _text(_driver(header)),
        "cclmark_version": _text(header.cclmark_version),
        "cases": len(everything),
        "not_ok": sum(one.status not in ("ok", "skipped", "unsupported") for one in everything),
        "damaged_lines": journal.unread_lines,
        "exit_code": None if footer is None else footer.exit_code,
        "continues": "" if header.continues is None else _text(header.continues.run_id),
    }
    things: dict[str, DatabaseRow] = {}
    results: list[DatabaseRow] = []
    for position, result in enumerate(journal.timed):
        row = _result_row(result, position, header)
        row["thing"] = _add_thing(things, result.item, _text(getattr(result.summary, "clock", "")))
        results.append(row)
    return JournalRows(run, _operations(journal), list(things.values()), results)


def devices_of(header: Header) -> str:
    """The devices of a run: the number of each kind."""
    kinds = Counter(map(_kind, header.devices))
    return _text(", ".join(f"{number} × {kind}" for kind, number in kinds.items()))


def machine_of(header: Header, run_id: str) -> str:
    """The machine of a run, equal for two runs with the same hosts, devices and device numbers.

    The machine of an import without a host is unknown: it gets a separate one, by ``run_id``.
    """
    machines = [host.machine for host in header.hosts] or [header.machine]
    hosts = sorted(machine.hostname for machine in machines)
    if not any(hosts):
        return _text(f"unknown host, run {run_id}: {devices_of(header)}")
    layouts: dict[str, str] = {}
    for host in dict.fromkeys(device.host for device in header.devices):
        own = [device for device in header.devices if device.host == host]
        layouts[host] = _layout(own)
    if len(set(layouts.values())) <= 1:
        # All hosts use the same device numbers.
        numbers = next(iter(layouts.values()), "")
    else:
        numbers = "; ".join(f"{host} {layouts[host]}" for host in sorted(layouts))
    told = f" [{numbers}]" if numbers else ""
    return _text(f"{', '.join(hosts)}: {devices_of(header)}{told}")


def _layout(devices: Sequence[DeviceDescription]) -> str:
    """The numbers of devices on their host, for example ``0-3``; empty if unknown."""
    numbers = sorted({device.index for device in devices if device.index >= 0})
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in parts)


def method_of(header: Header) -> str:
    """The settings that affect times, in words."""
    timing = [header.settings.timing] if header.settings.timing else []
    others = [one for one in unusual_method(header) if not is_timing(one)]
    return _text(", ".join([*timing, *others]))


def _library(library: LibraryDescription) -> str:
    return f"{library.name} {library.version}".strip()


def _kind(device: DeviceDescription) -> str:
    return f"{device.name} ({device.runtime})" if device.runtime else device.name


def _driver(header: Header) -> str:
    if header.machine.vendor_driver:
        return header.machine.vendor_driver
    return ", ".join(dict.fromkeys(filter(None, (one.driver_version for one in header.devices))))


def _carried(header: Header) -> int:
    """The number of first results that were measured by the run that this one continues."""
    return 0 if header.continues is None else header.continues.carried


def _operations(journal: Journal) -> list[DatabaseRow]:
    found = dict.fromkeys((one.item.work, one.item.library) for one in journal.results)
    texts = dict.fromkeys((_text(operation), _text(ccl)) for operation, ccl in found)
    return [{"operation": operation, "ccl": ccl} for operation, ccl in texts]


def _add_thing(things: dict[str, DatabaseRow], thing: Thing, clock: str) -> str:
    """Adds the row of ``thing``, timed by ``clock``, if it is new, and returns its digest."""
    document = msgspec.json.encode(thing)
    kind = type(thing).__name__.lower()  # case or transfer
    digest = hashlib.sha256(f"{kind} {clock} ".encode() + document).hexdigest()
    if digest not in things:
        things[digest] = {
            "digest": digest,
            "kind": kind,
            "clock": clock,
            "size_bytes": thing.size_bytes,
            "document": _text(document.decode()),
            **_columns_of(thing),
        }
    return digest


def _columns_of(thing: Thing) -> DatabaseRow:
    """The columns by which results are selected; those of cases are empty for a transfer."""
    own = {name: getattr(thing, name, None) for name in ("dtype", "reduction", "root", "placement")}
    ends = thing.ends or (None, None)
    return {
        "operation": _text(thing.work),
        "ccl": _text(thing.library),
        "ranks": thing.ranks if thing.ccl else None,
        "first": ends[0],
        "second": ends[1],
        **{name: _text(value) if isinstance(value, str) else value for name, value in own.items()},
    }


def _result_row(result: CaseResult | TransferResult, position: int, header: Header) -> DatabaseRow:
    checked = result.verification
    device: Summary | TransferSummary | None = result.summary
    if isinstance(result, CaseResult):
        device = device_summary(result, header.settings.timing)
    row: DatabaseRow = {
        "position": position,
        "cycle": getattr(result, "cycle", 0),
        "carried": position < _carried(header),
        "status": _text(result.status),
        "reason": _text(result.reason),
        "wrong": None if checked is None else checked.wrong,
    }
    summary = result.summary
    for name in ("samples", "time_s", "min_s", "p95_s", "p99_s", "max_s", "spread", "half_width"):
        row[name] = getattr(summary, name, None)
    row["device_time_s"] = getattr(device, "time_s", None)
    row["device_half_width"] = getattr(device, "half_width", None)
    # The bandwidth of all flows of a transfer together, without a factor: both columns are equal.
    rate = getattr(summary, "bytes_per_s", None) or None
    row["algbw_bytes_per_s"] = getattr(summary, "algbw_bytes_per_s", rate)
    row["busbw_bytes_per_s"] = getattr(summary, "busbw_bytes_per_s", rate)
    return row


def _text(text: str) -> str:
    """A text that every database supports: without NUL, which PostgreSQL rejects, and without lone
    surrogates, which both reject.
    """
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()
