"""The runs that predictions stand on: which of them belong together, and what is odd in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from cclmark.analysis.irregularities import LEAST_DIP_BYTES
from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.work.fabric_topology import Topology
from cclmark.work.libraries import library_called
from cclmark_planning.predict.command import PredictFlags
from cclmark_planning.predict.curves import MeasuredCurve
from cclmark_planning.predict.plan import Prediction
from cclmark_planning.scale.algorithms import ALGORITHMS, HIERARCHICAL, Shape, wire_bytes
from cclmark_planning.scale.extrapolation import USUAL_RUN_NOISE, RunFacts, TimeCurve

#: Beyond these nothing is said: a dip of the bandwidth between sizes, and by how much times
#: may fall with more nodes or with size.
DEEPEST_DIP, MOST_FALL = 0.3, 0.1
# The shares of a line rate that large messages reach: of all algorithms the one counts that sends
# least to other nodes.
_LEAST_REACHED, _MOST_REACHED, _LARGE_BYTES = 0.3, 1.1, 64 << 20
_NCCL = "nccl"


@dataclass(frozen=True)
class MeasuredRuns:
    """The runs of an operation that a prediction stands on.

    ``known``: what is known of them besides times. ``topology``: None if it is unknown.
    """

    operation: str
    curves: tuple[MeasuredCurve, ...]
    known: RunFacts
    topology: Topology | None

    @property
    def per_node(self) -> int:
        """The ranks of a node, the same in all runs."""
        return self.curves[0].shape.per_node

    def fewer_than(self, nodes: int) -> MeasuredRuns | None:
        """The runs on fewer nodes; None without any."""
        own = tuple(one for one in self.curves if one.shape.nodes < nodes)
        known = replace(
            self.known,
            seen=frozenset(name for curve in own for name in curve.seen),
            run_noise=_run_noise(own),
        )
        return replace(self, curves=own, known=known) if own else None

    @cached_property
    def reached_bps(self) -> float:
        """What a node sends to others at least with large messages; 0 without any."""
        return _reached_bps(self.operation, self.curves)

    @property
    def largest(self) -> int:
        """The most nodes of a run."""
        return max(one.shape.nodes for one in self.curves)

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
        return bool(larger) and min(larger) * (1 + MOST_FALL) < known[size_bytes]

    def is_odd_at(self, size_bytes: int) -> bool:
        """Whether something else than size and number of nodes determines the measured time."""
        if size_bytes not in self.merged[-1].sizes_bytes:
            return False
        has_dip = size_bytes >= LEAST_DIP_BYTES and self.dip_at(size_bytes) > DEEPEST_DIP
        return has_dip or self.is_out_of_order(size_bytes) or self.fall_at(size_bytes) > MOST_FALL

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


def comparable_curves(
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
    own = [one for one in found if one.shape.per_node == most and one.shape.ranks > 1]
    if not own:
        raise UsageError("no run has at least two ranks")
    return own, notices


def refuse_differences(curves: Sequence[MeasuredCurve], flags: PredictFlags) -> None:
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


def runs_of(
    operation: str,
    curves: Sequence[MeasuredCurve],
    flags: PredictFlags,
    topology: Topology | None,
    notices: list[str],
) -> MeasuredRuns:
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
    bps = max(rates) if len(rates) == 1 else 0.0
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
        rates = {bps}
    if len(rates) > 1:
        words = ", ".join(f"{rate * 8e-9:.4g}" for rate in sorted(rates))
        notices.append(
            f"{operation}: the runs have several line rates of a node, {words} Gb/s: none is used; "
            "state it with --network"
        )
    reached = _reached_bps(operation, curves)
    if bps and reached and not _LEAST_REACHED <= reached / bps <= _MOST_REACHED:
        notices.append(
            f"{operation}: large messages of the runs reach {reached / bps * 100:.3g} % of the "
            f"line rate of {bps * 8e-9:.4g} Gb/s of a node, which is therefore not used"
        )
        bps = 0.0
    known = RunFacts(
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
    return MeasuredRuns(operation, tuple(curves), known, topology)


def _has_interface_of_nccl(ccl: str) -> bool:
    """Whether a library, or that of a backend of torch, is NCCL or made after it: such libraries
    choose between rings and trees alike."""
    own, nccl = library_called(ccl.rpartition(":")[2]), library_called(_NCCL)
    return own is not None and nccl is not None and own.shape == nccl.shape


def least_wire_bytes(operation: str, size_bytes: float, shape: Shape) -> float:
    """What a node sends to others at least: with the algorithm that sends least."""
    known = ALGORITHMS[operation]
    algorithm = HIERARCHICAL if HIERARCHICAL in known else known[0]
    return wire_bytes(operation, algorithm, size_bytes, shape)


def _reached_bps(operation: str, curves: Sequence[MeasuredCurve]) -> float:
    """What a node sends to others at least with large messages; 0 without any between nodes."""
    return max(
        (
            least_wire_bytes(operation, point.size_bytes, one.shape) / point.time_s
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
