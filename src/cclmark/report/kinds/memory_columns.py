"""The columns of memory: a row for each stage, then one for each buffer, of each rank and case."""

from __future__ import annotations

from collections.abc import Iterator

from cclmark.analysis.memory_use import stated_total, taken_in
from cclmark.report.columns import Cell, Layout, columns
from cclmark.report.kinds.case_columns import what_cells
from cclmark.results.kinds import MemoryResult
from cclmark.results.schema import MemoryBuffer, MemoryStage

_OF_CASE = "operation ccl ranks dtype reduction root placement size_bytes count rank status reason"
_OF_ROW = "entry name owner"
_OF_STAGE = "device_bytes device_free_bytes rss_bytes shared_bytes pss_bytes stated_bytes"
_OF_BUFFER = "place allocated_bytes used_bytes first_values address mapped"
_TEXTS = (
    "operation ccl dtype reduction placement status reason entry name owner place first_values "
    "address"
)
_WHOLE = f"ranks root size_bytes count rank {_OF_STAGE} allocated_bytes used_bytes"


def memory_rows(result: MemoryResult) -> Iterator[list[Cell]]:
    """Yields a row for each stage and each buffer."""
    own = [
        *what_cells(result.memory.case),
        result.memory.rank,
        result.status,
        result.reason,
    ]
    for stage in result.stages:
        yield [*own, "stage", stage.name, stage.owner, *_stage_cells(stage), *[None] * 6]
    for buffer in result.buffers:
        yield [*own, "buffer", buffer.purpose, buffer.owner, *[None] * 6, *_buffer_cells(buffer)]


def _stage_cells(stage: MemoryStage) -> list[Cell]:
    taken = taken_in(stage)
    return [
        taken.device_bytes,
        stage.after.device_free_bytes,
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
    lambda header: memory_rows,
)
