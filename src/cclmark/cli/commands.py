"""The table of all commands: a new command needs a package, or its room, and one line here.

A command's module is imported only when the command is called or its help is printed: the imports
and the options of all commands would take most of the time of ``cclmark --help``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cclmark.base.errors import UsageError
from cclmark.work.operations import COLLECTIVES, OPERATIONS

if TYPE_CHECKING:
    from cclmark.options.command import GroupedCommand


class Entry(NamedTuple):
    """A command.

    ``package``: its package. ``made_of``: the class of its flags in the package's module
    ``command``; or a function there that returns the click command, from its name, ``summary``, the
    first sentence of its help, and ``run``. ``run``: the function that does the work with the
    flags, with its module in the package; empty where the click command calls it itself.
    """

    package: str
    made_of: str
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
        "CollectivesFlags",
        "All collectives in one launch.",
        run="request.measure_several",
    ),
    "explain": Entry(
        "cclmark.kinds.collective",
        "ExplainFlags",
        "Measure an operation and show why its algorithm was chosen: the library's predictions.",
        run="request.explain",
    ),
    "trace": Entry(
        "cclmark.cli.trace",
        "TraceFlags",
        "Record one operation on all ranks as a timeline for Perfetto, with a summary.",
        run="run.run_trace",
    ),
    "memory": Entry(
        "cclmark.kinds.memory",
        "MemoryFlags",
        "List the buffers of an operation, and the memory that the library takes in each stage.",
        run="request.read_memory",
    ),
    "experiment": Entry(
        "cclmark.kinds.experiment",
        "ExperimentFlags",
        "Compare settings of a library with its default, round by round: speed-ups with intervals.",
        run="request.measure_experiment",
    ),
    "tune": Entry(
        "cclmark.kinds.tune",
        "TuneFlags",
        "Search settings of a library that beat its default, prove them, and write their files.",
        run="request.tune",
    ),
    "overlap": Entry(
        "cclmark.kinds.overlap",
        "OverlapFlags",
        "Measure a collective and a matrix product alone and at once: the slow-down of each.",
        run="request.measure_overlap",
    ),
    "train": Entry(
        "cclmark_training",
        "TrainFlags",
        "Train a model with torch: tokens/s, MFU, compute, exposed and hidden communication, loss.",
        run="request.measure_training",
    ),
    "profile": Entry(
        "cclmark.kinds.profile",
        "ProfileFlags",
        "Run a program that uses NCCL, unmodified, and report its operations: calls, sizes, "
        "groups, times, algorithms, and ranks that wait for others.",
        run="request.profile_program",
    ),
    "replay": Entry(
        "cclmark.kinds.replay",
        "ReplayFlags",
        "Repeat the communication of a step of a profiled program, verified, with any library or "
        "setting.",
        run="request.measure_replays",
    ),
    "p2p": Entry(
        "cclmark.kinds.p2p",
        "TransferFlags",
        "Bandwidth and latency between every pair of devices.",
        run="request.measure_transfers",
    ),
    "p2pBandwidthLatencyTest": Entry(
        "cclmark.kinds.p2p",
        "PcclFlags",
        "The same with the options, defaults and output of PCCL's tool of this name.",
        run="request.measure_transfers",
    ),
    "pairs": Entry(
        "cclmark.kinds.pairs",
        "PairFlags",
        "Collectives of every pair of devices, as heat maps.",
        run="request.measure_pairs",
    ),
    "torch": Entry(
        "cclmark.cli.torch",
        "torch_commands",
        "Check and measure a backend of torch.distributed as a training program uses it.",
    ),
    "suite": Entry(
        "cclmark.cli.suite",
        "SuiteFlags",
        "Run an acceptance suite: commands with thresholds for their figures.",
        run="run.run_suite",
    ),
    "rerun": Entry(
        "cclmark.cli.rerun",
        "RerunFlags",
        "Run a journal's command again, report the differences, and compare.",
        run="rerunning.rerun",
    ),
    "report": Entry(
        "cclmark.cli.report",
        "ReportFlags",
        "Create one HTML file from journals: findings, charts, matrices, all cases.",
        run="run.report_journals",
    ),
    "compare": Entry(
        "cclmark.cli.compare",
        "CompareFlags",
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
        "ImportFlags",
        "Convert the output of other tools into journals, which can be compared, exported and "
        "kept like any journal.",
        run="run.import_files",
    ),
    "export": Entry(
        "cclmark.cli.export",
        "ExportFlags",
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
        "ServeFlags",
        "Show the history in a browser: runs, reports, overlays, comparisons, trends.",
        run="run.serve_history",
    ),
    "plugin": Entry(
        "cclmark.cli.plugin",
        "PluginFlags",
        "Print the path of the NCCL plug-in, or what its logs contain.",
        run="run.print_plugin",
    ),
    "settings": Entry(
        "cclmark.cli.settings",
        "SettingsFlags",
        "The settings of a library: values in effect, origin, when they take effect, costs.",
        run="run.list_settings",
    ),
    "info": Entry(
        "cclmark.cli.info",
        "InfoFlags",
        "The devices and libraries of this machine, and the reasons why others are missing.",
        run="run.print_info",
    ),
}

#: Former names of commands.
FORMER = {"run": "suite"}


def load_command(name: str) -> click.Command:
    """Returns the command ``name``. Raises KeyError for an unknown name."""
    from cclmark.options.click_command import command, imported  # which the list does not need

    entry = COMMANDS[name]
    made_of = getattr(import_module(f"{entry.package}.command"), entry.made_of)
    runner = (imported(f"{entry.package}.{entry.run}"),) if entry.run else ()
    if isinstance(made_of, type):
        return command(name, entry.summary, made_of, *runner)
    made: click.Command = made_of(name, entry.summary, *runner)
    return made


def commands_with(option: str) -> list[str]:
    """The commands that have the option ``--NAME``; of the collectives only the first one."""
    found = [
        path
        for name in COMMANDS
        for path, command in _with_inner(name, load_command(name))
        if any(option in one.opts for one in command.params)
    ]
    collectives = [name for name in found if name in COLLECTIVES]
    return [path for path in found if path not in collectives[1:]]


def _with_inner(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _with_inner(f"{path} {name}", inner)


#: What programs use in place of commands that do not measure.
_IN_PYTHON = {
    **dict.fromkeys(
        ("references", "history", "serve", "plugin", "settings", "info"),
        "it on the command line",
    ),
    "report": "cclmark.open(path).html()",
    "compare": "cclmark.compare(before, after)",
    "export": "cclmark.open(path).text(format), to_arrow() or to_pandas()",
    "import": "it on the command line, and cclmark.open(journal)",
    "suite": "cclmark.measure for each command of the suite",
    "rerun": "cclmark.measure, and cclmark.compare",
}


def measuring_command(
    words: Sequence[str], options: Mapping[str, Any]
) -> tuple[str, GroupedCommand, Sequence[str], Mapping[str, Any]]:
    """The command that the first words name, the other words, its arguments, and its options.

    Operations are one command, also several of them or none, which is all. Raises UsageError for
    words without a command, and for a command that does not measure.
    """
    from cclmark.options.command import GroupedCommand
    from cclmark.work.thresholds import meant

    if len(words) > 1 and words[0] in COLLECTIVES and "only" not in options:
        words, options = ["collectives"], {"only": [*words], **options}
    first, *rest = words or ["collectives"]
    names = first.split() if isinstance(first, str) else []
    if not names or names[0] not in COMMANDS:
        known = [name for name in COMMANDS if name not in _IN_PYTHON]
        raise UsageError(
            f"unknown operation or command {first!r}{meant(str(first), known)} Choose from "
            f"{', '.join(known)}"
        )
    found: Any = load_command(names[0])
    path, rest = names[:1], [*names[1:], *rest]
    while rest and rest[0] in getattr(found, "commands", ()):
        found, path, rest = found.commands[rest[0]], [*path, rest[0]], rest[1:]
    if not (isinstance(found, GroupedCommand) and found.measures):
        text = " ".join(path)
        inner = [f'"{text} {name}"' for name in getattr(found, "commands", ())]
        instead = _IN_PYTHON.get(path[0], " or ".join(inner))
        raise UsageError(f"cclmark {text} measures nothing into a journal: use {instead}")
    return " ".join(path), found, rest, options
