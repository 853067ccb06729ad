"""From runs to predictions on more nodes, and where nothing can be said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cclmark.analysis.irregularities import LEAST_DIP_BYTES
from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.work.fabric_topology import parse_topology
from cclmark.work.operations import OPERATIONS
from cclmark_planning.predict.command import PredictFlags
from cclmark_planning.predict.curves import read_curves
from cclmark_planning.predict.figures import judging, size_class, skill_of
from cclmark_planning.predict.measured_runs import (
    DEEPEST_DIP,
    MOST_FALL,
    MeasuredRuns,
    comparable_curves,
    least_wire_bytes,
    refuse_differences,
    runs_of,
)
from cclmark_planning.predict.result import PredictResult
from cclmark_planning.scale.algorithms import Shape
from cclmark_planning.scale.collective_times import CrossedLevel
from cclmark_planning.scale.extrapolation import ACHIEVED, Forecast, algorithm_times, forecast

# Devices of an NVLink domain that contains several hosts.
_DOMAINS = {"GB200": 72, "GB300": 72}
# Beyond these nothing is said: the interquartile range of samples over their median, the end of an
# interval over its beginning, the share of a time that latencies take which no run has shown, and
# the farthest prediction, as a multiple of the largest measured number of nodes.
_MOST_SPREAD, _WIDEST, _MOST_UNSEEN, _FARTHEST = 0.5, 3.0, 0.25, 256
# Measured times of a class of sizes that predictions of the others are judged by, and an error that
# does not matter; how much wider an interval may become.
_LEAST_JUDGING, _HARMLESS_ERROR, _MOST_WIDENED = 3, 0.05, 2.0
_Doubt = tuple[str, str]  # why nothing can be said, and the measurement that would help


def predictions_of(flags: PredictFlags) -> tuple[list[PredictResult], list[str]]:
    """The predictions, and what readers have to know of the runs. Raises UsageError."""
    if not flags.runs:
        raise UsageError("no journal: cclmark predict RUN.jsonl --nodes 8,16,64")
    if not flags.nodes:
        raise UsageError("--nodes is missing: for how many nodes? --nodes 8,16,64")
    curves = [curve for path in flags.runs for curve in read_curves(path)]
    curves, notices = comparable_curves(curves, flags)
    refuse_differences(curves, flags)
    topology = None if flags.topology is None else parse_topology(flags.topology)
    every = [
        runs_of(operation, own, flags, topology, notices)
        for operation, own in by_key((one.operation, one) for one in curves).items()
    ]
    for runs in every:
        _check_nodes(runs, flags.nodes)
    rows = [
        row
        for runs in every
        for row in _results(runs, flags)
        if (flags.begin_bytes or 0) <= row.prediction.size_bytes <= (flags.end_bytes or math.inf)
    ]
    if not rows:
        raise UsageError("no run has a size within --begin and --end")
    for place, row in enumerate(rows):
        row.index = place
    return rows, notices


def _check_nodes(runs: MeasuredRuns, nodes: Sequence[int]) -> None:
    fewest = min(nodes)
    if fewest <= runs.largest:
        raise UsageError(
            f"--nodes {fewest}: the runs of {runs.operation} already have {runs.largest} "
            f"{'node' if runs.largest == 1 else 'nodes'}; predictions are for more"
        )
    if runs.topology is not None:
        runs.topology.level_of(max(nodes) * runs.per_node)


def _results(runs: MeasuredRuns, flags: PredictFlags) -> Iterator[PredictResult]:
    """Measured numbers of nodes, predicted from fewer, and then those that were asked for.

    Where measured times were predicted badly, the others are as uncertain.
    """
    measured = [*_measured(runs)]
    yield from measured
    for nodes in flags.nodes:
        for one in _predicted(runs, nodes, is_measured=False).values():
            _judge(one, measured, runs)
            yield one


def _judge(one: PredictResult, measured: Sequence[PredictResult], runs: MeasuredRuns) -> None:
    """Widens the interval by how far measured times lay outside theirs, and withholds the
    prediction if the same busbw predicted them better, or if the interval becomes too wide.

    By the times of figures.judging of the class of sizes, or of all if these are few.
    """
    if one.time_s is None or one.low_s is None or one.high_s is None:
        return
    every = judging(measured)
    known = [other for other in every if size_class(other) == size_class(one)]
    if sum(other.time_s is not None for other in known) < _LEAST_JUDGING:
        known = every
    known = [other for other in known if not runs.is_odd_at(other.prediction.size_bytes)]
    found = skill_of(size_class(one), known)
    if found is not None and found.skill <= 0 and found.error > _HARMLESS_ERROR:
        _withhold(
            one,
            f"measured times were predicted worse, by {found.error * 100:.3g} %, than by the same "
            f"busbw, {found.baseline * 100:.3g} %",
            "The models do not describe these runs: measure on as many nodes as possible.",
        )
        return
    factor = max((_beyond_interval(other) for other in known), default=0.0)
    if factor > _MOST_WIDENED:
        _withhold(
            one,
            f"measured times lay up to {factor:.1f} times as far from their prediction as the "
            "interval reaches",
            "The models do not describe these runs: measure on as many nodes as possible.",
        )
        return
    if factor > 1:
        one.low_s = one.time_s * (one.low_s / one.time_s) ** factor
        one.high_s = one.time_s * (one.high_s / one.time_s) ** factor
    if one.high_s > one.low_s * _WIDEST:
        _withhold(one, *_too_wide(runs, one.high_s / one.low_s))


def _withhold(one: PredictResult, reason: str, advice: str) -> None:
    one.status, one.time_s, one.low_s, one.high_s = "skipped", None, None, None
    one.reason, one.advice = reason, advice


def _too_wide(runs: MeasuredRuns, width: float) -> _Doubt:
    return (
        f"what is possible differs {width:.1f} times",
        f"Run `cclmark {runs.operation}` on {max(4, 2 * runs.largest)} nodes, and with "
        "`--explain`, which shows the algorithms that the library chose.",
    )


def _beyond_interval(one: PredictResult) -> float:
    """How far a measured time lies from the predicted one, in halves of the interval; 0 without."""
    if not (one.time_s and one.measured_s and one.low_s and one.high_s):
        return 0.0
    off = math.log(one.measured_s / one.time_s)
    half = math.log((one.high_s if off > 0 else one.low_s) / one.time_s)
    return off / half if half else 0.0


def _measured(runs: MeasuredRuns) -> Iterator[PredictResult]:
    for curve in runs.merged:
        nodes = curve.shape.nodes
        fewer = runs.fewer_than(nodes)
        predicted = {} if fewer is None else _predicted(fewer, nodes, is_measured=True)
        known = zip(curve.sizes_bytes, curve.times_s, curve.noise, strict=True)
        for size, time_s, noise in known:
            item = runs.item(nodes, size, is_measured=True)
            found = predicted.get(size) or PredictResult(0, item, "ok")
            found.measured_s, found.measured_noise = time_s, noise
            yield found


def _predicted(runs: MeasuredRuns, nodes: int, *, is_measured: bool) -> dict[float, PredictResult]:
    """By size: what the runs say of a larger number of nodes."""
    shape = Shape(nodes, runs.per_node)
    curves = runs.merged
    largest = curves[-1]
    sizes = largest.sizes_bytes
    found = {
        size: PredictResult(
            *(0, runs.item(nodes, size, is_measured=is_measured), "ok"),
            baseline_s=time_s * _same_bus(runs.operation, largest.shape, shape),
        )
        for size, time_s in zip(sizes, largest.times_s, strict=True)
    }
    doubt = _doubt_of_runs(runs, shape)
    if doubt is not None:
        for one in found.values():
            one.status, (one.reason, one.advice) = "skipped", doubt
        return found
    known = replace(runs.known, levels=_crossed_levels(runs, shape))
    made = forecast(runs.operation, curves, sizes, shape, known)
    line_bps = max(runs.known.bps, runs.reached_bps) if runs.known.bps else math.inf

    def least_s(one: PredictResult) -> float:
        """By the line rate, or what the runs reached of it and above."""
        item = one.prediction
        return least_wire_bytes(item.operation, item.size_bytes, shape) / line_bps

    every = algorithm_times(runs.operation, curves, sizes, shape, known)
    for place, one in enumerate(found.values()):
        one.growing = float(made.growing[place])
        one.hypotheses = {name: float(times[place]) for name, times in made.by_model.items()}
        one.weights = dict(made.weights)
        one.unseen = made.unseen[place]
        one.algorithms = {name: float(times[place]) for name, times in every.items()}
        doubt = _doubt_of_size(runs, made, place)
        if doubt is None:
            ends = made.quantiles[:, place]
            one.low_s, one.time_s, one.high_s = (max(float(end), least_s(one)) for end in ends)
        else:
            one.status, (one.reason, one.advice) = "skipped", doubt
    return found


def _doubt_of_runs(runs: MeasuredRuns, shape: Shape) -> _Doubt | None:
    """Why the runs say nothing of ``shape``; None if they do."""
    command = f"`cclmark {runs.operation}` on two and on four nodes"
    domain = _domain(runs.known.device)
    if domain and runs.largest * runs.per_node <= domain < shape.ranks:
        if runs.topology is None:
            return (
                f"no run crossed the NVLink domains of {domain} GPUs",
                f"Run `cclmark {runs.operation}` on two and on four domains, or describe the "
                "network between them with --topology.",
            )
    elif runs.largest == 1 and not runs.known.bps:
        return (
            "no run crossed the network between nodes",
            f"Run {command}, or state the network: --network 8x400.",
        )
    if shape.nodes > _FARTHEST * runs.largest:
        return (
            f"{shape.nodes:,} nodes are more than {_FARTHEST} times as many as the "
            f"{runs.largest} of the largest run",
            f"Run `cclmark {runs.operation}` on more nodes.",
        )
    sizes = {point.size_bytes for one in runs.curves for point in one.points}
    if len(sizes) == 1:
        return (
            "the runs have one size, from which latency and bandwidth cannot be told apart",
            f"Run {command} with several sizes: -b 8 -e 8G.",
        )
    return None


def _doubt_of_size(runs: MeasuredRuns, made: Forecast, place: int) -> _Doubt | None:
    """Why nothing can be said at a size, None if something can."""
    size = int(made.sizes_bytes[place])
    low, _, high = made.quantiles[:, place]
    spread = runs.spread_at(size)
    if spread > _MOST_SPREAD:
        return (
            f"times of the runs vary by {spread * 100:.0f} %",
            "Repeat the runs while nothing else uses the nodes and their network.",
        )
    if (fall := runs.fall_at(size)) > MOST_FALL:
        return (
            f"times of the runs fall by {fall * 100:.0f} % with more nodes",
            "Find what differs between the runs, and repeat them while nothing else uses the "
            "network.",
        )
    if runs.is_out_of_order(size):
        return (
            "a larger size takes less time in the runs",
            "Repeat the runs while nothing else uses the nodes and their network.",
        )
    dip = runs.dip_at(size)
    if size >= LEAST_DIP_BYTES and dip > DEEPEST_DIP:
        return (
            f"the bandwidth of the runs falls by {dip * 100:.0f} % at this size and rises again",
            "Find the cause with `cclmark explain` and `cclmark pairs`, and repeat the runs.",
        )
    if runs.largest == 1 and made.growing[place] > _MOST_UNSEEN:
        return (
            "latencies between nodes determine this size, and no run crossed the network",
            f"Run `cclmark {runs.operation}` on two and on four nodes.",
        )
    return _too_wide(runs, high / low) if high > low * _WIDEST else None


def _domain(device: str) -> int:
    """The GPUs of an NVLink domain that contains several hosts, 0 if there is none."""
    words = device.upper().replace("-", " ").split()
    return next((number for name, number in _DOMAINS.items() if name in words), 0)


def _crossed_levels(runs: MeasuredRuns, shape: Shape) -> tuple[CrossedLevel, ...]:
    """The levels of the topology that ``shape`` crosses and no run did."""
    topology = runs.topology
    if topology is None:
        return ()
    levels = topology.levels
    first = levels.index(topology.level_of(max(1, runs.largest * runs.per_node)))
    if runs.largest == 1:
        first = max(first, min(1, len(levels) - 1))  # whose rate is that of --topology
    last = levels.index(topology.level_of(shape.ranks))
    return tuple(
        CrossedLevel(
            levels[place - 1].devices,
            levels[place].shared_bps * ACHIEVED,
            max(0.0, levels[place].latency_s - levels[max(first, 1)].latency_s),
        )
        for place in range(first + 1, last + 1)
    )


def _same_bus(operation: str, measured: Shape, shape: Shape) -> float:
    """The time on ``shape`` over the measured one with the same bus bandwidth."""
    bus = OPERATIONS[operation].bus_factor
    return bus(shape.ranks) / bus(measured.ranks)
