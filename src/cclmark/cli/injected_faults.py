"""The faults that a command injects: whether they can be observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.errors import UsageError
from cclmark.plan.cases import Case
from cclmark.plan.inject import Injection
from cclmark.results.schema import Settings


def check_faults(
    faults: Mapping[str, Injection], settings: Settings, cases: Sequence[Case]
) -> None:
    """Raises UsageError for a fault that cannot be observed. ``faults``: by the typed text."""
    for text, fault in faults.items():
        rank = fault.rank if fault.pair is None else sorted(fault.pair).index(fault.pair[1])
        most = max(case.output_elements(rank) for case in cases)
        if fault.kind == "corrupt" and fault.value >= most:
            whose = f"rank {rank}" if fault.pair is None else f"device {fault.pair[1]}"
            largest = f"has {most} elements" if most else "is empty"
            raise UsageError(f"{text!r}: {whose}'s largest output {largest}")
        if fault.kind == "hang" and fault.value >= len(cases):
            raise UsageError(f"{text!r}: this run has cases 0 to {len(cases) - 1}")
        if fault.kind == "corrupt" and not settings.check:
            raise UsageError(
                f"{text!r}: with -c 0 no output is checked, so the fault would not be detected"
            )
