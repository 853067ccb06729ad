"""Reads tables of programs that mpirun starts: OSU and Intel MPI Benchmarks, ucc_perftest."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cclmark.work.operations import OPERATIONS
from cclmark_importers.cleaned_text import (
    PrintedFigure,
    Text,
    TextLine,
    dtype_of,
    operation_of,
    read_decimal,
    reduction_of,
)
from cclmark_importers.line_reader import (
    LineReader,
    RunMarks,
    TableRow,
    importer,
)
from cclmark_importers.plausible import disorder
from cclmark_importers.run import (
    ImportedRow,
    RankCount,
    ToolSettings,
    listed_device,
    message_transfer,
)

_MICROSECOND_S = 1e-6
_DTYPES = {
    **{"MPI_CHAR": "int8", "MPI_INT8_T": "int8", "MPI_BYTE": "uint8", "MPI_INT": "int32"},
    **{"MPI_FLOAT": "float32", "MPI_DOUBLE": "float64"},
}


class _MpiReader(LineReader):
    """``ranks``: of the command or the title. ``last_bytes``: the size of the row above."""

    ranks: RankCount | None = None
    last_bytes = -1

    def launch(self, line: TextLine, processes: re.Match[str] | None) -> None:
        """Reads the command, whose options may contain the number of processes."""
        self.ranks = self.ranks_of(line, None if processes is None else processes[1])

    def size_of(self, row: TableRow, column: str, head: str = "a title") -> int:
        """Returns the size of a row. Raises UsageError unless it is above that of the row above."""
        size = row.count(column)
        if size <= self.last_bytes:
            raise self.refuse(
                row.line, f"size {size} follows {self.last_bytes}: {head} is missing above"
            )
        self.last_bytes = size
        return size

    def finish(self) -> None:
        """Adds the notice about sizes that are parts."""
        parts = {row.operation for row in self.run.rows if row.is_part}
        if parts:
            self.run.notices.append(
                f"sizes of {', '.join(sorted(map(str, parts)))} are per rank in the input; the "
                "journal stores totals over all ranks"
            )


def _launched(program: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\s/])(?:mpirun|mpiexec|srun|prun)\b[^|;]{{0,400}}\b{program}")


# OSU micro-benchmarks (sources of 5.3 and 7.4).

_OSU_FIGURE = (
    "the mean over ranks of each rank's mean of the tool's iterations, each between two calls of "
    "MPI_Wtime, a barrier after each"
)
_OSU_ONE_WAY = "half a round trip, the mean of the tool's iterations"
_OSU_WINDOW = (
    "the size over the tool's bandwidth (MB/s of 10^6 bytes) of windows of 64 messages by default "
    "(-W), each answered by one reply"
)
_OSU_TITLE = re.compile(
    r"#? ?OSU (?P<library>MPI|NCCL|RCCL|MSCCL)(?P<accelerator>-[A-Z]{2,10})? (?P<name>.{3,60}?) "
    r"Test(?: v(?P<version>[\w.-]{1,20}))?"
)
# Each with its operation and whether the size is the part of one rank.
_OSU_OPERATIONS = {
    "Latency": ("ping_pong", False),
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
_OSU_BANDWIDTHS = {"Bandwidth": "unidirectional", "Bi-Directional Bandwidth": "bidirectional"}
_OSU_DTYPE = re.compile(r"#? ?Datatype: (\w{1,30})\.?")
_OSU_BUFFERS = re.compile(r"#? ?Send Buffer on .{1,40} and Receive Buffer on .{1,40}")
_OSU_HEAD = re.compile(r"#? ?Size {2,}(\S.*)")
_OSU_LAUNCHED = _launched(r"osu_\w+")
_OSU_PROCESSES = re.compile(r"\s(?:-np|-n|--ntasks(?: |=)|-c)[ =]?(\d{1,7})(?= )")
_OSU_INVALID = "DATA VALIDATION ERROR"
_OSU_SIZE, _OSU_CHECK = "Size", "Validation"
_OSU_IN_ORDER = ("Min Latency(us)", "Avg Latency(us)", "Max Latency(us)")
_OSU_TIMES = ("Avg Latency(us)", "Latency (us)", "Latency(us)")
_OSU_RATES = ("Bandwidth (MB/s)",)
_OSU_CHECKS = {"Pass": 0, "Fail": None}


@dataclass(frozen=True)
class _OsuTable:
    """A table: its title's name, the operation or measure, and the columns after the size."""

    name: str
    ccl: str
    operation: str = ""
    measure: str = ""
    is_part: bool = False
    columns: tuple[str, ...] = ()


class _OsuReader(_MpiReader):
    def __init__(self, text: Text) -> None:
        facts = {"timing": "blocking", "across_ranks": "mean", "barrier": "library"}
        super().__init__(text, "OSU micro-benchmarks", _OSU_FIGURE, "host", "mpi", **facts)
        self._table: _OsuTable | None = None
        self._dtype: str | None = None
        self._is_due = False  # the columns, after a title or an element type
        self._decimals: list[int] = []  # of the cells of the row before
        self._empty: list[int] = []

    def take(self, line: TextLine, words: str) -> None:
        if (title := _OSU_TITLE.fullmatch(words)) is not None:
            self._begin(line, title)
        elif (dtype := _OSU_DTYPE.fullmatch(words)) is not None:
            self._dtype, self._is_due = dtype[1], True
        elif _OSU_BUFFERS.fullmatch(words) is not None:
            self.note(line, words.lstrip("# "), once=True)
        elif _OSU_LAUNCHED.search(words) is not None:
            self.launch(line, _OSU_PROCESSES.search(words))
        elif words.startswith(_OSU_INVALID):
            self.run.failed, self.run.message = True, words[:200]
        elif self._table is None:
            pass
        elif (head := _OSU_HEAD.fullmatch(words)) is not None:
            self._columns(line, self._table, head[1])
        elif words[0].isdigit() and self._table.columns:
            self._row(line, self._table, words)
        elif words[0].isdigit():
            raise self.refuse(line, "a row without the line of its columns (# Size) above")

    def finish(self) -> None:
        run = self.run
        self.note_zeros("rows without a bandwidth or data", self._empty)
        if run.copies:
            run.figure = _OSU_WINDOW
            run.clock, run.facts = "", ToolSettings(timing="")
            run.devices = [listed_device(rank) for rank in range(2)]
        one_way = [row.operation == "ping_pong" for row in run.rows]
        if run.rows and all(one_way):
            run.figure = _OSU_ONE_WAY
            run.facts = ToolSettings(timing="blocking", across_ranks="rank0", barrier="")
        elif any(one_way):
            run.figure = f"{_OSU_FIGURE}; of ping_pong {_OSU_ONE_WAY}"
        super().finish()

    def _begin(self, line: TextLine, title: re.Match[str]) -> None:
        run, version = self.run, title["version"] or ""
        if (run.rows or run.copies) and run.version != version:
            raise self.split(
                line, f"version {version or 'unknown'} here, {run.version or 'unknown'} above"
            )
        run.version = version
        name, ccl = title["name"], title["library"].lower()
        self._table, self._dtype, self._is_due = None, None, True
        if title["accelerator"]:
            accelerator = title["accelerator"][1:]
            self.note(line, f"an accelerator was selected (-d): {accelerator}", once=True)
        if name in _OSU_OPERATIONS:
            operation, is_part = _OSU_OPERATIONS[name]
            self._table = _OsuTable(name, ccl, operation, is_part=is_part)
        elif name in _OSU_BANDWIDTHS and ccl == "mpi":
            self._table = _OsuTable(name, ccl, measure=_OSU_BANDWIDTHS[name])
        else:
            reason = "it has no sizes" if "Barrier" in name else "cclmark has no such operation"
            self.note(line, f"{name} is left out: {reason}", once=True)

    def _columns(self, line: TextLine, table: _OsuTable, words: str) -> None:
        if not self._is_due:
            raise self.refuse(line, "a second table without its title (# OSU … Test) above")
        self._is_due, self.last_bytes, self._decimals = False, -1, []
        columns = tuple(re.split(r" {2,}", words.strip()))
        if columns[0] not in (_OSU_RATES if table.measure else _OSU_TIMES):
            raise self.refuse(
                line, f"{columns[0][:40]!r} is not the column of OSU {table.name} Test"
            )
        self._table = replace(table, columns=columns)

    def _row(self, line: TextLine, table: _OsuTable, words: str) -> None:
        decimals = [len(cell.partition(".")[2]) for cell in words.split()]
        before, self._decimals = self._decimals, decimals
        # The figures of a column have the same number of decimals.
        if (
            line is self.lines[-1]
            and len(decimals) == len(before)
            and any(own < other for own, other in zip(decimals, before, strict=True))
        ):
            self.truncated(line)
            return
        row = self.row(line, (_OSU_SIZE, *table.columns))
        if row is None:
            return
        check, figure = row.cells.get(_OSU_CHECK), row.figure(table.columns[0])
        if check is not None and check not in _OSU_CHECKS:
            raise row.refused(_OSU_CHECK)
        size = self.size_of(row, _OSU_SIZE)
        known = [(name, read_decimal(row.cells.get(name, ""))) for name in _OSU_IN_ORDER]
        if reason := disorder([(name, one) for name, one in known if one is not None]):
            raise self.refuse(line, reason)
        if table.measure:
            self._bandwidth(line, table, size, figure.value * 1e6)
            return
        operation = table.operation
        self.run.rows.append(
            ImportedRow(
                line=line.number,
                size_bytes=size,
                in_place=operation == "broadcast",  # one buffer, also in the benchmarks of NCCL
                operation=operation,
                dtype=self._type(operation),
                reduction="sum",
                root=0,
                time=figure.times(_MICROSECOND_S),
                wrong=None if check is None else _OSU_CHECKS[check],
                failed=check == "Fail",
                ranks=RankCount(2, line.number) if operation == "ping_pong" else self.ranks,
                ccl=table.ccl,
                is_part=table.is_part,
            )
        )

    def _type(self, operation: str) -> str:
        """Returns the element type. Before version 7 and for NCCL it is not printed."""
        if self._dtype is not None:
            return _DTYPES.get(self._dtype, self._dtype)
        return "float32" if OPERATIONS[operation].reduces else "int8"

    def _bandwidth(self, line: TextLine, table: _OsuTable, size_bytes: int, rate: float) -> None:
        """Adds a stream of messages from the first rank to the second, and back if it is both."""
        if not size_bytes or rate <= 0:
            self._empty.append(line.number)
            return
        transfer = message_transfer("MPI", measure=table.measure)
        self.add_copy(line, transfer, size_bytes, rate)


def _is_osu_table(words: str) -> bool:
    """Whether a line begins a table that is read. Others are left out within a run."""
    title = _OSU_TITLE.fullmatch(words)
    return title is not None and title["name"] in {**_OSU_OPERATIONS, **_OSU_BANDWIDTHS}


OSU = importer(_OsuReader, _OSU_TITLE.fullmatch, marks=RunMarks([_is_osu_table]))


# Intel MPI Benchmarks (IMB-MPI1; sources of 2021.11).

_IMB_FIGURE = (
    "that of the slowest rank (t_max), the mean of the tool's iterations, each between two calls "
    "of MPI_Wtime; of ping_pong half a round trip"
)
_IMB_START = re.compile(
    r"#\s{1,12}Intel ?\(R\) MPI Benchmarks? (?P<version>[\w. -]{1,40}), (?P<part>[\w -]{1,30})"
    r"(?: \(GPU\))?.{0,40}"
)
_IMB_TITLE = re.compile(r"# Benchmarking (Multi-)?([A-Za-z_]{3,40})")
_IMB_PROCESSES = re.compile(r"# #processes = (\d{1,7})(?:; rank order .{0,20})?")
_IMB_GROUPS = re.compile(r"# \( ?\d{1,7} groups? of \d{1,7} processes each .{1,40}")
_IMB_SETTING = re.compile(
    r"# (MPI_Datatype|MPI_Datatype for reductions|MPI_Op) {1,30}: {1,6}(\w{1,30})"
)
_IMB_END = "# All processes entering MPI_Finalize"
# Each with its operation and whether the size is the part of one rank.
_IMB_OPERATIONS = {
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
_IMB_SIZE, _IMB_TIMES, _IMB_RATE = "#bytes", ("t[usec]", "t_max[usec]"), "Mbytes/sec"
_IMB_IN_ORDER = ("t_min[usec]", "t_avg[usec]", "t_max[usec]")
_IMB_TIME = re.compile(r"t(?:_\w{1,8})?\[(?P<unit>\w{1,8})\]")
_IMB_DEFECTS, _IMB_REPETITIONS = "defects", "#repetitions"
_IMB_FAILURES = ("out-of-mem.", "int-overflow", "time-out.")
_IMB_SLACK = 1.02  # rounding of the tool's bandwidth


class _ImbReader(_MpiReader):
    def __init__(self, text: Text) -> None:
        facts = {"timing": "", "across_ranks": "max"}
        super().__init__(text, "Intel MPI Benchmarks", _IMB_FIGURE, "host", "mpi", **facts)
        self.run.whole = False
        self._name = ""
        self._columns: list[str] = []
        self._dtypes = {False: "uint8", True: "float32"}  # of reductions: True

    def take(self, line: TextLine, words: str) -> None:
        run = self.run
        if (start := _IMB_START.fullmatch(words)) is not None:
            if run.rows:
                raise self.split(line, "a second head")
            run.version = start["version"]
        elif (setting := _IMB_SETTING.fullmatch(words)) is not None:
            self._set(line, setting[1], setting[2])
        elif (title := _IMB_TITLE.fullmatch(words)) is not None:
            self._begin(line, title)
        elif (processes := _IMB_PROCESSES.fullmatch(words)) is not None:
            self.launch(line, processes)
        elif _IMB_GROUPS.fullmatch(words) is not None:
            self._omit(line, "several groups of ranks at once are left out")
        elif words.split(maxsplit=1)[0] in (_IMB_SIZE, _IMB_REPETITIONS):
            self._head(line, words.split())
        elif words.startswith(_IMB_END):
            run.whole = True
        elif words[0].isdigit() and self._columns:
            self._row(line, words)
        elif words[0].isdigit() and self._name:
            raise self.refuse(line, "a row without the line of its columns above")

    def _set(self, line: TextLine, name: str, value: str) -> None:
        """Reads the element types and the reduction, which hold for all tables."""
        if name == "MPI_Op":
            if value != "MPI_SUM":
                raise self.refuse(line, f"the reduction {value} is not supported")
            return
        if value not in _DTYPES:
            raise self.refuse(line, f"the element type {value} is not supported")
        self._dtypes[name != "MPI_Datatype"] = _DTYPES[value]

    def _begin(self, line: TextLine, title: re.Match[str]) -> None:
        self._name, self._columns, self.ranks, self.last_bytes = title[2], [], None, -1
        if title[1]:
            self._omit(line, f"Multi-{title[2]} is left out: several groups of ranks at once")
        elif title[2] not in _IMB_OPERATIONS:
            reason = "it has no sizes" if title[2] == "Barrier" else "cclmark has no such operation"
            self._omit(line, f"{title[2]} is left out: {reason}")

    def _omit(self, line: TextLine, words: str) -> None:
        self._name = ""
        self.note(line, words, once=True)

    def _head(self, line: TextLine, columns: list[str]) -> None:
        if not self._name:
            self._columns = []
            return
        if self._columns:
            raise self.refuse(line, "a second table without its title above")
        if self.ranks is None:
            raise self.refuse(line, f"the number of processes of {self._name} is missing above")
        for name in columns:
            time = _IMB_TIME.fullmatch(name)
            if time is not None and time["unit"] != "usec":
                raise self.refuse(line, f"{name}: IMB prints times in usec. Copy the text again")
        if columns[0] != _IMB_SIZE or len({*_IMB_TIMES} & {*columns}) != 1:
            raise self.refuse(line, "cannot read the columns of this table")
        self._columns = columns

    def _row(self, line: TextLine, words: str) -> None:
        if (words.split()[1:] or [""])[0].startswith(_IMB_FAILURES):
            self.note(line, f"omitted: {words[:80]}")
            return
        row = self.row(line, self._columns)
        if row is None:
            return
        time = row.figure(next(name for name in _IMB_TIMES if name in row.cells))
        defects = row.figure(_IMB_DEFECTS) if _IMB_DEFECTS in row.cells else None
        size = self.size_of(row, _IMB_SIZE)
        named = [(name, row.figure(name)) for name in _IMB_IN_ORDER if name in row.cells]
        if reason := disorder(named):
            raise self.refuse(line, reason)
        self._compare(row, size, time)
        operation, is_part = _IMB_OPERATIONS[self._name]
        is_wrong = defects is not None and defects.value > 0
        self.run.rows.append(
            ImportedRow(
                line=line.number,
                size_bytes=size,
                in_place=operation == "broadcast",  # which has one buffer
                operation=operation,
                dtype=self._dtypes[OPERATIONS[operation].reduces],
                reduction="sum",
                root=0,
                time=time.times(_MICROSECOND_S),
                wrong=0 if defects is not None and not is_wrong else None,
                failed=is_wrong,
                ranks=self.ranks,
                is_part=is_part,
            )
        )

    def _compare(self, row: TableRow, size: int, time: PrintedFigure) -> None:
        """Compares the tool's bandwidth with the time: MB of 10^6 bytes, in old versions 2^20."""
        if _IMB_RATE not in row.cells or not size or not time.value:
            return
        rate = row.figure(_IMB_RATE)
        scale = 2 if self._name == "Sendrecv" else 1
        slack = (1 + time.share) * _IMB_SLACK
        expected = [scale * size / time.value * factor for factor in (1.0, 1e6 / (1 << 20))]
        if not any(
            one / slack - rate.error <= rate.value <= one * slack + rate.error for one in expected
        ):
            self.note(
                row.line,
                f"does not fit: {rate.value:g} Mbytes/sec, but size and time give "
                f"{expected[0]:.2f}",
            )


IMB = importer(
    _ImbReader,
    _IMB_START.fullmatch,
    _IMB_TITLE.fullmatch,
    marks=RunMarks([_IMB_START.fullmatch]),
)


# ucc_perftest (openucx/ucc, tools/perf).

_UCC_FIGURE = (
    "that of the slowest rank (max), the mean of the tool's iterations, each from the creation of "
    "the request to its completion by the host's clock"
)
_UCC_STREAMED = "; without a barrier between iterations"
_UCC_FIELD = re.compile(
    r"(Collective|Memory type|Datatype|Reduction|Inplace|Iteration mode): *(\S[^:]{0,40})"
)
_UCC_LAUNCHED = _launched("ucc_perftest")
_UCC_PROCESSES = re.compile(r"\s(?:-np|-n|--ntasks(?: |=))[ =]?(\d{1,7})(?= )")
# The bus bandwidth was called bandwidth before October 2025.
_UCC_HEAD = re.compile(r"Count +Size +Time, us(?P<full> +(?:Bus )?Bandwidth, GB/s)?")
_UCC_TIMES = ("count", "size", "avg", "min", "max")
_UCC_RATES = ("bandwidth avg", "bandwidth max", "bandwidth min")
_UCC_TOTAL = re.compile(r"Total time: \S{1,30} ms")
_UCC_NUMBER = re.compile(r"\d+|N/A")
_UCC_PARTS = ("all_gather", "gather")
_UCC_KNOWN = {"all_reduce", "reduce", "broadcast", *_UCC_PARTS}
# Before July 2025 their size was that of one rank, since then it is that of all ranks.
_UCC_UNSURE = {"alltoall", "reduce_scatter", "scatter"}


class _UccReader(_MpiReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, "ucc_perftest", _UCC_FIGURE, "host", "ucc")
        self._fields: dict[str, str] = {}
        self._operation: str | None = None
        self._columns: tuple[str, ...] = ()
        self._is_due = False  # the names of the columns, after the line with the head

    def take(self, line: TextLine, words: str) -> None:
        if _UCC_LAUNCHED.search(words) is not None:
            self.launch(line, _UCC_PROCESSES.search(words))
        elif (field := _UCC_FIELD.fullmatch(words)) is not None:
            if field[1] == "Collective":
                self._fields, self._columns = {}, ()
            self._fields[field[1]] = field[2].strip()
        elif words in ("0", "1") and "Reduction" in self._fields and not self._columns:
            # "Inplace:" looks like the prefix of a line with a host's name, which is removed.
            self._fields["Inplace"] = words
        elif (head := _UCC_HEAD.fullmatch(words)) is not None:
            self._head(line, (*_UCC_TIMES, *_UCC_RATES) if head["full"] else _UCC_TIMES)
        elif self._is_due:
            self._is_due = False
            if words.split()[:3] != ["avg", "min", "max"]:
                raise self.refuse(line, "the columns avg, min and max are due here")
        elif _UCC_TOTAL.fullmatch(words) is not None:
            self._columns = ()
        elif self._columns and _UCC_NUMBER.fullmatch(words.split(maxsplit=1)[0]) is not None:
            self._row(line)

    def _head(self, line: TextLine, columns: tuple[str, ...]) -> None:
        """Reads the line of the columns: everything about the table stands above it."""
        fields, run = self._fields, self.run
        missing = [one for one in ("Collective", "Memory type", "Datatype") if one not in fields]
        if missing or self._columns:
            what = ", ".join(missing) or "the description of this table"
            raise self.refuse(line, f"{what} is missing above this table")
        name = fields["Collective"].lower()
        operation = "broadcast" if name == "bcast" else operation_of(name)
        is_known = operation in _UCC_KNOWN | _UCC_UNSURE
        if operation in _UCC_UNSURE and "Iteration mode" not in fields:
            raise self.refuse(
                line,
                f"the size of {operation} is that of one rank or of all ranks, depending on the "
                "version of UCC: use a version that prints the iteration mode",
            )
        if not is_known:
            self.note(
                line,
                f"{fields['Collective']} is left out: it has no sizes, or cclmark does not "
                "have this operation",
            )
        self._operation = operation if is_known else None
        streamed = fields.get("Iteration mode", "").lower() == "streaming"
        figure = _UCC_FIGURE + (_UCC_STREAMED if streamed else "")
        if run.rows and run.figure != figure:
            raise self.split(
                line, "the iteration mode is not that of the table above", place="table"
            )
        run.figure, run.facts = (
            figure,
            ToolSettings(
                timing="" if streamed else "blocking",
                across_ranks="max",
                barrier="" if streamed else "library",
            ),
        )
        notice = f"memory: {fields['Memory type']}"
        if notice not in run.notices:
            run.notices.append(notice)
        self._columns, self._is_due, self.last_bytes = columns, True, -1

    def _row(self, line: TextLine) -> None:
        operation, fields = self._operation, self._fields
        row = None if operation is None else self.row(line, self._columns)
        if row is None:
            return
        row.count("count")
        average, least, most = (row.figure(name) for name in ("avg", "min", "max"))
        if not least.value <= average.value <= most.value:
            raise self.refuse(line, "the average is not between min and max")
        self.run.rows.append(
            ImportedRow(
                line=line.number,
                size_bytes=self.size_of(row, "size", "the head"),
                in_place=operation == "broadcast" or fields.get("Inplace") == "1",
                operation=operation,
                dtype=dtype_of(fields["Datatype"]) or fields["Datatype"][:20],
                reduction=reduction_of(fields.get("Reduction", "none")),
                root=0,
                time=most.times(_MICROSECOND_S),
                ranks=self.ranks,
                is_part=operation in _UCC_PARTS,
            )
        )


UCC = importer(
    _UccReader,
    _UCC_HEAD.fullmatch,
    marks=RunMarks([lambda words: words.startswith("Collective: ")]),
)
