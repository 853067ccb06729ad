"""Checks that all ranks hold the same parameters, bit for bit, by checksums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from cclmark import _engine as engine
from cclmark.results.schema import ReplicaCheck, ReplicaDifference

_CHUNK = 1 << 24
_WEIGHTS = 65521  # a prime: swapped elements change the sum
_HALF = 32


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
    named: Iterable[tuple[str, Tensor]], rank_group: engine.RankGroup, ranks: int
) -> ReplicaCheck:
    """Compares the parameters of all ranks. The reference is what most ranks hold."""
    listed = list(named)
    own = [checksum(tensor) for _, tensor in listed]
    words = [float(word) for one in own for word in (one >> _HALF, one & ((1 << _HALF) - 1))]
    gathered = rank_group.gather(words)
    by_rank = [gathered[rank * len(words) : (rank + 1) * len(words)] for rank in range(ranks)]
    elements = sum(tensor.numel() for _, tensor in listed)
    return ReplicaCheck(elements, differences_of([name for name, _ in listed], by_rank))


def differences_of(
    names: Sequence[str], words_by_rank: Sequence[Sequence[float]]
) -> list[ReplicaDifference]:
    """The ranks that differ from the majority, with the number of tensors and the first one."""
    differing: dict[int, list[str]] = {}
    for number, name in enumerate(names):
        held = [tuple(words[2 * number : 2 * number + 2]) for words in words_by_rank]
        usual = Counter(held).most_common(1)[0][0]
        for rank, one in enumerate(held):
            if one != usual:
                differing.setdefault(rank, []).append(name)
    return [
        ReplicaDifference(rank, len(tensors), tensors[0])
        for rank, tensors in sorted(differing.items())
    ]
