"""The tuner table that cclmark's NCCL plug-in applies: docs/reference/tuner-table.md.

This module and engine/plugin/tuner_table.cpp accept the same texts and refuse the others with the
same words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from cclmark.base.errors import UsageError

FORMAT = "cclmark-tuner-table"
VERSION = 1
MOST_FILE_BYTES = 1 << 20
MOST_LINE_CHARACTERS = 256
MOST_RULES = 4096
MOST_RANKS = (1 << 31) - 1
MOST_BYTES = (1 << 63) - 1
MOST_NVLINKS = 1024
MOST_CHANNELS = 256

LIBRARIES = ("nccl", "rccl")
OPERATIONS = ("all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter")
ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
COLUMNS = (
    *("operation", "ranks", "nodes", "smallest_bytes", "largest_bytes"),
    *("algorithm", "protocol", "channels"),
)

_ALGORITHMS_OF = {
    "all_gather": ("ring", "collnet_direct", "nvls", "pat"),
    "all_reduce": ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree"),
    "broadcast": ("ring",),
    "reduce": ("ring",),
    "reduce_scatter": ("ring", "collnet_direct", "nvls", "pat"),
}
_WITH_ALL_PROTOCOLS = ("tree", "ring")
_ODD = re.compile(r"[^\t -~]")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_VERSION = re.compile(r"(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)")
_CONDITIONS = ("library", "device", "nvlinks")
_FIRST_LINE = f"the first line must be '{FORMAT} {VERSION}'"
_MOST_SHOWN = 40  # characters of a word in a message


@dataclass(frozen=True)
class Rule:
    """What is to run for an operation among ``ranks`` on ``nodes``, for sizes in a range.

    ``smallest_bytes`` and ``largest_bytes`` belong to the range. They are as NCCL counts: the
    larger of a rank's send and receive buffers. ``channels``: 0 leaves the library's choice.
    """

    operation: str
    ranks: int
    nodes: int
    smallest_bytes: int
    largest_bytes: int
    algorithm: str
    protocol: str
    channels: int = 0


@dataclass(frozen=True)
class RuleTable:
    """Rules and the conditions under which they were proven.

    ``library``: nccl or rccl. ``library_version``: for example 2.28.9. ``device``: its name as the
    driver reports it. ``nvlinks``: the active NVLinks of each device, None for no condition.
    """

    library: str
    library_version: str
    device: str
    nvlinks: int | None
    rules: Sequence[Rule]


def written(table: RuleTable, *, comments: Sequence[str] = ()) -> str:
    """The text of a table, its rules in order. Raises UsageError for what cannot be written."""
    rules = tuple(sorted(table.rules, key=_order))
    device = " ".join(table.device.split())
    nvlinks = "any" if table.nvlinks is None else str(table.nvlinks)
    lines = [
        f"{FORMAT} {VERSION}",
        *(f"# {comment}" for comment in comments),
        f"library  {table.library} {table.library_version}",
        f"device   {device}",
        f"nvlinks  {nvlinks}",
        "",
    ]
    heads = [f"# {COLUMNS[0]}", *COLUMNS[1:]]
    rows = [heads, *([str(getattr(rule, column)) for column in COLUMNS] for rule in rules)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    text = "\n".join([*lines, "end", ""])
    if read(text, "the table") != replace(table, device=device, rules=rules):
        raise UsageError("the table cannot be written: a comment or a name contains a line's end")
    return text


def _order(rule: Rule) -> tuple[str, int, int, int]:
    return rule.operation, rule.ranks, rule.nodes, rule.smallest_bytes


def read(text: str, source: str) -> RuleTable:
    """Reads a table. ``source`` is for messages.

    Raises UsageError with the line and the field. Nothing of an invalid table is used.
    """
    # The plug-in reads bytes, of which a character outside ASCII has several.
    content = text.encode("utf-8", "surrogatepass")
    if len(content) > MOST_FILE_BYTES:
        raise UsageError(f"{source}: it is larger than {MOST_FILE_BYTES} bytes")
    lines = content.decode("latin-1").split("\n")
    if not lines[-1]:
        lines.pop()
    reader = _Reader(source)
    for line in lines:
        reader.line(line)
    return reader.table()


class _Reader:
    """Reads the lines of a table one after the other."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._number = 0
        self._library = ("", "")
        self._device = ""
        self._nvlinks: int | None = None
        self._found: set[str] = set()
        self._rules: list[Rule] = []
        self._lines: dict[tuple[str, int, int], list[tuple[Rule, int]]] = {}
        self._has_ended = False

    def table(self) -> RuleTable:
        """The table, behind the last line."""
        if not self._number:
            self._number = 1
            self._fail(_FIRST_LINE)
        if not self._has_ended:
            self._fail("the file ends without a line 'end': it is incomplete")
        return RuleTable(*self._library, self._device, self._nvlinks, tuple(self._rules))

    def line(self, text: str) -> None:
        """Reads the next line."""
        self._number += 1
        if len(text) > MOST_LINE_CHARACTERS:
            self._fail(f"it is longer than {MOST_LINE_CHARACTERS} characters")
        if odd := _ODD.search(text):
            self._fail(f"character {odd.end()} is not printable ASCII")
        words = text.split()
        if self._number == 1:
            self._first_line(words)
        elif words and not words[0].startswith("#"):
            self._content(words)

    def _first_line(self, words: list[str]) -> None:
        if len(words) != 2 or words[0] != FORMAT:
            self._fail(_FIRST_LINE)
        if words[1] != str(VERSION):
            self._refuse("version", words[1], f"is not supported, only {VERSION}")

    def _content(self, words: list[str]) -> None:
        if self._has_ended:
            self._fail("there is text after the line 'end'")
        if words[0] in _CONDITIONS:
            self._begin_condition(words[0])
        if words[0] == "library":
            self._read_library(words[1:])
        elif words[0] == "device":
            if len(words) == 1:
                self._fail("a name is required", "device")
            self._device = " ".join(words[1:])
        elif words[0] == "nvlinks":
            self._read_nvlinks(words[1:])
        elif words[0] == "end":
            self._end(words)
        else:
            self._rule(words)

    def _begin_condition(self, name: str) -> None:
        if self._rules:
            self._fail(f"'{name}' must be before the rules")
        if name in self._found:
            self._fail(f"there is a second line '{name}'")
        self._found.add(name)

    def _read_library(self, words: list[str]) -> None:
        if len(words) != 2:
            self._fail("a name and a version are required", "library")
        if words[0] not in LIBRARIES:
            self._refuse("library", words[0], "is not nccl or rccl")
        if not _VERSION.fullmatch(words[1]):
            self._refuse("version", words[1], "is not a version, for example 2.28.9")
        self._library = (words[0], words[1])

    def _read_nvlinks(self, words: list[str]) -> None:
        if len(words) != 1:
            self._fail("a number, or any, is required", "nvlinks")
        if words[0] != "any":
            self._nvlinks = self._whole("nvlinks", words[0], 0, MOST_NVLINKS, ", or any")

    def _require_conditions(self) -> None:
        for name in _CONDITIONS:
            if name not in self._found:
                self._fail(f"the line '{name}' is missing before the rules")

    def _end(self, words: list[str]) -> None:
        if len(words) != 1:
            self._fail("'end' must be alone")
        self._require_conditions()
        if not self._rules:
            self._fail("there is no rule before 'end'")
        self._has_ended = True

    def _rule(self, words: list[str]) -> None:
        if words[0] not in OPERATIONS:
            names = f"{', '.join(OPERATIONS[:-1])} or {OPERATIONS[-1]}"
            self._refuse("operation", words[0], f"is not {names}")
        if len(words) != len(COLUMNS):
            self._fail(f"a rule has {len(COLUMNS)} columns, this line has {len(words)}")
        self._require_conditions()
        rule = self._parsed(words)
        others = self._lines.setdefault((rule.operation, rule.ranks, rule.nodes), [])
        for other, number in others:
            if (
                other.smallest_bytes <= rule.largest_bytes
                and rule.smallest_bytes <= other.largest_bytes
            ):
                self._fail(f"its sizes overlap with those of line {number}")
        if len(self._rules) == MOST_RULES:
            self._fail(f"there are more than {MOST_RULES} rules")
        others.append((rule, self._number))
        self._rules.append(rule)

    def _parsed(self, words: list[str]) -> Rule:
        operation, ranks_text, nodes_text, smallest, largest, algorithm, protocol, channels = words
        ranks = self._whole("ranks", ranks_text, 2, MOST_RANKS)
        nodes = self._whole("nodes", nodes_text, 1, MOST_RANKS)
        if nodes > ranks:
            self._fail("there are more nodes than ranks", "nodes")
        smallest_bytes = self._whole("smallest_bytes", smallest, 0, MOST_BYTES)
        largest_bytes = self._whole("largest_bytes", largest, 0, MOST_BYTES)
        if largest_bytes < smallest_bytes:
            self._fail("it is less than smallest_bytes", "largest_bytes")
        if algorithm not in ALGORITHMS:
            names = f"{', '.join(ALGORITHMS[:-1])} or {ALGORITHMS[-1]}"
            self._refuse("algorithm", algorithm, f"is not {names}")
        if protocol not in PROTOCOLS:
            self._refuse("protocol", protocol, "is not ll, ll128 or simple")
        if algorithm not in _ALGORITHMS_OF[operation]:
            self._fail(f"{operation} has no algorithm {algorithm}", "algorithm")
        if protocol != "simple" and algorithm not in _WITH_ALL_PROTOCOLS:
            self._fail(f"{algorithm} has no protocol {protocol}", "protocol")
        return Rule(
            *(operation, ranks, nodes, smallest_bytes, largest_bytes, algorithm, protocol),
            self._whole("channels", channels, 0, MOST_CHANNELS),
        )

    def _whole(self, name: str, word: str, least: int, most: int, or_else: str = "") -> int:
        if not _NUMBER.fullmatch(word) or not least <= int(word) <= most:
            self._refuse(name, word, f"is not a number from {least} to {most}{or_else}")
        return int(word)

    def _refuse(self, name: str, word: str, reason: str) -> NoReturn:
        self._fail(f"'{word[:_MOST_SHOWN]}' {reason}", name)

    def _fail(self, problem: str, name: str = "") -> NoReturn:
        place = f"line {self._number}, {name}" if name else f"line {self._number}"
        raise UsageError(f"{self._source}: {place}: {problem}")
