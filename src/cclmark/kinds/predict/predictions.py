"""From runs to predictions on more nodes, and where nothing can be said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from cclmark.analysis.irregularities import LEAST_DIP_BYTES
from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.fabric.fabric_topology import Topology, parse_topology
from cclmark.kinds.predict.command import PredictFlags
from cclmark.kinds.predict.curves import MeasuredCurve, read_curves
from cclmark.kinds.predict.figures import size_class, skill_of
from cclmark.kinds.predict.plan import Prediction
from cclmark.kinds.predict.result import PredictResult
from cclmark.scale.algorithms import ALGORITHMS, HIERARCHICAL, RING, TREE, Shape, wire_bytes
from cclmark.scale.collective_times import CrossedLevel
from cclmark.scale.extrapolation import (
    ACHIEVED,
    USUAL_RUN_NOISE,
    Forecast,
    Known,
    TimeCurve,
    algorithm_times,
    forecast,
)
from cclmark.work.libraries import library_called
from cclmark.work.operations import OPERATIONS

# Devices of an NVLink domain that contains several hosts.
_DOMAINS = {"GB200": 72, "GB300": 72}
# Beyond these nothing is said: the interquartile range of samples over their median, a dip of the
# bandwidth between sizes, the end of an interval over its beginning, and the share of a time that
# latencies take which no run has shown.
_MOST_SPREAD, _DEEPEST_DIP, _WIDEST, _MOST_UNSEEN = 0.5, 0.3, 3.0, 0.25
# Measured times of a class of sizes that predictions of the others are judged by, and an error that
# does not matter; how much wider an interval may become.
_LEAST_JUDGING, _HARMLESS_ERROR, _MOST_WIDENED = 3, 0.05, 2.0
# By how much times may fall with more nodes or with size; the farthest prediction, as a multiple of
# the largest measured number of nodes; the least share of a line rate that large messages reach.
_MOST_FALL, _FARTHEST, _LEAST_REACHED, _LARGE_BYTES = 0.1, 256, 0.3, 64 << 20
_NCCL = "nccl"
_Doubt = tuple[str, str]  # why nothing can be said, and the measurement that would help


@dataclass(frozen=True)
class _Ground:
    """The runs of an operation that a prediction stands on."""

    operation: str
    curves: tuple[MeasuredCurve, ...]
    known: Known
    topology: Topology | None

    @property
    def per_node(self) -> int:
        """The ranks of a node, the same in all runs."""
        return self.curves[0].shape.per_node

    def fewer_than(self, nodes: int) -> _Ground | None:
        """The runs on fewer nodes; None without any."""
        own = tuple(one for one in self.curves if one.shape.nodes < nodes)
        known = replace(
            self.known,
            seen=frozenset(name for curve in own for name in curve.seen),
            run_noise=_run_noise(own),
        )
        return replace(self, curves=own, known=known) if own else None

    @property
    def largest(self) -> int:
        """The most nodes of a run."""
        return max(one.shape.nodes for one in self.curves)

    @property
    def is_special_at_two(self) -> bool:
        """Whether trees may have run, which send less between two nodes than between more."""
        return TREE in ALGORITHMS[self.operation] and self.known.algorithm != RING

    @cached_property
    def merged(self) -> list[TimeCurve]:
        """A curve for each number of nodes, the fewest first: the medians of its runs."""
        found = []
        by_shape = by_key((one.shape, one) for one in self.curves)
        for shape, curves in sorted(by_shape.items()):
            points = by_key((point.size_bytes, point) for one in curves for point in one.points)
            sizes = sorted(points)
            found.append(
                TimeCurve(
                    shape,
                    tuple(map(float, sizes)),
                    tuple(median(one.time_s for one in points[size]) for size in sizes),
                    tuple(max(one.noise for one in points[size]) for size in sizes),
                    len(curves),
                )
            )
        return found

    def item(self, nodes: int, size_bytes: float, *, is_measured: bool) -> Prediction:
        """An item of these runs."""
        one = self.curves[0]
        return Prediction(
            *(self.operation, one.ccl, nodes, self.per_node, int(size_bytes)),
            *(one.version, one.device, one.dtype, one.placement),
            *(self.known.algorithm, self.known.bps, is_measured),
        )

    def fall_at(self, size_bytes: float) -> float:
        """By what share the time on most nodes is below that on the next fewer ones; 0 if not."""
        between = [one for one in self.merged if one.shape.nodes > 1]
        times = [
            dict(zip(one.sizes_bytes, one.times_s, strict=True)).get(size_bytes) for one in between
        ]
        known = [one for one in times if one is not None]
        return max(0.0, 1 - known[-1] / known[-2]) if len(known) > 1 else 0.0

    def is_out_of_order(self, size_bytes: float) -> bool:
        """Whether a larger size takes clearly less time on most nodes."""
        curve = self.merged[-1]
        known = dict(zip(curve.sizes_bytes, curve.times_s, strict=True))
        larger = [time_s for size, time_s in known.items() if size > size_bytes]
        return bool(larger) and min(larger) * (1 + _MOST_FALL) < known[size_bytes]

    def is_odd_at(self, size_bytes: int) -> bool:
        """Whether something else than size and number of nodes determines the measured time."""
        if size_bytes not in self.merged[-1].sizes_bytes:
            return False
        has_dip = size_bytes >= LEAST_DIP_BYTES and self.dip_at(size_bytes) > _DEEPEST_DIP
        return has_dip or self.is_out_of_order(size_bytes) or self.fall_at(size_bytes) > _MOST_FALL

    def dip_at(self, size_bytes: int) -> float:
        """By what share the bandwidth on most nodes is below that of a smaller size, although that
        of a larger one is not; 0 if it is not."""
        curve = self.merged[-1]
        rates = {
            size: size / time_s
            for size, time_s in zip(curve.sizes_bytes, curve.times_s, strict=True)
        }
        smaller = max((rate for size, rate in rates.items() if size < size_bytes), default=0.0)
        larger = max((rate for size, rate in rates.items() if size > size_bytes), default=0.0)
        return max(0.0, 1 - rates[size_bytes] / smaller) if larger >= smaller > 0 else 0.0

    def spread_at(self, size_bytes: int) -> float:
        """The largest spread of samples of a size on most nodes."""
        return max(
            point.spread
            for one in self.curves
            if one.shape.nodes == self.largest
            for point in one.points
            if point.size_bytes == size_bytes
        )


def predictions_of(flags: PredictFlags) -> tuple[list[PredictResult], list[str]]:
    """The predictions, and what readers have to know of the runs. Raises UsageError."""
    if not flags.runs:
        raise UsageError("no journal: cclmark predict RUN.jsonl --nodes 8,16,64")
    if not flags.nodes:
        raise UsageError("--nodes is missing: for how many nodes? --nodes 8,16,64")
    curves = [curve for path in flags.runs for curve in read_curves(path)]
    curves, notices = _comparable(curves, flags)
    _refuse_differences(curves, flags)
    topology = None if flags.topology is None else parse_topology(flags.topology)
    grounds = [
        _ground(operation, own, flags, topology, notices)
        for operation, own in by_key((one.operation, one) for one in curves).items()
    ]
    for ground in grounds:
        _check_nodes(ground, flags.nodes)
    rows = [row for ground in grounds for row in _results(ground, flags)]
    for place, row in enumerate(rows):
        row.index = place
    return rows, notices


def _comparable(
    curves: Sequence[MeasuredCurve], flags: PredictFlags
) -> tuple[list[MeasuredCurve], list[str]]:
    """The curves of modelled operations, of one machine and of nodes of one size."""
    libraries = dict.fromkeys(one.ccl for one in curves)
    if flags.ccl is not None:
        curves = [one for one in curves if one.ccl == flags.ccl]
        if not curves:
            raise UsageError(f"--ccl {flags.ccl}: the runs have {plain(', '.join(libraries))}")
    elif len(libraries) > 1:
        raise UsageError(
            f"the runs have several libraries, {plain(', '.join(libraries))}: choose with --ccl"
        )
    machines = by_key((one.machine, one) for one in curves)
    if len(machines) > 1:
        words = [
            " ".join(filter(None, (device or "unknown devices", ccl, version)))
            for device, ccl, version in machines
        ]
        raise UsageError(
            f"the runs differ: {plain('; '.join(words))}: times of different devices, libraries or "
            "versions are never mixed; predict each by itself"
        )
    notices = []
    left_out = {one.operation for one in curves if one.operation not in ALGORITHMS}
    found = [one for one in curves if one.operation in ALGORITHMS]
    if flags.operations:
        known = {one.operation for one in found}
        missing = [name for name in flags.operations if name not in known]
        if missing:
            raise UsageError(f"--operation {missing[0]}: no run has it, or it has no model")
        found = [one for one in found if one.operation in flags.operations]
    elif left_out:
        notices.append(f"no model of {', '.join(sorted(left_out))}, which is left out")
    if not found:
        raise UsageError(f"the runs have no operation with a model: {', '.join(ALGORITHMS)}")
    most = max(found, key=lambda one: (one.shape.nodes, one.shape.per_node)).shape.per_node
    apart = sorted({one.shape.per_node for one in found} - {most})
    if apart:
        notices.append(
            f"runs with {', '.join(map(str, apart))} ranks on a node are left out: the largest has "
            f"{most} on each of its nodes"
        )
    own = []
    for one in found:
        points = tuple(
            point
            for point in one.points
            if (flags.begin_bytes or 0) <= point.size_bytes <= (flags.end_bytes or math.inf)
        )
        if one.shape.per_node == most and one.shape.ranks > 1 and points:
            own.append(replace(one, points=points))
    if not own:
        raise UsageError("no run has a size within --begin and --end, with at least two ranks")
    return own, notices


def _refuse_differences(curves: Sequence[MeasuredCurve], flags: PredictFlags) -> None:
    """Raises UsageError for runs whose settings differ, and for a run that is given twice."""
    for operation, own in by_key((one.operation, one) for one in curves).items():
        for name in sorted({name for one in own for name, _ in one.settings}):
            values = {dict(one.settings).get(name, "unset") for one in own}
            if len(values) > 1:
                words = plain(", ".join(sorted(values)))
                raise UsageError(
                    f"the runs of {operation} differ in {name}: {words}: predict each by itself"
                )
        seen = set[object]()
        for one in own:
            if (one.shape, one.points) in seen:
                raise UsageError(f"{plain(one.source)}: the same run of {operation} is given twice")
            seen.add((one.shape, one.points))


def _ground(
    operation: str,
    curves: Sequence[MeasuredCurve],
    flags: PredictFlags,
    topology: Topology | None,
    notices: list[str],
) -> _Ground:
    """The runs of an operation. ``notices``: to which what readers have to know is added."""
    one = curves[0]
    forced = {curve.forced for curve in curves}
    if len(forced) > 1:
        words = ", ".join(sorted(name or "the library's choice" for name in forced))
        raise UsageError(f"the runs of {operation} have different algorithms: {words}")
    own = forced.pop()
    if flags.algorithm and own and flags.algorithm.lower() != own.lower():
        raise UsageError(f"--algorithm {flags.algorithm}: the runs of {operation} had {own} alone")
    algorithm = flags.algorithm or own
    named = {name.lower(): name for name in ALGORITHMS[operation]}
    if algorithm and algorithm.lower() not in named:
        raise UsageError(
            f"--algorithm {algorithm}: {operation} is modelled by {', '.join(named.values())}"
        )
    rates = {curve.network_bps for curve in curves if curve.network_bps}
    bps = rates.pop() if len(rates) == 1 else 0.0
    if topology is not None:
        if topology.per_node != 1 and topology.per_node % one.shape.per_node:
            raise UsageError(
                f"--topology has nodes of {topology.per_node} devices, the runs of "
                f"{one.shape.per_node}"
            )
        if not bps and len(topology.levels) > 1 and topology.per_node == one.shape.per_node:
            bps = topology.levels[1].bps * one.shape.per_node
    if flags.network is not None:
        bps = flags.network.gbit * 1e9 / 8 * (flags.network.interfaces or one.shape.per_node)
    reached = _reached_bps(operation, curves)
    if bps and reached and reached < _LEAST_REACHED * bps:
        notices.append(
            f"{operation}: large messages of the runs reach {reached / bps * 100:.2g} % of the "
            f"line rate of {bps * 8e-9:.4g} Gb/s of a node, which is therefore not used"
        )
        bps = 0.0
    known = Known(
        device=one.device,
        bps=bps,
        algorithm=named.get(algorithm.lower(), ""),
        seen=frozenset(name for curve in curves for name in curve.seen),
        is_nccl=_has_interface_of_nccl(one.ccl),
        has_multicast=all(curve.has_multicast for curve in curves),
        has_version=bool(one.version),
        is_shared=flags.shared,
        run_noise=_run_noise(curves),
    )
    return _Ground(operation, tuple(curves), known, topology)


def _has_interface_of_nccl(ccl: str) -> bool:
    """Whether a library, or that of a backend of torch, is NCCL or made after it: such libraries
    choose between rings and trees alike."""
    own, nccl = library_called(ccl.rpartition(":")[2]), library_called(_NCCL)
    return own is not None and nccl is not None and own.shape == nccl.shape


def _reached_bps(operation: str, curves: Sequence[MeasuredCurve]) -> float:
    """What a node sends to others at least with large messages; 0 without any between nodes."""
    known = ALGORITHMS[operation]
    algorithm = HIERARCHICAL if HIERARCHICAL in known else known[0]
    return max(
        (
            wire_bytes(operation, algorithm, point.size_bytes, one.shape) / point.time_s
            for one in curves
            for point in one.points
            if one.shape.nodes > 1 and point.size_bytes >= _LARGE_BYTES
        ),
        default=0.0,
    )


def _run_noise(curves: Sequence[MeasuredCurve]) -> float:
    """Standard deviation of the logarithm of a time between runs of one shape.

    The usual one counts as two degrees of freedom.
    """
    squares, freedom = 2 * USUAL_RUN_NOISE**2, 2
    by_shape = by_key(
        ((one.shape, point.size_bytes), math.log(point.time_s))
        for one in curves
        for point in one.points
    )
    for logs in by_shape.values():
        mean = sum(logs) / len(logs)
        squares += sum((one - mean) ** 2 for one in logs)
        freedom += len(logs) - 1
    return math.sqrt(squares / freedom)


def _check_nodes(ground: _Ground, nodes: Sequence[int]) -> None:
    fewest = min(nodes)
    if fewest <= ground.largest:
        raise UsageError(
            f"--nodes {fewest}: the runs of {ground.operation} already have {ground.largest} "
            f"{'node' if ground.largest == 1 else 'nodes'}; predictions are for more"
        )
    if ground.topology is not None:
        ground.topology.level_of(max(nodes) * ground.per_node)


def _results(ground: _Ground, flags: PredictFlags) -> Iterator[PredictResult]:
    """Measured numbers of nodes, predicted from fewer, and then those that were asked for.

    Where measured times were predicted badly, the others are as uncertain.
    """
    measured = [*_measured(ground)]
    yield from measured
    for nodes in flags.nodes:
        for one in _predicted(ground, nodes, is_measured=False).values():
            _judge(one, measured, ground)
            yield one


def _judge(one: PredictResult, measured: Sequence[PredictResult], ground: _Ground) -> None:
    """Widens the interval by how far measured times lay outside theirs, and withholds the
    prediction if the same busbw predicted them better, or if the interval becomes too wide.

    By the times of the class of sizes, or of all if these are few. What two nodes say of the next
    number judges only predictions that stand on them too, because two are special.
    """
    if one.time_s is None or one.low_s is None or one.high_s is None:
        return
    known = [other for other in measured if size_class(other) == size_class(one)]
    if sum(other.time_s is not None for other in known) < _LEAST_JUDGING:
        known = [*measured]
    if ground.is_special_at_two and ground.largest > 2:
        third = sorted({other.prediction.nodes for other in measured})
        after_two = next((nodes for nodes in third if nodes > 2), 0)
        known = [other for other in known if other.prediction.nodes != after_two]
    known = [other for other in known if not ground.is_odd_at(other.prediction.size_bytes)]
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
        _withhold(one, *_too_wide(ground, one.high_s / one.low_s))


def _withhold(one: PredictResult, reason: str, advice: str) -> None:
    one.status, one.time_s, one.low_s, one.high_s = "skipped", None, None, None
    one.reason, one.advice = reason, advice


def _too_wide(ground: _Ground, width: float) -> _Doubt:
    return (
        f"what is possible differs {width:.1f} times",
        f"Run `cclmark {ground.operation}` on {max(4, 2 * ground.largest)} nodes, and with "
        "`--explain`, which shows the algorithms that the library chose.",
    )


def _beyond_interval(one: PredictResult) -> float:
    """How far a measured time lies from the predicted one, in halves of the interval; 0 without."""
    if not (one.time_s and one.measured_s and one.low_s and one.high_s):
        return 0.0
    off = math.log(one.measured_s / one.time_s)
    half = math.log((one.high_s if off > 0 else one.low_s) / one.time_s)
    return off / half if half else 0.0


def _measured(ground: _Ground) -> Iterator[PredictResult]:
    for curve in ground.merged:
        nodes = curve.shape.nodes
        fewer = ground.fewer_than(nodes)
        predicted = {} if fewer is None else _predicted(fewer, nodes, is_measured=True)
        known = zip(curve.sizes_bytes, curve.times_s, curve.noise, strict=True)
        for size, time_s, noise in known:
            item = ground.item(nodes, size, is_measured=True)
            found = predicted.get(size) or PredictResult(0, item, "ok")
            found.measured_s, found.measured_noise = time_s, noise
            yield found


def _predicted(ground: _Ground, nodes: int, *, is_measured: bool) -> dict[float, PredictResult]:
    """By size: what the runs say of a larger number of nodes."""
    shape = Shape(nodes, ground.per_node)
    curves = ground.merged
    largest = curves[-1]
    sizes = largest.sizes_bytes
    found = {
        size: PredictResult(
            *(0, ground.item(nodes, size, is_measured=is_measured), "ok"),
            baseline_s=time_s * _same_bus(ground.operation, largest.shape, shape),
        )
        for size, time_s in zip(sizes, largest.times_s, strict=True)
    }
    doubt = _doubt_of_runs(ground, shape)
    if doubt is not None:
        for one in found.values():
            one.status, (one.reason, one.advice) = "skipped", doubt
        return found
    known = replace(ground.known, levels=_crossed_levels(ground, shape))
    made = forecast(ground.operation, curves, sizes, shape, known)
    every = algorithm_times(ground.operation, curves, sizes, shape, known)
    for place, one in enumerate(found.values()):
        one.growing = float(made.growing[place])
        one.hypotheses = {name: float(times[place]) for name, times in made.by_model.items()}
        one.weights = dict(made.weights)
        one.unseen = made.unseen[place]
        one.algorithms = {name: float(times[place]) for name, times in every.items()}
        doubt = _doubt_of_size(ground, made, place)
        if doubt is None:
            one.low_s, one.time_s, one.high_s = map(float, made.quantiles[:, place])
        else:
            one.status, (one.reason, one.advice) = "skipped", doubt
    return found


def _doubt_of_runs(ground: _Ground, shape: Shape) -> _Doubt | None:
    """Why the runs say nothing of ``shape``; None if they do."""
    runs = f"`cclmark {ground.operation}` on two and on four nodes"
    domain = _domain(ground.known.device)
    if domain and ground.largest * ground.per_node <= domain < shape.ranks:
        if ground.topology is None:
            return (
                f"no run crossed the NVLink domains of {domain} GPUs",
                f"Run `cclmark {ground.operation}` on two and on four domains, or describe the "
                "network between them with --topology.",
            )
    elif ground.largest == 1 and not ground.known.bps:
        return (
            "no run crossed the network between nodes",
            f"Run {runs}, or state the network: --network 8x400.",
        )
    if shape.nodes > _FARTHEST * ground.largest:
        return (
            f"{shape.nodes:,} nodes are more than {_FARTHEST} times as many as the "
            f"{ground.largest} of the largest run",
            f"Run `cclmark {ground.operation}` on more nodes.",
        )
    sizes = {point.size_bytes for one in ground.curves for point in one.points}
    between = {one.shape.nodes for one in ground.curves if one.shape.nodes > 1}
    if len(sizes) == 1 and len(between) < 2:
        return (
            "the runs have one size, from which latency and bandwidth cannot be told apart",
            f"Run {runs} with several sizes: -b 8 -e 8G.",
        )
    return None


def _doubt_of_size(ground: _Ground, made: Forecast, place: int) -> _Doubt | None:
    """Why nothing can be said at a size, None if something can."""
    size = int(made.sizes_bytes[place])
    low, _, high = made.quantiles[:, place]
    spread = ground.spread_at(size)
    if spread > _MOST_SPREAD:
        return (
            f"times of the runs vary by {spread * 100:.0f} %",
            "Repeat the runs while nothing else uses the nodes and their network.",
        )
    if (fall := ground.fall_at(size)) > _MOST_FALL:
        return (
            f"times of the runs fall by {fall * 100:.0f} % with more nodes",
            "Find what differs between the runs, and repeat them while nothing else uses the "
            "network.",
        )
    if ground.is_out_of_order(size):
        return (
            "a larger size takes less time in the runs",
            "Repeat the runs while nothing else uses the nodes and their network.",
        )
    dip = ground.dip_at(size)
    if size >= LEAST_DIP_BYTES and dip > _DEEPEST_DIP:
        return (
            f"the bandwidth of the runs falls by {dip * 100:.0f} % at this size and rises again",
            "Find the cause with `cclmark explain` and `cclmark pairs`, and repeat the runs.",
        )
    if ground.largest == 1 and made.growing[place] > _MOST_UNSEEN:
        return (
            "latencies between nodes determine this size, and no run crossed the network",
            f"Run `cclmark {ground.operation}` on two and on four nodes.",
        )
    return _too_wide(ground, high / low) if high > low * _WIDEST else None


def _domain(device: str) -> int:
    """The GPUs of an NVLink domain that contains several hosts, 0 if there is none."""
    words = device.upper().replace("-", " ").split()
    return next((number for name, number in _DOMAINS.items() if name in words), 0)


def _crossed_levels(ground: _Ground, shape: Shape) -> tuple[CrossedLevel, ...]:
    """The levels of the topology that ``shape`` crosses and no run did."""
    topology = ground.topology
    if topology is None:
        return ()
    levels = topology.levels
    first = levels.index(topology.level_of(max(1, ground.largest * ground.per_node)))
    if ground.largest == 1:
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
