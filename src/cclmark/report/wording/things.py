"""Cases and transfers in words, where many stand below each other."""

from __future__ import annotations

from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.report.wording.text import counted


def group_of(thing: Case | Transfer) -> str:
    """What the rows of a table share: all but size and flows."""
    if not isinstance(thing, Case):
        return f"{thing.measure} {thing.direction} {thing.means}"
    words = [thing.operation, thing.dtype if moves_data(thing.operation) else ""]
    words += [thing.reduction or "", "" if thing.root is None else f"root {thing.root}"]
    words.append(thing.placement if moves_data(thing.operation) else "")
    pair = "" if thing.pair is None else f" between ranks {thing.pair[0]} and {thing.pair[1]}"
    return " ".join(filter(None, words)) + f"{pair} · {thing.ccl}, {counted(thing.ranks, 'rank')}"


def size_of(thing: Case | Transfer) -> str:
    """The size of the message; a barrier has none."""
    if isinstance(thing, Case) and not moves_data(thing.operation):
        return "-"
    return format_size(thing.size_bytes)


def flows_of(thing: Case | Transfer) -> str:
    """Between which devices; empty for a case."""
    if isinstance(thing, Case):
        return ""
    text = ", ".join(f"{start} to {end}" for start, end in thing.flows[:2])
    return text + (f" and {len(thing.flows) - 2} more" if len(thing.flows) > 2 else "")
