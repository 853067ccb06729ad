"""Compares a run with the one that it repeats, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cclmark.analysis.statistics import median
from cclmark.compare.figures import MARGIN, Compared
from cclmark.document.text import counted
from cclmark.plan.cases import Case
from cclmark.plan.transfers import Transfer
from cclmark.printable import plain

_MOST_LINES = 40  # of more cases, only those that differ are shown


def repeat_lines(compared: Sequence[Compared], name: str) -> list[str]:
    """Returns the ratios of times to those in the journal ``name``, and a summary."""
    found = [(one, one.ratio) for one in compared if one.ratio is not None]
    if not found:
        first = f"  nothing that was measured now can be compared with {name}"
        return [first, *_why_not(compared)]
    verdicts = Counter(one.verdict for one, _ in found)
    differing = [(one, ratio) for one, ratio in found if one.differs]
    shown = found if len(found) <= _MOST_LINES else differing[:_MOST_LINES]
    several = len({one.thing.ccl for one, _ in found}) > 1
    labels = [_label(one.thing, several=several) for one, _ in shown]
    width = max(map(len, labels), default=0)
    lines = [f"  time now over time in {name}:"]
    lines += [
        f"    {label:<{width}}  {ratio:7.3f}" + (f"  {one.verdict}" if one.differs else "")
        for label, (one, ratio) in zip(labels, shown, strict=True)
    ]
    text = f"  {len(found)} in both, median ratio {median([ratio for _, ratio in found]):.3f}; "
    text += f"{verdicts['slower']} slower and {verdicts['faster']} faster beyond noise"
    if verdicts["inconclusive"]:
        text += f", {verdicts['inconclusive']} inconclusive at {MARGIN:.0%}"
    reasons = Counter(plain(one.reason) for one, _ in found if not one.judged)
    unknown = [f", {count} not judged: {reason}" for reason, count in reasons.items()]
    return [*lines, text + "".join(unknown)]


def _why_not(compared: Sequence[Compared]) -> list[str]:
    reasons = Counter(plain(one.reason) for one in compared if one.reason)
    only = {
        "not measured after": "only in the old run",
        "not measured before": "only in the new run",
    }
    return [
        f"    {counted(count, 'case')} {only[reason]}"
        if reason in only
        else f"    {counted(count, 'case')}: {reason}"
        for reason, count in reasons.items()
    ]


def _label(thing: Case | Transfer, *, several: bool) -> str:
    """Describes a case. ``several``: include the library."""
    return f"{thing.describe()}, {thing.ccl}" if several else thing.describe()
