"""Reads the tables of the OSU micro-benchmarks (sources of 5.3 and 7.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cclmark.importing.cleaned_text import Text, TextLine, read_count, read_decimal
from cclmark.importing.notices import left_out
from cclmark.importing.nvbandwidth_text import unnamed_devices
from cclmark.importing.plausible import disorder
from cclmark.importing.run import ForeignRun, ImportedRow, ImportedTransfer, RankCount, ToolSettings
from cclmark.plan.transfers import Transfer

_FIGURE = (
    "the mean over ranks of each rank's mean of the tool's iterations, each between two calls of "
    "MPI_Wtime, a barrier after each"
)
_ONE_WAY = "half a round trip, the mean of the tool's iterations"
_WINDOW = (
    "the size over the tool's bandwidth (MB/s of 10^6 bytes) of windows of 64 messages by default "
    "(-W), each answered by one reply"
)
_TITLE = re.compile(
    r"#? ?OSU (?P<library>MPI|NCCL|RCCL|MSCCL)(?P<accelerator>-[A-Z]{2,10})? (?P<name>.{3,60}?) "
    r"Test(?: v(?P<version>[\w.-]{1,20}))?"
)
# Each with its operation and whether the size is the part of one rank.
_COLLECTIVES = {
    "Allreduce Latency": ("all_reduce", False),
    "Allgather Latency": ("all_gather", True),
    "All-to-All Personalized Exchange Latency": ("alltoall", True),
    "Broadcast Latency": ("broadcast", False),
    "Reduce Latency": ("reduce", False),
    "Reduce_scatter Latency": ("reduce_scatter", False),
    "Reduce_scatter_block Latency": ("reduce_scatter", False),
    "Gather Latency": ("gather", True),
    "Scatter Latency": ("scatter", True),
}
_PING_PONG = "Latency"
_BANDWIDTHS = {"Bandwidth": "unidirectional", "Bi-Directional Bandwidth": "bidirectional"}
_BROADCAST = "broadcast"  # one buffer, in the benchmarks of MPI and of NCCL
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_TYPES = {"MPI_CHAR": "int8", "MPI_INT": "int32", "MPI_FLOAT": "float32"}
_DTYPE = re.compile(r"#? ?Datatype: (\w{1,30})\.?")
_BUFFERS = re.compile(r"#? ?Send Buffer on .{1,40} and Receive Buffer on .{1,40}")
_HEAD = re.compile(r"#? ?Size {2,}(\S.*)")
_LAUNCHED = re.compile(r"(?:^|[\s/])(?:mpirun|mpiexec|srun|prun)\b[^|;]{0,400}\bosu_\w+")
_PROCESSES = re.compile(r"\s(?:-np|-n|--ntasks(?: |=)|-c)[ =]?(\d{1,7})(?= )")
_INVALID = "DATA VALIDATION ERROR"
_IN_ORDER = ("Min Latency(us)", "Avg Latency(us)", "Max Latency(us)")
_TIMES = ("Avg Latency(us)", "Latency (us)", "Latency(us)")
_RATES = ("Bandwidth (MB/s)",)
_CHECKS = {"Pass": 0, "Fail": None}


@dataclass(frozen=True)
class _Table:
    """A table: its title's name, the operation or measure, and its columns."""

    name: str
    ccl: str
    operation: str = ""
    measure: str = ""
    is_part: bool = False
    columns: tuple[str, ...] = ()


def is_osu(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next(
        (line.number for line in lines if _TITLE.fullmatch(line.text.strip()) is not None), None
    )


def read_osu(text: Text) -> ForeignRun:
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
            "OSU micro-benchmarks",
            _FIGURE,
            "host",
            "mpi",
            facts=ToolSettings(timing="blocking", across_ranks="mean", barrier="library"),
        )
        self._table: _Table | None = None
        self._dtype: str | None = None
        self._is_due = False  # the columns, after a title or an element type
        self._last_bytes = -1
        self._decimals: list[int] = []  # of the cells of the row before
        self._empty: list[int] = []
        self._ranks: RankCount | None = None

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        words = line.text.strip()
        if (title := _TITLE.fullmatch(words)) is not None:
            self._begin(line, title)
        elif (dtype := _DTYPE.fullmatch(words)) is not None:
            self._dtype, self._is_due = dtype[1], True
        elif _BUFFERS.fullmatch(words) is not None:
            self._notice(line, words.lstrip("# "))
        elif _LAUNCHED.search(words) is not None:
            found = _PROCESSES.search(words)
            self._ranks = (
                None
                if found is None
                else RankCount(self._text.ranks(line.number, found[1]), line.number)
            )
        elif words.startswith(_INVALID):
            self._run.failed = True
            self._run.message = words[:200]
        elif (head := _HEAD.fullmatch(words)) is not None and self._table is not None:
            self._columns(line, head[1])
        elif words[0].isdigit() and self._table is not None and self._table.columns:
            self._row(line, words)
        elif not words.startswith("#") and self._table is not None and words[0].isdigit():
            raise self._text.refuse(
                line.number, "a row without the line of its columns (# Size) above"
            )

    def finish(self) -> ForeignRun:
        """Returns the complete run."""
        run = self._run
        if self._empty:
            run.notices.append(left_out("rows without a bandwidth or data", self._empty))
        if run.copies:
            run.figure = _WINDOW
            run.clock, run.facts = "", ToolSettings(timing="")
            run.devices = unnamed_devices(2, "")
        one_way = [row.operation == "ping_pong" for row in run.rows]
        if run.rows and all(one_way):
            run.figure = _ONE_WAY
            run.facts = ToolSettings(timing="blocking", across_ranks="rank0", barrier="")
        elif any(one_way):
            run.figure = f"{_FIGURE}; of ping_pong {_ONE_WAY}"
        parts = {row.operation for row in run.rows if row.is_part}
        if parts:
            run.notices.append(
                f"sizes of {', '.join(sorted(map(str, parts)))} are per rank in the input; the "
                "journal stores totals over all ranks"
            )
        return run

    def _begin(self, line: TextLine, title: re.Match[str]) -> None:
        """Begins a table."""
        run = self._run
        version = title["version"] or ""
        if (run.rows or run.copies) and run.version != version:
            raise self._text.refuse(
                line.number,
                f"version {version or 'unknown'} here, {run.version or 'unknown'} above: this is "
                "another run. Split the text before this line and import the parts one by one",
            )
        run.version = version
        name, ccl = title["name"], title["library"].lower()
        self._dtype, self._is_due = None, True
        if title["accelerator"]:
            self._notice(line, f"an accelerator was selected (-d): {title['accelerator'][1:]}")
        self._table = None
        if name in _COLLECTIVES:
            operation, is_part = _COLLECTIVES[name]
            self._table = _Table(name, ccl, operation, is_part=is_part)
        elif name == _PING_PONG:
            self._table = _Table(name, ccl, "ping_pong")
        elif name in _BANDWIDTHS and ccl == "mpi":
            self._table = _Table(name, ccl, measure=_BANDWIDTHS[name])
        else:
            reason = "it has no sizes" if "Barrier" in name else "cclmark has no such operation"
            self._notice(line, f"{name} is left out: {reason}")

    def _columns(self, line: TextLine, words: str) -> None:
        """Reads the line of the columns."""
        table = self._table
        assert table is not None
        if not self._is_due:
            raise self._text.refuse(
                line.number, "a second table without its title (# OSU … Test) above"
            )
        self._is_due, self._last_bytes, self._decimals = False, -1, []
        columns = tuple(re.split(r" {2,}", words.strip()))
        wanted = _RATES if table.measure else _TIMES
        if columns[0] not in wanted:
            raise self._text.refuse(
                line.number, f"{columns[0][:40]!r} is not the column of OSU {table.name} Test"
            )
        self._table = _Table(
            table.name, table.ccl, table.operation, table.measure, table.is_part, columns
        )

    def _row(self, line: TextLine, words: str) -> None:
        table = self._table
        assert table is not None
        cells = words.split()
        is_last = line is self.lines[-1]
        decimals = [len(cell.partition(".")[2]) for cell in cells]
        # The figures of a column have the same number of decimals.
        is_cut = (
            is_last
            and len(decimals) == len(self._decimals)
            and any(own < before for own, before in zip(decimals, self._decimals, strict=True))
        )
        self._decimals = decimals
        if is_cut:
            self._run.notices.append(f"line {line.number}: truncated, omitted")
            self._run.whole = False
            return
        if len(cells) != len(table.columns) + 1:
            if is_last and len(cells) <= len(table.columns):
                self._run.notices.append(f"line {line.number}: truncated, omitted")
                self._run.whole = False
                return
            raise self._text.refuse(
                line.number,
                f"{len(cells)} figures in this row, but the header has {len(table.columns) + 1}",
            )
        size, figure = read_count(cells[0]), read_decimal(cells[1])
        checks = dict(zip(table.columns, cells[1:], strict=True)).get("Validation")
        if size is None or figure is None or (checks is not None and checks not in _CHECKS):
            raise self._text.refuse(line.number, f"cannot read the row {words[:80]!r}")
        if size <= self._last_bytes:
            raise self._text.refuse(
                line.number, f"size {size} follows {self._last_bytes}: a title is missing above"
            )
        self._last_bytes = size
        self._refuse_unordered(line, dict(zip(table.columns, cells[1:], strict=True)))
        if table.measure:
            self._bandwidth(line, size, figure.value * 1e6)
            return
        self._run.rows.append(
            ImportedRow(
                line=line.number,
                size_bytes=size,
                in_place=table.operation == _BROADCAST,
                operation=table.operation,
                dtype=self._type(table),
                reduction="sum" if table.operation in _REDUCING else None,
                root=0 if table.operation in _ROOTED else None,
                time=figure.times(1e-6),
                wrong=None if checks is None else _CHECKS[checks],
                failed=checks == "Fail",
                ranks=RankCount(2, line.number) if table.name == _PING_PONG else self._ranks,
                ccl=table.ccl,
                is_part=table.is_part,
            )
        )

    def _refuse_unordered(self, line: TextLine, cells: Mapping[str, str]) -> None:
        """Raises UsageError for a least time above the mean, or a mean above the largest."""
        known = [(name, read_decimal(cells[name])) for name in _IN_ORDER if name in cells]
        reason = disorder([(name, figure) for name, figure in known if figure is not None])
        if reason:
            raise self._text.refuse(line.number, reason)

    def _type(self, table: _Table) -> str | None:
        """Returns the element type. Before version 7 and for NCCL it is not printed."""
        if self._dtype is not None:
            return _TYPES.get(self._dtype, self._dtype)
        return "float32" if table.operation in _REDUCING else "int8"

    def _bandwidth(self, line: TextLine, size_bytes: int, rate: float) -> None:
        """Adds a stream of messages from the first rank to the second, and back if it is both."""
        table = self._table
        assert table is not None
        if not size_bytes or rate <= 0:
            self._empty.append(line.number)
            return
        both = table.measure == "bidirectional"
        transfer = Transfer(
            measure=table.measure,
            scope="pairs",
            engine="MPI",
            direction="write",
            flows=((0, 1), (1, 0)) if both else ((0, 1),),
            size_bytes=0,
        )
        rates = () if both else (rate,)
        self._run.copies.append(ImportedTransfer(line.number, transfer, size_bytes, rates, rate))

    def _notice(self, line: TextLine, words: str) -> None:
        if not any(one.endswith(f": {words}") for one in self._run.notices):
            self._run.notices.append(f"line {line.number}: {words}")
