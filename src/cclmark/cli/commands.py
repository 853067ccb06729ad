"""The table of all commands: a new command needs its own file and one line here.

A command's module is imported only when the command is called or its help is printed: the imports
and the options of all commands would take most of the time of ``cclmark --help``.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from cclmark.plan.operations import COLLECTIVES, OPERATIONS


class Entry(NamedTuple):
    """One command.

    ``package``: its package below cclmark.cli. ``function``: the function of the package's module
    ``command`` that returns the click command of a name. ``summary``: the first sentence of its
    help, for the list of commands.
    """

    package: str
    function: str
    summary: str


# In the order of the list of commands.
COMMANDS = {
    **{
        name: Entry("collective", "collective_command", OPERATIONS[name].summary)
        for name in COLLECTIVES
    },
    "collectives": Entry("collective", "collectives_command", "All collectives in one launch."),
    "explain": Entry(
        "collective",
        "explain_command",
        "Measure an operation and show why its algorithm was chosen: the library's predictions.",
    ),
    "trace": Entry(
        "trace",
        "trace_command",
        "Record one operation on all ranks as a timeline for Perfetto, with a summary.",
    ),
    "memory": Entry(
        "memory",
        "memory_command",
        "List the buffers of an operation, and the memory that the library takes in each stage.",
    ),
    "experiment": Entry(
        "experiment",
        "experiment_command",
        "Compare settings of a library with its default, round by round: speed-ups with intervals.",
    ),
    "tune": Entry(
        "tune",
        "tune_command",
        "Search settings of a library that beat its default, prove them, and write their files.",
    ),
    "overlap": Entry(
        "overlap",
        "overlap_command",
        "Measure a collective and a matrix product alone and at once: the slow-down of each.",
    ),
    "train": Entry(
        "train",
        "train_command",
        "Train a model with torch: tokens/s, MFU, compute, exposed and hidden communication, loss.",
    ),
    "profile": Entry(
        "profile",
        "profile_command",
        "Run a program that uses NCCL, unmodified, and report its operations: calls, sizes, "
        "groups, times, algorithms, and ranks that wait for others.",
    ),
    "replay": Entry(
        "replay",
        "replay_command",
        "Repeat the communication of a step of a profiled program, verified, with any library or "
        "setting.",
    ),
    "p2p": Entry("p2p", "p2p_command", "Bandwidth and latency between every pair of devices."),
    "p2pBandwidthLatencyTest": Entry(
        "p2p",
        "pccl_command",
        "The same with the options, defaults and output of PCCL's tool of this name.",
    ),
    "pairs": Entry(
        "pairs",
        "pairs_command",
        "Collectives of every pair of devices, as heat maps.",
    ),
    "torch": Entry(
        "torch",
        "torch_commands",
        "Check and measure a backend of torch.distributed as a training program uses it.",
    ),
    "run": Entry(
        "suite",
        "suite_command",
        "Run an acceptance suite: commands with thresholds for their figures.",
    ),
    "rerun": Entry(
        "rerun",
        "rerun_command",
        "Run a journal's command again, report the differences, and compare.",
    ),
    "report": Entry(
        "report",
        "report_command",
        "Create one HTML file from journals: findings, charts, matrices, all cases.",
    ),
    "compare": Entry(
        "compare",
        "compare_command",
        "Compare journals case by case: slower, faster, no difference or inconclusive.",
    ),
    "references": Entry(
        "references",
        "references_command",
        "List the sources of references: published figures and your own accepted machines.",
    ),
    "import": Entry(
        "imports",
        "import_command",
        "Convert the output of other tools into journals, which can be compared, exported and "
        "kept like any journal.",
    ),
    "export": Entry(
        "export",
        "export_command",
        "Write journals in a format for other programs.",
    ),
    "history": Entry(
        "history",
        "history_commands",
        "Keep runs in a database: list them, print them again, show changes.",
    ),
    "serve": Entry(
        "serve",
        "serve_command",
        "Show the history in a browser: runs, reports, overlays, comparisons, trends.",
    ),
    "plugin": Entry(
        "plugin",
        "plugin_command",
        "Print the path of the NCCL plug-in, or what its logs contain.",
    ),
    "settings": Entry(
        "settings",
        "settings_command",
        "The settings of a library: values in effect, origin, when they take effect, costs.",
    ),
    "info": Entry(
        "info",
        "info_command",
        "The devices and libraries of this machine, and the reasons why others are missing.",
    ),
}


def load_command(name: str) -> click.Command:
    """Returns the command ``name``. Raises KeyError for an unknown name."""
    entry = COMMANDS[name]
    module = import_module(f"cclmark.cli.{entry.package}.command")
    command: click.Command = getattr(module, entry.function)(name)
    return command
