"""Reads the table of nccom-test, of AWS Neuron (its user guide describes it)."""

from __future__ import annotations

import re

from cclmark.importing.cleaned_text import Text, TextLine, read_count, read_decimal
from cclmark.importing.run import ForeignRun, ImportedRow, RankCount, ToolSettings
from cclmark.importing.spelling import dtype_of, operation_of
from cclmark.plan.operations import DTYPE_BYTES

_MEDIAN = "the median of the tool's operations (time(us))"
_MEAN = "the mean of the tool's operations (time:avg(us))"
_GIB = float(1 << 30)
_COMMAND = re.compile(r"(?:^|[\s/])nccom-test\s(?P<words>.{1,1000})")
_WORKERS = re.compile(r"(?:^|\s)(?:-r|--nworkers)[ =](\d{1,7})(?=\s|$)")
_ITERATIONS = re.compile(r"(?:^|\s)(?:-n|--iters)[ =](\d{1,9})(?=\s|$)")
_WARMUP = re.compile(r"(?:^|\s)(?:-w|--warmup_iters)[ =](\d{1,9})(?=\s|$)")
_OPERATIONS = {"allr": "all_reduce", "allg": "all_gather", "redsct": "reduce_scatter"}
REDUCING = ("all_reduce", "reduce_scatter")
SIZE, COUNT, TYPE = "size(B)", "count(elems)", "type"
#: What a time is, and the bytes of a GB: versions that print medians compute with gibibytes.
TIMES = {"time(us)": (_MEDIAN, _GIB), "time:avg(us)": (_MEAN, 1e9)}
ALGBW, BUSBW = "algbw(GB/s)", "busbw(GB/s)"
_AVERAGE = re.compile(r"Avg bus bandwidth:\s{0,12}(\d[\d.]{0,30})GB/s")
_ERRORS = re.compile(r"\d{1,9} errors? found - test failed")


def is_nccom(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _is_head(line.text.split())), None)


def _is_head(words: list[str]) -> bool:
    return words[:1] == [SIZE] and {COUNT, ALGBW, BUSBW} <= {*words}


def read_nccom(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a row that cannot be read."""
    reader = _Reader(text)
    for line in reader.lines:
        reader.take(line)
    return reader.run


def check_count(text: Text, line: int, size_bytes: int, count: int, type_name: str) -> None:
    """Raises UsageError if a size is not that of its number of elements.

    Both are of the whole operation, for all operations (the tool's user guide).
    """
    width = DTYPE_BYTES.get(dtype_of(type_name) or "", 0)
    if width and not 0 <= size_bytes - count * width < width:
        raise text.refuse(
            line,
            f"{SIZE} {size_bytes} does not fit {COUNT} {count} of {type_name}, which have "
            f"{count * width} bytes: copy the text again",
        )


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self.lines = [line for line in text.lines() if line.text.strip()]
        self.run = ForeignRun(
            "nccom-test", "", "", "nccom", facts=ToolSettings(timing=""), whole=False
        )
        self._operation: str | None = None
        self._is_left_out = False
        self._ranks: RankCount | None = None
        self._columns: list[str] = []
        self._unit = _GIB
        self._shown: list[float] = []

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        words = line.text.strip()
        if (command := _COMMAND.search(words)) is not None:
            self._begin(line, command["words"])
        elif _is_head(words.split()):
            self._head(line, words.split())
        elif (average := _AVERAGE.fullmatch(words)) is not None:
            self._end(line, average[1])
        elif _ERRORS.fullmatch(words) is not None:
            self.run.failed, self.run.exit_code, self.run.message = True, 1, words
        elif words[0].isdigit() and self._columns:
            self._row(line, words)
        elif words[0].isdigit() and self._operation is not None and len(words.split()) > 3:
            raise self._text.refuse(line.number, "a row without the line of its columns above")

    def _begin(self, line: TextLine, command: str) -> None:
        """Reads a command, which contains the operation and the number of ranks."""
        run = self.run
        workers = _WORKERS.search(command)
        self._ranks = (
            None
            if workers is None
            else RankCount(self._text.ranks(line.number, workers[1]), line.number)
        )
        names = [_OPERATIONS.get(word) or operation_of(word) for word in command.split()]
        self._operation = next((name for name in names if name is not None), None)
        self._is_left_out = "permute" in command.split()
        if self._is_left_out:
            run.notices.append(f"line {line.number}: permute is left out: no operation of cclmark")
        counts = [pattern.search(command) for pattern in (_ITERATIONS, _WARMUP)]
        iterations, warmup = (None if one is None else int(one[1]) for one in counts)
        facts = ToolSettings(timing="", iterations=iterations or None, warmup=warmup)
        if run.rows and facts != run.facts:
            raise self._text.refuse(
                line.number,
                "the settings differ from the table above, so this is another run. Split the "
                "text before this line and import the parts one by one",
            )
        run.facts = facts
        self._columns = []

    def _head(self, line: TextLine, columns: list[str]) -> None:
        """Reads the line of the columns."""
        if self._columns:
            raise self._text.refuse(line.number, "a second table without its command above")
        times = [name for name in columns if name in TIMES]
        if TYPE not in columns or len(times) != 1 or len({*columns}) < len(columns):
            raise self._text.refuse(line.number, "cannot read the columns of this table")
        figure, self._unit = TIMES[times[0]]
        if self.run.rows and self.run.figure != figure:
            raise self._text.refuse(
                line.number,
                "times of two kinds, medians and means: split the text before this table and "
                "import the parts one by one",
            )
        self.run.figure = figure
        self._columns, self._shown = columns, []

    def _row(self, line: TextLine, words: str) -> None:
        cells = words.split()
        if "Failure" in cells:
            self.run.failed = True
            self.run.notices.append(f"line {line.number}: omitted: {words[:120]}")
            return
        if self._is_left_out:
            return
        if len(cells) != len(self._columns):
            if line is self.lines[-1] and len(cells) < len(self._columns):
                self.run.notices.append(f"line {line.number}: truncated, omitted")
                return
            raise self._text.refuse(
                line.number,
                f"{len(cells)} figures in this row, but the header has {len(self._columns)}",
            )
        shown = dict(zip(self._columns, cells, strict=True))
        size, count = read_count(shown[SIZE]), read_count(shown[COUNT])
        time, algbw, busbw = (
            read_decimal(shown[name])
            for name in (next(one for one in self._columns if one in TIMES), ALGBW, BUSBW)
        )
        if None in (size, count, time, algbw, busbw):
            raise self._text.refuse(line.number, f"cannot read the row {words[:80]!r}")
        assert size is not None and time is not None and algbw is not None and busbw is not None
        assert count is not None
        check_count(self._text, line.number, size, count, shown[TYPE])
        self._shown.append(busbw.value)
        self.run.rows.append(
            ImportedRow(
                line=line.number,
                size_bytes=size,
                in_place=False,
                operation=self._operation,
                dtype=dtype_of(shown[TYPE]) or shown[TYPE][:20],
                reduction="sum" if self._operation in REDUCING else None,
                time=time.times(1e-6),
                algbw=algbw.times(self._unit),
                busbw=busbw.times(self._unit),
                ranks=self._ranks,
            )
        )

    def _end(self, line: TextLine, average: str) -> None:
        """Ends a table: compares the tool's average with the rows."""
        printed = read_decimal(average)
        if printed is None:
            raise self._text.refuse(line.number, f"the average {average[:40]!r} is not a number")
        if self._shown:
            mean = sum(self._shown) / len(self._shown)
            if abs(mean - printed.value) > 0.0051 + printed.error:
                self.run.notices.append(
                    f"line {line.number}: does not fit: the average is {printed.value:g}, but the "
                    f"rows above give {mean:.4f}"
                )
        self.run.whole = True
        self._columns, self._shown = [], []
