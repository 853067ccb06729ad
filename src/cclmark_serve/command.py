"""``cclmark serve``: serves the history to a browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cclmark.options.command import OUTPUT, SERVER, flag, option
from cclmark.options.groups import HistoryOptions
from cclmark.options.types import PATH, WholeNumber


@dataclass
class ServeFlags(HistoryOptions):
    """The options of ``cclmark serve``."""

    title: ClassVar[str] = SERVER
    examples: ClassVar = [
        ("cclmark serve", "Your history, on port 8321 of this machine."),
        (
            "cclmark serve --db team.sqlite --host 0.0.0.0 --port 80",
            "Another one, for all machines.",
        ),
        ("cclmark serve --port 0", "On any port that is free."),
    ]
    about: ClassVar = (
        "Runs, reports, overlays, comparisons and trends. Everything is read-only. Without --host "
        "only this machine can connect."
    )

    host: str = option(
        "--host",
        default="127.0.0.1",
        metavar="NAME",
        help="Name or address to listen on [127.0.0.1]; 0.0.0.0 for all of this machine.",
    )
    port: int = option(
        "--port",
        type=WholeNumber(0, 65535),
        default=8321,
        help="Port to listen on, 0 for any that is free [8321].",
    )
    token_file: Path | None = option(
        "--token",
        type=PATH,
        metavar="TOKEN-FILE",
        help="A file with the access token, readable only by you [CCLMARK_SERVE_TOKEN; a "
        "new token if other machines can connect].",
    )
    verbose: bool = flag("--verbose", title=OUTPUT, help="Print each request on standard error.")
