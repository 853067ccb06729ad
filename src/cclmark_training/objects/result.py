"""The results of calls with objects in journals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.journal.item_results import ItemResult, have_length
from cclmark.work.counts import Count, Duration
from cclmark.work.items import Status
from cclmark_training.objects.plan import ObjectCall

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    ObjectData: TypeAlias = str
else:
    ObjectData = Literal["objects", "tensors"]


class ObjectTimes(msgspec.Struct):
    """The times of one call in every round, by rank, in seconds.

    ``objects_s``: with objects, ``tensors_s``: with the same data as tensors. ``pickling_s``: of
    the objects that the rank sends in a call, ``unpickling_s`` of those that it receives.
    ``calls`` and ``tensor_calls``: the number of calls in a row that a time is the mean of.
    """

    objects_s: list[list[float]]
    tensors_s: list[list[float]]
    pickling_s: list[list[float]]
    unpickling_s: list[list[float]]
    calls: Count
    tensor_calls: Count


class ObjectFigures(msgspec.Struct):
    """The figures of an object call, see cclmark_training.objects.figures.

    Times are seconds for one call, of the slowest rank; ``low`` and ``high`` are the ends of 95 %
    intervals. ``ratio``: the time with objects over the time with tensors.
    """

    object_s: Duration
    object_low_s: Duration
    object_high_s: Duration
    tensor_s: Duration
    tensor_low_s: Duration
    tensor_high_s: Duration
    ratio: float
    ratio_low: float
    ratio_high: float
    pickling_s: Duration


class ObjectFinding(msgspec.Struct):
    """Wrong data on one rank. ``of``: ``objects`` or ``tensors``."""

    rank: int
    of: ObjectData
    text: str


class ObjectResult(ItemResult[ObjectCall], tag="object", omit_defaults=True):
    """A call with objects and its outcome. ``status``: ok, wrong or skipped, with the reason.

    ``times``: of all ranks, from which ``figures`` are computed (cclmark_training.objects.figures).
    ``converged``: whether the medians have the requested precision. ``checked``: whether the
    received objects and tensors were compared with the sent ones.
    """

    index: Count
    call: ObjectCall
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    converged: bool = True
    times: ObjectTimes | None = None
    figures: ObjectFigures | None = None
    checked: bool = False
    findings: list[ObjectFinding] = []

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return self.figures is not None

    @property
    def is_checked(self) -> bool:
        """Whether the received objects were compared with the sent ones."""
        return self.checked

    @property
    def is_consistent(self) -> bool:
        """Whether each round has the times of all ranks."""
        times, ranks = self.times, self.call.ranks
        return (
            times is None
            or have_length(
                ranks, *times.objects_s, *times.tensors_s, *times.pickling_s, *times.unpickling_s
            )
        ) and all(0 <= one.rank < ranks for one in self.findings)
