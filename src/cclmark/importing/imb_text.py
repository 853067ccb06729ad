"""Reads the tables of the Intel MPI Benchmarks (IMB-MPI1; sources of 2021.11)."""

from __future__ import annotations

import re

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_count, read_decimal
from cclmark.importing.plausible import disorder
from cclmark.importing.run import ForeignRun, ImportedRow, RankCount, ToolSettings

_FIGURE = (
    "that of the slowest rank (t_max), the mean of the tool's iterations, each between two calls "
    "of MPI_Wtime; of ping_pong half a round trip"
)
_START = re.compile(
    r"#\s{1,12}Intel ?\(R\) MPI Benchmarks? (?P<version>[\w. -]{1,40}), (?P<part>[\w -]{1,30})"
    r"(?: \(GPU\))?.{0,40}"
)
_TITLE = re.compile(r"# Benchmarking (Multi-)?([A-Za-z_]{3,40})")
_PROCESSES = re.compile(r"# #processes = (\d{1,7})(?:; rank order .{0,20})?")
_GROUPS = re.compile(r"# \( ?\d{1,7} groups? of \d{1,7} processes each .{1,40}")
_SETTING = re.compile(
    r"# (MPI_Datatype|MPI_Datatype for reductions|MPI_Op) {1,30}: {1,6}(\w{1,30})"
)
_END = "# All processes entering MPI_Finalize"
# Each with its operation and whether the size is the part of one rank.
_OPERATIONS = {
    "PingPong": ("ping_pong", False),
    "Sendrecv": ("sendrecv", False),
    "Allreduce": ("all_reduce", False),
    "Reduce": ("reduce", False),
    "Reduce_scatter": ("reduce_scatter", False),
    "Reduce_scatter_block": ("reduce_scatter", True),
    "Allgather": ("all_gather", True),
    "Alltoall": ("alltoall", True),
    "Gather": ("gather", True),
    "Scatter": ("scatter", True),
    "Bcast": ("broadcast", False),
}
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_DTYPES = {"MPI_FLOAT": "float32", "MPI_DOUBLE": "float64", "MPI_BYTE": "uint8", "MPI_INT": "int32"}
_DTYPES |= {"MPI_CHAR": "int8", "MPI_INT8_T": "int8"}
_SIZE, _TIMES, _RATE = "#bytes", ("t[usec]", "t_max[usec]"), "Mbytes/sec"
_LEAST, _MEAN, _MOST = "t_min[usec]", "t_avg[usec]", "t_max[usec]"
_TIME = re.compile(r"t(?:_\w{1,8})?\[(?P<unit>\w{1,8})\]")
_DEFECTS, _REPETITIONS = "defects", "#repetitions"
_FAILURES = ("out-of-mem.", "int-overflow", "time-out.")
_MOST_OF_SLOWEST = 1.02  # rounding of the tool's bandwidth


def is_imb(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    found = (
        line.number
        for line in lines
        if _START.fullmatch(line.text.strip()) or _TITLE.fullmatch(line.text.strip())
    )
    return next(found, None)


def read_imb(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a row that cannot be read."""
    reader = _Reader(text)
    for line in reader.lines:
        reader.take(line)
    return reader.finish()


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self.lines = [line for line in text.lines() if line.text.strip()]
        self._run = ForeignRun(
            "Intel MPI Benchmarks",
            _FIGURE,
            "host",
            "mpi",
            facts=ToolSettings(timing="", across_ranks="max"),
            whole=False,
        )
        self._name = ""
        self._ranks: RankCount | None = None
        self._columns: list[str] = []
        self._last_bytes = -1
        self._dtypes = {False: "uint8", True: "float32"}  # of reductions: True

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        words = line.text.strip()
        run = self._run
        if (start := _START.fullmatch(words)) is not None:
            if run.rows:
                raise self._text.refuse(
                    line.number,
                    "another run starts here: split the text before this line and import the "
                    "parts one by one",
                )
            run.version = start["version"]
        elif (setting := _SETTING.fullmatch(words)) is not None:
            self._set(line, setting[1], setting[2])
        elif (title := _TITLE.fullmatch(words)) is not None:
            self._begin(line, title)
        elif (processes := _PROCESSES.fullmatch(words)) is not None:
            number = self._text.ranks(line.number, processes[1])
            self._ranks = RankCount(number, line.number)
        elif _GROUPS.fullmatch(words) is not None:
            self._omit(line, "several groups of ranks at once are left out")
        elif words.split()[0] in (_SIZE, _REPETITIONS):
            self._head(line, words)
        elif words.startswith(_END):
            run.whole = True
        elif words[0].isdigit() and self._columns:
            self._row(line, words)
        elif words[0].isdigit() and self._name:
            raise self._text.refuse(line.number, "a row without the line of its columns above")

    def finish(self) -> ForeignRun:
        """Returns the complete run."""
        run = self._run
        parts = {row.operation for row in run.rows if row.is_part}
        if parts:
            run.notices.append(
                f"sizes of {', '.join(sorted(map(str, parts)))} are per rank in the input; the "
                "journal stores totals over all ranks"
            )
        return run

    def _set(self, line: TextLine, name: str, value: str) -> None:
        """Reads the element types and the reduction, which hold for all tables."""
        if name == "MPI_Op":
            if value != "MPI_SUM":
                raise self._text.refuse(line.number, f"the reduction {value} is not supported")
            return
        dtype = _DTYPES.get(value)
        if dtype is None:
            raise self._text.refuse(line.number, f"the element type {value} is not supported")
        self._dtypes[name != "MPI_Datatype"] = dtype

    def _begin(self, line: TextLine, title: re.Match[str]) -> None:
        """Begins a benchmark."""
        self._name, self._columns, self._ranks, self._last_bytes = title[2], [], None, -1
        if title[1]:
            self._omit(line, f"Multi-{title[2]} is left out: several groups of ranks at once")
        elif title[2] not in _OPERATIONS:
            reason = "it has no sizes" if title[2] == "Barrier" else "cclmark has no such operation"
            self._omit(line, f"{title[2]} is left out: {reason}")

    def _omit(self, line: TextLine, words: str) -> None:
        self._name = ""
        if not any(one.endswith(f": {words}") for one in self._run.notices):
            self._run.notices.append(f"line {line.number}: {words}")

    def _head(self, line: TextLine, words: str) -> None:
        """Reads the line of the columns."""
        columns = words.split()
        if not self._name:
            self._columns = []
            return
        if self._columns:
            raise self._text.refuse(line.number, "a second table without its title above")
        if self._ranks is None:
            raise self._text.refuse(
                line.number, f"the number of processes of {self._name} is missing above"
            )
        for name in columns:
            time = _TIME.fullmatch(name)
            if time is not None and time["unit"] != "usec":
                raise self._text.refuse(
                    line.number, f"{name}: IMB prints times in usec. Copy the text again"
                )
        if columns[0] != _SIZE or len({*_TIMES} & {*columns}) != 1:
            raise self._text.refuse(line.number, "cannot read the columns of this table")
        self._columns = columns

    def _row(self, line: TextLine, words: str) -> None:
        cells = words.split()
        if len(cells) > 1 and cells[1].startswith(_FAILURES):
            self._run.notices.append(f"line {line.number}: omitted: {words[:80]}")
            return
        if len(cells) != len(self._columns):
            if line is self.lines[-1] and len(cells) < len(self._columns):
                self._run.notices.append(f"line {line.number}: truncated, omitted")
                return
            raise self._text.refuse(
                line.number,
                f"{len(cells)} figures in this row, but the header has {len(self._columns)}",
            )
        shown = dict(zip(self._columns, cells, strict=True))
        size = read_count(shown[_SIZE])
        time = read_decimal(next(shown[name] for name in _TIMES if name in shown))
        defects = read_decimal(shown[_DEFECTS]) if _DEFECTS in shown else None
        bad = size is None or time is None or (_DEFECTS in shown and defects is None)
        if size is None or time is None or bad:
            raise self._text.refuse(line.number, f"cannot read the row {words[:80]!r}")
        if size <= self._last_bytes:
            raise self._text.refuse(
                line.number, f"size {size} follows {self._last_bytes}: a title is missing above"
            )
        self._last_bytes = size
        self._order(line, shown)
        self._compare(line, size, time, shown.get(_RATE))
        self._run.rows.append(self._imported(line, size, time, defects))

    def _order(self, line: TextLine, shown: dict[str, str]) -> None:
        """Raises UsageError for times of ranks that are not in their order, beyond rounding."""
        named = []
        for name in (_LEAST, _MEAN, _MOST):
            if name in shown:
                figure = read_decimal(shown[name])
                if figure is None:
                    raise self._text.refuse(line.number, "cannot read the times of this row")
                named.append((name, figure))
        if reason := disorder(named):
            raise self._text.refuse(line.number, reason)

    def _imported(
        self, line: TextLine, size: int, time: PrintedFigure, defects: PrintedFigure | None
    ) -> ImportedRow:
        operation, is_part = _OPERATIONS[self._name]
        wrong = defects is not None and defects.value > 0
        return ImportedRow(
            line=line.number,
            size_bytes=size,
            in_place=operation == "broadcast",  # which has one buffer
            operation=operation,
            dtype=self._dtypes[operation in _REDUCING],
            reduction="sum" if operation in _REDUCING else None,
            root=0 if operation in _ROOTED else None,
            time=time.times(1e-6),
            wrong=0 if defects is not None and not wrong else None,
            failed=wrong,
            ranks=self._ranks,
            is_part=is_part,
        )

    def _compare(self, line: TextLine, size: int, time: PrintedFigure, printed: str | None) -> None:
        """Compares the tool's bandwidth with the time: MB of 10^6 bytes, in old versions 2^20."""
        if printed is None or not size or not time.value:
            return
        rate = read_decimal(printed)
        if rate is None:
            raise self._text.refuse(line.number, f"the bandwidth {printed[:40]!r} is not a number")
        scale = 2 if self._name == "Sendrecv" else 1
        slack = (1 + time.share) * _MOST_OF_SLOWEST
        expected = [scale * size / time.value * factor for factor in (1.0, 1e6 / (1 << 20))]
        if not any(
            one / slack - rate.error <= rate.value <= one * slack + rate.error for one in expected
        ):
            self._run.notices.append(
                f"line {line.number}: does not fit: {rate.value:g} Mbytes/sec, but size and time "
                f"give {expected[0]:.2f}"
            )
