"""Steps that cclmark's engine plans: each rank reports those that it executes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.explain.steps.step import Place, Step


class PlannedStep(msgspec.Struct, frozen=True):
    """A step with ``order`` instead of a stage: the stages of all ranks are sorted by it."""

    order: list[int]
    phase: str
    source: int | None
    destination: int
    size_bytes: int
    reads: Place
    writes: Place
    combines: Place | None
    medium: str


def planned(by_rank: Sequence[Sequence[PlannedStep]]) -> list[Step]:
    """The steps of all ranks by stage, the stages numbered from 1."""
    every = [one for own in by_rank for one in own]
    stages = {
        order: stage
        for stage, order in enumerate(sorted({tuple(one.order) for one in every}), start=1)
    }
    steps = [
        Step(
            stages[tuple(one.order)],
            one.phase,
            one.source,
            one.destination,
            one.size_bytes,
            reads=one.reads,
            writes=one.writes,
            combines=one.combines,
            medium=one.medium,
        )
        for one in every
    ]
    return sorted(steps, key=lambda step: step.stage)
