"""A row for each raw sample of each rank or flow. Times in seconds, as in the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cclmark.document.case_fields import CaseRow, case_fields, known_of_cases
from cclmark.document.columns import Cell, Layout, columns
from cclmark.document.device_labels import device_labels
from cclmark.journal.item_results import CaseResult, TransferResult
from cclmark.journal.schema import Header

_CASE = columns(
    (
        "index cycle operation ccl ranks dtype reduction root placement size_bytes count "
        "method first second sample rank operations_per_sample host_s device_s enqueue_s"
    ),
    texts="operation ccl dtype reduction placement method first second",
    whole="index cycle ranks root size_bytes count sample rank operations_per_sample",
)
_OF_CASE = case_fields("result.case")
_TRANSFER = columns(
    (
        "index measure scope direction engine kernel size_bytes sample flow from to "
        "copies_per_sample device_s call_s"
    ),
    texts="measure scope direction engine kernel from to",
    whole="index size_bytes sample flow copies_per_sample",
)


def _of_cases(header: Header) -> Callable[[CaseResult], Iterator[list[Cell]]]:
    known = known_of_cases(header)
    return lambda result: _case_samples(CaseRow(*known, result))


def _of_transfers(header: Header) -> Callable[[TransferResult], Iterator[list[Cell]]]:
    names = device_labels(header.devices)
    return lambda result: _transfer_samples(result, names)


def _case_samples(row: CaseRow) -> Iterator[list[Cell]]:
    result = row.result
    case, samples = result.case, result.samples
    if samples is None:
        return
    lead: list[Cell] = [
        *(result.index, result.cycle),
        *(one.cell(row) for one in _OF_CASE),
        *(row.method, row.device(0), row.device(1)),
    ]
    clocks = (samples.host_s, samples.device_s, samples.enqueue_s)
    for sample, place, times in _times(clocks):
        rank = place if case.pair is None else case.pair[place]
        yield [*lead, sample, rank, samples.operations_per_sample, *times]


def _transfer_samples(result: TransferResult, names: Sequence[str]) -> Iterator[list[Cell]]:
    transfer, samples = result.transfer, result.samples
    if samples is None:
        return
    lead: list[Cell] = [
        *(result.index, transfer.measure, transfer.scope, transfer.direction),
        *(transfer.engine, transfer.kernel, transfer.size_bytes),
    ]
    for sample, flow, times in _times((samples.device_s, samples.call_s)):
        known = flow < len(transfer.flows)
        ends = [names[place] for place in transfer.flows[flow]] if known else [None, None]
        yield [*lead, sample, flow, *ends, samples.copies_per_sample, *times]


def _times(
    clocks: Sequence[Sequence[Sequence[float | None]]],
) -> Iterator[tuple[int, int, list[float | None]]]:
    """Yields each sample and place, with the time of each clock, None where it has no such time."""
    for sample in range(max(map(len, clocks))):
        rows = [clock[sample] if sample < len(clock) else () for clock in clocks]
        for place in range(max(map(len, rows))):
            yield sample, place, [row[place] if place < len(row) else None for row in rows]


CASE_SAMPLES = Layout(_CASE, _of_cases, exact=True)
TRANSFER_SAMPLES = Layout(_TRANSFER, _of_transfers, exact=True)
