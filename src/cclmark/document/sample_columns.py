"""A row for each raw sample of each rank. Times in seconds, as in the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cclmark.document.case_fields import EXPORTED_CASES, CaseRow, case_fields, known_of_cases
from cclmark.document.columns import Cell, Column, Layout
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Header

#: The columns of every table of samples.
INDEX = Column("index", "int", "Number of the item in the plan, from 0.")
SAMPLE = Column("sample", "int", "Number of the sample, from 0.")
_OF_CASE = case_fields("result.case")
_COLUMNS = [
    INDEX,
    Column("cycle", "int", "Number of the cycle of a soak or of -N, from 0; tables count from 1."),
    *(one.column for one in _OF_CASE),
    *(one.column for one in EXPORTED_CASES.all if one.key in ("method", "first", "second")),
    SAMPLE,
    Column("rank", "int", "Rank; of a pair, its number in the run."),
    Column("operations_per_sample", "int", "Operations that the times were divided by."),
    Column("host_s", "float", "Time of one operation by the clock of the host."),
    Column("device_s", "float", "Time of one operation by events of the device."),
    Column("enqueue_s", "float", "Time of the host to enqueue one operation."),
]


def _of_cases(header: Header) -> Callable[[CaseResult], Iterator[list[Cell]]]:
    known = known_of_cases(header)
    return lambda result: _case_samples(CaseRow(*known, result))


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
    for sample, place, times in times_of_samples(clocks):
        rank = place if case.pair is None else case.pair[place]
        yield [*lead, sample, rank, samples.operations_per_sample, *times]


def times_of_samples(
    clocks: Sequence[Sequence[Sequence[float | None]]],
) -> Iterator[tuple[int, int, list[float | None]]]:
    """Yields each sample and place, with the time of each clock, None where it has no such time."""
    for sample in range(max(map(len, clocks))):
        rows = [clock[sample] if sample < len(clock) else () for clock in clocks]
        for place in range(max(map(len, rows))):
            yield sample, place, [row[place] if place < len(row) else None for row in rows]


CASE_SAMPLES = Layout(_COLUMNS, _of_cases, exact=True)
