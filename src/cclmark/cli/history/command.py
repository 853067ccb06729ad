"""``cclmark history``: the options of its commands."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from cclmark.options.printed_help import SaysHelp
from cclmark.options.types import Percent, WholeNumber

_EXAMPLES = [
    ("cclmark history add cclmark-runs/*.jsonl --label nightly", "Keep runs."),
    ("cclmark history list --operation all_reduce -n 5", "The newest runs of an operation."),
    (
        "cclmark history trend --machine node7 --fail-if-slower 5%",
        "The changes on a machine; exit with 1 if a case became slower.",
    ),
]


class _History(SaysHelp, click.Group):
    """The commands about runs over time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Lists the commands in the order in which they were added, not alphabetically."""
        return list(self.commands)


def history_commands(name: str, summary: str) -> click.Group:
    """Returns the group with its commands."""
    group = _History(
        name,
        help=f"{summary}\n\nThe database is an SQLite file, or a PostgreSQL server by its URL: "
        "--db, else CCLMARK_HISTORY, else cclmark/history.sqlite in the XDG data directory.",
        examples=_EXAMPLES,
    )
    for command in (_add(), _list(), _show(), _trend(), _export(), _prune()):
        group.add_command(command)
    return group


def _command(name: str, help: str, parameters: Sequence[click.Parameter]) -> click.Command:
    """Creates a command that imports the function of its name only when it is called."""

    def call(**options: Any) -> None:
        from cclmark.cli.history import run

        if name != "add":
            # None of a hundred thousand rows becomes garbage before the end; collection takes a
            # tenth of the time.
            gc.disable()
        function: Callable[..., int] = getattr(run, f"{name}_runs")
        sys.exit(function(**options))

    place = click.Option(
        ["--db"],
        envvar="CCLMARK_HISTORY",
        metavar="FILE-OR-URL",
        help="The history: a file, or postgresql://user@host/database.",
    )
    return SaysHelp(name, params=[*parameters, place], callback=call, help=help)


def _filters() -> list[click.Parameter]:
    return [
        click.Option(
            ["--machine"], default="", metavar="NAME", help="Hosts with this in the name."
        ),
        click.Option(
            ["--device"], default="", metavar="NAME", help="Devices with this in the name."
        ),
        click.Option(["--operation"], default="", metavar="NAME", help="all_reduce, …, or p2p."),
        click.Option(["--ccl"], default="", metavar="NAME", help="nccl, torch:nccl, …"),
        click.Option(["--label"], default="", metavar="LABEL", help="Runs with this label."),
        click.Option(
            ["--since"], default="", metavar="TIME", help="2026-11-01 or 2026-11-01T08:30 (UTC)."
        ),
        click.Option(["--until"], default="", metavar="TIME", help="The last day or time."),
    ]


def _format(*names: str) -> click.Option:
    return click.Option(
        ["--format"], type=click.Choice(names), default=names[0], help=f"[{names[0]}]"
    )


def _output() -> click.Option:
    return click.Option(
        ["-o", "-O", "--output"],
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Output file [standard output].",
    )


def _add() -> click.Command:
    return _command(
        "add",
        "Add journals. A run that is already in the history is not changed.",
        [
            click.Argument(["journals"], nargs=-1, required=True, type=click.Path(path_type=Path)),
            click.Option(
                ["--label", "labels"], multiple=True, metavar="LABEL", help="A label for the runs."
            ),
            click.Option(
                ["--replace"],
                is_flag=True,
                help="Replace the journal of a run that is already in the history.",
            ),
        ],
    )


def _list() -> click.Command:
    return _command(
        "list",
        "List runs, the newest first.",
        [
            *_filters(),
            click.Option(
                ["-n", "--limit"],
                type=WholeNumber(0, 10**9),
                default=20,
                metavar="N",
                help="Maximum number of runs, 0: all [20].",
            ),
            _format("table", "json", "csv"),
            _output(),
        ],
    )


def _show() -> click.Command:
    return _command(
        "show",
        "Print the entry and the results of a run. RUN is its id or the first characters of it.",
        [click.Argument(["run"]), _format("table", "json", "csv", "markdown"), _output()],
    )


def _trend() -> click.Command:
    return _command(
        "trend",
        "Show the results of each case over the runs of a machine, and the changes.",
        [
            *_filters(),
            click.Option(
                ["--all", "everything"], is_flag=True, help="Show series without a change, too."
            ),
            click.Option(
                ["--threshold"],
                type=Percent(),
                metavar="PERCENT",
                help="Report changes of at least this percentage [2%; not above --fail-if-slower].",
            ),
            click.Option(
                ["--fail-if-slower"],
                type=Percent(),
                metavar="PERCENT",
                help=(
                    "Exit with 1 if the last change of a case made it slower by this percentage, "
                    "for example 5%."
                ),
            ),
            _format("table", "json", "markdown"),
            _output(),
        ],
    )


def _export() -> click.Command:
    return _command(
        "export",
        "Write the journal of a run as it was added, byte by byte.",
        [click.Argument(["run"]), _output()],
    )


def _prune() -> click.Command:
    return _command(
        "prune",
        "Remove runs permanently: before a time, all but the newest, or by id. Filters restrict "
        "the selection.",
        [
            click.Option(
                ["--before"], default="", metavar="TIME", help="Runs that began before this time."
            ),
            click.Option(
                ["--keep"],
                type=WholeNumber(0, 10**9),
                metavar="N",
                help="All but the newest N.",
            ),
            click.Option(
                ["--run", "named"], multiple=True, metavar="RUN", help="This run; may be repeated."
            ),
            *(option for option in _filters() if option.name not in ("since", "until")),
            click.Option(["--yes"], is_flag=True, help="Do not ask for confirmation."),
        ],
    )
