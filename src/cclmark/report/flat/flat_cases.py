"""A row for each case, flow of a transfer, or check, with the figures of every CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.report.flat.flat_table import RUN_COLUMNS, Row, Table, columns, run_cells
from cclmark.report.formats.csv_format import COLUMNS, Cell, case_cells
from cclmark.report.kinds.check_formats import CHECK_COLUMNS, check_cells
from cclmark.report.kinds.matrix import labels
from cclmark.report.kinds.transfer_formats import TRANSFER_COLUMNS, limits_of, transfer_cells
from cclmark.results.journal import Journal
from cclmark.results.kinds import CaseResult
from cclmark.results.schema import Header

_CASE = columns(
    (*COLUMNS, "first", "second", "beside", "at_once_ratio"),
    texts="operation ccl dtype reduction placement status reason clock route method first second "
    "device_reason",
    whole="ranks root size_bytes count samples device_samples slowest_rank late_rank wrong cycle "
    "beside",
    flags="converged device_converged",
)
_TRANSFER = columns(
    TRANSFER_COLUMNS,
    texts="measure scope direction engine kernel from to host_memory numa method status reason",
    whole="size_bytes offset_bytes blocks threads samples wrong",
    flags="to_host peer_access",
)
_CHECK = columns(CHECK_COLUMNS, texts="check backend verdict reason")


def case_table(journals: Sequence[Journal]) -> Table:
    """Cases of collectives. ``first`` and ``second``: the devices of a pair, else empty."""
    return Table([*RUN_COLUMNS, *_CASE], _case_rows(journals))


def transfer_table(journals: Sequence[Journal]) -> Table:
    """Flows of transfers."""
    return Table([*RUN_COLUMNS, *_TRANSFER], _transfer_rows(journals))


def check_table(journals: Sequence[Journal]) -> Table:
    """Checks of a framework's backend."""
    return Table([*RUN_COLUMNS, *_CHECK], _check_rows(journals))


def device_labels(header: Header) -> list[str]:
    """How each device is called, with its host where there are several."""
    return labels(header.devices, hosts=len({device.host for device in header.devices}) > 1)


def pair_cells(result: CaseResult, names: Sequence[str]) -> list[Cell]:
    """The two devices of a pair; nothing for a case of all ranks."""
    pair = result.case.pair
    return [None, None] if pair is None else [names[number] for number in pair]


def _case_rows(journals: Sequence[Journal]) -> Iterator[Row]:
    for journal in journals:
        run, names = run_cells(journal.header), device_labels(journal.header)
        for result in journal.cases:
            alone = result.case.pair is None
            beside: list[Cell] = [None, None]
            if not alone:
                beside = [result.beside, result.at_once_ratio]
            yield [
                *run,
                *case_cells(result, journal.header.settings),
                *pair_cells(result, names),
                *beside,
            ]


def _transfer_rows(journals: Sequence[Journal]) -> Iterator[Row]:
    for journal in journals:
        run, names = run_cells(journal.header), device_labels(journal.header)
        limits = limits_of(journal.header)
        for result in journal.transfers:
            for cells in transfer_cells(result, names, limits):
                yield [*run, *cells]


def _check_rows(journals: Sequence[Journal]) -> Iterator[Row]:
    for journal in journals:
        run = run_cells(journal.header)
        for result in journal.checks:
            yield [*run, *check_cells(result)]
