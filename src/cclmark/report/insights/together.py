"""What several runs have to say, once: safe to print, see report.text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cclmark.report.insights.words import MOST_NAMED, Insight, listed

Group = tuple[str, list[Insight]]


def together(found: Sequence[tuple[str, Sequence[Insight]]]) -> list[Group]:
    """By run, what several of them say alike in front: once, with the runs it is about.

    ``found`` has the insights of each run by its name, which is safe to print.
    """
    runs: dict[Insight, list[str]] = {}
    for name, own in found:
        for one in dict.fromkeys(own):
            runs.setdefault(one, []).append(name)
    shared = [
        replace(one, text=f"{_which(names, len(found))}: {one.text}")
        for one, names in runs.items()
        if len(names) > 1
    ]
    groups: list[Group] = [("", shared)] if shared else []
    for name, own in found:
        if alone := [one for one in own if len(runs[one]) == 1]:
            groups.append((name, alone))
    return groups


def _which(names: Sequence[str], of: int) -> str:
    if len(names) == of:
        return "Both runs" if of == 2 else f"All {of} runs"
    return f"{len(names)} of {of} runs ({listed(names[:MOST_NAMED], len(names))})"
