"""The CSV files of NCCL's example tuner and of RCCL's tuner, written from the rules of a table.

NCCL's sources contain an example of a tuner plug-in that reads ``NCCL_TUNER_CONFIG_FILE``
(plugins/tuner/example, before 2.29.7 ext-tuner/example). RCCL contains a tuner that reads the same
columns (src/plugin/tuner/csv_tuner.cc), from the same variable or from ``rccl_tuner*.csv`` files
next to the library::

    collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff

In the last four columns -1 means any. Both tuners use the first line that matches. Neither has a
place for conditions: the comments of the file contain them.

The two differ in the channels. RCCL's tuner keeps the library's choice for -1. NCCL's example sets
one channel before it looks for a line, so that -1 and sizes without a line run on one channel,
contrary to its documentation; 0 keeps the library's choice there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.errors import UsageError
from cclmark.tune.table_file import (
    ALGORITHMS,
    MOST_BYTES,
    MOST_CHANNELS,
    MOST_RANKS,
    PROTOCOLS,
    Rule,
    Table,
)

_NAMES = {
    "all_gather": "allgather",
    "all_reduce": "allreduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "reduce_scatter": "reducescatter",
}
_OPERATIONS = {name: operation for operation, name in _NAMES.items()}
_COLUMNS = (
    "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"
)
_FEWEST_COLUMNS = 8
_MOST_COLUMNS = 10
_MOST_LINE_CHARACTERS = 254  # both tuners read lines into 256 bytes, with the line's end and a zero
_ANY = -1
_CAVEATS = (
    "# for the example tuner of NCCL 2.30.3 or newer: older ones crash at a line that matches",
    "# operations and sizes without a line run on one channel: add lines for all that a program "
    "uses",
)
_KEPT_CHANNELS = {"nccl": 0, "rccl": -1}  # the number that keeps the library's choice


def nccl_csv(table: Table) -> str:
    """The file for NCCL's example tuner. Raises UsageError for a table of another library."""
    return _written(table, "nccl")


def rccl_csv(table: Table) -> str:
    """The file for RCCL's tuner. Raises UsageError for a table of another library."""
    return _written(table, "rccl")


def read_csv(text: str, source: str, library: str) -> list[Rule]:
    """The rules of such a file for ``library``, nccl or rccl. ``source`` is for messages.

    Raises UsageError with the line for what a tuner would misread or skip silently, and for lines
    that a rule cannot express: any number of ranks or nodes, or a restriction of numPipeOps or
    regBuff.
    """
    rules = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            rules.append(_Line(line, f"{source}: line {number}", library).rule())
    return rules


def _written(table: Table, library: str) -> str:
    if table.library != library:
        raise UsageError(f"the rules are of {table.library}, not of {library}")
    return "".join(f"{line}\n" for line in _lines(table))


def _lines(table: Table) -> Iterator[str]:
    links = "any number of" if table.nvlinks is None else str(table.nvlinks)
    yield f"# for {table.library} {table.library_version} on {table.device}, {links} NVLinks"[
        :_MOST_LINE_CHARACTERS
    ]
    if table.library == "nccl":
        yield from _CAVEATS
    yield f"# {_COLUMNS}"
    for rule in table.rules:
        columns: Sequence[object] = (
            _NAMES[rule.operation],
            rule.smallest_bytes,
            rule.largest_bytes,
            rule.algorithm,
            rule.protocol,
            rule.channels or _KEPT_CHANNELS[table.library],
            rule.nodes,
            rule.ranks,
            _ANY,
            _ANY,
        )
        yield ",".join(map(str, columns))


class _Line:
    """A line with a rule."""

    def __init__(self, line: str, place: str, library: str) -> None:
        self._place = place
        self._kept_channels = _KEPT_CHANNELS[library]
        if len(line) > _MOST_LINE_CHARACTERS:
            raise UsageError(f"{place}: it is longer than {_MOST_LINE_CHARACTERS} characters")
        self._words = [word.strip(" \t") for word in line.split(",")]
        if not _FEWEST_COLUMNS <= len(self._words) <= _MOST_COLUMNS:
            raise UsageError(
                f"{place}: {_FEWEST_COLUMNS} to {_MOST_COLUMNS} columns are required, this line "
                f"has {len(self._words)}"
            )

    def rule(self) -> Rule:
        """The rule. Raises UsageError."""
        channels = self._number(5, "channels", -1, MOST_CHANNELS)
        if channels < 1 and channels != self._kept_channels:
            raise UsageError(
                f"{self._place}: channels: {channels} does not keep the library's choice, "
                f"{self._kept_channels} does"
            )
        for place in range(_FEWEST_COLUMNS, len(self._words)):
            self._number(place, ("numPipeOps", "regBuff")[place - _FEWEST_COLUMNS], _ANY, _ANY)
        nodes = self._number(6, "nNodes", 1, MOST_RANKS)
        return Rule(
            operation=_OPERATIONS[self._word(0, "collective", tuple(_OPERATIONS))],
            ranks=self._number(7, "nRanks", 2, MOST_RANKS),
            nodes=nodes,
            smallest_bytes=self._number(1, "min_bytes", 0, MOST_BYTES),
            largest_bytes=self._number(2, "max_bytes", 0, MOST_BYTES),
            algorithm=self._word(3, "algorithm", ALGORITHMS),
            protocol=self._word(4, "protocol", PROTOCOLS),
            channels=max(channels, 0),
        )

    def _word(self, place: int, name: str, words: Sequence[str]) -> str:
        if self._words[place] not in words:
            raise UsageError(
                f"{self._place}: {name}: {self._words[place]!r} is not {', '.join(words)}"
            )
        return self._words[place]

    def _number(self, place: int, name: str, least: int, most: int) -> int:
        word = self._words[place]
        is_number = word.removeprefix("-").isascii() and word.removeprefix("-").isdigit()
        if not is_number or not least <= int(word) <= most:
            wanted = str(least) if least == most else f"a number from {least} to {most}"
            raise UsageError(f"{self._place}: {name}: {word!r} is not {wanted}")
        return int(word)
