"""Prints the path of the plug-in and the contents of its logs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cclmark.errors import EXIT_MISSING, EXIT_OK, EXIT_WRONG
from cclmark.explain.calls import CommunicatorCalls
from cclmark.explain.log_calls import CallCollector, LogCalls
from cclmark.explain.plugin_log import plugin_path
from cclmark.recording.standard_output import say
from cclmark.report.lists.call_lines import call_lines
from cclmark.report.lists.rule_lines import rule_lines


def print_path() -> int:
    """Prints the path of the plug-in. Raises MissingError, and OutputError as print_logs."""
    say(str(plugin_path()))
    return EXIT_OK


def print_logs(paths: Sequence[Path]) -> int:
    """Prints the operations in logs and returns the exit code. Raises UsageError, OutputError.

    A file that is given twice counts once.
    """
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
        print(f"cclmark: {text}", file=sys.stderr)
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
