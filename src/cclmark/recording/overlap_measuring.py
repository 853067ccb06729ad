"""Measures overlaps as a part of another run, for example of a tuning run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cclmark.kinds.overlap.figures import OverlapSummary, summaries_of
from cclmark.kinds.overlap.kind import KIND
from cclmark.kinds.overlap.plan import overlaps_of_pairs
from cclmark.kinds.overlap.result import OverlapResult
from cclmark.launch.request import Outcome, Request
from cclmark.plan.cases import Case
from cclmark.plan.computations import Compute
from cclmark.plan.variants import Variant
from cclmark.recording.part import measure_part


def measure_beside(
    request: Request,
    pairs: Sequence[tuple[Variant, Case]],
    compute: Compute,
    rounds: int,
    journal: Path,
) -> tuple[list[OverlapSummary], Outcome]:
    """Returns the slow-downs of a compute and of each pair's case with its variant.

    ``request``: the devices and settings. Nothing is printed; the results are in the new file
    ``journal``. Raises UsageError if it cannot be created.
    """
    planned = overlaps_of_pairs(pairs, rounds, compute)
    own = replace(request, kind=KIND, planned=planned, pending=(), warnings=())
    results, outcome = measure_part(own, journal)
    return summaries_of(one for one in results if isinstance(one, OverlapResult)), outcome
