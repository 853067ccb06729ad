"""The insights of several runs, each printed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cclmark.report.insights.insight_words import MOST_NAMED, Insight, listed
from cclmark.results.imported import told_by_both
from cclmark.results.journal import Journal
from cclmark.results.resume import differing_settings
from cclmark.results.schema import Header

Group = tuple[str, list[Insight]]
# Settings that change the meaning of a time, not only its precision.
_METHOD = ("timing", "barrier", "clock", "across_ranks", "cache", "group", "registration")


def together(
    found: Sequence[tuple[str, Sequence[Insight]]], between: Sequence[Insight] = ()
) -> list[Group]:
    """Groups insights by run; insights that several runs share come first, once, with these runs.

    ``found``: the insights of each run by its name, which is safe to print. ``between``: insights
    from the comparison of the runs.
    """
    runs: dict[Insight, list[str]] = {}
    for name, own in found:
        for one in dict.fromkeys(own):
            runs.setdefault(one, []).append(name)
    shared = [*between] + [
        replace(one, text=f"{_which(names, len(found))}: {one.text}")
        for one, names in runs.items()
        if len(names) > 1
    ]
    groups: list[Group] = [("", shared)] if shared else []
    for name, own in found:
        if alone := [one for one in own if len(runs[one]) == 1]:
            groups.append((name, alone))
    return groups


def of_methods(runs: Sequence[tuple[str, Journal]]) -> list[Insight]:
    """Reports runs that measured the same items with another method than the first run that did.

    The names of ``runs`` must be safe to print.
    """
    firsts: dict[tuple[str, str], tuple[str, Header]] = {}
    unlike: dict[tuple[str, str], list[str]] = {}
    for name, run in runs:
        here = run.header
        own = [firsts.setdefault(thing, (name, here)) for thing in sorted(_things(run))]
        if not own:
            continue
        first, there = own[0]
        names = told_by_both(there, here, _METHOD)
        found = differing_settings(there.settings, here.settings, names)
        if found:
            unlike.setdefault((first, "; ".join(found)), []).append(name)
    return [
        Insight(
            "look",
            f"Measured differently from {first} (there): {listed(names[:MOST_NAMED], len(names))} "
            f"(here). {differences}.",
            "Their times are not of the same thing: measure again with the same options.",
        )
        for (first, differences), names in unlike.items()
    ]


def _things(journal: Journal) -> set[tuple[str, str]]:
    """Returns the measured items that share axes."""
    return {(result.item.work, journal.kind) for result in journal.results}


def _which(names: Sequence[str], of: int) -> str:
    if len(names) == of:
        return "Both runs" if of == 2 else f"All {of} runs"
    return f"{len(names)} of {of} runs ({listed(names[:MOST_NAMED], len(names))})"
