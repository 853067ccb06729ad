"""The figures of an object call: its time, the time with tensors, and the ratio of the two."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cclmark.analysis.paired import paired_ratio
from cclmark.base.statistics import median, median_interval
from cclmark_training.objects.result import ObjectFigures, ObjectTimes

_LEAST_S = 1e-9  # the resolution of recorded times


def figures_of(times: ObjectTimes) -> ObjectFigures:
    """The medians over the rounds of the slowest rank, and the ratio from paired rounds.

    ``pickling_s``: one rank pickles before another unpickles, so the times of the slowest rank in
    each are added. Raises ValueError with fewer than two rounds.
    """
    objects, tensors = _slowest(times.objects_s), _slowest(times.tensors_s)
    pickling = [
        sent + received
        for sent, received in zip(
            _slowest(times.pickling_s), _slowest(times.unpickling_s), strict=True
        )
    ]
    estimate = paired_ratio(
        [[math.log(one / other) for one, other in zip(objects, tensors, strict=True)]]
    )
    object_ends = median_interval(objects) or (min(objects), max(objects))
    tensor_ends = median_interval(tensors) or (min(tensors), max(tensors))
    return ObjectFigures(
        object_s=median(objects),
        object_low_s=object_ends[0],
        object_high_s=object_ends[1],
        tensor_s=median(tensors),
        tensor_low_s=tensor_ends[0],
        tensor_high_s=tensor_ends[1],
        ratio=estimate.ratio,
        ratio_low=estimate.low,
        ratio_high=estimate.high,
        pickling_s=median(pickling),
    )


def _slowest(rows: Sequence[Sequence[float]]) -> list[float]:
    return [max(*row, _LEAST_S) for row in rows]
