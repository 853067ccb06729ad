"""What a journal comes to as rows of the tables: plain values under the names of columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from cclmark.errors import UsageError
from cclmark.plan.cases import Case
from cclmark.plan.transfers import Transfer
from cclmark.results.figures import device_summary
from cclmark.results.history.model import Thing
from cclmark.results.history.moments import stored_moment
from cclmark.results.journal import Journal
from cclmark.results.method import unusual_method
from cclmark.results.schema import (
    CaseResult,
    DeviceDescription,
    Header,
    LibraryDescription,
    Result,
    Settings,
    Summary,
    TransferResult,
    TransferSummary,
)

Value = str | int | float | bool | None
Row = dict[str, Value]


@dataclass(frozen=True)
class JournalRows:
    """The rows of a run. Each of ``results`` has the digest of its thing under ``thing``."""

    run: Row
    operations: Sequence[Row]
    things: Sequence[Row]
    results: Sequence[Row]


def rows_of(journal: Journal, content: bytes, name: str) -> JournalRows:
    """The rows of a journal, which is ``content``. ``name`` is for messages.

    Raises UsageError for one that does not say when it was.
    """
    header = journal.header
    digest = hashlib.sha256(content).hexdigest()
    try:
        started_at = stored_moment(header.started_at)
    except ValueError:
        raise UsageError(f"{name}: cannot read the start time {header.started_at!r}") from None
    footer = journal.footer
    everything: list[Result] = [*journal.results, *journal.transfers, *journal.checks]
    run_id = _text(header.run_id) or digest[:32]
    run: Row = {
        "run_id": run_id,
        "digest": digest,
        "size_bytes": len(content),
        "source": _text(name),
        "started_at": started_at,
        "hostname": hostname_of(header),
        "devices": devices_of(header),
        "machine": machine_of(header, run_id),
        "method": method_of(header.settings),
        "command": _text(" ".join(header.command)),
        "libraries": _text(", ".join(_library(one) for one in header.libraries)),
        "driver": _text(_driver(header)),
        "cclmark_version": _text(header.cclmark_version),
        "cases": len(everything),
        "not_ok": sum(one.status not in ("ok", "skipped", "unsupported") for one in everything),
        "damaged_lines": journal.damaged_lines,
        "exit_code": None if footer is None else footer.exit_code,
        "continues": "" if header.continues is None else _text(header.continues.run_id),
    }
    things: dict[str, Row] = {}
    results: list[Row] = []
    for position, result in enumerate(_measured(journal)):
        row = _result_row(result, position, header)
        thing = result.case if isinstance(result, CaseResult) else result.transfer
        row["thing"] = _add_thing(things, thing, _text(getattr(result.summary, "clock", "")))
        results.append(row)
    return JournalRows(run, _operations(journal), list(things.values()), results)


def hostname_of(header: Header) -> str:
    """All hosts of a run."""
    machines = [host.machine for host in header.hosts] or [header.machine]
    return _text(", ".join(machine.hostname for machine in machines))


def devices_of(header: Header) -> str:
    """The devices of a run: of each kind how many."""
    kinds = Counter(map(_kind, header.devices))
    return _text(", ".join(f"{number} × {kind}" for kind, number in kinds.items()))


def machine_of(header: Header, run_id: str) -> str:
    """What two runs share that were on one machine: its hosts, its devices and their numbers.

    Of an import that names no host nobody knows the machine: it has one of its own, by ``run_id``.
    """
    machines = [host.machine for host in header.hosts] or [header.machine]
    hosts = sorted(machine.hostname for machine in machines)
    if not any(hosts):
        return _text(f"not told, run {run_id}: {devices_of(header)}")
    layouts: dict[str, str] = {}
    for host in dict.fromkeys(device.host for device in header.devices):
        own = [device for device in header.devices if device.host == host]
        layouts[host] = _layout(own)
    if len(set(layouts.values())) <= 1:
        # Which of a host's devices take part is the same everywhere.
        numbers = next(iter(layouts.values()), "")
    else:
        numbers = "; ".join(f"{host} {layouts[host]}" for host in sorted(layouts))
    told = f" [{numbers}]" if numbers else ""
    return _text(f"{', '.join(hosts)}: {devices_of(header)}{told}")


def _layout(devices: Sequence[DeviceDescription]) -> str:
    """The numbers of devices on their host: ``0-3``, empty where they are not known."""
    numbers = sorted({device.index for device in devices if device.index >= 0})
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in parts)


def method_of(settings: Settings) -> str:
    """How was measured, as far as it shapes a time, in words."""
    timing = [settings.timing] if settings.timing else []
    usual = msgspec.structs.replace(settings, timing="throughput")
    return _text(", ".join([*timing, *unusual_method(usual)]))


def _library(library: LibraryDescription) -> str:
    return f"{library.name} {library.version}".strip()


def _kind(device: DeviceDescription) -> str:
    return f"{device.name} ({device.runtime})" if device.runtime else device.name


def _driver(header: Header) -> str:
    if header.machine.vendor_driver:
        return header.machine.vendor_driver
    return ", ".join(dict.fromkeys(filter(None, (one.driver_version for one in header.devices))))


def _measured(journal: Journal) -> Iterator[CaseResult | TransferResult]:
    yield from journal.results
    yield from journal.transfers


def _carried(header: Header) -> int:
    """How many of the first results were measured by the run that this one continues."""
    return 0 if header.continues is None else header.continues.carried


def _operations(journal: Journal) -> list[Row]:
    found = dict.fromkeys(
        [(one.case.operation, one.case.ccl) for one in journal.results]
        + [("p2p", one.transfer.means) for one in journal.transfers]
        + [("torch check", one.check.backend) for one in journal.checks]
    )
    texts = dict.fromkeys((_text(operation), _text(ccl)) for operation, ccl in found)
    return [{"operation": operation, "ccl": ccl} for operation, ccl in texts]


def _add_thing(things: dict[str, Row], thing: Thing, clock: str) -> str:
    """Adds the row of ``thing``, timed by ``clock``, if it is new, and returns its digest."""
    document = msgspec.json.encode(thing)
    kind = "case" if isinstance(thing, Case) else "transfer"
    digest = hashlib.sha256(f"{kind} {clock} ".encode() + document).hexdigest()
    if digest not in things:
        things[digest] = {
            "digest": digest,
            "kind": kind,
            "clock": clock,
            "size_bytes": thing.size_bytes,
            "document": _text(document.decode()),
            **(_case_row(thing) if isinstance(thing, Case) else _transfer_row(thing)),
        }
    return digest


def _case_row(case: Case) -> Row:
    pair = case.pair or (None, None)
    return {
        "operation": _text(case.operation),
        "ccl": _text(case.ccl),
        "ranks": case.ranks,
        "dtype": _text(case.dtype),
        "reduction": None if case.reduction is None else _text(case.reduction),
        "root": case.root,
        "placement": case.placement,
        "first": pair[0],
        "second": pair[1],
    }


def _transfer_row(transfer: Transfer) -> Row:
    pair = transfer.flows[0] if transfer.flows else (None, None)
    return {
        "operation": "p2p",
        "ccl": _text(transfer.means),
        "ranks": None,
        "dtype": None,
        "reduction": None,
        "root": None,
        "placement": None,
        "first": pair[0],
        "second": pair[1],
    }


def _result_row(result: CaseResult | TransferResult, position: int, header: Header) -> Row:
    checked = result.verification
    device: Summary | TransferSummary | None = result.summary
    if isinstance(result, CaseResult):
        device = device_summary(result, header.settings.timing)
    row: Row = {
        "position": position,
        "cycle": getattr(result, "cycle", 0),
        "carried": position < _carried(header),
        "status": _text(result.status),
        "reason": _text(result.reason),
        "wrong": None if checked is None else checked.wrong,
    }
    summary = result.summary
    for name in ("samples", "time_s", "min_s", "p95_s", "p99_s", "max_s", "cv", "half_width"):
        row[name] = getattr(summary, name, None)
    row["device_time_s"] = getattr(device, "time_s", None)
    row["device_half_width"] = getattr(device, "half_width", None)
    # All flows of a transfer together; no factor turns that into another bandwidth.
    rate = getattr(summary, "bytes_per_s", None) or None
    row["algbw_bytes_per_s"] = getattr(summary, "algbw_bytes_per_s", rate)
    row["busbw_bytes_per_s"] = getattr(summary, "busbw_bytes_per_s", rate)
    return row


def _text(text: str) -> str:
    """What every database takes: PostgreSQL knows no NUL, and neither knows a lone surrogate."""
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()
