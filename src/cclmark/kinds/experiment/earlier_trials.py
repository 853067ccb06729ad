"""The trials of an interrupted adaptive run, which `--resume` does not measure again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cclmark.document.text import counted
from cclmark.errors import UsageError
from cclmark.kinds.experiment.plan import Trial
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.launch.experiment_launch import FAILED_BEFORE
from cclmark.launch.request import Request
from cclmark.plan.outline import SIDES, differences, outline_of
from cclmark.results.resume import MEASURED, differing_settings
from cclmark.results.schema import Header, Predecessor


@dataclass(frozen=True)
class EarlierTrials:
    """``results``: those that count again. ``repeated``: the number of those that do not."""

    header: Header
    path: Path
    results: list[TrialResult]
    repeated: int
    damaged_lines: int

    @classmethod
    def read(
        cls,
        path: Path,
        request: Request,
        command: str,
        fits: Callable[[Trial], bool],
        *,
        repeats_failures: bool = False,
    ) -> EarlierTrials:
        """Reads a journal of ``command``.

        ``fits``: whether a trial is one of such a command. ``repeats_failures``: trials that failed
        are measured again. Raises UsageError for a journal of another command, another plan or
        other settings, and the errors of read_journal.
        """
        journal = read_journal(path, as_written=True)
        header, trials = journal.header, journal.of(TrialResult)
        outline = outline_of(request.items, len(request.devices.indices), len(request.processes))
        found = differing_settings(header.settings, request.settings, sides=SIDES)
        if header.plan is not None:
            found = differences(header.plan, outline) + found
        # A run that was interrupted before its first trial has none, but its plan fits.
        if header.plan is None or not all(fits(one.trial) for one in trials):
            found.append(f"it is not the journal of {command}")
        if found:
            raise UsageError(f"{path} does not fit this command: {'; '.join(found)}")
        kept = [one for one in trials if not repeats_failures or _is_measured(one)]
        return cls(header, path, kept, len(trials) - len(kept), journal.unread_lines)

    @property
    def predecessor(self) -> Predecessor:
        """The predecessor for the header of the resuming run."""
        return Predecessor(self.header.run_id, str(self.path.absolute()), len(self.results))

    def notices(self) -> list[str]:
        """Returns notices about trials that this run did not measure."""
        found = [
            f"{counted(len(self.results), 'trial')} of {self.path}, begun "
            f"{self.header.started_at}, {'is' if len(self.results) == 1 else 'are'} kept"
        ]
        if self.repeated:
            found[0] += f"; {counted(self.repeated, 'trial')} that failed there are measured again"
        if self.damaged_lines:
            lines = counted(self.damaged_lines, "line")
            found.append(f"{lines} of {self.path} cannot be used")
        return found


def _is_measured(result: TrialResult) -> bool:
    return result.status in MEASURED and not result.reason.startswith(FAILED_BEFORE)
