"""The tuner table in the output of ``cclmark plugin LOG...``."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.explain.calls import RuleCalls, RuleUse
from cclmark.explain.log_calls import LogCalls
from cclmark.plan.sizes import format_size
from cclmark.document.text import counted


def rule_lines(logs: Sequence[LogCalls]) -> list[str]:
    """Returns the state of each tuner table in ``logs``, and how often each rule matched."""
    lines: list[str] = []
    by_text: dict[str, dict[RuleUse, RuleCalls]] = {}
    for one in logs:
        if one.log.table is not None:
            rules = by_text.setdefault(one.log.table.text, {})
            for use, calls in one.rules.items():
                rules.setdefault(use, RuleCalls()).merge(calls)
    for text, rules in by_text.items():
        lines.append(text)
        lines += [f"  {_described(use, calls)}" for use, calls in sorted(rules.items())]
    return lines


def _described(use: RuleUse, calls: RuleCalls) -> str:
    where = format_size(calls.least_bytes)
    if calls.least_bytes != calls.most_bytes:
        where += f" – {format_size(calls.most_bytes)}"
    channels = f" on {counted(use.channels, 'channel')}" if use.channels else ""
    what = f"{use.function} by {use.algorithm} {use.protocol}{channels}"
    missing = "" if use.is_applied else ", not available: the library decided"
    return f"line {use.line}: {what}, {counted(calls.calls, 'call')} of {where}{missing}"
