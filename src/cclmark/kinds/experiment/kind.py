"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark.kinds.experiment.plan import EXPERIMENT, Trial
from cclmark.kinds.experiment.result import TrialResult


def _report() -> Any:
    from cclmark.kinds.experiment.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark.kinds.experiment.run import run

    return run


KIND = Kind(
    EXPERIMENT,
    Trial,
    TrialResult,
    "trials",
    _report,
    in_rounds=True,
    # Without a variant an experiment has no result; what overlap measures by default is one.
    requires_variant=True,
    runner=_runner,
)
