"""Prints the path of the plug-in and the contents of its logs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cclmark.errors import EXIT_MISSING, EXIT_OK, EXIT_WRONG
from cclmark.explain.calls import CommunicatorCalls, calls_by_communicator
from cclmark.explain.plugin_log import PluginLog, plugin_path, read_plugin_log
from cclmark.report.lists.call_lines import call_lines
from cclmark.report.lists.rule_lines import rule_lines


def print_path() -> int:
    """Prints the path of the plug-in and returns the exit code. Raises MissingError."""
    print(plugin_path())
    return EXIT_OK


def print_logs(paths: Sequence[Path]) -> int:
    """Prints the operations in logs and returns the exit code. Raises UsageError."""
    logs = [read_plugin_log(path) for path in paths]
    communicators = calls_by_communicator(logs)
    for text in dict.fromkeys(one.text for log in logs for one in log.other_plugins):
        print(text)
    print("\n".join(call_lines(communicators)), end="\n" if communicators else "")
    for line in rule_lines(logs):
        print(line)
    lacking = [text for path, log in zip(paths, logs, strict=True) for text in _lacking(path, log)]
    differences = _differences(communicators)
    for text in (*lacking, *differences):
        print(f"cclmark: {text}", file=sys.stderr)
    if differences:
        return EXIT_WRONG
    return EXIT_MISSING if lacking else EXIT_OK


def _lacking(path: Path, log: PluginLog) -> list[str]:
    """What is missing in a log, in words."""
    found = []
    if log.dropped:
        found.append(
            f"{path}: {log.dropped} of {log.claimed} events did not fit: raise "
            "CCLMARK_PLUGIN_RECORDS, or free disk space"
        )
    if log.incomplete:
        found.append(f"{path}: {log.incomplete} events are incomplete: the log is cut off")
    communicators = calls_by_communicator([log])
    if not communicators:
        reason = (
            "the library loaded no profiler (NCCL before 2.23, or NCCL_PROFILER_PLUGIN not set)"
            if not log.interface_version
            else "no communicator was created"
        )
        found.append(f"{path}: no operation was recorded: {reason}")
    elif not any(any(one.by_rank.values()) for one in communicators):
        found.append(
            f"{path}: no operation was recorded, although a communicator was created: the "
            "program called no collective, or the library does not report its operations"
        )
    return found


def _differences(communicators: Sequence[CommunicatorCalls]) -> list[str]:
    found = []
    for one in communicators:
        texts = one.differences()
        if one.absent_ranks and len(one.by_rank) > 1:  # the log of one rank may be read alone
            texts.insert(0, f"{one.absent_ranks} of {one.ranks} ranks have no log")
        found += [f"communicator {one.communicator:#x}: {text}" for text in texts]
    return found
