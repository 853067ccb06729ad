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


def _of_room(room: str, flags: str, summary: str, run: str) -> Entry:
    return Entry(f"cclmark.kinds.{room}", flags, summary, f"request.{run}")


def _of_cli(name: str, flags: str, summary: str, run: str = "") -> Entry:
    return Entry(f"cclmark.cli.{name}", flags, summary, run)


_COLLECTIVES = {
    name: _of_room("collective", "collective_command", OPERATIONS[name].summary, "measure")
    for name in COLLECTIVES
}
#: The commands, in the order of the list of commands.
GROUPS = {
    "Measure": {
        **_COLLECTIVES,
        "collectives": _of_room(
            "collective",
            "CollectivesFlags",
            "Measure all collectives in one launch.",
            "measure_several",
        ),
        "p2p": _of_room(
            "p2p",
            "TransferFlags",
            "Measure device pairs; also p2pBandwidthLatencyTest.",
            "measure_transfers",
        ),
        "p2pBandwidthLatencyTest": _of_room(
            "p2p",
            "PcclFlags",
            "The same with the options, defaults and output of PCCL's tool of this name.",
            "measure_transfers",
        ),
        "pairs": _of_room(
            "pairs",
            "PairFlags",
            "Measure collectives of every pair, as heat maps.",
            "measure_pairs",
        ),
        "torch": Entry(
            "cclmark_training.backend",
            "torch_commands",
            "Check and measure a backend of torch.distributed.",
        ),
    },
    "Understand": {
        "explain": _of_room(
            "collective",
            "ExplainFlags",
            "Show why a library chose its algorithm for a size.",
            "explain",
        ),
        "trace": _of_cli(
            "trace", "TraceFlags", "Record one operation on all ranks as a timeline.", "run.trace"
        ),
        "memory": _of_room(
            "memory",
            "MemoryFlags",
            "Show the memory of an operation and its library.",
            "read_memory",
        ),
        "plugin": _of_cli(
            "plugin",
            "PluginFlags",
            "Print the path of the NCCL plug-in, or its logs.",
            "run.print_plugin",
        ),
    },
    "Improve": {
        "experiment": _of_room(
            "experiment",
            "ExperimentFlags",
            "Compare settings of a library with its default.",
            "measure_experiment",
        ),
        "tune": _of_room(
            "tune", "TuneFlags", "Find settings proven faster, and write their files.", "tune"
        ),
        "overlap": _of_room(
            "overlap",
            "OverlapFlags",
            "Measure a collective beside a matrix product.",
            "measure_overlap",
        ),
        "settings": _of_cli(
            "settings",
            "SettingsFlags",
            "List the settings of a library with their values.",
            "run.list_settings",
        ),
    },
    "Programs": {
        "profile": Entry(
            "cclmark_programs.profile",
            "ProfileFlags",
            "Report the NCCL calls of an unmodified program.",
            "request.profile_program",
        ),
        "replay": Entry(
            "cclmark_programs.replay",
            "ReplayFlags",
            "Repeat the communication of a profiled program.",
            "request.measure_replays",
        ),
        "train": Entry(
            "cclmark_training",
            "TrainFlags",
            "Train a model with torch and time its steps.",
            "request.measure_training",
        ),
    },
    "Plan": {
        "need": Entry(
            "cclmark_planning.need",
            "NeedFlags",
            "Compute how much network a training job needs.",
            "request.plan_network",
        ),
        "predict": Entry(
            "cclmark_planning.predict",
            "PredictFlags",
            "Predict times on more nodes from runs on a few.",
            "request.predict_times",
        ),
        "simulate": Entry(
            "cclmark_planning.simulate",
            "SimulateFlags",
            "Simulate collectives on any network, built or not.",
            "request.simulate_collectives",
        ),
    },
    "Operate": {
        "info": _of_cli(
            "info", "InfoFlags", "Show the devices and libraries of this machine.", "run.print_info"
        ),
        "doctor": Entry(
            "cclmark_fleet.doctor",
            "DoctorFlags",
            "Find what costs communication on hosts.",
            "request.examine_hosts",
        ),
        "scan": Entry(
            "cclmark_fleet.scan",
            "ScanFlags",
            "Name the slow node, link, rail or switch.",
            "request.measure_scan",
        ),
        "suite": _of_cli(
            "suite",
            "SuiteFlags",
            "Run an acceptance suite: commands with thresholds.",
            "run.run_suite",
        ),
        "references": _of_cli(
            "references", "references_command", "List published figures and your accepted machines."
        ),
        "completion": _of_cli(
            "completion",
            "CompletionFlags",
            "Print what completes command lines in a shell.",
            "command.print_script",
        ),
    },
    "Records": {
        "report": _of_cli(
            "report", "ReportFlags", "Create one HTML file from journals.", "run.report_journals"
        ),
        "compare": _of_cli(
            "compare",
            "CompareFlags",
            "Compare journals case by case: slower or faster.",
            "run.compare_journals",
        ),
        "rerun": _of_cli(
            "rerun", "RerunFlags", "Run a journal's command again, and compare.", "rerunning.rerun"
        ),
        "import": _of_cli(
            "imports",
            "ImportFlags",
            "Convert the output of other tools into journals.",
            "run.import_files",
        ),
        "export": _of_cli(
            "export",
            "ExportFlags",
            "Write journals in a format for other programs.",
            "run.export_journals",
        ),
        "history": _of_cli(
            "history", "history_commands", "Keep runs in a database, and show changes."
        ),
        "serve": Entry(
            "cclmark_serve", "ServeFlags", "Show the history in a browser.", "run.serve_history"
        ),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
#: Commands without a line in the list: the line of another command names them.
UNLISTED = ("p2pBandwidthLatencyTest",)
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
        ("references", "history", "serve", "plugin", "settings", "info", "completion"),
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
