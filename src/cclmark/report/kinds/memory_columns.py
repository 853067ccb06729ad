"""The columns of memory: a row for each stage, then one for each buffer, of each rank and case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from cclmark.analysis.memory_use import on_host, stated_total, taken_in
from cclmark.report.columns import Cell, Layout, columns
from cclmark.report.kinds.case_columns import what_cells
from cclmark.results.kinds import MemoryResult
from cclmark.results.schema import DeviceDescription, MemoryBuffer, MemoryStage

_OF_CASE = "operation ccl ranks dtype reduction root placement size_bytes count rank status reason"
_OF_ROW = "entry name owner"
_OF_STAGE = "device_bytes device_free_bytes rss_bytes shared_bytes pss_bytes stated_bytes"
_OF_BUFFER = "place allocated_bytes used_bytes first_values address mapped"
_TEXTS = (
    "operation ccl dtype reduction placement status reason entry name owner place first_values "
    "address"
)
_WHOLE = f"ranks root size_bytes count rank {_OF_STAGE} allocated_bytes used_bytes"


def memory_rows(result: MemoryResult, devices: Sequence[DeviceDescription]) -> Iterator[list[Cell]]:
    """Yields a row for each stage and each buffer. ``devices``: those of the run."""
    host = on_host(result, devices)
    own = [
        *what_cells(result.memory.case),
        result.memory.rank,
        result.status,
        result.reason,
    ]
    for stage in result.stages:
        yield [*own, "stage", stage.name, stage.owner, *_stage_cells(stage, host), *[None] * 6]
    for buffer in result.buffers:
        yield [*own, "buffer", buffer.purpose, buffer.owner, *[None] * 6, *_buffer_cells(buffer)]


def _stage_cells(stage: MemoryStage, host: bool) -> list[Cell]:
    taken = taken_in(stage)
    return [
        # A rank of the host has no memory of a device: the free memory is that of the whole host.
        None if host else taken.device_bytes,
        None if host else stage.after.device_free_bytes,
        taken.rss_bytes,
        taken.shared_bytes,
        taken.pss_bytes,
        stated_total(stage),
    ]


def _buffer_cells(buffer: MemoryBuffer) -> list[Cell]:
    return [
        buffer.place,
        buffer.size_bytes,
        buffer.used_bytes,
        buffer.first_values,
        buffer.address,
        buffer.mapped,
    ]


MEMORY_LAYOUT = Layout(
    columns(
        f"{_OF_CASE} {_OF_ROW} {_OF_STAGE} {_OF_BUFFER}",
        texts=_TEXTS,
        whole=_WHOLE,
        flags="mapped",
    ),
    lambda header: partial(memory_rows, devices=header.devices),
)
