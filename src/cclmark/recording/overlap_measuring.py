"""Measures overlaps as a part of another run, for example of a tuning run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cclmark.analysis.overlaps import OverlapSummary, summaries_of
from cclmark.launch.launching import launching_of
from cclmark.launch.request import Outcome, Request
from cclmark.plan.cases import Case
from cclmark.plan.items import OVERLAP
from cclmark.plan.overlaps import Compute, overlaps_of_pairs
from cclmark.plan.variants import Variant
from cclmark.recording.output import Output
from cclmark.recording.recorder import recording
from cclmark.results.kinds import OverlapResult
from cclmark.results.schema import Footer, Header


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
    own = replace(request, kind=OVERLAP, planned=planned, pending=(), warnings=())
    kept = _Keeping()
    output = Output(None)
    try:
        with recording(journal, output, kept, own, time.monotonic(), within=True) as recorder:
            outcome = launching_of(OVERLAP).run(own, recorder)
            recorder.finish(outcome, quiet=True)
    finally:
        output.close()
    return summaries_of(kept.results), outcome


class _Keeping:
    """Keeps the results and shows nothing."""

    def __init__(self) -> None:
        self.results: list[OverlapResult] = []

    def begin(self, header: Header) -> str:
        return ""

    def add(self, result: OverlapResult) -> str:
        self.results.append(result)
        return ""

    def end(self, footer: Footer | None) -> str:
        return ""
