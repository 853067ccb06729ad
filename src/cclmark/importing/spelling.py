"""Parses other tools' spellings of operations, types and reductions."""

from __future__ import annotations

import re

from cclmark.errors import UsageError
from cclmark.plan.operations import OPERATIONS, parse_dtypes

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
