"""Object calls: calls of torch.distributed that move Python objects, and the same data as tensors.

The sizes refer to pickled objects. Both functions depend on nothing but the size and the numbers
of a rank, so that the objects of every other rank are known on every rank.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.counts import AtLeastOne, Count
from cclmark.work.items import OfBackend, names_selected
from cclmark.work.sizes import format_size

OBJECTS = "objects"

BYTES, NUMBERS, FLAG = "bytes", "numbers", "flag"

#: The contents of objects that users choose: one bytes object, or a list of floats.
CONTENTS = (BYTES, NUMBERS)


@dataclass(frozen=True)
class ObjectCallInfo:
    """A call with objects. ``tensor_call``: the call that moves the same data as a tensor.

    ``summary``: the data in words. ``has_size``: False for a flag, which has one size.
    """

    tensor_call: str
    summary: str
    has_size: bool = True


FLAG_CALL = "flag"
OBJECT_CALLS: dict[str, ObjectCallInfo] = {
    FLAG_CALL: ObjectCallInfo(
        "all_reduce", "all_gather_object of a bool, all_reduce of an int32", has_size=False
    ),
    "all_gather_object": ObjectCallInfo(
        "all_gather_into_tensor", "every rank gets every rank's object"
    ),
    "broadcast_object_list": ObjectCallInfo("broadcast", "every rank gets the object of rank 0"),
    "scatter_object_list": ObjectCallInfo("scatter", "every rank gets its object of rank 0"),
    "gather_object": ObjectCallInfo("gather", "rank 0 gets every rank's object"),
    "send_object_list": ObjectCallInfo(
        "send", "rank 0 sends to rank 1, rank 2 to rank 3, and so on"
    ),
}

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Operation: TypeAlias = str
    Content: TypeAlias = str
else:
    Operation = Literal[tuple(OBJECT_CALLS)]
    Content = Literal[BYTES, NUMBERS, FLAG]

_SPREAD = 1_000_003  # of seeds of ranks
_FLOAT_BYTES = 9  # of a float in a pickle
_PROBED_BYTES = 1 << 17  # the length of a pickle beyond its bytes is the same for longer ones


class ObjectCall(msgspec.Struct, OfBackend, frozen=True):
    """One call with objects by one backend. ``operation``: a key of OBJECT_CALLS.

    ``size_bytes``: of each pickled object. ``content``: a key of CONTENTS, or FLAG.
    """

    kind: ClassVar[str] = OBJECTS

    operation: Operation
    backend: str
    ranks: AtLeastOne
    size_bytes: Count
    content: Content

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""
        return self.operation

    @property
    def tensor_call(self) -> str:
        """The call that moves the same data as a tensor; empty for an unknown operation."""
        row = OBJECT_CALLS.get(self.operation)
        return "" if row is None else row.tensor_call

    def series(self) -> ObjectCall:
        """The call without its size."""
        return msgspec.structs.replace(self, size_bytes=0)

    def describe(self) -> str:
        """The call in words, for messages."""
        size = "" if self.operation == FLAG_CALL else f" {format_size(self.size_bytes)}"
        return f"{self.operation}{size} with {self.backend}"


def object_of(call: ObjectCall, rank: int, seed: int, part: int = 0) -> object:
    """The object that ``rank`` sends, ``call.size_bytes`` pickled. ``part``: of several."""
    if call.content == FLAG:
        return (rank + seed) % 2 == 0
    source = random.Random((seed * _SPREAD + rank) * _SPREAD + part)
    if call.content == BYTES:
        return source.randbytes(_content_bytes(call.size_bytes))
    return [source.random() for _ in range(_floats(call.size_bytes))]


def calls_of(
    operations: Sequence[str], backend: str, ranks: int, sizes: Sequence[int], content: str
) -> list[ObjectCall]:
    """All calls, by operation, then by size.

    The size of each is the largest possible one up to the requested size; sizes that yield the same
    object yield one call, and sizes too small for an object none. Raises UsageError if all are.
    """
    possible = dict.fromkeys(filter(None, (_possible(size, content) for size in sizes)))
    if not possible and any(OBJECT_CALLS[operation].has_size for operation in operations):
        least = next(size for size in range(1, 1 << 10) if _possible(size, content))
        raise UsageError(
            f"-e {sizes[-1]}: the smallest object ({content}) has {least} bytes when pickled"
        )
    calls = []
    for operation in operations:
        if OBJECT_CALLS[operation].has_size:
            calls += [ObjectCall(operation, backend, ranks, size, content) for size in possible]
        else:
            calls.append(ObjectCall(operation, backend, ranks, len(pickle.dumps(True)), FLAG))
    return calls


def chosen_calls(only: str) -> list[str]:
    """The operations that names, or parts of them, select. Raises UsageError."""
    return names_selected(only, OBJECT_CALLS, "call")


def _possible(requested: int, content: str) -> int:
    """The size of the largest pickled object up to ``requested`` bytes, 0 if there is none."""
    if content == BYTES:
        length = _content_bytes(requested)
        return 0 if length < 0 else length + _around(length)
    count = _floats(requested)
    return len(pickle.dumps([0.5] * count)) if count else 0


def _content_bytes(size_bytes: int) -> int:
    """The length of the largest bytes object of up to ``size_bytes`` pickled bytes, else -1."""
    length = size_bytes - _around(size_bytes)
    while length >= 0 and length + _around(length) > size_bytes:
        length -= 1
    while length >= -1 and length + 1 + _around(length + 1) <= size_bytes:
        length += 1
    return max(length, -1)


def _around(length: int) -> int:
    """The number of bytes of a pickle around ``length`` bytes."""
    probed = min(max(length, 0), _PROBED_BYTES)
    return len(pickle.dumps(bytes(probed))) - probed


def _floats(size_bytes: int) -> int:
    """The largest number of floats in a list of up to ``size_bytes`` pickled bytes, 0 for none."""
    count = size_bytes // _FLOAT_BYTES
    while count > 0:
        excess = len(pickle.dumps([0.5] * count)) - size_bytes
        if excess <= 0:
            break
        count -= max(1, excess // (_FLOAT_BYTES + 1))
    return max(count, 0)
