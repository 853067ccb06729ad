"""Figures of replays: the step of a program with each variant, beside the program itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median

from cclmark.analysis.paired import Rounds
from cclmark.analysis.ratio import RatioEstimate
from cclmark.analysis.steps import slowest_of
from cclmark.work.computations import Compute
from cclmark.work.variants import Variant
from cclmark_programs.replay.choices import DROP
from cclmark_programs.replay.plan import Replay
from cclmark_programs.replay.result import ReplayedOperation, ReplayResult

# Of a step, in which the host enqueues calls. A device begins up to 20 ms after the host.
_HOST_BOUND, _HOST_AHEAD_S = 0.5, 0.02


@dataclass(frozen=True)
class ReplaySummary:
    """All rounds of a variant. Times are seconds, medians over the rounds; None without figures.

    ``span_s``: from the first call of a step to the end of the last one, of the slowest rank, with
    its 95 % interval: with one round that of its steps, with several from the medians of the
    rounds, None with two. ``step_s``: with the time after the last call, as in the program, None
    if that is unknown. ``communication_s``: in which at least one call ran, mean of the ranks.
    ``communication_error``, ``step_error``: over those of the program, minus 1; only of the
    default. ``ratio``: of ``step_s`` (of ``span_s`` if it is unknown) to the default's, the one
    with the same gaps and compute if there is one. ``operations`` and ``traffic``: of the round
    with the median span. ``way``: the gaps and the compute, if other summaries have others.
    """

    variant: Variant
    replay: Replay
    status: str
    reason: str
    rounds: int = 0
    steps: int = 0
    span_s: float | None = None
    interval_s: tuple[float, float] | None = None
    step_s: float | None = None
    communication_s: float | None = None
    program_communication_s: float | None = None
    program_step_s: float | None = None
    communication_error: float | None = None
    step_error: float | None = None
    ratio: RatioEstimate | None = None
    operations: Sequence[ReplayedOperation] = ()
    traffic: Sequence[int] = ()
    is_checked: bool = False
    is_host_bound: bool = False
    converged: bool = True
    way: str = ""


def span_of(result: ReplayResult) -> float:
    """The median span of a step, of the slowest rank."""
    return median(slowest_of(result.span_s))


def communication_of(result: ReplayResult) -> float:
    """The median time in which at least one call of a step ran, mean of the ranks."""
    return mean(median(values) for values in result.communication_s)


def step_of_result(result: ReplayResult) -> float | None:
    """The time of a step with that after its last call; None if it is unknown or left out."""
    original = result.replay.original
    if not original.step_s or result.replay.gaps == DROP:
        return None
    return span_of(result) + original.tail_s


def summaries_of_replays(results: Iterable[ReplayResult]) -> list[ReplaySummary]:
    """A summary for each variant, in the order of the plan; the first is the default."""
    by_way: dict[tuple[Variant, str, Compute | None, bool], list[ReplayResult]] = {}
    for result in results:
        one = result.replay
        by_way.setdefault((one.variant, one.gaps, one.compute, one.traffic), []).append(result)
    if not by_way:
        return []
    default = next((way for way in by_way if way[0].is_default), next(iter(by_way)))
    found = [
        _summary(
            own,
            by_way.get((default[0], *way[1:]), by_way[default]),
            is_default=way[0] == default[0],
        )
        for way, own in by_way.items()
    ]
    if len({way[1:] for way in by_way}) == 1:
        return found
    return [replace(one, way=way_of(one.replay)) for one in found]


def way_of(replay: Replay) -> str:
    """The gaps and the compute in words: ``fixed, matmul 128 x 128 x 128 float32``."""
    return f"{replay.gaps}, {replay.beside or 'no compute'}"


def _summary(
    results: Sequence[ReplayResult], default: Sequence[ReplayResult], *, is_default: bool
) -> ReplaySummary:
    replay = results[0].replay
    own = Rounds(results, lambda one: span_of(one) if one.is_measured else None)
    measured, span_s = own.measured, own.time_s
    if span_s is None:
        return ReplaySummary(replay.variant, replay, own.status, own.reason)
    spans_s = [span_of(one) for one in measured]
    middle = measured[
        sorted((span, place) for place, span in enumerate(spans_s))[(len(spans_s) - 1) // 2][1]
    ]
    steps_s = [found for one in measured if (found := step_of_result(one)) is not None]
    step_s = median(steps_s) if steps_s else None
    communication_s = median(communication_of(one) for one in measured)
    original = replay.original
    program_s = mean(original.communication_s) if original.communication_s else None
    program_step_s = max(original.step_s) if original.step_s else None
    return ReplaySummary(
        replay.variant,
        replay,
        own.status,
        own.reason,
        rounds=len(measured),
        steps=sum(len(one.span_s[0]) for one in measured),
        span_s=span_s,
        interval_s=own.interval_s(lambda one: slowest_of(one.span_s)),
        step_s=step_s,
        communication_s=communication_s,
        program_communication_s=program_s,
        program_step_s=program_step_s,
        communication_error=communication_s / program_s - 1 if is_default and program_s else None,
        step_error=step_s / program_step_s - 1
        if is_default and step_s is not None and program_step_s
        else None,
        ratio=None
        if is_default
        else Rounds(results, _compared).ratio_to(Rounds(default, _compared)),
        operations=middle.operations,
        traffic=middle.traffic,
        is_checked=all(one.is_checked for one in measured),
        is_host_bound=median(one.enqueue_s for one in measured)
        > max(_HOST_AHEAD_S, _HOST_BOUND * span_s),
        converged=all(one.converged for one in measured),
    )


def _compared(result: ReplayResult) -> float | None:
    if not result.is_measured:
        return None
    step_s = step_of_result(result)
    return span_of(result) if step_s is None else step_s
