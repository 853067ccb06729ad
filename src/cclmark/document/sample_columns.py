"""A row for each raw sample of each rank or flow. Times in seconds, as in the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cclmark.document.case_fields import CaseRow, case_fields, known_of_cases
from cclmark.document.columns import Cell, Layout, columns
from cclmark.document.device_labels import device_labels
from cclmark.results.item_results import CaseResult, TransferResult
from cclmark.results.schema import Header

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
    clocks: tuple[Sequence[Sequence[float | None]], ...]
    clocks = (samples.host_s, samples.device_s, samples.enqueue_s)
    for sample in range(max(len(clock) for clock in clocks)):
        for place in range(max(len(_row(clock, sample)) for clock in clocks)):
            rank = place if case.pair is None else case.pair[place]
            times = [_at(_row(clock, sample), place) for clock in clocks]
            yield [*lead, sample, rank, samples.operations_per_sample, *times]


def _transfer_samples(result: TransferResult, names: Sequence[str]) -> Iterator[list[Cell]]:
    transfer, samples = result.transfer, result.samples
    if samples is None:
        return
    lead: list[Cell] = [
        result.index,
        transfer.measure,
        transfer.scope,
        transfer.direction,
        transfer.engine,
        transfer.kernel,
        transfer.size_bytes,
    ]
    for sample in range(max(len(samples.device_s), len(samples.call_s))):
        device_s, call_s = _row(samples.device_s, sample), _row(samples.call_s, sample)
        for flow in range(max(len(device_s), len(call_s))):
            start, end = transfer.flows[flow] if flow < len(transfer.flows) else (None, None)
            ends = [None if place is None else names[place] for place in (start, end)]
            times = [_at(device_s, flow), _at(call_s, flow)]
            yield [*lead, sample, flow, *ends, samples.copies_per_sample, *times]


def _row(clock: Sequence[Sequence[float | None]], sample: int) -> Sequence[float | None]:
    return clock[sample] if sample < len(clock) else ()


def _at(row: Sequence[float | None], place: int) -> float | None:
    return row[place] if place < len(row) else None


CASE_SAMPLES = Layout(_CASE, _of_cases, exact=True)
TRANSFER_SAMPLES = Layout(_TRANSFER, _of_transfers, exact=True)
