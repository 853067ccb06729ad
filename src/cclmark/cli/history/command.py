"""``cclmark history``: the options of its commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.click_command import command, imported
from cclmark.options.command import (
    JOURNALS,
    METHOD,
    OUTPUT,
    SELECTION,
    CommandGroup,
    argument,
    changed,
    flag,
    option,
)
from cclmark.options.groups import FormatOptions, HistoryOptions, OutputFileOptions
from cclmark.options.types import Percent, WholeNumber

_EXAMPLES = [
    ("cclmark history add cclmark-runs/*.jsonl --label nightly", "Keep runs."),
    ("cclmark history list --operation all_reduce -n 5", "The newest runs of an operation."),
    (
        "cclmark history trend --machine node7 --fail-if-slower 5%",
        "The changes on a machine; exit with 1 if a case became slower.",
    ),
]


@dataclass
class NameOptions:
    """The names that select runs."""

    title: ClassVar[str] = SELECTION

    machine: str = option(
        "--machine", default="", metavar="NAME", help="Hosts with this in the name."
    )
    device: str = option(
        "--device", default="", metavar="NAME", help="Devices with this in the name."
    )
    operation: str = option(
        "--operation", default="", metavar="NAME", help="all_reduce, …, or p2p."
    )
    ccl: str = option("--ccl", default="", metavar="NAME", help="nccl, torch:nccl, …")
    label: str = option("--label", default="", metavar="LABEL", help="Runs with this label.")


@dataclass
class FilterOptions(NameOptions):
    """What selects runs."""

    since: str = option(
        "--since",
        title=SELECTION,
        default="",
        metavar="TIME",
        help="2026-11-01 or 2026-11-01T08:30 (UTC).",
    )
    until: str = option(
        "--until", title=SELECTION, default="", metavar="TIME", help="The last day or time."
    )


@dataclass
class PrintOptions:
    """How runs are printed."""

    format: str = changed(
        FormatOptions,
        "format",
        type=click.Choice(["table", "json", "csv"]),
        help="Output format [table].",
    )
    output: Path | None = changed(OutputFileOptions, "output", add=("-o",))


@dataclass
class AddRunsFlags(HistoryOptions):
    """The options of ``cclmark history add``."""

    journals: tuple[Path, ...] = argument(
        "JOURNAL...", nargs=-1, required=True, type=click.Path(path_type=Path)
    )
    labels: list[str] = option(
        "--label",
        title=OUTPUT,
        multiple=True,
        metavar="LABEL",
        help="A label for the runs; may be repeated.",
    )
    replace: bool = flag(
        "--replace",
        title=OUTPUT,
        help="Replace the journal of a run that is already in the history.",
    )


@dataclass
class ListRunsFlags(FilterOptions, HistoryOptions, PrintOptions):
    """The options of ``cclmark history list``."""

    limit: int = option(
        "-n",
        "--limit",
        title=SELECTION,
        type=WholeNumber(0, 10**9),
        default=20,
        help="Maximum number of runs, 0: all [20].",
    )


@dataclass
class ShowRunFlags(HistoryOptions, PrintOptions):
    """The options of ``cclmark history show``."""

    run: str = argument("RUN", required=True)
    format: str = changed(FormatOptions, "format", help="Output format [table].")


@dataclass
class TrendFlags(FilterOptions, HistoryOptions, PrintOptions):
    """The options of ``cclmark history trend``."""

    threshold: float | None = option(
        "--threshold",
        title=METHOD,
        type=Percent(),
        help="Report changes of at least this percentage [2%; not above --fail-if-slower].",
    )
    fail_if_slower: float | None = option(
        "--fail-if-slower",
        title=METHOD,
        type=Percent(),
        help="Exit with 1 if the last change of a case made it slower by this percentage, for "
        "example 5%.",
    )
    everything: bool = flag("--all", title=OUTPUT, help="Show series without a change, too.")
    format: str = changed(
        FormatOptions,
        "format",
        type=click.Choice(["table", "json", "markdown"]),
        help="Output format [table].",
    )


@dataclass
class ExportRunFlags(HistoryOptions):
    """The options of ``cclmark history export``."""

    run: str = argument("RUN", required=True)
    output: Path | None = changed(OutputFileOptions, "output", add=("-o",))


@dataclass
class PruneFlags(NameOptions, HistoryOptions):
    """The options of ``cclmark history prune``."""

    title: ClassVar[str] = SELECTION

    before: str = option(
        "--before", default="", metavar="TIME", help="Runs that began before this time."
    )
    keep: int | None = option("--keep", type=WholeNumber(0, 10**9), help="All but the newest N.")
    named: list[str] = option(
        "--run", multiple=True, metavar="RUN", help="This run; may be repeated."
    )
    yes: bool = flag("--yes", title=OUTPUT, help="Do not ask for confirmation.")


_RUN = "RUN is its id or the first characters of it."
_COMMANDS = {
    "add": (
        "Add journals. A run that is already in the history is not changed.\n\n" + JOURNALS,
        AddRunsFlags,
    ),
    "list": ("List runs, the newest first.", ListRunsFlags),
    "show": (f"Print the entry and the results of a run. {_RUN}", ShowRunFlags),
    "trend": (
        "Show the results of each case over the runs of a machine, and the changes.",
        TrendFlags,
    ),
    "export": (
        f"Write the journal of a run as it was added, byte by byte. {_RUN}",
        ExportRunFlags,
    ),
    "prune": (
        "Remove runs permanently: before a time, all but the newest, or by id. Filters restrict "
        "the selection.",
        PruneFlags,
    ),
}


def history_commands(name: str, summary: str) -> click.Group:
    """Returns the group with its commands."""
    group = CommandGroup(
        name,
        help=f"{summary}\n\nThe database is an SQLite file, or a PostgreSQL server by its URL: "
        "--db, else CCLMARK_HISTORY, else cclmark/history.sqlite in the XDG data directory.",
        examples=_EXAMPLES,
    )
    for own_name, (text, flags_type) in _COMMANDS.items():
        run = imported(f"cclmark.cli.history.run.{own_name}_runs")
        group.add_command(command(own_name, text, flags_type, run))
    return group
