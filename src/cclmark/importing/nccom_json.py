"""Reads the JSON that nccom-test, of AWS Neuron, writes with ``--report-to-json-file``.

The rows have the names of the table's columns (the user guide has an example). The bandwidths are
not rounded, but the times are.
"""

from __future__ import annotations

import json
import re
from typing import Any

from cclmark.importing.cleaned_text import PrintedFigure, Text, read_count, read_figure
from cclmark.importing.nccom_text import ALGBW, BUSBW, COUNT, SIZE, TIMES, TYPE, check_count
from cclmark.importing.run import ForeignRun, ImportedRow, ToolSettings
from cclmark.importing.spelling import dtype_of

_ROW = re.compile(r'"size\(B\)"\s{0,20}:')
_RESULTS = "results"


class _Printed(str):
    """A number as it is written in the document."""


def is_nccom_json(text: Text) -> bool:
    """Whether the text is such a document."""
    return (
        text.content.lstrip().startswith("{")
        and _ROW.search(text.content) is not None
        and f'"{_RESULTS}"' in text.content
        and f'"{ALGBW}"' in text.content
    )


def read_nccom_json(text: Text) -> ForeignRun:
    """Reads the document. Raises UsageError for other content."""
    try:
        document = json.loads(text.content, parse_float=_Printed, parse_int=_Printed)
    except (ValueError, RecursionError) as error:
        raise text.refuse(
            getattr(error, "lineno", 1), "this JSON is truncated or damaged: copy the file again"
        ) from None
    rows = document.get(_RESULTS) if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise text.refuse(1, f'the document has no list "{_RESULTS}"')
    lines = [text.content.count("\n", 0, one.start()) + 1 for one in _ROW.finditer(text.content)]
    if len(lines) != len(rows):
        raise text.refuse(1, f"{len(rows)} results, but {len(lines)} of them have {SIZE}")
    run = ForeignRun("nccom-test", "", "", "nccom", facts=ToolSettings(timing=""))
    for line, row in zip(lines, rows, strict=True):
        _add(text, line, row, run)
    others = sorted(str(key)[:40] for key in document if key != _RESULTS)
    if others:
        run.notices.append(f"not read: {', '.join(others[:8])}")
    return run


def _add(text: Text, line: int, row: Any, run: ForeignRun) -> None:
    """Adds a row. The operation and the number of ranks are not in it."""
    if not isinstance(row, dict):
        raise text.refuse(line, "this result is not an object")
    times = [name for name in TIMES if name in row]
    missing = [name for name in (SIZE, COUNT, TYPE, ALGBW, BUSBW) if name not in row]
    if missing or len(times) != 1:
        raise text.refuse(line, f"this result has no {', '.join(missing or TIMES)}")
    figure, unit = TIMES[times[0]]
    if run.figure not in ("", figure):
        raise text.refuse(line, "times of two kinds, medians and means, are in this document")
    run.figure = figure
    time, algbw, busbw = (_figure(text, line, row, name) for name in (times[0], ALGBW, BUSBW))
    size_bytes, count = (read_count(str(row[name])) for name in (SIZE, COUNT))
    if size_bytes is None:
        raise text.refuse(line, f"{SIZE} is {str(row[SIZE])[:40]}, not a number of bytes")
    if count is None:
        raise text.refuse(line, f"{COUNT} is {str(row[COUNT])[:40]}, not a number of elements")
    shown = str(row[TYPE])[:20]
    check_count(text, line, size_bytes, count, shown)
    run.rows.append(
        ImportedRow(
            line=line,
            size_bytes=size_bytes,
            in_place=False,
            dtype=dtype_of(shown) or shown,
            reduction="sum",
            time=time.times(1e-6),
            algbw=algbw.times(unit),
            busbw=busbw.times(unit),
        )
    )


def _figure(text: Text, line: int, row: dict[str, Any], name: str) -> PrintedFigure:
    value = row[name]
    found = read_figure(value) if isinstance(value, _Printed) else None
    if found is None:
        raise text.refuse(line, f"{name} is {str(value)[:40]}, not a figure")
    return found
