"""Resumes a run: results in its journal are not measured again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from cclmark.base.errors import EXIT_MISSING, EXIT_OK, EXIT_WRONG, UsageError
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import JournalReader
from cclmark.journal.resume import Remainder, place_of, remainder_of
from cclmark.journal.schema import Footer, Header, Predecessor
from cclmark.launch.request import Request


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


class InPlan:
    """Results of another run, shown in plan order among those measured now."""

    def __init__(self, results: Sequence[Result], number: int) -> None:
        """``number``: the number of items in the plan."""
        self._number = number
        self._waiting = deque(sorted(results, key=self._place))

    def before(self, result: Result) -> list[Result]:
        """Returns the results to show before ``result``."""
        return self.before_place(self._place(result))

    def before_place(self, place: int) -> list[Result]:
        """As ``before``, for the result at ``place``."""
        shown = []
        while self._waiting and self._place(self._waiting[0]) < place:
            shown.append(self._waiting.popleft())
        return shown

    def rest(self) -> list[Result]:
        """Returns the results that were not shown yet."""
        shown = [*self._waiting]
        self._waiting.clear()
        return shown

    def _place(self, result: Result) -> int:
        return place_of(result, self._number)


@dataclass(frozen=True)
class Resumed:
    """The run that another one completes."""

    header: Header
    footer: Footer | None
    path: Path
    damaged_lines: int
    remainder: Remainder
    planned: int

    @classmethod
    def read(cls, path: Path, request: Request) -> Resumed:
        """Reads the journal. Raises UsageError if it is not a journal of this request."""
        journal = JournalReader([request.kind.result]).read(path, as_written=True)
        if journal.header.plan is None and journal.damaged_lines and not journal.results:
            raise UsageError(f"{path} has no result of {request.kind.listed_as}: nothing to resume")
        settings, items = request.settings, request.items
        remainder = remainder_of(journal, str(path), request.outline, settings, items)
        unread = journal.unread_lines
        return cls(journal.header, journal.footer, path, unread, remainder, len(items))

    def in_plan(self) -> InPlan:
        """The carried results, to be shown."""
        return InPlan(self.remainder.carried, self.planned)

    @property
    def predecessor(self) -> Predecessor:
        """The predecessor for the header of the resuming run."""
        number = len(self.remainder.carried)
        return Predecessor(self.header.run_id, str(self.path.absolute()), number)

    def notices(self) -> list[str]:
        """Returns notices about rows that this run did not measure."""
        carried = len(self.remainder.carried)
        unfit = self.remainder.misplaced + self.damaged_lines
        words = "result" if carried == 1 else "results"
        found = [
            f"{carried} {words} of {self.path}, begun {self.header.started_at}, "
            f"{'is' if carried == 1 else 'are'} kept; {len(self.remainder.pending)} remain to be "
            "measured"
        ]
        if unfit:
            found.append(f"{unfit} line{'s' * (unfit != 1)} of {self.path} cannot be used")
        return found

    def exit_code(self) -> int:
        """Returns the exit code of the carried results, if nothing is left to measure."""
        results = self.remainder.carried
        if any(result.status in ("wrong", "failed") for result in results):
            return EXIT_WRONG
        measured = any(result.is_measured for result in results)
        return EXIT_OK if measured else EXIT_MISSING
