"""A row for each raw sample of each rank, or flow. Times in seconds, as in the journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.report.flat.flat_cases import device_labels, pair_cells
from cclmark.report.flat.flat_table import RUN_COLUMNS, Row, Table, columns, run_cells
from cclmark.report.formats.csv_format import Cell, method_cell, what_cells
from cclmark.results.journal import Journal
from cclmark.results.kinds import CaseResult, TransferResult
from cclmark.results.schema import Settings

_CASE = columns(
    (
        "index cycle operation ccl ranks dtype reduction root placement size_bytes count "
        "method first second sample rank operations_per_sample host_s device_s enqueue_s"
    ),
    texts="operation ccl dtype reduction placement method first second",
    whole="index cycle ranks root size_bytes count sample rank operations_per_sample",
)
_TRANSFER = columns(
    (
        "index measure scope direction engine kernel size_bytes sample flow from to "
        "copies_per_sample device_s call_s"
    ),
    texts="measure scope direction engine kernel from to",
    whole="index size_bytes sample flow copies_per_sample",
)


def sample_table(journals: Sequence[Journal]) -> Table:
    """Samples of collectives, per rank."""
    return Table([*RUN_COLUMNS, *_CASE], _of_cases(journals), exact=True)


def transfer_sample_table(journals: Sequence[Journal]) -> Table:
    """Samples of transfers, per flow."""
    return Table([*RUN_COLUMNS, *_TRANSFER], _of_transfers(journals), exact=True)


def _of_cases(journals: Sequence[Journal]) -> Iterator[Row]:
    for journal in journals:
        run, names = run_cells(journal.header), device_labels(journal.header)
        for result in journal.cases:
            for cells in _case_samples(result, names, journal.header.settings):
                yield [*run, *cells]


def _case_samples(
    result: CaseResult, names: Sequence[str], settings: Settings
) -> Iterator[list[Cell]]:
    case, samples = result.case, result.samples
    if samples is None:
        return
    lead: list[Cell] = [
        result.index,
        result.cycle,
        *what_cells(case),
        method_cell(case, settings),
        *pair_cells(result, names),
    ]
    clocks: tuple[Sequence[Sequence[float | None]], ...]
    clocks = (samples.host_s, samples.device_s, samples.enqueue_s)
    for sample in range(max(len(clock) for clock in clocks)):
        for place in range(max(len(_row(clock, sample)) for clock in clocks)):
            rank = place if case.pair is None else case.pair[place]
            times = [_at(_row(clock, sample), place) for clock in clocks]
            yield [*lead, sample, rank, samples.operations_per_sample, *times]


def _of_transfers(journals: Sequence[Journal]) -> Iterator[Row]:
    for journal in journals:
        run, names = run_cells(journal.header), device_labels(journal.header)
        for result in journal.transfers:
            for cells in _transfer_samples(result, names):
                yield [*run, *cells]


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
