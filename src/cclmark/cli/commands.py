"""The table of all commands: a new command needs a package, or its room, and one line here.

A command's module is imported only when the command is called or its help is printed: the imports
and the options of all commands would take most of the time of ``cclmark --help``.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click

from cclmark.work.operations import COLLECTIVES, OPERATIONS


class Entry(NamedTuple):
    """A command.

    ``package``: its package. ``function``: the function of the package's module
    ``command`` that returns the click command, from its name and ``summary``, the first sentence of
    its help. ``run``: the function that does the work, with its module in the package; empty where
    the click command calls it itself.
    """

    package: str
    function: str
    summary: str
    run: str = ""


# In the order of the list of commands.
COMMANDS = {
    **{
        name: Entry(
            "cclmark.kinds.collective",
            "collective_command",
            OPERATIONS[name].summary,
            run="request.measure",
        )
        for name in COLLECTIVES
    },
    "collectives": Entry(
        "cclmark.kinds.collective",
        "collectives_command",
        "All collectives in one launch.",
        run="request.measure",
    ),
    "explain": Entry(
        "cclmark.kinds.collective",
        "explain_command",
        "Measure an operation and show why its algorithm was chosen: the library's predictions.",
        run="request.measure",
    ),
    "trace": Entry(
        "cclmark.cli.trace",
        "trace_command",
        "Record one operation on all ranks as a timeline for Perfetto, with a summary.",
        run="run.run_trace",
    ),
    "memory": Entry(
        "cclmark.kinds.memory",
        "memory_command",
        "List the buffers of an operation, and the memory that the library takes in each stage.",
        run="request.read_memory",
    ),
    "experiment": Entry(
        "cclmark.kinds.experiment",
        "experiment_command",
        "Compare settings of a library with its default, round by round: speed-ups with intervals.",
        run="request.measure_experiment",
    ),
    "tune": Entry(
        "cclmark.kinds.tune",
        "tune_command",
        "Search settings of a library that beat its default, prove them, and write their files.",
        run="request.tune",
    ),
    "overlap": Entry(
        "cclmark.kinds.overlap",
        "overlap_command",
        "Measure a collective and a matrix product alone and at once: the slow-down of each.",
        run="request.measure_overlap",
    ),
    "train": Entry(
        "cclmark_training",
        "train_command",
        "Train a model with torch: tokens/s, MFU, compute, exposed and hidden communication, loss.",
        run="request.measure_training",
    ),
    "profile": Entry(
        "cclmark.kinds.profile",
        "profile_command",
        "Run a program that uses NCCL, unmodified, and report its operations: calls, sizes, "
        "groups, times, algorithms, and ranks that wait for others.",
        run="request.profile_program",
    ),
    "replay": Entry(
        "cclmark.kinds.replay",
        "replay_command",
        "Repeat the communication of a step of a profiled program, verified, with any library or "
        "setting.",
        run="request.measure_replays",
    ),
    "p2p": Entry(
        "cclmark.kinds.p2p",
        "p2p_command",
        "Bandwidth and latency between every pair of devices.",
        run="request.measure_transfers",
    ),
    "p2pBandwidthLatencyTest": Entry(
        "cclmark.kinds.p2p",
        "pccl_command",
        "The same with the options, defaults and output of PCCL's tool of this name.",
        run="request.measure_transfers",
    ),
    "pairs": Entry(
        "cclmark.kinds.pairs",
        "pairs_command",
        "Collectives of every pair of devices, as heat maps.",
        run="request.measure_pairs",
    ),
    "torch": Entry(
        "cclmark.cli.torch",
        "torch_commands",
        "Check and measure a backend of torch.distributed as a training program uses it.",
    ),
    "run": Entry(
        "cclmark.cli.suite",
        "suite_command",
        "Run an acceptance suite: commands with thresholds for their figures.",
        run="run.run_suite",
    ),
    "rerun": Entry(
        "cclmark.cli.rerun",
        "rerun_command",
        "Run a journal's command again, report the differences, and compare.",
        run="rerunning.rerun",
    ),
    "report": Entry(
        "cclmark.cli.report",
        "report_command",
        "Create one HTML file from journals: findings, charts, matrices, all cases.",
        run="run.report_journals",
    ),
    "compare": Entry(
        "cclmark.cli.compare",
        "compare_command",
        "Compare journals case by case: slower, faster, no difference or inconclusive.",
        run="run.compare_journals",
    ),
    "references": Entry(
        "cclmark.cli.references",
        "references_command",
        "List the sources of references: published figures and your own accepted machines.",
    ),
    "import": Entry(
        "cclmark.cli.imports",
        "import_command",
        "Convert the output of other tools into journals, which can be compared, exported and "
        "kept like any journal.",
        run="run.import_files",
    ),
    "export": Entry(
        "cclmark.cli.export",
        "export_command",
        "Write journals in a format for other programs.",
        run="run.export_journals",
    ),
    "history": Entry(
        "cclmark.cli.history",
        "history_commands",
        "Keep runs in a database: list them, print them again, show changes.",
    ),
    "serve": Entry(
        "cclmark_serve",
        "serve_command",
        "Show the history in a browser: runs, reports, overlays, comparisons, trends.",
        run="run.serve_history",
    ),
    "plugin": Entry(
        "cclmark.cli.plugin",
        "plugin_command",
        "Print the path of the NCCL plug-in, or what its logs contain.",
        run="run.print_plugin",
    ),
    "settings": Entry(
        "cclmark.cli.settings",
        "settings_command",
        "The settings of a library: values in effect, origin, when they take effect, costs.",
        run="run.list_settings",
    ),
    "info": Entry(
        "cclmark.cli.info",
        "info_command",
        "The devices and libraries of this machine, and the reasons why others are missing.",
        run="run.print_info",
    ),
}


def load_command(name: str) -> click.Command:
    """Returns the command ``name``. Raises KeyError for an unknown name."""
    from cclmark.options.command import imported  # which the list of commands does not need

    entry = COMMANDS[name]
    create = getattr(import_module(f"{entry.package}.command"), entry.function)
    runner = (imported(f"{entry.package}.{entry.run}"),) if entry.run else ()
    command: click.Command = create(name, entry.summary, *runner)
    return command
