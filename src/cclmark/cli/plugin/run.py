"""Prints the path of the plug-in and the contents of its logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cclmark.base.errors import EXIT_MISSING, EXIT_OK, EXIT_WRONG
from cclmark.cli.plugin.command import PluginFlags
from cclmark.document.text import aligned, counted
from cclmark.explain.calls import CallCollector, CommunicatorCalls, LogCalls, RuleCalls, RuleUse
from cclmark.explain.operation import Operation, dtype_of
from cclmark.explain.plugin_log import plugin_path
from cclmark.recording.caller import notice
from cclmark.recording.standard_output import say
from cclmark.work.operations import DTYPE_BYTES
from cclmark.work.sizes import format_size

_HEADS = ("calls", "operation", "type", "count", "size", "kernel", "protocol", "channels")
_SIDES = "><<>><<>"


def call_lines(communicators: Sequence[CommunicatorCalls]) -> list[str]:
    """Returns a table for each communicator: its operations and how often they ran."""
    lines: list[str] = []
    for one in communicators:
        ranks = f"{one.ranks} ranks" if one.ranks else "ranks unknown"
        logged = ", ".join(map(str, sorted(one.by_rank)))
        title = f"communicator {one.communicator:#x}: {ranks}, logs of rank {logged}"
        lines += ["", title] if lines else [title]
        rows = [_cells(operation, number) for operation, number in one.counts()]
        if rows:
            lines += aligned([list(_HEADS), *rows], _SIDES)
    return lines


def _cells(one: Operation, number: int) -> list[str]:
    """``size`` is that of the elements in ``count``, not of all ranks together."""
    dtype = dtype_of(one.datatype)
    width = DTYPE_BYTES.get(dtype)
    name = one.function + (f" (peer {one.peer})" if one.peer >= 0 else "")
    return [
        str(number),
        name,
        dtype,
        str(one.count),
        format_size(one.count * width) if width else "-",
        one.kernel or "-",
        one.protocol or "-",
        str(one.channels or "-"),
    ]


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


def print_plugin(flags: PluginFlags) -> int:
    """Prints the path of the plug-in, or the contents of logs. Raises MissingError, OutputError."""
    if flags.logs:
        return print_logs(flags.logs)
    say(str(plugin_path()))
    return EXIT_OK


def print_logs(paths: Sequence[Path]) -> int:
    """Prints the operations in logs, each file once. Raises UsageError, OutputError."""
    collector = CallCollector()
    once = {path.resolve(): path for path in paths}
    logs = [collector.add(path) for path in once.values()]
    communicators = collector.communicators
    others = dict.fromkeys(other.text for one in logs for other in one.log.other_plugins)
    lines = [*others, *call_lines(communicators), *rule_lines(logs)]
    if lines:
        say("\n".join(lines))
    lacking = [text for one in logs if (text := _lacking(one, len(logs)))]
    differences = _differences(communicators)
    for text in (*lacking, *differences):
        notice(text)
    if differences:
        return EXIT_WRONG
    return EXIT_MISSING if lacking else EXIT_OK


def _lacking(one: LogCalls, logs: int) -> str:
    """What is missing in one of ``logs`` logs, in words; empty if nothing is."""
    if lost := one.log.lost():
        compared = "; ranks are compared up to the first missing event" if logs > 1 else ""
        return f"{one.path}: {lost}{compared}"
    if one.operations:
        return ""
    if one.is_profile:
        return (
            f"{one.path} counts calls instead of listing them: cclmark profile --read "
            f"{one.path.parent} reads it"
        )
    if one.communicators:
        reason = (
            "although a communicator was created: the program called no collective, or the "
            "library does not report its operations"
        )
    elif one.log.interface_version:
        reason = "no communicator was created"
    else:
        reason = (
            "the library loaded no profiler (NCCL before 2.23, or NCCL_PROFILER_PLUGIN not set)"
        )
    return f"{one.path}: no operation was recorded: {reason}"


def _differences(communicators: Sequence[CommunicatorCalls]) -> list[str]:
    found = []
    for one in communicators:
        texts = one.differences()
        if one.absent_ranks and len(one.by_rank) > 1:  # the log of one rank may be read alone
            texts.insert(0, f"{one.absent_ranks} of {one.ranks} ranks have no log")
        found += [f"communicator {one.communicator:#x}: {text}" for text in texts]
    return found
