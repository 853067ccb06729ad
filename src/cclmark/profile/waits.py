"""How long ranks wait for the rank that arrives last, from the durations of their kernels.

The kernels of an operation in which every rank needs data of all others end together. The rank that
arrives last has the shortest kernel, and each other rank's kernel is longer by the time that it
waited. Durations are compared instead of begins, because the clocks of devices differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.profile.observed import SYNCHRONIZING, ObservedProcess

_LEAST_WAIT_NS = 5_000  # a smaller difference between kernels is no sign of waiting


@dataclass
class Wait:
    """What one process waited in the calls of one operation."""

    total_ns: int = 0
    compared: int = 0
    last: int = 0


def waits_of(processes: Sequence[ObservedProcess]) -> list[dict[int, Wait]]:
    """Returns what each process waited, by the place of the operation in the process.

    Calls are compared if at least two processes report their times.
    """
    durations: dict[tuple[str, str, int], list[tuple[int, int, int]]] = {}
    for number, process in enumerate(processes):
        for call in process.calls:
            operation = process.operations[call.operation]
            if not call.is_timed or operation.operation not in SYNCHRONIZING:
                continue
            key = (operation.group, operation.operation, call.sequence)
            durations.setdefault(key, []).append(
                (call.end_ns - call.begin_ns, number, call.operation)
            )
    found: list[dict[int, Wait]] = [{} for _ in processes]
    for parts in durations.values():
        if len(parts) < 2:
            continue
        shortest_ns, last, _ = min(parts)
        is_clear = max(parts)[0] - shortest_ns >= _LEAST_WAIT_NS
        for time_ns, number, place in parts:
            wait = found[number].setdefault(place, Wait())
            wait.compared += 1
            if time_ns - shortest_ns >= _LEAST_WAIT_NS:
                wait.total_ns += time_ns - shortest_ns
            wait.last += is_clear and number == last
    return found
