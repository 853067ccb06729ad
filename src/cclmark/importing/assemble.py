"""Creates a journal from an importer's findings. Unknown values are omitted, not guessed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

import msgspec

from cclmark.errors import UsageError
from cclmark.importing.cleaned_text import MOST_RANKS, PrintedFigure, Text
from cclmark.importing.plausible import bus_factor, disagreement, is_derived, rank_counts, time_of
from cclmark.importing.run import (
    ForeignRun,
    Given,
    ImportedRow,
    ImportedTransfer,
    Notices,
    Origin,
    ToolSettings,
    left_out,
)
from cclmark.plan.cases import Case
from cclmark.plan.operations import DTYPE_BYTES, OPERATIONS
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.results.item_results import CaseResult, TransferResult
from cclmark.results.journal import Journal
from cclmark.results.schema import (
    SCHEMA_VERSION,
    DeviceDescription,
    Footer,
    Header,
    HostDescription,
    Imported,
    Machine,
    Settings,
    Summary,
    TransferSummary,
    Verification,
)


def assemble_transfers(
    run: ForeignRun, text: Text, format: str, given: Given, origin: Origin
) -> Journal:
    """Creates the journal. ``run.devices`` lists all devices of the copies.

    Raises UsageError if a size is unknown or contradicts ``given``, if a copy was measured twice,
    or if the user specifies properties that copies do not have.
    """
    _refuse_inapplicable(text, given)
    lacks_sizes = any(row.size_bytes is None for row in run.copies)
    notices = Notices()
    results: list[TransferResult] = []
    lines: dict[Transfer, int] = {}
    for row in run.copies:
        if not lacks_sizes:
            _refuse_other_size(row, text, given)
        transfer = _sized(row, run, text, given, notices)
        first = lines.setdefault(transfer, row.line)
        if len(lines) == len(results):
            raise text.split(
                row.line, f"{transfer.describe()} is on line {first} already", place="table"
            )
        if row.is_wrong:
            results.append(TransferResult(len(results), transfer, "wrong", "wrong data"))
            continue
        summary = _summary(row, transfer)
        results.append(TransferResult(len(results), transfer, "ok", summary=summary))
    said = [f"a time is {run.figure}", *run.notices, *notices.sentences()]
    if run.unknown_hosts and given.hosts is None:
        said.append("the text does not contain the hosts of the devices: --hosts sets their number")
    header = header_of(run, format, given, origin, results, said)
    return Journal(
        header, [*results], footer=footer_of(run, results, header) if run.whole else None
    )


def _refuse_inapplicable(text: Text, given: Given) -> None:
    """Raises UsageError for options that only apply to collectives."""
    named = {
        "--operation": given.operation,
        "--ranks": given.ranks,
        "--dtype": given.dtype,
        "--reduction": given.reduction,
        "--ccl": given.ccl,
    }
    for option, value in named.items():
        if value is not None:
            raise UsageError(
                f"{text.name} contains copies between devices: {option} applies only to operations "
                "of ranks"
            )


def _refuse_other_size(row: ImportedTransfer, text: Text, given: Given) -> None:
    """Raises UsageError if --size contradicts the text."""
    is_latency = row.transfer.measure == "latency"
    if not is_latency and given.size_bytes not in (None, row.size_bytes):
        raise text.refuse(
            row.line, f"the size is {row.size_bytes} bytes, not --size {given.size_bytes}"
        )


def _sized(
    row: ImportedTransfer, run: ForeignRun, text: Text, given: Given, notices: Notices
) -> Transfer:
    """Returns the transfer with its size."""
    size_bytes = row.size_bytes
    if size_bytes is None:
        size_bytes = given.size_bytes
        if size_bytes is None and run.usual_size is not None:
            size_bytes = run.usual_size.size_bytes
            notices.add(
                f"the text contains no size: {format_size(size_bytes)}, the default of "
                f"{run.usual_size.words}, is assumed; --size sets another",
                row.line,
            )
    if size_bytes is None:
        reason = f", because {run.no_usual_size}" if run.no_usual_size else ""
        raise text.refuse(
            row.line, f"the size of a copy is unknown{reason}: set it with --size SIZE"
        )
    return msgspec.structs.replace(row.transfer, size_bytes=size_bytes)


def _summary(row: ImportedTransfer, transfer: Transfer) -> TransferSummary:
    """Returns the figures. A time is of the slowest flow, as in journals of cclmark."""
    if transfer.measure == "latency":
        time_s = row.time_s
    elif row.rates_bytes_per_s:
        time_s = transfer.size_bytes / min(row.rates_bytes_per_s)
    else:
        time_s = transfer.size_bytes * len(transfer.flows) / row.total_bytes_per_s
    least_s, most_s = row.range_s or (time_s, time_s)
    summary = TransferSummary(time_s, least_s, most_s, row.samples, call_s=row.call_s)
    if transfer.measure != "latency":
        summary.bytes_per_s = row.total_bytes_per_s
        summary.flow_bytes_per_s = list(row.rates_bytes_per_s)
    return summary


_UNCOUNTED = "the check of the tool failed, without the number of wrong elements"


def assemble(run: ForeignRun, text: Text, format: str, given: Given, origin: Origin) -> Journal:
    """Creates the journal from a text.

    Raises UsageError if the text and ``given`` lack a field that every case requires, contradict
    each other, or contain no row.
    """
    if run.copies and run.rows:
        raise text.refuse(
            max(run.rows[0].line, run.copies[0].line),
            "copies between devices and operations of ranks are different kinds of work: split the "
            "text before this line and import the parts one by one",
        )
    if run.copies:
        return assemble_transfers(run, text, format, given, origin)
    if not run.rows:
        reasons = "".join(f"; {one}" for one in run.notices)
        raise UsageError(f"{text.name} contains no row of {run.tool}{reasons}")
    operations = [_operation(row, text, given) for row in run.rows]
    ranks, found = rank_counts(run.rows, operations, text, given)
    notices = Notices(found)
    results = _results(run, operations, ranks, text, given, notices)
    if not results:
        left = "; ".join([*run.notices, *notices.sentences()])
        raise UsageError(f"{text.name}: none of its {len(run.rows)} rows can be used: {left}")
    said = [f"a time is {run.figure}", *run.notices, *notices.sentences()]
    header = header_of(run, format, given, origin, results, said)
    return Journal(
        header, [*results], footer=footer_of(run, results, header) if run.whole else None
    )


def _operation(row: ImportedRow, text: Text, given: Given) -> str:
    if row.operation is None:
        if given.operation is None:
            raise text.refuse(row.line, "the operation is unknown: set it with --operation NAME")
        return given.operation
    if given.operation not in (None, row.operation):
        raise text.refuse(row.line, f"this is {row.operation}, not --operation {given.operation}")
    return row.operation


def _results(
    run: ForeignRun,
    operations: Sequence[str],
    ranks: Sequence[int],
    text: Text,
    given: Given,
    notices: Notices,
) -> list[CaseResult]:
    results: list[CaseResult] = []
    places: dict[Case, int] = {}
    seen: dict[Case, int] = {}
    empty: list[int] = []
    doubtful = 0
    for printed, operation, number in zip(run.rows, operations, ranks, strict=True):
        if printed.is_part and OPERATIONS[operation].spans_ranks:
            printed = replace(printed, size_bytes=printed.size_bytes * number)  # noqa: PLW2901
        case = _case(printed, operation, number, run, given, notices)
        if case is None:
            continue
        row = replace(printed, size_bytes=case.size_bytes)
        time = time_of(row)
        if row.size_bytes <= 0:
            notices.add("omitted: no data", row.line)
            continue
        if time is None or time.value <= 0:
            empty.append(row.line)
            continue
        if case.count <= 0:
            notices.add("omitted: less than one element for each rank", row.line)
            continue
        if is_derived(row):
            notices.add(
                "the time is computed from size and algorithm bandwidth, which has more digits "
                "than the printed time",
                row.line,
            )
        if bus_factor(row, operation, number) != OPERATIONS[operation].bus_factor(number):
            notices.add("parts are uneven: the bus bandwidth of the text is used", row.line)
        doubt = disagreement(row, operation, number, time)
        if doubt:
            doubtful += 1
            notices.add(f"does not fit: {doubt}" if doubtful == 1 else "do not fit", row.line)
        cycle = seen.get(case, 0)
        seen[case] = cycle + 1
        index = places.setdefault(case, len(places))
        results.append(_result(row, case, time, index, cycle, run.clock))
    if empty:
        run.notices.append(left_out("rows without a figure", empty))
    if doubtful > len(results) / 2 and (given.operation or given.ranks):
        words = next(kind for kind in notices.found if kind.startswith("does not fit"))
        raise UsageError(
            f"{text.name}: {doubtful} of {len(results)} rows do not fit --operation and --ranks "
            f"as given; line {notices.found[words][0]} {words}"
        )
    return results


def _case(
    row: ImportedRow, operation: str, ranks: int, run: ForeignRun, given: Given, notices: Notices
) -> Case | None:
    """Returns the measured case; None, with a notice, if cclmark does not support it."""
    info = OPERATIONS[operation]
    dtype = row.dtype or given.dtype
    reduction = row.reduction or given.reduction
    if run.usual is not None and (dtype is None or (info.reduces and reduction is None)):
        usual = f"{run.usual[0]} {run.usual[1]}" if info.reduces else run.usual[0]
        notices.add(
            f"the text contains no type and reduction: {usual}, the default of {run.tool}, is "
            "assumed; --dtype and --reduction set others",
            row.line,
        )
        dtype = dtype or run.usual[0]
        reduction = reduction or run.usual[1]
    if dtype is None or dtype not in DTYPE_BYTES:
        notices.add("omitted: cclmark does not support this element type", row.line)
        return None
    count, size_bytes = _measured(row, operation, ranks, dtype, notices)
    return Case(
        operation=operation,
        ccl=given.ccl or row.ccl or run.ccl,
        ranks=ranks,
        dtype=dtype,
        size_bytes=size_bytes,
        count=count,
        in_place=row.in_place,
        reduction=reduction if info.reduces else None,
        root=row.root if info.rooted else None,
    )


def _measured(
    row: ImportedRow, operation: str, ranks: int, dtype: str, notices: Notices
) -> tuple[int, int]:
    """Returns the elements of a rank, and the bytes that the figures refer to.

    A tool that rounds up measures more than it prints; its bandwidth shows whether it did.
    """
    if row.count is not None:
        return row.count, row.size_bytes
    parts = ranks if OPERATIONS[operation].spans_ranks else 1
    width = DTYPE_BYTES[dtype]
    count = row.size_bytes // (width * parts)
    if not row.rounds_up or row.size_bytes == count * width * parts:
        return count, row.size_bytes
    more = math.ceil(math.ceil(row.size_bytes / width) / parts)
    larger = replace(row, size_bytes=more * width * parts)
    time = time_of(larger)
    if time is None or time.value <= 0 or disagreement(larger, operation, ranks, time):
        return count, row.size_bytes
    notices.add(
        "the tool rounds this size up to whole elements for each rank: the rounded size is used",
        row.line,
    )
    return more, larger.size_bytes


def _result(
    row: ImportedRow, case: Case, time: PrintedFigure, index: int, cycle: int, clock: str
) -> CaseResult:
    rate = row.size_bytes / time.value
    factor = bus_factor(row, case.operation, case.ranks)
    spread = row.spread
    time_s = time.value if spread is None else spread.median_s
    if spread is not None:
        rate = row.size_bytes / time_s
    summary = Summary(
        clock="device" if spread is not None else clock,
        time_s=time_s,
        min_s=time_s if spread is None else spread.min_s,
        p95_s=time_s if spread is None else spread.p95_s,
        p99_s=time_s if spread is None else spread.p99_s,
        max_s=time_s if spread is None else spread.max_s,
        cv=0.0 if spread is None else spread.cv,
        samples=1 if spread is None else spread.iterations,
        algbw_bytes_per_s=rate,
        busbw_bytes_per_s=rate * factor,
    )
    return CaseResult(
        index=index,
        case=case,
        status="wrong" if row.wrong or row.failed else "ok",
        reason=_UNCOUNTED if row.failed else "",
        cycle=cycle,
        route="",
        summary=summary,
        verification=None if row.wrong is None else Verification(wrong=row.wrong, where=""),
    )


def header_of(
    run: ForeignRun,
    format: str,
    given: Given,
    origin: Origin,
    results: Sequence[CaseResult] | Sequence[TransferResult],
    notices: list[str],
) -> Header:
    """Creates the header of a journal of ``results``, which must not be empty.

    Devices of transfers are always known, at least by number. Raises UsageError if the text and the
    user specify different hosts.
    """
    written = iso_time(origin.written_s)
    ranks = len(run.devices) if run.copies else max(result.item.ranks for result in results)
    devices = _devices(run, given, ranks)
    hosts = list(dict.fromkeys(device.host for device in devices if device.host))
    all_known = all(device.host for device in devices)
    return Header(
        schema_version=SCHEMA_VERSION,
        cclmark_version=origin.version,
        started_at=run.started_at or written,
        command=origin.command,
        machine=_machine(hosts[0] if hosts else "", run.vendor_driver),
        devices=devices,
        links=[],
        relations=run.relations,
        libraries=run.libraries,
        environment=run.environment,
        settings=_settings(run.facts, results),
        notices=notices,
        run_id=origin.digest[:32],
        planned_cases=1 + max(result.index for result in results),
        hosts=[HostDescription(_machine(host), host, {}) for host in hosts]
        if len(hosts) > 1 and all_known
        else [],
        imported=Imported(
            tool=run.tool,
            format=format,
            version=run.version,
            file=origin.file,
            file_date=written,
            command=run.command,
            figure=run.figure,
            ranks=ranks,
            hosts=_number_of_hosts(run, devices, ranks, given, origin),
        ),
    )


def _number_of_hosts(
    run: ForeignRun, devices: Sequence[DeviceDescription], ranks: int, given: Given, origin: Origin
) -> int:
    """Returns the number of hosts from the text's devices, else from the user; 0 if unknown.

    Raises UsageError for a given number that is not the text's, or that does not divide ``ranks``:
    references are of hosts with equal numbers of ranks.
    """
    told = {device.host for device in devices}
    known = len(told) if told and all(told) else int(run.on_one_host)
    if known and given.hosts not in (None, known):
        raise UsageError(
            f"{origin.file or 'the text'} lists {known} host{'s' * (known > 1)}, not --hosts "
            f"{given.hosts}"
        )
    what = "devices" if run.copies else "ranks"
    if given.hosts is not None and ranks % given.hosts and not known:
        raise UsageError(
            f"{origin.file or 'the text'} is of {ranks} {what}, which --hosts {given.hosts} does "
            f"not divide: set a number of hosts with equal numbers of {what}, or leave --hosts out"
        )
    return known or given.hosts or 0


def _devices(run: ForeignRun, given: Given, ranks: int) -> list[DeviceDescription]:
    """Returns the text's devices, renamed if the user gives a name.

    For ranks that the text does not list only the name is known, if one is given or all listed
    devices have the same; without a name they are omitted.
    """
    devices = run.devices
    if given.device is not None:
        devices = [msgspec.structs.replace(one, name=given.device) for one in devices]
    if devices and not run.device_of_each_rank:
        return devices
    if (not devices and given.device is None) or ranks > MOST_RANKS:
        return []
    names = {one.name for one in devices} or {given.device or ""}
    name = names.pop() if len(names) == 1 else ""
    listed = {one.rank for one in devices}
    unlisted = [
        DeviceDescription(rank=rank, host="", runtime="", index=-1, name=name, memory_bytes=0)
        for rank in range(ranks)
        if rank not in listed
    ]
    return sorted([*devices, *unlisted], key=lambda one: one.rank)


def _settings(
    facts: ToolSettings, results: Sequence[CaseResult] | Sequence[TransferResult]
) -> Settings:
    sizes = [result.item.size_bytes for result in results]
    checked = any(result.verification is not None for result in results)
    return Settings(
        begin_bytes=min(sizes) if facts.begin_bytes is None else facts.begin_bytes,
        end_bytes=max(sizes) if facts.end_bytes is None else facts.end_bytes,
        step_bytes=facts.step_bytes,
        factor=facts.factor,
        timing=facts.timing,
        across_ranks=facts.across_ranks,
        barrier=facts.barrier,
        clock="",
        precision=0.0,
        max_time_s=0.0,
        timeout_s=0.0,
        iterations=facts.iterations,
        warmup=facts.warmup,
        group=facts.group,
        graph_launches=facts.graph_launches,
        check=int(checked) if facts.check is None else facts.check,
        cycles=1 + max(result.cycle for result in results),
        registration="",
        seed=0,
    )


def _machine(hostname: str, vendor_driver: str = "") -> Machine:
    return Machine(
        hostname=hostname,
        system="",
        kernel="",
        processor="",
        processors=0,
        memory_bytes=0,
        vendor_driver=vendor_driver,
    )


def footer_of(
    run: ForeignRun, results: Sequence[CaseResult] | Sequence[TransferResult], header: Header
) -> Footer:
    """Creates the footer of a complete text."""
    wrong = run.failed or any(result.status == "wrong" for result in results)
    return Footer(
        ended_at=header.started_at,
        exit_code=run.exit_code or int(wrong),
        duration_s=0.0,
        message=run.message,
    )


def iso_time(seconds: float | None) -> str:
    """Returns seconds since 1970 as ISO 8601; the present for None."""
    now = datetime.now(timezone.utc)
    moment = now if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds")
