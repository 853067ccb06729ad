"""Communication and compute on the timeline of profiled steps: what of one the other hides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: Begin and end.
Span = tuple[float, float]
#: The categories of a trace of torch.profiler that are work of the device.
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
# Kernels of communication libraries. The profiler has no other mark of them.
_COMMUNICATES = re.compile(
    r"nccl|rccl|flagcx|msccl|nvshmem|symm_mem|one_shot|two_shot", re.IGNORECASE
)


def is_communication(category: str, name: str) -> bool:
    """Whether work of the device, a category of ON_DEVICE, is a communication library's.

    A step itself copies nothing between devices: such copies are a library's.
    """
    return bool(_COMMUNICATES.search(name)) or (category == "gpu_memcpy" and "PtoP" in name)


def is_host_compute(category: str, name: str) -> bool:
    """Whether an event is compute where the host is the device: an operator of torch."""
    return category == "cpu_op" and name.startswith("aten::")


def merged(spans: Iterable[Span]) -> list[Span]:
    """The union of spans, in order and disjoint."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def clipped(spans: Iterable[Span], window: Span) -> list[Span]:
    """The parts of spans within a window."""
    begin, end = window
    return [
        (max(one[0], begin), min(one[1], end)) for one in spans if one[0] < end and one[1] > begin
    ]


def length(spans: Sequence[Span]) -> float:
    """The total length of disjoint spans."""
    return sum(end - begin for begin, end in spans)


def outside(spans: Sequence[Span], others: Sequence[Span]) -> float:
    """The length of ``spans`` in which none of ``others`` runs; each sorted and disjoint."""
    covered, place = 0.0, 0
    for begin, end in spans:
        while place < len(others) and others[place][1] <= begin:
            place += 1
        number = place
        while number < len(others) and others[number][0] < end:
            covered += min(end, others[number][1]) - max(begin, others[number][0])
            number += 1
    return length(spans) - covered
