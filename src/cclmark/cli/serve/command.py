"""``cclmark serve``: serves the history to a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.options.printed_help import SaysHelp
from cclmark.options.types import WholeNumber

_EXAMPLES = [
    ("cclmark serve", "Your history, on port 8321 of this machine."),
    ("cclmark serve --db team.sqlite --host 0.0.0.0 --port 80", "Another one, for all machines."),
]


def serve_command(name: str, summary: str) -> click.Command:
    """Returns the command."""
    return SaysHelp(
        name,
        params=[
            click.Option(
                ["--db"],
                envvar="CCLMARK_HISTORY",
                metavar="FILE-OR-URL",
                help="The history: a file, or postgresql://user@host/database.",
            ),
            click.Option(
                ["--host"],
                default="127.0.0.1",
                metavar="NAME",
                help="Name or address to listen on [127.0.0.1]; 0.0.0.0 for all of this machine.",
            ),
            click.Option(
                ["--port"],
                type=WholeNumber(0, 65535),
                default=8321,
                metavar="N",
                help="Port to listen on, 0 for any that is free [8321].",
            ),
            click.Option(
                ["--token", "token_file"],
                type=click.Path(path_type=Path),
                metavar="TOKEN-FILE",
                help="A file with the access token, readable only by you [CCLMARK_SERVE_TOKEN; a "
                "new token if other machines can connect].",
            ),
            click.Option(["--verbose"], is_flag=True, help="Print each request on standard error."),
        ],
        callback=_serve,
        examples=_EXAMPLES,
        help=f"{summary}\n\nEverything is read-only. Without --host only this machine can connect.",
    )


def _serve(**options: object) -> None:
    from cclmark.cli.serve.run import serve_history

    sys.exit(serve_history(**options))  # type: ignore[arg-type]
