"""Creates a journal of copies between devices from an importer's findings."""

from __future__ import annotations

import msgspec

from cclmark.errors import UsageError
from cclmark.importing.cleaned_text import Text
from cclmark.importing.header import Given, Origin, footer_of, header_of
from cclmark.importing.notices import Notices
from cclmark.importing.run import ForeignRun, ImportedTransfer
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.results.item_results import TransferResult
from cclmark.results.journal import Journal
from cclmark.results.schema import TransferSummary


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
            raise text.refuse(
                row.line,
                f"{transfer.describe()} is on line {first} already, so this is another run. Split "
                "the text before this table and import the parts one by one",
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
