"""The trials of an interrupted adaptive run, which `--resume` does not measure again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cclmark.errors import UsageError
from cclmark.launch.request import Request
from cclmark.plan.outline import differences, outline_of
from cclmark.plan.trials import Trial
from cclmark.results.journal import read_journal
from cclmark.results.kinds import TrialResult


def earlier_trials(
    path: Path | None, request: Request, command: str, fits: Callable[[Trial], bool]
) -> list[TrialResult]:
    """The results in a journal of ``command``, none without a path.

    ``fits``: whether a trial is one of such a command. Raises UsageError for a journal of another
    command or another plan, and the errors of read_journal.
    """
    if path is None:
        return []
    journal = read_journal(path, as_written=True)
    outline = outline_of(request.items, len(request.devices.indices), len(request.processes))
    found = [] if journal.header.plan is None else differences(journal.header.plan, outline)
    # A run that was interrupted before its first trial has none, but its plan fits.
    if journal.header.plan is None or not all(fits(one.trial) for one in journal.trials):
        found.append(f"it is not the journal of {command}")
    if found:
        raise UsageError(f"{path} does not fit this command: {'; '.join(found)}")
    return list(journal.trials)
