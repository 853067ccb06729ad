"""Pieces: one message of a collective against the same message in several calls.

The pieces are consecutive parts of the buffers, so that their outputs together are the output of
the whole operation. DDP's buckets have the default sizes of torch's DistributedDataParallel: 25 MiB
(``bucket_cap_mb`` in torch/nn/parallel/distributed.py), and 1 MiB for the first one
(``kDefaultFirstBucketBytes`` in torch/csrc/distributed/c10d/reducer.hpp).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.cases import Case, OfCase
from cclmark.work.counts import AtLeastOne
from cclmark.work.items import Item, Value
from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES, OPERATIONS
from cclmark.work.sizes import format_size

PIECES = "pieces"

ONE, SEPARATE, GROUPED, BUCKETS = "one", "separate", "grouped", "buckets"

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Form: TypeAlias = str
else:
    Form = Literal[ONE, SEPARATE, GROUPED, BUCKETS]

#: The operations of a command whose pieces are consecutive parts of every rank's buffers.
DIVISIBLE = tuple(name for name in COLLECTIVES if OPERATIONS[name].divisible)

BUCKET_BYTES = 25 << 20
FIRST_BUCKET_BYTES = 1 << 20
MOST_PIECES = 100_000

# A piece at another address could be slower than any tensor of a program is: torch's allocator
# aligns tensors to 512 bytes (kMinBlockSize in c10/cuda/CUDACachingAllocator.h), and libraries copy
# 16 bytes at a time. Shorter pieces have the largest alignment that leaves none of them empty.
_ALIGNMENTS_BYTES = (512, 16)


class Division(msgspec.Struct, frozen=True):
    """How a message is divided. ``form``: ONE, SEPARATE, GROUPED or BUCKETS.

    SEPARATE and BUCKETS are calls one after another, GROUPED are calls that the library launches
    as one.
    """

    form: Form
    pieces: AtLeastOne

    def describe(self) -> str:
        """The division in words: ``10 grouped calls``."""
        if self.form == ONE:
            return "one call"
        if self.form == BUCKETS:
            return f"{self.pieces} DDP buckets"
        return f"{self.pieces} {'grouped calls' if self.form == GROUPED else 'calls'}"


class PieceCase(msgspec.Struct, OfCase, frozen=True):
    """A case with its divisions, of which the first one is ONE."""

    kind: ClassVar[str] = PIECES

    case: Case
    divisions: tuple[Division, ...]

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """See work.items.Outlined."""
        return self.case, {"pieces": [part.describe() for part in self.divisions]}

    def describe(self) -> str:
        """The case in words, for messages."""
        return f"{self.case.describe()} in pieces"

    def series(self) -> PieceCase:
        """The case without its size and its divisions."""
        return PieceCase(self.case.series(), ())


def piece_counts(case: Case, division: Division) -> list[int]:
    """The number of elements of each piece; empty for ONE, which is the operation itself.

    Pieces of 512 bytes or more begin at multiples of 512 bytes, others of 16 bytes or more at
    multiples of 16; they differ by at most that, and the last one also by the rest. Buckets have
    the limits of DDP, and the last one has the rest.
    """
    if division.form == ONE:
        return []
    width = DTYPE_BYTES[case.dtype]
    if division.form == BUCKETS:
        return list(_buckets(case.count, width))
    steps = (aligned // width for aligned in _ALIGNMENTS_BYTES)
    step = next((one for one in steps if one and case.count >= division.pieces * one), 1)
    ends = [
        case.count * number // division.pieces // step * step
        for number in range(1, division.pieces)
    ]
    ends.append(case.count)
    return [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def divisions_of(case: Case, numbers: Sequence[int]) -> tuple[Division, ...]:
    """One call; calls and grouped calls by number; DDP's buckets if there is more than one.

    DDP communicates its buckets with all_reduce only. Numbers above the number of elements are left
    out.
    """
    divisions = [Division(ONE, 1)]
    for number in numbers:
        if 1 < number <= case.count:
            divisions += [Division(SEPARATE, number), Division(GROUPED, number)]
    buckets = sum(1 for _ in _buckets(case.count, DTYPE_BYTES[case.dtype]))
    if buckets > 1 and case.operation == "all_reduce":
        divisions.append(Division(BUCKETS, buckets))
    return tuple(divisions)


def piece_cases(cases: Sequence[Case], numbers: Sequence[int]) -> list[PieceCase]:
    """The cases with their divisions. Raises UsageError if no case has two divisions."""
    for operation in dict.fromkeys(case.operation for case in cases):
        if operation not in DIVISIBLE:
            raise UsageError(
                f"--pieces: {operation} cannot be divided, because its output in pieces has "
                "another order than in one message, or it has no data; operations in pieces are "
                f"{', '.join(DIVISIBLE)}"
            )
    found = [PieceCase(case, divisions_of(case, numbers)) for case in cases]
    if found and all(len(one.divisions) == 1 for one in found):
        largest = max(case.size_bytes for case in cases)
        raise UsageError(
            f"--pieces: no message of {format_size(largest)} or less has as many elements; give a "
            "number above 1 and a larger -e"
        )
    return found


def parse_pieces(text: str) -> list[int]:
    """Parses ``1,10,100`` to increasing numbers. Raises UsageError."""
    numbers = set()
    for word in (one.strip() for one in text.split(",")):
        if not (word.isascii() and word.isdecimal()) or not (
            len(word) <= len(str(MOST_PIECES)) and 1 <= int(word) <= MOST_PIECES
        ):
            raise UsageError(
                f"{text!r}: write numbers from 1 to {MOST_PIECES}, for example 1,10,100"
            )
        numbers.add(int(word))
    return sorted(numbers)


def _buckets(count: int, width: int) -> Iterator[int]:
    """The elements of each bucket."""
    left, limit = count, FIRST_BUCKET_BYTES // width
    while left:
        yield min(left, limit)
        left -= min(left, limit)
        limit = BUCKET_BYTES // width
