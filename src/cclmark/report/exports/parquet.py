"""Flat tables as Parquet files, written with pyarrow."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from cclmark.document.columns import Cell, Column, Row
from cclmark.errors import MissingError
from cclmark.report.exports.flat_table import FlatTable

_GROUP = 65536  # rows held in memory as cells at a time


def parquet(table: FlatTable) -> bytes:
    """Returns the content of the file. Raises MissingError if pyarrow is not installed."""
    pa = _pyarrow()
    import pyarrow.parquet as pq

    file = io.BytesIO()
    with pq.ParquetWriter(file, _schema(pa, table)) as writer:
        for part in _parts(pa, table):
            writer.write_table(part)
    return file.getvalue()


def arrow_table(table: FlatTable) -> Any:
    """Returns the table of pyarrow. Raises MissingError if pyarrow is not installed."""
    pa = _pyarrow()
    parts = [*_parts(pa, table)]
    return pa.concat_tables(parts) if parts else _schema(pa, table).empty_table()


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingError(
            "Parquet needs pyarrow: pip install 'cclmark[parquet]', or pip install pyarrow"
        ) from None
    return pa


def _schema(pa: Any, table: FlatTable) -> Any:
    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    return pa.schema([pa.field(one.name, types[one.kind]) for one in table.columns])


def _parts(pa: Any, table: FlatTable) -> Iterator[Any]:
    schema = _schema(pa, table)
    for rows in _groups(table.rows):
        arrays = [
            pa.array([_value(row[place], column) for row in rows], schema.field(place).type)
            for place, column in enumerate(table.columns)
        ]
        yield pa.Table.from_arrays(arrays, schema=schema)


def _groups(rows: Iterator[Row]) -> Iterator[Sequence[Row]]:
    while group := list(islice(rows, _GROUP)):
        yield group


def _value(cell: Cell, column: Column) -> Any:
    """Converts the cell to its column's type; null if it is empty or not a number."""
    if cell is None or (column.kind == "text" and cell == ""):
        return None
    if column.kind == "bool":
        return bool(cell)
    if column.kind == "float":
        return float(cell) if math.isfinite(float(cell)) else None
    return cell
