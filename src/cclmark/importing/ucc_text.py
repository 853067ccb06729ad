"""Reads the tables of ucc_perftest (openucx/ucc, tools/perf)."""

from __future__ import annotations

import re

from cclmark.importing.cleaned_text import Text, TextLine, read_count, read_decimal
from cclmark.importing.run import ForeignRun, ImportedRow, RankCount, ToolSettings
from cclmark.importing.spelling import dtype_of, operation_of, reduction_of

_FIGURE = (
    "that of the slowest rank (max), the mean of the tool's iterations, each from the creation of "
    "the request to its completion by the host's clock"
)
_STREAMED = "; without a barrier between iterations"
_FIELD = re.compile(
    r"(Collective|Memory type|Datatype|Reduction|Inplace|Iteration mode): *(\S[^:]{0,40})"
)
_LAUNCHED = re.compile(r"(?:^|[\s/])(?:mpirun|mpiexec|srun|prun)\b[^|;]{0,400}\bucc_perftest")
_PROCESSES = re.compile(r"\s(?:-np|-n|--ntasks(?: |=))[ =]?(\d{1,7})(?= )")
# The bus bandwidth was called bandwidth before October 2025.
_HEAD = re.compile(r"Count +Size +Time, us(?P<full> +(?:Bus )?Bandwidth, GB/s)?")
_NAMES = "avg min max"
_TOTAL = re.compile(r"Total time: \S{1,30} ms")
_NUMBER = re.compile(r"\d+|N/A")
_BROADCAST = {"bcast": "broadcast"}
_REDUCING = ("all_reduce", "reduce", "reduce_scatter")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_PARTS = ("all_gather", "gather")
_KNOWN = {*_REDUCING, *_ROOTED, *_PARTS, "alltoall"}
# Before July 2025 their size was that of one rank, since then it is that of all ranks.
_UNSURE = ("alltoall", "reduce_scatter", "scatter")


def is_ucc(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _HEAD.fullmatch(line.text.strip())), None)


def read_ucc(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a row that cannot be read."""
    reader = _Reader(text)
    for line in reader.lines:
        reader.take(line)
    return reader.finish()


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self.lines = [line for line in text.lines() if line.text.strip()]
        self._run = ForeignRun("ucc_perftest", _FIGURE, "host", "ucc")
        self._fields: dict[str, str] = {}
        self._operation: str | None = None
        self._ranks: RankCount | None = None
        self._width = 0
        self._is_due = False  # the names of the columns, after the line with the head
        self._last_bytes = -1

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        words = line.text.strip()
        if _LAUNCHED.search(words) is not None:
            found = _PROCESSES.search(words)
            self._ranks = (
                None
                if found is None
                else RankCount(self._text.ranks(line.number, found[1]), line.number)
            )
        elif (field := _FIELD.fullmatch(words)) is not None:
            if field[1] == "Collective":
                self._fields, self._width = {}, 0
            self._fields[field[1]] = field[2].strip()
        elif words in ("0", "1") and "Reduction" in self._fields and not self._width:
            # "Inplace:" looks like the prefix of a line with a host's name, which is removed.
            self._fields["Inplace"] = words
        elif (head := _HEAD.fullmatch(words)) is not None:
            self._head(line, 8 if head["full"] else 5)
        elif self._is_due:
            self._is_due = False
            if " ".join(words.split()[:3]) != _NAMES:
                raise self._text.refuse(line.number, "the columns avg, min and max are due here")
        elif _TOTAL.fullmatch(words) is not None:
            self._width = 0
        elif self._width and _NUMBER.fullmatch(words.split()[0]) is not None:
            self._row(line, words)

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

    def _head(self, line: TextLine, width: int) -> None:
        """Reads the line of the columns: everything about the table stands above it."""
        fields, run = self._fields, self._run
        missing = [one for one in ("Collective", "Memory type", "Datatype") if one not in fields]
        if missing or self._width:
            what = ", ".join(missing) or "the description of this table"
            raise self._text.refuse(line.number, f"{what} is missing above this table")
        name = fields["Collective"].lower()
        operation = _BROADCAST.get(name) or operation_of(name)
        is_known = operation in _KNOWN
        if operation in _UNSURE and "Iteration mode" not in fields:
            raise self._text.refuse(
                line.number,
                f"the size of {operation} is that of one rank or of all ranks, depending on the "
                "version of UCC: use a version that prints the iteration mode",
            )
        if not is_known:
            run.notices.append(
                f"line {line.number}: {fields['Collective']} is left out: it has no sizes, or is "
                "no operation of cclmark"
            )
        self._operation = operation if is_known else None
        streamed = fields.get("Iteration mode", "").lower() == "streaming"
        facts = ToolSettings(
            timing="" if streamed else "blocking",
            across_ranks="max",
            barrier="" if streamed else "library",
        )
        figure = _FIGURE + (_STREAMED if streamed else "")
        if run.rows and run.figure != figure:
            raise self._text.refuse(
                line.number,
                "the iteration mode is not that of the table above: split the text before this "
                "table and import the parts one by one",
            )
        run.facts, run.figure = facts, figure
        notice = f"memory: {fields['Memory type']}"
        if notice not in run.notices:
            run.notices.append(notice)
        self._width, self._is_due, self._last_bytes = width, True, -1

    def _row(self, line: TextLine, words: str) -> None:
        cells = words.split()
        if self._operation is None:
            return
        if len(cells) != self._width:
            if line is self.lines[-1] and len(cells) < self._width:
                self._run.notices.append(f"line {line.number}: truncated, omitted")
                self._run.whole = False
                return
            raise self._text.refuse(
                line.number, f"{len(cells)} figures in this row, but the header has {self._width}"
            )
        count, size = read_count(cells[0]), read_count(cells[1])
        average, least, most = (read_decimal(cell) for cell in cells[2:5])
        if None in (count, size, average, least, most):
            raise self._text.refuse(line.number, f"cannot read the row {words[:80]!r}")
        assert size is not None and average is not None and least is not None and most is not None
        if not least.value <= average.value <= most.value:
            raise self._text.refuse(line.number, "the average is not between min and max")
        if size <= self._last_bytes:
            raise self._text.refuse(
                line.number, f"size {size} follows {self._last_bytes}: the head is missing above"
            )
        self._last_bytes = size
        operation, fields = self._operation, self._fields
        self._run.rows.append(
            ImportedRow(
                line=line.number,
                size_bytes=size,
                in_place=operation == "broadcast" or fields.get("Inplace") == "1",
                operation=operation,
                dtype=dtype_of(fields["Datatype"]) or fields["Datatype"][:20],
                reduction=reduction_of(fields.get("Reduction", "none"))
                if operation in _REDUCING
                else None,
                root=0 if operation in _ROOTED else None,
                time=most.times(1e-6),
                ranks=self._ranks,
                is_part=operation in _PARTS,
            )
        )
