"""The calls of one object call on one rank: with objects, with tensors, and pickling alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from cclmark.kinds.objects.plan import FLAG_CALL, ObjectCall, object_of

RunOnce = Callable[[], None]

_UNTOUCHED = 0xA5  # of output tensors before the checked call
_MOST_SHOWN = 40


class ObjectBinding:
    """One call with objects and the call with the same data as a tensor, on the rank's own data.

    ``with_objects`` and ``with_tensors`` perform one call. ``pickle_own`` pickles what this rank
    sends once, ``unpickle_received`` unpickles as many bytes as this rank receives. Tensors are on
    ``place``, the memory from which the backend sends, and have their final size: they neither
    exchange sizes nor allocate.
    """

    def __init__(
        self, torch: Any, place: Any, call: ObjectCall, rank: int, ranks: int, seed: int
    ) -> None:
        self._torch = torch
        self._dist = torch.distributed
        self._place = place
        self._call = call
        self._rank = rank
        self._ranks = ranks
        self._seed = seed
        self.with_objects: RunOnce
        self.with_tensors: RunOnce
        self._sent: list[object] = []  # objects that this rank pickles in one call
        self._received: list[object] = []
        self._input: Any = None
        self._output: Any = None
        self._wanted: list[object] = []
        getattr(self, f"_{call.operation}")()
        self._pickled = [pickle.dumps(one) for one in self._wanted]

    def pickle_own(self) -> None:
        """Pickles the objects that this rank sends in one call."""
        for one in self._sent:
            pickle.dumps(one)

    def unpickle_received(self) -> None:
        """Unpickles copies of the objects that this rank receives in one call."""
        for one in self._pickled:
            pickle.loads(one)  # pickled by this object itself

    def poison(self) -> None:
        """Overwrites the outputs of both calls."""
        self._received[:] = [None] * len(self._received)
        if self._call.operation == FLAG_CALL:
            self._output.fill_(self._rank)
        elif self._output is not None:
            self._output.fill_(_UNTOUCHED)

    def wrong_object(self, corrupt: int | None) -> tuple[str, bool]:
        """Errors in the received objects, empty if nothing is.

        ``corrupt``: the element of them that is changed before the comparison; the second result
        reports whether there is such an element. Elements are bytes, numbers or the flag itself,
        counted over all objects.
        """
        received, was_corrupted = list(self._received), False
        if corrupt is not None:
            received, was_corrupted = _corrupted(received, corrupt)
        for number, (got, wanted) in enumerate(zip(received, self._wanted, strict=True)):
            if text := _difference(got, wanted):
                return f"object {number} of {len(received)}: {text}", was_corrupted
        return "", was_corrupted

    def wrong_tensor(self, corrupt: int | None) -> tuple[str, bool]:
        """The same for the output of the call with tensors, whose elements are bytes."""
        if self._output is None:
            return "", False
        got = self._output.cpu().reshape(-1).clone()
        wanted = self._wanted_tensor()
        was_corrupted = corrupt is not None and corrupt < got.numel()
        if was_corrupted:
            got[corrupt] ^= 1
        bad = (got != wanted).nonzero()
        if not len(bad):
            return "", was_corrupted
        first = int(bad[0])
        return (
            f"{len(bad)} of {got.numel()} elements wrong, first at index {first}: expected "
            f"{wanted[first].item()}, got {got[first].item()}"
        ), was_corrupted

    def _wanted_tensor(self) -> Any:
        if self._call.operation == FLAG_CALL:
            return self._torch.tensor([self._ranks - 1], dtype=self._torch.int32)
        data = bytearray().join(self._pickled)
        return self._torch.frombuffer(data, dtype=self._torch.uint8)

    def _object(self, rank: int, part: int = 0) -> object:
        return object_of(self._call, rank, self._seed, part)

    def _every_object(self) -> list[object]:
        return [self._object(rank) for rank in range(self._ranks)]

    def _tensor_of(self, value: object) -> Any:
        data = bytearray(pickle.dumps(value))
        return self._torch.frombuffer(data, dtype=self._torch.uint8).to(self._place)

    def _empty(self, objects: int = 1) -> Any:
        size = objects * self._call.size_bytes
        return self._torch.empty(size, dtype=self._torch.uint8, device=self._place)

    def _split(self, whole: Any) -> list[Any]:
        return list(whole.split(self._call.size_bytes))

    def _gathers(self) -> None:
        """The objects of all_gather_object, also for a flag."""
        own = self._object(self._rank)
        self._sent, self._wanted = [own], self._every_object()
        self._received = [None] * self._ranks
        self.with_objects = lambda: self._dist.all_gather_object(self._received, own)

    def _flag(self) -> None:
        self._gathers()
        self._output = self._torch.full((1,), self._rank, dtype=self._torch.int32).to(self._place)
        largest = self._dist.ReduceOp.MAX

        def reduced() -> None:
            self._dist.all_reduce(self._output, largest)
            # A program waits for the flag to decide by it, as all_gather_object does.
            self._output.item()

        self.with_tensors = reduced

    def _all_gather_object(self) -> None:
        self._gathers()
        self._input, self._output = self._tensor_of(self._sent[0]), self._empty(self._ranks)
        self.with_tensors = lambda: self._dist.all_gather_into_tensor(self._output, self._input)

    def _broadcast_object_list(self) -> None:
        value = self._object(0)
        is_root = self._rank == 0
        self._sent = [value] if is_root else []
        self._wanted = [] if is_root else [value]
        self._received = [] if is_root else [None]
        tensor = self._tensor_of(value) if is_root else self._empty()
        self._output = None if is_root else tensor
        objects = self._sent if is_root else self._received
        self.with_objects = lambda: self._dist.broadcast_object_list(objects, 0)
        self.with_tensors = lambda: self._dist.broadcast(tensor, 0)

    def _scatter_object_list(self) -> None:
        parts = [self._object(0, part) for part in range(self._ranks)]
        is_root = self._rank == 0
        self._sent = parts if is_root else []
        self._wanted, self._received = [parts[self._rank]], [None]
        self._output = self._empty()
        tensors = [self._tensor_of(part) for part in parts] if is_root else None
        sent = parts if is_root else None
        self.with_objects = lambda: self._dist.scatter_object_list(self._received, sent, 0)
        self.with_tensors = lambda: self._dist.scatter(self._output, tensors, 0)

    def _gather_object(self) -> None:
        own = self._object(self._rank)
        is_root = self._rank == 0
        self._sent, self._input = [own], self._tensor_of(own)
        if is_root:
            self._wanted, self._received = self._every_object(), [None] * self._ranks
            self._output = self._empty(self._ranks)
        received = self._received if is_root else None
        parts = self._split(self._output) if is_root else None
        self.with_objects = lambda: self._dist.gather_object(own, received, 0)
        self.with_tensors = lambda: self._dist.gather(self._input, parts, 0)

    def _send_object_list(self) -> None:
        peer = self._rank ^ 1
        if peer >= self._ranks:  # the last of an odd number of ranks
            self.with_objects = self.with_tensors = lambda: None
        elif self._rank < peer:
            self._sent = [self._object(self._rank)]
            self._input = self._tensor_of(self._sent[0])
            self.with_objects = lambda: self._dist.send_object_list(self._sent, peer)
            self.with_tensors = lambda: self._dist.send(self._input, peer)
        else:
            self._wanted, self._received = [self._object(peer)], [None]
            self._output = self._empty()
            self.with_objects = lambda: _discard(self._dist.recv_object_list(self._received, peer))
            self.with_tensors = lambda: _discard(self._dist.recv(self._output, peer))


def _discard(value: object) -> None:
    """Nothing: receiving functions return the sender."""


def _corrupted(received: Sequence[object], element: int) -> tuple[list[object], bool]:
    """The objects with one element changed, and whether there is such an element."""
    changed = list(received)
    for number, one in enumerate(received):
        length = len(one) if isinstance(one, bytes | list) else 1
        if element >= length:
            element -= length
            continue
        if isinstance(one, bytes):
            changed[number] = one[:element] + bytes([one[element] ^ 1]) + one[element + 1 :]
        elif isinstance(one, list):
            changed[number] = [*one[:element], -1.0, *one[element + 1 :]]
        else:
            changed[number] = not one
        return changed, True
    return changed, False


def _difference(got: object, wanted: object) -> str:
    """The difference between a received object and the sent one, empty if they are equal."""
    if type(got) is not type(wanted):
        return f"expected {type(wanted).__name__}, got {type(got).__name__}"
    if got == wanted:
        return ""
    if isinstance(got, bytes | list) and isinstance(wanted, bytes | list):
        if len(got) != len(wanted):
            return f"expected {len(wanted)} elements, got {len(got)}"
        place = next(
            i for i, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]
        )
        return f"first wrong element at index {place}: expected {wanted[place]}, got {got[place]}"
    return f"expected {wanted!r:.{_MOST_SHOWN}}, got {got!r:.{_MOST_SHOWN}}"
