"""The figures of a message in pieces: its time, and the ratio to the message in one call."""

from __future__ import annotations

import math

from cclmark.analysis.paired import paired_ratio
from cclmark.base.statistics import median
from cclmark.journal.schema import Samples, Settings
from cclmark.journal.summaries import chosen_times, clock_of, combine, summarise
from cclmark.kinds.pieces.plan import GROUPED, Division
from cclmark.kinds.pieces.result import PieceRow
from cclmark.work.cases import Case

_LAUNCH_BOUND = 0.85  # a larger share of the time that passes until the last call has returned
# Launches that a CUDA device keeps pending. Further ones wait for the device, so that the host's
# time no longer shows whether launches or the device set the time.
_LAUNCH_QUEUE = 1024


def row_of(
    case: Case,
    samples: Samples,
    of_one: Samples,
    settings: Settings,
    division: Division,
    *,
    launches: bool,
) -> PieceRow:
    """The row of a division. ``of_one``: the samples of one call in the same rounds.

    ``launches``: whether calls launch work of a device, instead of working themselves.

    Raises ValueError with fewer than two rounds.
    """
    summary = summarise(case, samples, settings)
    # Both by the same clock: a library without device times in one form has none for the ratio.
    clock = "host" if "host" in (summary.clock, clock_of(of_one, settings)) else "device"
    times_s, ones_s = (
        combine(chosen_times(each, clock), settings.across_ranks) for each in (samples, of_one)
    )
    estimate = paired_ratio(
        [[math.log(time_s / one_s) for time_s, one_s in zip(times_s, ones_s, strict=True)]]
    )
    calls = 1 if division.form == GROUPED else division.pieces
    pending = samples.operations_per_sample * calls
    enqueued_s = median([max(row) for row in samples.enqueue_s])
    elapsed_s = median([max(row) for row in samples.host_s])
    return PieceRow(
        division,
        "ok",
        samples=samples,
        summary=summary,
        ratio=estimate.ratio,
        ratio_low=estimate.low,
        ratio_high=estimate.high,
        launch_bound=launches
        and pending < _LAUNCH_QUEUE
        and enqueued_s > _LAUNCH_BOUND * elapsed_s,
    )
