"""Going on where another run ended: what its journal has is not measured again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cclmark.errors import EXIT_MISSING, EXIT_OK, EXIT_WRONG
from cclmark.launch.request import Request
from cclmark.plan.outline import outline_of
from cclmark.results.journal import read_journal
from cclmark.results.resume import Remainder, place_of, remainder_of
from cclmark.results.schema import CheckResult, Footer, Header, Predecessor, Result


class InPlan:
    """Results of another run, to be shown in their places of the plan among those measured now."""

    def __init__(self, results: Sequence[Result], number: int) -> None:
        """``number``: how many things the plan has."""
        self._number = number
        self._waiting = deque(sorted(results, key=self._place))

    def before(self, result: Result) -> list[Result]:
        """Those that are to be shown before ``result``."""
        return self.before_place(self._place(result))

    def before_place(self, place: int) -> list[Result]:
        """As ``before``, of the result of that place."""
        shown = []
        while self._waiting and self._place(self._waiting[0]) < place:
            shown.append(self._waiting.popleft())
        return shown

    def rest(self) -> list[Result]:
        """Those that were not shown yet."""
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
        """Reads the journal. Raises UsageError when it is none, or not of what is requested."""
        journal = read_journal(path)
        outline = outline_of(request.items, len(request.devices.indices), len(request.processes))
        remainder = remainder_of(journal, str(path), outline, request.settings, request.items)
        planned = len(request.items)
        return cls(journal.header, journal.footer, path, journal.damaged_lines, remainder, planned)

    def in_plan(self) -> InPlan:
        """Its results that stand, to be shown."""
        return InPlan(self.remainder.carried, self.planned)

    def left_of(self, request: Request) -> Request:
        """The same request without what was measured already."""
        return replace(request, pending=self.remainder.pending)

    @property
    def predecessor(self) -> Predecessor:
        """For the header of the run that goes on."""
        number = len(self.remainder.carried)
        return Predecessor(self.header.run_id, str(self.path.absolute()), number)

    def notices(self) -> list[str]:
        """What the user should know of rows that this run did not measure."""
        carried = len(self.remainder.carried)
        unfit = self.remainder.misplaced + self.damaged_lines
        words = "result" if carried == 1 else "results"
        found = [
            f"{carried} {words} of {self.path}, begun {self.header.started_at}, "
            f"{'is' if carried == 1 else 'are'} kept; {len(self.remainder.pending)} still had to "
            "be measured"
        ]
        if unfit:
            found.append(f"{unfit} line{'s' * (unfit != 1)} of {self.path} cannot be used")
        return found

    def exit_code(self) -> int:
        """Of the results that stand, where there is nothing left to measure."""
        results = self.remainder.carried
        if any(result.status in ("wrong", "failed") for result in results):
            return EXIT_WRONG
        measured = any(isinstance(it, CheckResult) or it.summary is not None for it in results)
        return EXIT_OK if measured else EXIT_MISSING
