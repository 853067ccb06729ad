"""A line at the bottom of a terminal that says what is being measured right now."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from cclmark.plan.cases import Case
from cclmark.plan.transfers import Transfer
from cclmark.rendezvous.board import Status

if TYPE_CHECKING:
    from rich.status import Status as Spinner

_PATIENCE_S = 0.5  # what takes less needs no explanation


class Progress:
    """Shows a spinner when nothing was printed for a while, and nothing where nobody looks."""

    def __init__(self, cases: Sequence[Case | Transfer], stream: TextIO) -> None:
        self._cases = cases
        self._stream = stream
        # A pager on standard output owns the screen: nothing may be drawn over it.
        self._watched = stream.isatty() and sys.stdout.isatty()
        self._quiet_since_s = time.monotonic()
        self._spinner: Spinner | None = None

    def show(self, status: Status) -> None:
        """Shows where rank 0 is."""
        if not self._watched or time.monotonic() - self._quiet_since_s < _PATIENCE_S:
            return
        text = status.phase
        if 0 <= status.case_index < len(self._cases):
            case = self._cases[status.case_index]
            text = f"{case.describe()}: {text}, case {status.case_index + 1} of {len(self._cases)}"
            if status.batches:
                text += f", batch {status.batches}"
        if self._spinner is None:
            from rich.console import Console

            self._spinner = Console(file=self._stream).status(text)
            self._spinner.start()
        self._spinner.update(text)

    def clear(self) -> None:
        """Takes the line away before something else is printed."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
        self._quiet_since_s = time.monotonic()
