"""The record of this kind of work."""

from __future__ import annotations

from cclmark.kinds.experiment.plan import EXPERIMENT, Trial
from cclmark.kinds.experiment.result import TrialResult
from cclmark.results.kind import Kind

KIND = Kind(
    EXPERIMENT,
    Trial,
    TrialResult,
    "trials",
    __package__,
    in_rounds=True,
    # Without a variant an experiment has no result; what overlap measures by default is one.
    requires_variant=True,
)
