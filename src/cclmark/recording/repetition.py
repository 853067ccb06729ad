"""The run that the current one repeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import click

from cclmark.results.schema import Header, Predecessor


@dataclass
class Repetition:
    """The run that the current one repeats. ``journal`` is the current run's, once it exists."""

    header: Header
    path: Path
    command: list[str]
    notices: list[str] = field(default_factory=list)
    journal: Path | None = None

    @classmethod
    def at_hand(cls) -> Repetition | None:
        """Returns the repetition of the current command, None if it repeats nothing."""
        context = click.get_current_context(silent=True)
        return None if context is None else context.find_object(cls)

    @property
    def predecessor(self) -> Predecessor:
        """The predecessor for the header."""
        return Predecessor(self.header.run_id, str(self.path.absolute()))
