"""A line at the bottom of a terminal that shows the case under way."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO

from cclmark.document.text import clock_text
from cclmark.plan.items import Item
from cclmark.recording.status_line import StatusLine
from cclmark.rendezvous.messages import RankStatus

_PATIENCE_S = 0.5  # a shorter pause needs no explanation


class Progress:
    """Shows the line when nothing was printed for a while; shows nothing without a terminal."""

    def __init__(self, cases: Sequence[Item], cycles: int, began_s: float, stream: TextIO) -> None:
        """``cases`` are of one cycle; ``cycles`` is 0 for a run without end."""
        self._cases = cases
        self._planned = len(cases) * cycles
        self._done = 0
        self._began_s = began_s
        self._line = StatusLine(stream)
        # A pager on standard output owns the screen: nothing may be drawn over it.
        self._watched = self._line.is_watched and sys.stdout.isatty()
        self._quiet_since_s = time.monotonic()

    def show(self, rank_status: RankStatus) -> None:
        """Shows the progress of rank 0."""
        if not self._watched or time.monotonic() - self._quiet_since_s < _PATIENCE_S:
            return
        self._line.show(self.describe(rank_status))

    def advance(self) -> None:
        """Counts a completed case."""
        self._done += 1

    def describe(self, rank_status: RankStatus) -> str:
        """Returns the time since the run began, the number of the case, and its phase.

        The most important part comes first: a terminal may be too narrow for the whole line.
        """
        words = [clock_text(time.monotonic() - self._began_s)]
        text = rank_status.phase
        if 0 <= rank_status.case_index < len(self._cases):
            number = self._done + 1
            if self._planned:
                # The last result may arrive before rank 0 reports its next phase.
                words.append(f"case {min(number, self._planned)} of {self._planned}")
            else:
                words.append(f"case {number}")
            text = f"{self._cases[rank_status.case_index].describe()}: {text}"
            if rank_status.batches:
                text += f", batch {rank_status.batches}"
        return "  ".join([*words, text])

    def clear(self) -> None:
        """Removes the line before other output is printed."""
        self._line.clear()
        self._quiet_since_s = time.monotonic()
