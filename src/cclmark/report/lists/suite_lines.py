"""Descriptions of suites before they run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from cclmark.plan.suites import Suite
from cclmark.printable import plain


def describe_suites(suites: Iterable[Suite]) -> str:
    """Returns a line for each suite, and its description."""
    lines = []
    for suite in suites:
        lines.append(f"{suite.name:<8}  {suite.title}")
        lines += [f"{'':8}  {line}" for line in map(plain, suite.description.strip().splitlines())]
    return "\n".join(lines)


def describe_suite(suite: Suite) -> str:
    """Returns every command with its tags, repeats and thresholds."""
    lines = [f"{suite.name}: {suite.title}" if suite.title else suite.name]
    lines += [f"needs {suite.needs}"] if suite.needs else []
    for command in suite.commands:
        notes = [f"tags {', '.join(command.tags)}"] if command.tags else []
        notes += [f"{command.repeats} runs"] if command.repeats > 1 else []
        notes += ["optional"] if command.optional else []
        remark = f"  [{'; '.join(notes)}]" if notes else ""
        lines += ["", (command.name + remark)]
        lines.append(f"  cclmark {shlex.join(command.arguments)}")
        lines += [f"    {one.describe()}" for one in command.thresholds]
        if command.baseline is not None:
            lines.append(f"    baseline {command.baseline}")
    return "\n".join(lines)
