"""The figures of trainings by variant: rates, what communication costs, losses side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cclmark.analysis.paired import LEAST_COMPARED_ROUNDS, Rounds
from cclmark.analysis.ratio import LEAST_RUNS, RatioEstimate
from cclmark.analysis.steps import StepFigures, limiting_rank, slowest_of
from cclmark.base.grouping import by_key
from cclmark.base.statistics import median
from cclmark.journal.schema import DeviceDescription
from cclmark.work.accelerators import find_accelerator
from cclmark.work.operations import info_of
from cclmark.work.variants import Variant
from cclmark_training.choices import PRODUCT_BYTES
from cclmark_training.plan import Training
from cclmark_training.result import GroupCalls, TrainingResult

_TERA = 1e12


def total_peak(names: Iterable[str]) -> tuple[float | None, str]:
    """The sum of the peaks of devices with its sources, or None with the reason."""
    total = 0.0
    names = list(names)
    if not names:
        return None, "the devices are unknown"
    sources: dict[str, None] = {}
    for name in names:
        peak = find_accelerator(name)
        if peak is None:
            return None, f"the peak rate of {name} is unknown; --peak TFLOPS sets it"
        total += peak.peak_flops
        sources[f"{name}: {peak.peak_flops / _TERA:g} TFLOP/s ({peak.source})"] = None
    return total, ", ".join(sources)


_PEAK_DTYPE = "bfloat16"


@dataclass(frozen=True)
class RoundFigures:
    """The figures of one round, in seconds for one step.

    ``step_s``: the median over the steps of the slowest rank's time. ``alone_s``: the same of steps
    without communication. ``rank``: the rank that takes longest without communication, or if that
    is unknown, see limiting_rank. The others are its figures of a profiled step, see
    analysis.steps.StepFigures. ``slow_down_s``: how much more something computes than in a step
    without communication. None: unknown.
    """

    step_s: float
    alone_s: float | None
    rank: int
    profiled_s: float | None = None
    compute_s: float | None = None
    exposed_s: float | None = None
    idle_s: float | None = None
    hidden_s: float | None = None
    slow_down_s: float | None = None

    @property
    def cost_s(self) -> float | None:
        """How much longer a step takes with communication than without."""
        return None if self.alone_s is None else self.step_s - self.alone_s

    @property
    def communication_s(self) -> float | None:
        """How long something communicates in a profiled step."""
        if self.exposed_s is None or self.hidden_s is None:
            return None
        return self.exposed_s + self.hidden_s


def figures_of(result: TrainingResult) -> RoundFigures | None:
    """The figures of a result, None if it was not measured."""
    step_s = _step_of(result)
    if step_s is None:
        return None
    alone = [median(one) for one in result.alone_s if one]
    timeline = result.timeline
    rank = 0
    if alone:
        rank = alone.index(max(alone))
    elif timeline is not None:
        rank = limiting_rank(timeline.exposed_s, timeline.compute_s)
    alone_s = median(slowest_of(result.alone_s)) if alone else None
    if timeline is None:
        return RoundFigures(step_s, alone_s, rank)
    profiled_s, compute_s = timeline.step_s[rank], timeline.compute_s[rank]
    exposed_s = timeline.exposed_s[rank]
    without = timeline.compute_alone_s
    return RoundFigures(
        step_s,
        alone_s,
        rank,
        profiled_s=profiled_s,
        compute_s=compute_s,
        exposed_s=exposed_s,
        idle_s=profiled_s - compute_s - exposed_s,
        hidden_s=timeline.communication_s[rank] - exposed_s,
        slow_down_s=compute_s - without[rank] if len(without) > rank else None,
    )


@dataclass(frozen=True)
class GroupFigures:
    """What a step communicates in one kind of group: of the rank that sends most there.

    ``calls``: by operation, their number and the bytes of their messages, see GroupCalls.
    ``sent_bytes``: what the rank sends, by the bus factor of each operation: as over a ring.
    """

    group: str
    ranks: int
    calls: Mapping[str, tuple[int, int]]
    sent_bytes: float


def groups_of(result: TrainingResult) -> list[GroupFigures]:
    """The figures of each kind of group, in the order of the journal."""
    listed = by_key((one.group, one) for one in result.groups)
    found = []
    for group, calls in listed.items():
        sent = sent_by_rank(calls)
        most = sent.index(max(sent))
        found.append(
            GroupFigures(
                group,
                calls[0].ranks,
                {
                    one.operation: (one.calls[most], one.size_bytes[most])
                    for one in calls
                    if one.calls[most]
                },
                sent[most],
            )
        )
    return found


def _sent_share(one: GroupCalls) -> float:
    """The part of a message that a rank sends in a ring; of broadcasts the mean over roots."""
    if one.operation == "broadcast":
        return (one.ranks - 1) / one.ranks
    return info_of(one.operation).bus_factor(one.ranks)


def sent_by_rank(calls: Sequence[GroupCalls]) -> list[float]:
    """The bytes that each rank sends in a step."""
    return [
        sum(size_bytes * _sent_share(one) for one, size_bytes in zip(calls, column, strict=True))
        for column in zip(*(one.size_bytes for one in calls), strict=True)
    ]


@dataclass(frozen=True)
class LossComparison:
    """The losses of a variant beside those of the default with the same data and seed.

    ``steps``: the steps that both have. ``largest``: the largest difference, at step ``at`` (from
    1). ``last``, ``default_last``: the losses of the last of these steps.
    """

    steps: int
    largest: float
    at: int
    last: float
    default_last: float


@dataclass(frozen=True)
class TrainingSummary:
    """All rounds of a variant.

    ``figures``, ``alone_s``, ``cost_s``: medians over the rounds, unknown for ``reason``. The parts
    of a profiled step are those of the round with the median profiled step, so that they add up;
    see RoundFigures. The 95 % interval of the step: with one round, that of the median of its
    steps; with several, from the medians of the rounds; None with two. ``on_host``: without
    accelerators. ``share_of_peak``: the model FLOPs utilization, None for ``peak_reason``, which
    otherwise names the sources. ``ratio``: the time of a step over the default's, from the ratios
    of the rounds. ``losses``: of the first round; ``repetition``: the largest difference to the
    same step of another round, None with one round. ``training_s``: the time of all steps of the
    first round, None in older journals. ``groups``: of the first round that recorded calls.
    """

    variant: Variant
    training: Training
    status: str
    reason: str
    figures: StepFigures
    rounds: int = 0
    alone_s: float | None = None
    cost_s: float | None = None
    on_host: bool = False
    share_of_peak: float | None = None
    peak_reason: str = ""
    timeline_reason: str = ""
    ratio: RatioEstimate | None = None
    losses: Sequence[float] = ()
    repetition: float | None = None
    beside_default: LossComparison | None = None
    allocated_bytes: int | None = None
    converged: bool = True
    training_s: float | None = None
    groups: Sequence[GroupFigures] = ()

    @property
    def lacks_rounds(self) -> bool:
        """Whether an interval is unknown because there are two rounds."""
        known = self.ratio is None or self.ratio.runs >= LEAST_RUNS
        return not known or (LEAST_COMPARED_ROUNDS <= self.rounds < LEAST_RUNS)

    @property
    def idle_share(self) -> float | None:
        """The share of a profiled step in which nothing runs."""
        if self.figures.idle_s is None or not self.figures.profiled_s:
            return None
        return self.figures.idle_s / self.figures.profiled_s

    @property
    def samples_per_s(self) -> float | None:
        """The sequences of all ranks in a second."""
        step_s = self.figures.step_s
        return None if step_s is None else self.training.global_batch / step_s

    @property
    def tokens_per_s(self) -> float | None:
        """The tokens of all ranks in a second."""
        return None if self.figures.step_s is None else self.training.tokens / self.figures.step_s


def summaries_of(
    results: Iterable[TrainingResult], devices: Sequence[DeviceDescription]
) -> list[TrainingSummary]:
    """A summary for each variant, in the order of the plan; the first is the default."""
    listed = by_key((result.training.variant, result) for result in results)
    if not listed:
        return []
    by_variant = {variant: Rounds(own, _step_of) for variant, own in listed.items()}
    default = next((one for one in by_variant if one.is_default), next(iter(by_variant)))
    return [
        _summary(own, by_variant[default], devices, is_default=variant == default)
        for variant, own in by_variant.items()
    ]


def _step_of(result: TrainingResult) -> float | None:
    return median(slowest_of(result.step_s)) if result.step_s else None


def _summary(
    own: Rounds[TrainingResult],
    default: Rounds[TrainingResult],
    devices: Sequence[DeviceDescription],
    *,
    is_default: bool,
) -> TrainingSummary:
    training, runs, step_s = own.results[0].training, own.measured, own.time_s
    if step_s is None:
        figures = StepFigures(reason=own.reason)
        return TrainingSummary(training.variant, training, own.status, own.reason, figures)
    rounds = [found for one in runs if (found := figures_of(one)) is not None]
    parts = _median_round(rounds)
    share, peak_reason = _share_of_peak(training, step_s, devices)
    unknown = next((one.timeline_reason for one in runs if one.timeline is None), "")
    figures = StepFigures(
        steps=sum(len(one.step_s[0]) for one in runs),
        step_s=step_s,
        interval_s=own.interval_s(lambda one: slowest_of(one.step_s)),
        profiled_s=parts.profiled_s,
        compute_s=parts.compute_s,
        exposed_s=parts.exposed_s,
        idle_s=parts.idle_s,
        hidden_s=parts.hidden_s,
        communication_s=parts.communication_s,
        reason=f"communication and compute are unknown: {unknown}" if unknown else "",
    )
    return TrainingSummary(
        training.variant,
        training,
        own.status,
        own.reason,
        figures,
        rounds=len(runs),
        alone_s=_median_of([one.alone_s for one in rounds]),
        cost_s=_median_of([one.cost_s for one in rounds]),
        on_host=any(device.runtime == "host" for device in devices),
        share_of_peak=share,
        peak_reason=peak_reason,
        timeline_reason=unknown,
        ratio=None if is_default else own.ratio_to(default),
        losses=runs[0].losses,
        repetition=_repetition(runs),
        beside_default=None if is_default else _beside(runs, default.results),
        allocated_bytes=max(
            (peak for one in runs for peak in one.peak_allocated_bytes), default=None
        ),
        converged=all(one.converged for one in runs),
        training_s=runs[0].training_s or None,
        groups=next((groups_of(one) for one in runs if one.groups), ()),
    )


def _median_round(figures: Sequence[RoundFigures]) -> RoundFigures:
    """The round with the median profiled step, so that its parts add up."""
    known = [(one.profiled_s, place) for place, one in enumerate(figures) if one.profiled_s]
    return figures[sorted(known)[(len(known) - 1) // 2][1]] if known else figures[0]


def _median_of(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return median(known) if known else None


def _share_of_peak(
    training: Training, step_s: float, devices: Sequence[DeviceDescription]
) -> tuple[float | None, str]:
    if training.peak_flops:
        share = training.operations / step_s / (training.peak_flops * training.ranks)
        return (
            share,
            f"{training.peak_flops / _TERA:g} TFLOP/s for each device (given by --peak)",
        )
    if PRODUCT_BYTES.get(training.dtype) != PRODUCT_BYTES[_PEAK_DTYPE]:
        return (
            None,
            f"peaks are known for {_PEAK_DTYPE}, not for {training.dtype}; --peak TFLOPS sets it",
        )
    peak, reason = total_peak([device.name for device in devices])
    return (None if peak is None else training.operations / step_s / peak), reason


def _repetition(runs: Sequence[TrainingResult]) -> float | None:
    first = runs[0].losses
    differences = [
        abs(one - other) for run in runs[1:] for one, other in zip(run.losses, first, strict=False)
    ]
    return max(differences) if differences else None


def _beside(
    runs: Sequence[TrainingResult], default: Sequence[TrainingResult]
) -> LossComparison | None:
    usual = next((one.losses for one in default if one.losses), [])
    pairs = list(zip(runs[0].losses, usual, strict=False))
    if not pairs:
        return None
    differences = [abs(one - other) for one, other in pairs]
    largest = max(differences)
    return LossComparison(
        len(pairs), largest, differences.index(largest) + 1, pairs[-1][0], pairs[-1][1]
    )
