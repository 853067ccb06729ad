"""The tuner table in the output of ``cclmark plugin LOG...``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.explain.plugin_log import Event, PluginLog
from cclmark.plan.sizes import format_size
from cclmark.report.wording.text import counted


@dataclass(frozen=True, order=True)
class _Use:
    """A rule, by its line, and whether it was applied."""

    line: int
    is_applied: bool
    function: str
    algorithm: str
    protocol: str
    channels: int


def rule_lines(logs: Sequence[PluginLog]) -> list[str]:
    """Returns the state of each tuner table in ``logs``, and how often each rule matched."""
    lines: list[str] = []
    by_text: dict[str, list[Event]] = {}
    for log in logs:
        if log.table is not None:
            rules = by_text.setdefault(log.table.text, [])
            rules += [one for one in log.events if one.kind == "tuner rule"]
    for text, rules in by_text.items():
        lines.append(text)
        uses = Counter(_use(one) for one in rules)
        lines += [f"  {_described(use, calls, rules)}" for use, calls in sorted(uses.items())]
    return lines


def _use(rule: Event) -> _Use:
    return _Use(
        rule.sequence,
        rule.root == 1,
        rule.function,
        rule.algorithm,
        rule.protocol,
        rule.channels,
    )


def _described(use: _Use, calls: int, rules: Sequence[Event]) -> str:
    sizes = [one.count for one in rules if _use(one) == use]
    where = format_size(min(sizes))
    if min(sizes) != max(sizes):
        where += f" – {format_size(max(sizes))}"
    channels = f" on {counted(use.channels, 'channel')}" if use.channels else ""
    what = f"{use.function} by {use.algorithm} {use.protocol}{channels}"
    missing = "" if use.is_applied else ", not available: the library decided"
    return f"line {use.line}: {what}, {counted(calls, 'call')} of {where}{missing}"
