"""The rules file of Open MPI's component ``tuned``: docs/reference/artifacts.md.

Open MPI reads numbers and skips everything else (ompi/mca/coll/tuned/coll_tuned_dynamic_file.c)::

    number of operations
      id of the operation, number of group sizes
        ranks, number of messages
          bytes, algorithm, fan-out, bytes of a segment

A line holds from its ranks, or bytes, up to those of the next line. A group smaller than the first
line uses that line too. So every operation begins with a line for 0 ranks, and behind each group
there is one for one rank more, which both select algorithm 0: the library's choice.

The bytes are datatype size × count for all_reduce, broadcast and reduce, and the sum over all ranks
for the others: cclmark's sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NoReturn

from cclmark.base.errors import UsageError
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule, check_algorithm, groups_of
from cclmark.kinds.tune.table_file import MOST_BYTES, MOST_RANKS
from cclmark.work.library_fields import find_version
from cclmark.work.library_settings import find_setting

VARIABLES = {
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    "OMPI_MCA_coll_tuned_dynamic_rules_filename": "{path}",
}
"""The environment that deploys a file; ``{path}`` stands for its absolute path."""
PARAMETERS = ("fan_out", "segment_bytes")
"""Parameters of rules, which not every algorithm uses."""

_COLLECTIVES = {
    "all_gather": (0, "allgather"),
    "all_reduce": (2, "allreduce"),
    "alltoall": (3, "alltoall"),
    "alltoallv": (4, "alltoallv"),
    "barrier": (6, "barrier"),
    "broadcast": (7, "bcast"),
    "gather": (9, "gather"),
    "reduce": (11, "reduce"),
    "reduce_scatter": (13, "reduce_scatter_block"),
    "scatter": (15, "scatter"),
}
_OPERATIONS = {number: operation for operation, (number, _) in _COLLECTIVES.items()}
_WITHOUT_SIZE = ("alltoallv", "barrier")  # Open MPI searches their rules with 0 bytes
_FOR_TWO_RANKS = "two_proc"
_LIBRARYS_CHOICE = 0
_FIRST_OTHER_VERSION = 6
_MOST_INT = (1 << 31) - 1
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_MOST_SHOWN = 40  # characters of a word in a message


def written(
    rules: Sequence[AlgorithmRule], *, library_version: str, comments: Sequence[str] = ()
) -> str:
    """The text of a rules file.

    ``library_version``: Open MPI's own text about its version; empty: unknown. Raises UsageError
    for rules and comments that the file cannot express, and for versions with another format.
    """
    major = find_version(library_version)[1].partition(".")[0]
    if major and int(major) >= _FIRST_OTHER_VERSION:
        raise UsageError(
            "Open MPI 6 reads this format with other numbers of ranks: "
            "rules files are for Open MPI 4 and 5"
        )
    groups = groups_of(rules)
    if not groups:
        raise UsageError("there is no rule for Open MPI's rules file")
    for comment in comments:
        if not comment.isprintable():
            raise UsageError("a comment of Open MPI's rules file is not one printable line")
    lines = [*(f"# {comment}" for comment in comments), f"{len(groups)}  # operations"]
    for operation in sorted(groups, key=lambda name: _collective(name)[0]):
        lines += _operation(operation, groups[operation], library_version)
    return "\n".join([*lines, ""])


def read(text: str, source: str) -> list[AlgorithmRule]:
    """The rules of a file, by operation, ranks and size. ``source`` is for messages.

    Raises UsageError with the line for a file that is malformed, and for what rules cannot express:
    lines that hold for several numbers of ranks, and the parameter of version 2 of the format.
    """
    return _Reader(text, source).rules()


def algorithms_of(operation: str) -> tuple[str, ...]:
    """The algorithms that rules can select, none for an operation without rules."""
    return tuple(_names(operation)[1:]) if operation in _COLLECTIVES else ()


def _collective(operation: str) -> tuple[int, str]:
    if operation not in _COLLECTIVES:
        raise UsageError(f"Open MPI's rules file has no rules for {operation}")
    return _COLLECTIVES[operation]


def _setting_name(operation: str) -> str:
    return f"OMPI_MCA_coll_tuned_{_collective(operation)[1]}_algorithm"


def _names(operation: str) -> list[str]:
    """The names of the algorithms, each at the place of its number."""
    setting = find_setting("mpi", _setting_name(operation))
    return setting.values if setting else []


def _operation(
    operation: str, groups: dict[int, list[AlgorithmRule]], version: str
) -> Iterator[str]:
    number, name = _collective(operation)
    blocks: dict[int, list[str]] = {0: _choice(0)}
    for ranks, rules in groups.items():
        blocks[ranks] = [line for rule in _gapless(rules) for line in _message(rule, version)]
        if ranks + 1 not in groups and ranks < MOST_RANKS:
            blocks[ranks + 1] = _choice(0)
    yield f"{number}  # {name}"
    yield f"{len(blocks)}  # numbers of ranks"
    for ranks, lines in sorted(blocks.items()):
        yield f"{ranks} {len(lines)}  # ranks, lines: bytes, algorithm, fan-out, segment bytes"
        yield from lines


def _gapless(rules: list[AlgorithmRule]) -> Iterator[AlgorithmRule | int]:
    """The rules of a group, and where there is none the size from which the library chooses."""
    next_bytes: int | None = 0
    for rule in rules:
        if next_bytes is not None and next_bytes < rule.smallest_bytes:
            yield next_bytes
        yield rule
        next_bytes = None if rule.largest_bytes in (None, MOST_BYTES) else rule.largest_bytes + 1
    if next_bytes is not None:
        yield next_bytes


def _choice(smallest_bytes: int) -> list[str]:
    return [f"{smallest_bytes} {_LIBRARYS_CHOICE} 0 0"]


def _message(rule: AlgorithmRule | int, version: str) -> list[str]:
    if isinstance(rule, int):
        return _choice(rule)
    _check(rule, version)
    parameters = dict(rule.parameters)
    fan_out, segment_bytes = (parameters.get(name, 0) for name in PARAMETERS)
    number = _names(rule.operation).index(rule.algorithm)
    return [f"{rule.smallest_bytes} {number} {fan_out} {segment_bytes}  # {rule.algorithm}"]


def _check(rule: AlgorithmRule, version: str) -> None:
    check_algorithm(rule, _setting_name(rule.operation), version)
    if rule.algorithm not in algorithms_of(rule.operation):
        raise UsageError(f"{rule.label}: '{rule.algorithm}' is not the name of an algorithm")
    if rule.algorithm == _FOR_TWO_RANKS and rule.ranks != 2:
        raise UsageError(f"{rule.label}: {_FOR_TWO_RANKS} is for 2 ranks")
    if rule.operation in _WITHOUT_SIZE and (rule.smallest_bytes, rule.largest_bytes) != (0, None):
        raise UsageError(f"{rule.label}: Open MPI has no sizes for {rule.operation}")
    for name, value in rule.parameters:
        if name not in PARAMETERS:
            raise UsageError(f"{rule.label}: '{name}' is not {' or '.join(PARAMETERS)}")
        if not isinstance(value, int) or not 0 <= value <= _MOST_INT:
            raise UsageError(f"{rule.label}: {name} is not a number from 0 to {_MOST_INT}")


class _Reader:
    """Reads the numbers of a file one after the other."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._line = 1
        self._words = [
            (word, number)
            for number, line in enumerate(text.split("\n"), start=1)
            for word in line.partition("#")[0].split()
        ]
        self._next = 0

    def rules(self) -> list[AlgorithmRule]:
        found: list[AlgorithmRule] = []
        seen: set[str] = set()
        for _ in range(self._number("number of operations", 1, len(_COLLECTIVES))):
            collective = self._number("id of the operation", 0, _MOST_INT)
            operation = _OPERATIONS.get(collective, "")
            if not operation:
                self._fail(f"rules for the operation with id {collective} are not supported")
            if operation in seen:
                self._fail(f"there are rules for {operation} before this line")
            seen.add(operation)
            found += self._operation(operation)
        if self._next < len(self._words):
            word, self._line = self._words[self._next]
            self._fail(f"'{word[:_MOST_SHOWN]}' is behind the last rule")
        return sorted(found, key=lambda one: (one.operation, one.ranks, one.smallest_bytes))

    def _operation(self, operation: str) -> Iterator[AlgorithmRule]:
        count = self._number("number of group sizes", 1, MOST_RANKS)
        groups: list[tuple[int, int, list[AlgorithmRule]]] = []
        for _ in range(count):
            least = groups[-1][0] + 1 if groups else 0
            ranks = self._number("ranks", least, MOST_RANKS)
            groups.append((ranks, self._line, self._group(operation, ranks)))
        if groups[0][0] > 0 and groups[0][2]:
            self._hold_for_others(groups[0], "fewer")
        for group, following in pairwise(groups):
            if group[2] and following[0] != group[0] + 1:
                self._hold_for_others(group, "more")
        if groups[-1][2] and groups[-1][0] < MOST_RANKS:
            self._hold_for_others(groups[-1], "more")
        for _, _, rules in groups:
            yield from rules

    def _hold_for_others(self, group: tuple[int, int, list[AlgorithmRule]], which: str) -> NoReturn:
        ranks, self._line, _ = group
        neighbour = 0 if which == "fewer" else ranks + 1
        self._fail(
            f"these rules for {ranks} ranks hold for {which} ranks too: "
            f"a line for {neighbour} ranks is missing"
        )

    def _group(self, operation: str, ranks: int) -> list[AlgorithmRule]:
        count = self._number("number of messages", 1, MOST_RANKS)
        starts: list[int] = []
        found: list[AlgorithmRule | None] = []
        for place in range(count):
            least = starts[-1] + 1 if starts else 0
            smallest_bytes = self._number("bytes", least, MOST_BYTES)
            if not place and smallest_bytes:
                self._fail("the first line of a group must be for 0 bytes", "bytes")
            starts.append(smallest_bytes)
            found.append(self._message(operation, ranks, smallest_bytes))
        ends = [*(start - 1 for start in starts[1:]), None]
        return [
            AlgorithmRule(
                operation, ranks, rule.smallest_bytes, end, rule.algorithm, rule.parameters
            )
            for rule, end in zip(found, ends, strict=True)
            if rule is not None
        ]

    def _message(self, operation: str, ranks: int, smallest_bytes: int) -> AlgorithmRule | None:
        names = _names(operation)
        number = self._number("algorithm", 0, len(names) - 1)
        values = [self._number(name, 0, _MOST_INT) for name in PARAMETERS]
        if number == _LIBRARYS_CHOICE:
            return None
        if ranks < 2:
            self._fail(f"there is a rule for {ranks} ranks")
        parameters = tuple((name, it) for name, it in zip(PARAMETERS, values, strict=True) if it)
        return AlgorithmRule(operation, ranks, smallest_bytes, None, names[number], parameters)

    def _number(self, name: str, least: int, most: int) -> int:
        if self._next == len(self._words):
            self._fail("the file ends before this number: it is incomplete", name)
        word, self._line = self._words[self._next]
        self._next += 1
        if self._next == 1 and word.startswith("rule-file-version-"):
            self._fail("only files of version 1, which have no line of a version, are supported")
        if not _NUMBER.fullmatch(word) or not least <= int(word) <= most:
            shown = word[:_MOST_SHOWN]
            self._fail(f"'{shown}' is not a number from {least} to {most}", name)
        return int(word)

    def _fail(self, problem: str, name: str = "") -> NoReturn:
        place = f"line {self._line}, {name}" if name else f"line {self._line}"
        raise UsageError(f"{self._source}: {place}: {problem}")
