"""Going on where another run ended: what its journal has is not measured again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cclmark.errors import EXIT_MISSING, EXIT_OK, EXIT_WRONG
from cclmark.launch.request import Request
from cclmark.plan.outline import outline_of
from cclmark.results.journal import read_journal
from cclmark.results.resume import Remainder, remainder_of
from cclmark.results.schema import CheckResult, Footer, Header, Predecessor


@dataclass(frozen=True)
class Resumed:
    """The run that another one completes."""

    header: Header
    footer: Footer | None
    path: Path
    damaged_lines: int
    remainder: Remainder

    @classmethod
    def read(cls, path: Path, request: Request) -> Resumed:
        """Reads the journal. Raises UsageError when it is none, or not of what is requested."""
        journal = read_journal(path)
        outline = outline_of(request.things, len(request.devices.indices), len(request.processes))
        remainder = remainder_of(journal, str(path), outline, request.settings, request.things)
        return cls(journal.header, journal.footer, path, journal.damaged_lines, remainder)

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
        found = [
            f"{carried} result{'s' * (carried != 1)} of {self.path}, begun {self.header.started_at}"
            f", come first; {len(self.remainder.pending)} still had to be measured"
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
