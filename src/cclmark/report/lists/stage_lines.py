"""The stages of a run as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.plan.sizes import format_size
from cclmark.document.text import aligned
from cclmark.trace.rank_trace import Stage


def stage_lines(stages: Mapping[int, Sequence[Stage]], what: str, column: str) -> list[str]:
    """The stages in their order, each with the time of the slowest rank or device.

    ``stages``: by its number. ``what``: it in one word. ``column``: the heading of the bytes.
    """
    times: dict[str, dict[int, int]] = {}
    sizes: dict[str, dict[int, int]] = {}
    for number, of_one in stages.items():
        for stage in of_one:
            by_number = times.setdefault(stage.name, {})
            by_number[number] = by_number.get(number, 0) + stage.end_ns - stage.begin_ns
            moved = sizes.setdefault(stage.name, {})
            moved[number] = moved.get(number, 0) + stage.size_bytes
    rows = [("stage", "ms", "slowest", column)]
    for name, by_number in times.items():
        slowest = max(by_number, key=lambda number: by_number[number])
        most = max(sizes[name].values())
        size = format_size(most) if most else ""
        rows.append((name, f"{by_number[slowest] / 1e6:.2f}", f"{what} {slowest}", size))
    return aligned(rows, "<><>")
