"""Reads the document that nvbandwidth writes with ``-j``. Its figures are texts."""

from __future__ import annotations

import json
import re
from typing import Any

from cclmark.importing.cleaned_text import Text, read_figure
from cclmark.importing.notices import left_out
from cclmark.importing.nvbandwidth_tests import (
    FIGURE,
    CellFigure,
    NvbandwidthTest,
    both_ways,
    measures_device_latency,
    part_of,
    settle,
    single_rows,
    test_of,
)
from cclmark.importing.nvbandwidth_text import unnamed_devices
from cclmark.importing.printed_matrix import MOST_DEVICES
from cclmark.importing.run import ForeignRun, ToolSettings
from cclmark.results.schema import DeviceDescription

_START = re.compile(r'\{\s{0,200}"nvbandwidth"\s{0,200}:')
_NAME = re.compile(r'"name"\s{0,20}:')
_DEVICE = re.compile(
    r"(\d{1,4}): (.{1,80}?)(?: \(([0-9a-f]{8}:[0-9a-f]{2}:[0-9a-f]{2})\))?(?:: \(([^()]{1,255})\))?"
)
_TAG = re.compile(r"v(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)")  # of git describe, without commits behind
_FAILED = ("Error", "ERROR")


def is_nvbandwidth_json(text: Text) -> bool:
    """Whether the text contains such a document; lines of other programs may be around it."""
    return _START.search(text.content) is not None


def read_nvbandwidth_json(text: Text) -> ForeignRun:
    """Reads the document. Raises UsageError for other content."""
    found = _START.search(text.content)
    if found is None:
        raise text.refuse(1, 'no JSON of nvbandwidth: "nvbandwidth" is due at its beginning')
    before = text.content.count("\n", 0, found.start())
    try:
        document, end = json.JSONDecoder().raw_decode(text.content[found.start() :])
    except (ValueError, RecursionError) as error:
        line = before + getattr(error, "lineno", 1)
        raise text.refuse(
            line, "this JSON is truncated or damaged: nvbandwidth writes it only at its end"
        ) from None
    return _Reader(text, before + 1, found.start(), end).read(document["nvbandwidth"])


class _Reader:
    def __init__(self, text: Text, line: int, start: int, length: int) -> None:
        self._text = text
        self._line = line
        names = _NAME.finditer(text.content, start, start + length)
        self._lines = [text.content.count("\n", 0, one.start()) + 1 for one in names]
        self._devices = 0
        self.run = ForeignRun(
            "nvbandwidth", FIGURE, "device", "", facts=ToolSettings(timing="gated")
        )

    def read(self, content: Any) -> ForeignRun:
        """Reads the content of the document."""
        if not isinstance(content, dict):
            raise self._text.refuse(self._line, '"nvbandwidth" is not an object')
        run = self.run
        run.version = str(content.get("version", ""))[:20].removeprefix("v")
        tag = _TAG.fullmatch(str(content.get("git_version", "")))
        if "version" not in content and tag is not None:
            run.version = tag[1]
            run.notices.append(f'the document has no "version": "git_version" is {tag[0]}')
        run.vendor_driver = str(content.get("Driver Version", ""))[:30]
        cases = content.get("testcases")
        if not isinstance(cases, list):
            raise self._text.refuse(self._line, "the document contains no list of testcases")
        self._list_devices(content.get("GPU Device list"))
        if len(cases) != len(self._lines):
            raise self._text.refuse(self._line, "the document has testcases without a name")
        for line, case in zip(self._lines, cases, strict=True):
            self._case(line, case)
        for key in ("error", "warning"):
            if isinstance(content.get(key), str):
                run.notices.append(f"{key} of the tool: {content[key][:200]}")
        if isinstance(content.get("error"), str):
            run.failed, run.exit_code, run.message = True, 1, content["error"][:200]
        run.on_one_host = True
        if not run.devices:
            run.devices = unnamed_devices(self._devices, "cuda")
        cuda = content.get("CUDA Runtime Version")
        if isinstance(cuda, int) and 1000 <= cuda < 1_000_000:
            for device in run.devices:
                device.driver_version = f"{cuda // 1000}.{cuda % 1000 // 10}"
        settle(run, f'the document that begins on line {self._line} has no "version" with a number')
        return run

    def _list_devices(self, listed: Any) -> None:
        for number, one in enumerate(listed if isinstance(listed, list) else []):
            found = _DEVICE.fullmatch(str(one))
            if found is None or int(found[1]) != number:
                raise self._text.refuse(
                    self._line, f"cannot read device {number} in the list of devices"
                )
            self.run.devices.append(
                DeviceDescription(
                    rank=number,
                    host=found[4] or "",
                    runtime="cuda",
                    index=number,
                    name=found[2],
                    memory_bytes=0,
                    pci_bus_id=f"{found[3].upper()}.0" if found[3] else "",
                )
            )

    def _case(self, line: int, case: Any) -> None:
        """Reads a testcase, whose name is on ``line``."""
        if not isinstance(case, dict) or not isinstance(case.get("name"), str):
            raise self._text.refuse(line, "this testcase has no name")
        name, matrix = case["name"][:80], case.get("bandwidth_matrix")
        test = test_of(name)
        if case.get("status") in _FAILED:
            self.run.failed = True
            self._omit(line, name, "the testcase failed")
        elif matrix is None:
            status = str(case.get("status", ""))[:20]
            self._omit(line, name, f"it has no figures, status {status or 'unknown'}")
        elif isinstance(test, str):
            self._omit(line, name, test)
        elif test.common.measure == "latency" and not measures_device_latency(self.run.version):
            self._omit(line, name, "before version 0.8 it is the latency of host memory")
        else:
            self._matrix(line, test, matrix, str(case.get("bandwidth_description", "")))

    def _omit(self, line: int, name: str, reason: str) -> None:
        self.run.notices.append(f"line {line}: {name} is left out: {reason}")

    def _matrix(self, line: int, test: NvbandwidthTest, matrix: Any, title: str) -> None:
        """Reads the matrix; three, one below the other, are both directions and their total."""
        if not isinstance(matrix, list) or not all(isinstance(row, list) for row in matrix):
            raise self._text.refuse(line, f"the matrix of {test.name} is not a list of rows")
        number = len(matrix[0]) if matrix else 0
        if not 0 < number <= MOST_DEVICES or any(len(row) != number for row in matrix):
            raise self._text.refuse(line, f"the rows of the matrix of {test.name} differ in length")
        known = len(self.run.devices) or self._devices or number
        if number != known:
            raise self._text.refuse(
                line, f"the matrix of {test.name} has {number} devices, but the text has {known}"
            )
        self._devices = number
        rows = test.rows or number
        both = test.common.measure == "bidirectional"
        if len(matrix) != rows and not (both and len(matrix) == 3 * rows):
            raise self._text.refuse(
                line, f"the matrix of {test.name} has {len(matrix)} rows, not {rows}"
            )
        if not both:
            self.run.copies += single_rows(test, self._cells(line, test, matrix), number)
            return
        way = "Read" if test.common.direction == "read" else "Write"
        names = [f"{way}1", f"{way}2", "Total"] if len(matrix) > rows else [part_of(title)]
        if names[-1] != "Total":
            self._omit(line, test.name, "it shows the bandwidth of one of both directions")
            return
        parts = {
            name: {
                (cell.row, cell.column): cell
                for cell in self._cells(line, test, matrix[place * rows : (place + 1) * rows])
            }
            for place, name in enumerate(names)
        }
        self.run.copies += both_ways(test, parts, self.run.notices)

    def _cells(self, line: int, test: NvbandwidthTest, rows: list[list[Any]]) -> list[CellFigure]:
        found, closed, zeros = [], 0, 0
        for number, row in enumerate(rows):
            for column, cell in enumerate(row):
                is_shown = test.common.scope != "pairs" or number != column
                if cell == "N/A":
                    closed += is_shown
                    continue
                # Without a fixed notation: large figures have an exponent.
                figure = read_figure(str(cell).replace("e+", "e").replace("e-", "?"))
                if figure is None:
                    raise self._text.refuse(
                        line, f"{str(cell)[:40]!r} in the matrix of {test.name} is not a number"
                    )
                if figure.value > 0:
                    found.append(CellFigure(number, column, figure, line))
                else:
                    zeros += is_shown
        if zeros:
            self.run.notices.append(left_out(f"figures of 0 of {test.name}", [line] * zeros))
        if closed:
            self.run.notices.append(
                f"line {line}: {closed} figures are N/A: not measured, for example without peer "
                "access"
            )
        return found
