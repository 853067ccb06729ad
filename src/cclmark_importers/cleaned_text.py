"""A text of another tool: its lines without launchers' prefixes, its numbers and its names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from cclmark.base.errors import UsageError
from cclmark.work.operations import OPERATIONS, parse_dtypes

# Colours and other terminal control sequences.
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])")
_TIME = r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
# Prefixes of a line: of a quoted mail, of mpirun --tag-output, of torchrun, a time of day, of
# srun -l, of a tool that prints the host (pdsh, kubectl). The last two only before the beginning of
# a table's line.
_PREFIXES = (
    re.compile(r"\s{0,16}>(?:\s?>){0,15}\s?"),
    re.compile(r"\s{0,16}\[(?P<process>\d+,\d+)\]\s?<std(?:out|err|diag)>:? ?"),
    re.compile(r"\[(?:default|rank)?(?P<process>\d+)\]: ?"),
    re.compile(rf"(?:\[{_TIME}\]|{_TIME})(?: *[:|])? "),
    re.compile(r"(?P<process>\d{1,6}): (?=\s*[#\d|])"),
    re.compile(r"[A-Za-z][\w.-]*: (?=\s*[#\d])"),
)
_FIGURE = re.compile(r"(\d{1,30})(?:\.(\d{0,30}))?(?:[eE]([+-]?\d{1,2}))?", re.ASCII)
_MOST = 1e18  # upper limit of printed numbers
MOST_RANKS = 1 << 20
_LARGEST_COUNT = 1 << 60


@dataclass(frozen=True)
class TextLine:
    """A line of a text, counted from 1. ``process``: from a launcher's prefix, or empty."""

    number: int
    text: str
    process: str = ""


@dataclass(frozen=True)
class Text:
    """A text, or a part of one that begins on line ``first``, and its name in messages."""

    name: str
    content: str
    first: int = 1

    def lines(self) -> list[TextLine]:
        """Returns the lines, without colours and launchers' prefixes.

        Parts separated by carriage returns, for example of a progress line, have the same number.
        """
        return list(self._lines)

    @cached_property
    def raw(self) -> list[str]:
        """The lines as they are in the text."""
        return self.content.split("\n")

    @cached_property
    def _lines(self) -> list[TextLine]:
        numbered = enumerate(self.raw, start=self.first)
        return [_line(number, part) for number, text in numbered for part in text.split("\r")]

    def line_at(self, offset: int) -> int:
        """Returns the number of the line that contains the character at ``offset``."""
        return self.first + self.content.count("\n", 0, offset)

    def line_of_error(self, error: Exception) -> int:
        """Returns the number of the line where JSON of the whole text is damaged."""
        return self.first - 1 + getattr(error, "lineno", 1)

    def refuse(self, line: TextLine | int, message: str) -> UsageError:
        """Returns the error to raise for the content of ``line``."""
        number = line.number if isinstance(line, TextLine) else line
        return UsageError(f"{self.name}:{number}: {message}")

    def split(self, line: TextLine | int, reason: str, place: str = "line") -> UsageError:
        """Returns the error to raise where another run begins."""
        return self.refuse(
            line,
            f"{reason}: this is another run. Split the text before this {place} and import the "
            "parts one by one",
        )

    def ranks(self, line: TextLine | int, word: str) -> int:
        """Parses the number of ranks on ``line``. Raises UsageError for an impossible one."""
        number = int(word)
        if not 1 <= number <= MOST_RANKS:
            raise self.refuse(line, f"{number} ranks: expected 1 to {MOST_RANKS}")
        return number


def decode(content: bytes, name: str) -> Text:
    """Decodes the text of a file. Raises UsageError for one that is empty or is not text."""
    if content.startswith(b"\x1f\x8b"):
        raise UsageError(f"{name} is compressed: gunzip it first; only traces may be compressed")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # as Windows writes redirected output
        text = content.decode("utf-16", errors="replace")
    else:
        text = content.decode("utf-8-sig", errors="replace")
        if "\0" in text:
            raise UsageError(f"{name} is binary: use the text output of the tool, or its JSON")
    if not text.strip():
        raise UsageError(f"{name} is empty")
    return Text(name, text)


class Printed(str):
    """A number as it is written in JSON: for ``parse_float`` and ``parse_int`` of json.loads."""


@dataclass(frozen=True)
class PrintedFigure:
    """A number as a tool printed it, and its largest rounding error: half of its last digit."""

    value: float
    error: float

    def times(self, factor: float) -> PrintedFigure:
        """Returns the figure in another unit."""
        return PrintedFigure(self.value * factor, self.error * factor)

    @property
    def share(self) -> float:
        """The largest relative error."""
        return self.error / self.value if self.value else float("inf")


def read_figure(text: str) -> PrintedFigure | None:
    """Parses a number; None if ``text`` is not one, or one that no tool measures."""
    found = _FIGURE.fullmatch(text)
    if found is None:
        return None
    value = float(text)
    if value > _MOST:
        return None
    error = 0.5 * 10.0 ** (int(found[3] or 0) - len(found[2] or ""))
    return PrintedFigure(value, error)


def read_decimal(text: str) -> PrintedFigure | None:
    """Parses a number without an exponent; None if ``text`` is not one."""
    return read_figure(text) if not {"e", "E"} & set(text) else None


def read_count(text: str) -> int | None:
    """Parses a whole number; None if ``text`` is not one."""
    if not (text.isascii() and text.isdigit()) or len(text) > 20:
        return None
    number = int(text)
    return number if number < _LARGEST_COUNT else None


def _line(number: int, text: str) -> TextLine:
    text = _ESCAPES.sub("", text)
    process = ""
    for _ in range(4):  # a quoted line of a launcher, with a time of day before it or behind it
        for prefix in _PREFIXES:
            found = prefix.match(text)
            if found is not None:
                process = found.groupdict().get("process") or process
                text = text[found.end() :]
                break
        else:
            break
    return TextLine(number, text.rstrip(), process)


_SHORT = {name.replace("_", ""): name for name in OPERATIONS}
# A program's name, in a head or in a command that was echoed: all_reduce_perf of nccl-tests,
# test_allreduce of FlagCX, all_reduce_test of HCCL.
_PROGRAM = re.compile(
    r"(?:^|[\s/'\"=])(?:test_(?P<before>[a-z_]{4,16})|(?P<after>[a-z_]{4,16})_(?:perf|test))"
    r"(?:_mpi)?(?=$|[\s'\",)])"
)
# Types of nccl-tests before version 2.
_OLD_TYPES = {"char": "int8", "int": "int32"}
_REDUCTION = re.compile(r"[a-z]{2,12}")


def operation_of(word: str) -> str | None:
    """Returns the operation that ``word`` spells (all_reduce, AllReduce, reducescatter), if any."""
    bare = word.strip().lower().replace("-", "").replace("_", "")
    return _SHORT.get(bare)


def operation_in(line: str) -> str | None:
    """Returns the operation of the program in a line, if cclmark supports it."""
    for found in _PROGRAM.finditer(line):
        operation = operation_of(found["before"] or found["after"])
        if operation is not None:
            return operation
    return None


def dtype_of(word: str) -> str | None:
    """Returns the element type that ``word`` spells, if cclmark supports it."""
    try:
        found = parse_dtypes(_OLD_TYPES.get(word, word))
    except UsageError:
        return None
    return found[0] if len(found) == 1 else None


def reduction_of(word: str) -> str | None:
    """Returns the reduction that ``word`` spells, also an unsupported one; None for ``none``."""
    lower = word.strip().lower()
    return lower if lower != "none" and _REDUCTION.fullmatch(lower) else None
