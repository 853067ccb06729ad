"""The columns of transfers, with a row for each flow.

Times are in microseconds, bandwidths in GB/s: 10^9 bytes per second. ``total_gbps`` is the
bandwidth of all flows of the transfer together, ``share`` its share of the link limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cclmark.analysis.transfer_results import LinkLimits, utilisation
from cclmark.plan.transfers import Transfer
from cclmark.document.columns import Cell, Layout, Row, columns
from cclmark.document.device_labels import device_labels
from cclmark.document.text import BYTES_PER_GB, US_PER_S
from cclmark.results.item_results import TransferResult
from cclmark.results.schema import Header

TRANSFER_COLUMNS = (
    *("measure", "scope", "direction", "engine", "kernel", "from", "to"),
    *("host_memory", "to_host", "numa", "size_bytes", "offset_bytes", "blocks", "threads"),
    *("peer_access", "method", "status", "reason", "time_us", "min_us", "max_us", "call_us"),
    *("samples", "half_width", "gbps", "total_gbps", "share", "wrong"),
)


def kernel_of(transfer: Transfer) -> str:
    """Returns the kernel that copies, or the messages of a library between hosts."""
    return transfer.means if transfer.ccl else transfer.kernel


def transfer_cells(
    result: TransferResult, names: Sequence[str], limits: LinkLimits
) -> list[list[Cell]]:
    """Returns a cell for each of TRANSFER_COLUMNS, for each flow.

    ``names``: the devices' labels; ``limits``: of the connections.
    """
    transfer, summary = result.transfer, result.summary
    share = utilisation(result, limits)
    checked = result.verification
    rows: list[list[Cell]] = []
    for number, (start, end) in enumerate(transfer.flows):
        cells: list[Cell] = [
            transfer.measure,
            transfer.scope,
            transfer.direction,
            transfer.engine,
            kernel_of(transfer),
            names[start],
            names[end],
            transfer.host_memory,
            int(transfer.to_host),
            transfer.numa,
            transfer.size_bytes,
            transfer.offset_bytes,
            transfer.blocks or None,
            transfer.threads or None,
            int(transfer.peer_access),
            transfer.method,
            result.status,
            result.reason,
        ]
        if summary is None:
            cells += [None] * 9
        else:
            rates = summary.flow_bytes_per_s
            cells += [
                summary.time_s * US_PER_S,
                summary.min_s * US_PER_S,
                summary.max_s * US_PER_S,
                None if summary.call_s is None else summary.call_s * US_PER_S,
                summary.samples,
                summary.half_width,
                rates[number] / BYTES_PER_GB if rates else None,
                summary.bytes_per_s / BYTES_PER_GB if summary.bytes_per_s else None,
                share,
            ]
        cells.append(None if checked is None else checked.wrong)
        rows.append(cells)
    return rows


_COLUMNS = columns(
    TRANSFER_COLUMNS,
    texts="measure scope direction engine kernel from to host_memory numa method status reason",
    whole="size_bytes offset_bytes blocks threads samples wrong",
    flags="to_host peer_access",
)


def _rows_in(header: Header) -> Callable[[TransferResult], Iterable[Row]]:
    names, limits = device_labels(header), LinkLimits(header.relations)
    return lambda result: transfer_cells(result, names, limits)


TRANSFERS = Layout(_COLUMNS, _rows_in)
