"""The record of this kind of work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cclmark.kinds.experiment.kind import KIND as OF_TRIALS
from cclmark.kinds.experiment.plan import TUNE


def _report() -> Any:
    from cclmark.kinds.tune.document import REPORT

    return REPORT


# Ranks measure its trials as those of an experiment.
KIND = replace(OF_TRIALS, name=TUNE, report=_report)
