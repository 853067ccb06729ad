"""Checks that ranks hold the same parameters, bit for bit, by checksums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from cclmark import _engine as engine
from cclmark.kinds.train.result import ReplicaCheck, ReplicaDifference

_CHUNK = 1 << 24
_WEIGHTS = 65521  # a prime: swapped elements change the sum
_HALF = 32
_ABSENT = (-1.0, -1.0)  # instead of the words of a checksum: the rank has no such parameter


@torch.no_grad()
def checksum(tensor: Tensor) -> int:
    """The sum of all elements' bits times weights by position, modulo 2^64."""
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    flat = tensor.detach().contiguous().view(kind).flatten()
    total = 0
    for begin in range(0, flat.numel(), _CHUNK):
        part = flat[begin : begin + _CHUNK].long()
        places = torch.arange(begin, begin + part.numel(), device=part.device)
        total += int((part * (places % _WEIGHTS + 1)).sum().item())
    return total % (1 << 64)


def compare_replicas(
    named: Iterable[tuple[str, Tensor | None]], rank_group: engine.RankGroup, ranks: int
) -> ReplicaCheck:
    """Compares the parameters of all ranks that hold them (None: this rank does not).

    The reference is what more than half of them hold.
    """
    listed = list(named)
    words = [word for _, tensor in listed for word in _words_of(tensor)]
    gathered = rank_group.gather(words)
    by_rank = [gathered[rank * len(words) : (rank + 1) * len(words)] for rank in range(ranks)]
    elements = sum(tensor.numel() for _, tensor in listed if tensor is not None)
    return ReplicaCheck(elements, differences_of([name for name, _ in listed], by_rank))


def _words_of(tensor: Tensor | None) -> tuple[float, float]:
    if tensor is None:
        return _ABSENT
    one = checksum(tensor)
    return float(one >> _HALF), float(one & ((1 << _HALF) - 1))


def differences_of(
    names: Sequence[str], words_by_rank: Sequence[Sequence[float]]
) -> list[ReplicaDifference]:
    """The ranks that differ from the majority, with the number of tensors and the first one.

    Without a majority it is unknown which rank is wrong: all that hold the tensor are returned.
    """
    differing: dict[int, list[str]] = {}
    for number, name in enumerate(names):
        held = {
            rank: one
            for rank, words in enumerate(words_by_rank)
            if (one := tuple(words[2 * number : 2 * number + 2])) != _ABSENT
        }
        usual, ranks = Counter(held.values()).most_common(1)[0]
        has_majority = 2 * ranks > len(held)
        for rank, one in held.items():
            if one != usual or not has_majority:
                differing.setdefault(rank, []).append(name)
    return [
        ReplicaDifference(rank, len(tensors), tensors[0])
        for rank, tensors in sorted(differing.items())
    ]
