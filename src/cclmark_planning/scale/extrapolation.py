"""From measured times on some nodes to times on more: fits, draws, and what they leave open.

Each hypothesis, a model of collective_times, is fitted to all measured curves with a prior for each
parameter. Then two factors at each size, for the part of the time that grows with the nodes and for
the rest, take up what the model lacks there. Draws vary parameters, factors and measured times, and
hypotheses weigh as well as they fit (randomised maximum a posteriori: Y. Chen, D. Oliver, Ensemble
randomized maximum likelihood, 2012).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from cclmark.work.accelerators import find_accelerator
from cclmark.work.operations import OPERATIONS
from cclmark_planning.scale.algorithms import (
    ALGORITHMS,
    DIRECT,
    HIERARCHICAL,
    NVLS_TREE,
    PAT,
    RING,
    TREE,
    Shape,
)
from cclmark_planning.scale.collective_times import (
    AlgorithmModel,
    Array,
    CrossedLevel,
    Parameters,
)

#: The shares of the draws below the ends of an interval and below its middle.
QUANTILES = (0.05, 0.5, 0.95)
#: Standard deviation of the logarithm of a time between two runs, where it was not measured.
USUAL_RUN_NOISE = 0.03

_DRAWS = 240
_SEED = 20260101
# Of the logarithm of a time, for the fit of parameters: at a size, and between numbers of nodes.
_MODEL_ERROR, _DIFFERENCE_ERROR = 0.15, 0.04
_POINTS = 5  # of a curve count as independent
# Of the factors of the growing and the fixed part at each size: standard deviations of their
# logarithms, with one measured number of nodes and with several, whose differences count more.
_OF_ONE, _OF_SEVERAL = (0.35, 0.15), (1.5, 0.4)
# Messages of many chunks hide a part of the latencies: the logarithm of what is left, from a size
# on, over so many doublings, and its standard deviation.
_HIDDEN, _HIDDEN_SPREAD, _HIDING_BYTES, _HIDING_DOUBLINGS = -0.6, 0.6, 64 << 20, 3
# Of a time on two nodes, whose bandwidth is another one: see TREE_CAPS.
_PAIR_NOISE, _LATENCY_BOUND_BYTES = 0.1, 1 << 20
_LEAST_NOISE = 0.01
_ROUNDS, _LONGEST_STEP, _DAMPING = 25, 0.5, 1.1
_WIDEST_GAP = 16.0  # between the sizes of a curve that others are interpolated between
# Of a time per square root of the number of doublings beyond the largest measured number of nodes.
_GROWTH_NOISE = {DIRECT: 0.08}
_USUAL_GROWTH_NOISE = 0.03
_UNKNOWN_SOFTWARE = 1.5  # factor of noise
_CHANGE_NOISE = 0.1  # where another algorithm is expected than in the runs
# Between runs on a shared network, of which 90 % lie within 20 %: Azure's guide to sick fabrics
# calls that transient congestion.
_SHARED_RUN_NOISE = 0.12
_SHARED_NOISE = 0.07  # per doubling; half of the bandwidth lost at 1,024 devices: arXiv 2408.14090

# Medians and standard deviations of the logarithms of parameters, in the order of Parameters:
# NCCL's base latencies and hops of protocol LL; its correction of trees and of rings.
_BASE_S, _NODE_HOP_S, _HOP_S = (7e-6, 0.7), (0.7e-6, 0.5), (4.5e-6, 0.8)
_TREE_SHARE, _FILL, _PLATEAU = (0.92, 0.12), (0.7, 0.5), (1.4, 0.25)
_OTHER_LATENCIES = 1.5  # standard deviation where the library is not of NCCL's family
#: What is achieved of a line rate.
ACHIEVED, _ACHIEVED_SPREAD = 0.92, 0.12
_UNKNOWN_RATE_SPREAD = 0.35
# Of NVLink: between the bus bandwidth of rings (0.81) and that of NVLS (1.07) on H100.
_LINK_SHARE = 0.95
_LINK_SPREAD, _UNKNOWN_LINK_SPREAD = 0.25, 0.4
_LARGE_BYTES, _HALVING_SPREAD = 64 << 20, 0.1
_BESIDE_MOST = {"between": 1 / 1.1, "within": 1.2}

_WITH_MULTICAST = ("Hopper", "Blackwell")
_ARCHITECTURES = {
    "Volta": ("V100",),
    "Ampere": ("A100", "A800", "A40", "A10", "A10G", "A30"),
    "Hopper": ("H100", "H200", "H800", "H20", "GH200"),
    "Blackwell": ("B100", "B200", "B300", "GB200", "GB300"),
}


def architecture_of(device: str) -> str:
    """The architecture of a device by its name, empty if unknown."""
    words = set(device.upper().replace("-", " ").split())
    for name, devices in _ARCHITECTURES.items():
        if words.intersection(devices):
            return name
    return ""


@dataclass(frozen=True)
class TimeCurve:
    """Measured times of one shape by ascending size, the medians of ``runs`` runs. ``noise``: their
    standard errors within a run, as shares."""

    shape: Shape
    sizes_bytes: tuple[float, ...]
    times_s: tuple[float, ...]
    noise: tuple[float, ...]
    runs: int = 1

    def with_run_noise(self, share: float) -> TimeCurve:
        """The curve with the noise between runs too, a standard deviation of each run."""
        own = share / math.sqrt(self.runs)
        return replace(self, noise=tuple(math.hypot(one, own) for one in self.noise))

    def with_noise(self, share: float, least_bytes: float) -> TimeCurve:
        """The curve with at least so much noise, from a size on."""
        pairs = zip(self.sizes_bytes, self.noise, strict=True)
        noise = (max(share, one) if size >= least_bytes else one for size, one in pairs)
        return replace(self, noise=tuple(noise))

    def at(self, sizes: Array) -> tuple[Array, Array]:
        """Logarithms of times and their noise; NaN beyond the curve and within wide gaps."""
        own, logs = np.array(self.sizes_bytes), np.log(self.times_s)
        found, noise = np.full(len(sizes), np.nan), np.full(len(sizes), 1.0)
        for place, size in enumerate(sizes):
            after = int(np.searchsorted(own, size))
            if after < len(own) and own[after] == size:
                found[place], noise[place] = logs[after], self.noise[after]
            elif 0 < after < len(own) and own[after] <= own[after - 1] * _WIDEST_GAP:
                found[place] = np.interp(math.log(size), np.log(own), logs)
                noise[place] = max(self.noise[after - 1 : after + 1]) + _LEAST_NOISE
        return found, np.maximum(noise, _LEAST_NOISE)


@dataclass(frozen=True)
class RunFacts:
    """What is known of the runs. ``bps``: the line rate of a node to others in bytes/s, 0 if
    unknown. ``levels``: those that the prediction crosses and no run did.

    ``algorithm``: that all runs used, empty if the library chose; ``seen``: those that it was
    observed to choose. ``is_nccl``: a library that
    chooses as NCCL does. ``has_multicast``: NVLSTree is possible. ``run_noise``: standard deviation
    of the logarithm of a time between runs. ``has_version``: of the library. ``is_shared``: others
    use the network.
    """

    device: str = ""
    bps: float = 0.0
    levels: tuple[CrossedLevel, ...] = ()
    algorithm: str = ""
    seen: frozenset[str] = frozenset()
    is_nccl: bool = True
    has_multicast: bool = True
    run_noise: float = USUAL_RUN_NOISE
    has_version: bool = True
    is_shared: bool = False


@dataclass(frozen=True)
class Forecast:
    """Times in seconds on ``shape``, at ``sizes_bytes``. ``quantiles``: [QUANTILES, sizes].

    ``by_model``: the middle of each hypothesis alone; ``weights``: how much each counts.
    ``growing``: the share of the modelled time that grows with the number of nodes. ``unseen``: the
    algorithm that is expected at a size and that no run used there, empty if one did.
    """

    shape: Shape
    sizes_bytes: Array
    quantiles: Array
    by_model: Mapping[str, Array]
    weights: Mapping[str, float]
    growing: Array
    unseen: Sequence[str] = ()


def models_of(operation: str, known: RunFacts, per_node: int) -> list[tuple[AlgorithmModel, float]]:
    """The hypotheses for runs, with their weights before anything is fitted.

    Those that lack an algorithm that was observed are left out.
    """
    architecture = architecture_of(known.device)
    chosen: list[tuple[tuple[str, ...], float]]
    if known.algorithm:
        chosen = [((known.algorithm,), 1.0)]
    elif TREE in ALGORITHMS[operation] and known.is_nccl:
        chosen = [((RING, TREE), 0.9), ((RING,), 0.05), ((TREE,), 0.05)]
        if known.has_multicast and architecture in _WITH_MULTICAST and per_node > 1:
            chosen.append(((RING, NVLS_TREE), 0.9))
    elif TREE in ALGORITHMS[operation]:
        chosen = [((RING, TREE), 0.4), ((RING,), 0.3), ((TREE,), 0.15), ((HIERARCHICAL,), 0.15)]
    else:
        without = {HIERARCHICAL} if known.is_nccl else set()
        without |= {PAT} if per_node > 1 else set()
        chosen = [((name,), 1.0) for name in ALGORITHMS[operation] if name not in without]
    observed = [one for one in chosen if known.seen <= set(one[0])]
    return [
        (AlgorithmModel(operation, names, architecture), weight)
        for names, weight in observed or chosen
    ]


def _priors(operation: str, curves: Sequence[TimeCurve], known: RunFacts) -> Array:
    """[parameters, 2]: medians and standard deviations of their logarithms.

    The highest measured bus bandwidth is close to that of the network if messages are large. For
    each halving of the largest size below that, half of what is missing is unknown.
    """
    bus_bps = _highest_bus(operation, curves)
    halvings = max(0.0, math.log2(_LARGE_BYTES / max(max(one.sizes_bytes) for one in curves)))
    unknown = _HALVING_SPREAD * halvings
    bus_bps *= 2 ** (halvings / 2)
    accelerator = find_accelerator(known.device)
    link = accelerator.link_bps * _LINK_SHARE if accelerator is not None else 0.0
    between = (known.bps * ACHIEVED, _ACHIEVED_SPREAD)
    if not known.bps:
        between = (bus_bps * _BESIDE_MOST["between"], _UNKNOWN_RATE_SPREAD + unknown)
    within = (max(link, _highest_bus(operation, curves)), _LINK_SPREAD)
    if not link:
        within = (bus_bps * _BESIDE_MOST["within"], _UNKNOWN_LINK_SPREAD + unknown)
    latencies = [_BASE_S, _NODE_HOP_S, _HOP_S]
    if not known.is_nccl:
        latencies = [(median, _OTHER_LATENCIES) for median, _ in latencies]
    rows = [*latencies, between, within, _TREE_SHARE, _FILL, _PLATEAU]
    return np.array([(math.log(median), spread) for median, spread in rows])


def _fitted(
    curves: Sequence[TimeCurve], model: AlgorithmModel, priors: Array
) -> tuple[Array, Array, float]:
    """The most likely logarithms of the parameters, their covariance, and half of the sum of
    squared deviations.

    What a model lacks at a size it lacks on all numbers of nodes alike: the mean of the deviations
    at a size may be large, their differences are small.
    """
    between = [one for one in curves if one.shape.nodes > 1]
    groups = [
        group for group in (between, [one for one in curves if one.shape.nodes == 1]) if group
    ]
    data = []
    for group in groups:
        sizes = np.array(max(group, key=lambda one: one.shape.nodes).sizes_bytes)
        logs, noise = (np.array(one) for one in zip(*(one.at(sizes) for one in group), strict=True))
        counted = math.sqrt(max(1.0, len(sizes) / _POINTS))
        data.append((group, sizes, logs, counted, np.hypot(noise, _DIFFERENCE_ERROR)))

    def deviations(logs: Array) -> Array:
        parameters = Parameters.of_logs(logs)
        found = [(logs - priors[:, 0]) / priors[:, 1]]
        for group, sizes, measured, counted, error in data:
            times = [model.time_s(parameters, sizes, one.shape) for one in group]
            off = np.where(np.isfinite(measured), np.log(times) - measured, np.nan)
            mean = np.nanmean(off, axis=0)
            found.append(mean / (_MODEL_ERROR * counted))
            apart = (off - mean) / (error * counted)
            found.append(np.where(np.isfinite(apart), apart, 0.0).ravel())
        return np.concatenate(found)

    best = least_squares(deviations, priors[:, 0], x_scale=priors[:, 1], max_nfev=200)
    covariance: Array = np.linalg.inv(best.jac.T @ best.jac)
    return best.x, (covariance + covariance.T) / 2, float(best.cost)


def _factors(
    model: AlgorithmModel,
    parameters: Parameters,
    sizes: Array,
    curves: Sequence[TimeCurve],
    chance: np.random.Generator,
) -> tuple[Array, Array]:
    """The logarithms of the factors of the growing and of the fixed part: [draws, sizes].

    Gauss-Newton, damped, for all draws and sizes at once.
    """
    draws = parameters.base_s.shape[0]
    shape = (draws, len(sizes))
    usual = _OF_ONE if len(curves) < 2 else _OF_SEVERAL
    ramp = np.clip(np.log2(sizes / _HIDING_BYTES) / _HIDING_DOUBLINGS, 0, 1)
    spreads = np.hypot(usual[0], _HIDDEN_SPREAD * ramp), usual[1]
    means = (
        spreads[0] * _normal(chance, len(sizes)) + _HIDDEN * ramp,
        spreads[1] * _normal(chance, len(sizes)),
    )
    growing, fixed = means[0].copy(), means[1].copy()
    observed = []
    for curve in curves:
        logs, noise = curve.at(sizes)
        if np.isfinite(logs).any():
            varied = logs[None] + noise[None] * _normal(chance)
            observed.append((model.parts(parameters, sizes, curve.shape), varied, noise[None]))
    for _ in range(_ROUNDS if observed else 0):
        slopes = [
            (growing - means[0]) / spreads[0] ** 2,
            (fixed - means[1]) / spreads[1] ** 2,
        ]
        curvature = [np.zeros(shape) + spread**-2.0 for spread in spreads]
        curvature.append(np.zeros(shape))
        factors = np.exp(growing), np.exp(fixed)
        for parts, logs, noise in observed:
            times = np.stack([factors[0] * one.growing + factors[1] * one.fixed for one in parts])
            fastest = times.argmin(0)[None]
            time_s = np.take_along_axis(times, fastest, 0)[0]
            first = np.take_along_axis(np.stack([one.growing for one in parts]), fastest, 0)[0]
            share = factors[0] * first / time_s
            is_known = np.isfinite(logs)
            off = np.where(is_known, np.log(time_s) - logs, 0.0) / noise**2
            weight = np.where(is_known, 1.0, 0.0) / noise**2
            slopes[0] += share * off
            slopes[1] += (1 - share) * off
            curvature[0] += share**2 * weight
            curvature[1] += (1 - share) ** 2 * weight
            curvature[2] += share * (1 - share) * weight
        first_of, second_of, mixed = curvature[0] * _DAMPING, curvature[1] * _DAMPING, curvature[2]
        scale = first_of * second_of - mixed**2
        step = (second_of * slopes[0] - mixed * slopes[1]) / scale
        growing -= np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        step = (first_of * slopes[1] - mixed * slopes[0]) / scale
        fixed -= np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
    return growing, fixed


def forecast(
    operation: str,
    curves: Sequence[TimeCurve],
    sizes_bytes: Sequence[float],
    target: Shape,
    known: RunFacts,
) -> Forecast:
    """The times of ``operation`` on ``target`` at some sizes, from measured curves.

    The same arguments give the same figures: draws are seeded.
    """
    sizes = np.array(sizes_bytes, dtype=float)
    curves = _without_pairs(operation, curves, known)
    curves = [one.with_run_noise(_run_noise(known)) for one in curves]
    priors = _priors(operation, curves, known)
    chance = np.random.default_rng(_SEED)
    largest = max(one.shape.nodes for one in curves)
    doublings = max(0.0, math.log2(target.nodes / largest))
    between = [one for one in curves if one.shape.nodes > 1]
    found: list[tuple[AlgorithmModel, float, float, Array, Array]] = []
    middles: list[tuple[AlgorithmModel, Parameters]] = []
    for model, weight in models_of(operation, known, target.per_node):
        middle, covariance, cost = _fitted(curves, model, priors)
        logs = middle + _normal(chance, len(middle)) @ np.linalg.cholesky(covariance).T
        parameters = Parameters.of_logs(logs)
        factors = _factors(model, parameters, sizes, between, chance)
        growing, fixed = (np.exp(one) for one in factors)
        times = np.log(model.time_s(parameters, sizes, target, growing, fixed, known.levels))
        times += _noise(model.name, doublings, known, chance)
        found.append((model, weight, cost, times, _growing_share(model, middle, sizes, target)))
        middles.append((model, Parameters.of_logs(middle)))
    least = min(cost for _, _, cost, _, _ in found)
    weights = np.array([weight * math.exp(least - cost) for _, weight, cost, _, _ in found])
    weights /= weights.sum()
    every = np.concatenate([times for *_, times, _ in found])
    quantiles = _weighted_quantiles(every, np.repeat(weights / _DRAWS, _DRAWS))
    best = int(np.argmax(weights))
    unseen = _unseen_algorithms(*middles[best], sizes, target, between, known)
    widened = 1.645 * _CHANGE_NOISE * np.array([bool(one) for one in unseen])
    quantiles[0] -= np.hypot(quantiles[1] - quantiles[0], widened) - (quantiles[1] - quantiles[0])
    quantiles[2] += np.hypot(quantiles[2] - quantiles[1], widened) - (quantiles[2] - quantiles[1])
    return Forecast(
        *(target, sizes, np.exp(quantiles)),
        {model.name: np.exp(np.median(times, axis=0)) for model, _, _, times, _ in found},
        {model.name: float(one) for (model, *_), one in zip(found, weights, strict=True)},
        np.average([share for *_, share in found], axis=0, weights=weights),
        unseen,
    )


def _without_pairs(
    operation: str, curves: Sequence[TimeCurve], known: RunFacts
) -> Sequence[TimeCurve]:
    """Leaves two nodes out if trees may have run and at least two larger numbers were measured;
    beside one larger number, only their small sizes count fully."""
    if known.algorithm == RING or TREE not in ALGORITHMS[operation]:
        return curves
    larger = sum(one.shape.nodes > 2 for one in curves)
    if larger > 1:
        return [one for one in curves if one.shape.nodes != 2]
    return [
        one.with_noise(_PAIR_NOISE, _LATENCY_BOUND_BYTES)
        if larger and one.shape.nodes == 2
        else one
        for one in curves
    ]


def _unseen_algorithms(
    model: AlgorithmModel,
    parameters: Parameters,
    sizes: Array,
    target: Shape,
    curves: Sequence[TimeCurve],
    known: RunFacts,
) -> list[str]:
    """By size, the algorithm that is the fastest on ``target`` and on no measured nodes."""

    def fastest(shape: Shape, levels: Sequence[CrossedLevel] = ()) -> Array:
        parts = model.parts(parameters, sizes, shape, levels)
        found: Array = np.stack([one.whole for one in parts]).argmin(0)
        return found

    there = fastest(target, known.levels)
    here = [fastest(one.shape) for one in curves]
    return [
        ""
        if not here or any(one[place] == chosen for one in here)
        else model.algorithms[int(chosen)]
        for place, chosen in enumerate(there)
    ]


def _growing_share(model: AlgorithmModel, logs: Array, sizes: Array, shape: Shape) -> Array:
    """The share of the time that grows with the nodes, [sizes], with the most likely parameters."""
    parts = model.parts(Parameters.of_logs(logs), sizes, shape)
    whole = np.stack([one.whole for one in parts])
    fastest = whole.argmin(0)[None]
    growing = np.take_along_axis(np.stack([one.growing for one in parts]), fastest, 0)[0]
    share: Array = growing / np.take_along_axis(whole, fastest, 0)[0]
    return share


def _run_noise(known: RunFacts) -> float:
    own = known.run_noise * (1.0 if known.has_version else _UNKNOWN_SOFTWARE)
    return math.hypot(own, _SHARED_RUN_NOISE if known.is_shared else 0.0)


def _noise(name: str, doublings: float, known: RunFacts, chance: np.random.Generator) -> Array:
    """What a time differs by between runs and beyond the measured nodes, [draws, 1]."""
    growth = _GROWTH_NOISE.get(name, _USUAL_GROWTH_NOISE) * math.sqrt(doublings)
    noise: Array = math.hypot(_run_noise(known), growth) * _normal(chance)
    if known.is_shared:
        noise += np.abs(_SHARED_NOISE * doublings * _normal(chance))
    return noise


def _normal(chance: np.random.Generator, columns: int = 1) -> Array:
    """[draws, columns]; of each draw there is the opposite, so that means have no error of chance.

    Rows of one call do not belong to rows of another: the opposite of a whole draw is a draw.
    """
    half = chance.standard_normal((_DRAWS // 2, columns))
    return np.concatenate([half, -half])


def _highest_bus(operation: str, curves: Sequence[TimeCurve]) -> float:
    bus = OPERATIONS[operation].bus_factor
    return max(
        size / time_s * bus(one.shape.ranks)
        for one in curves
        for size, time_s in zip(one.sizes_bytes, one.times_s, strict=True)
    )


def _weighted_quantiles(rows: Array, weights: Array) -> Array:
    """[QUANTILES, columns] of ``rows`` [draws, columns]."""
    order = np.argsort(rows, axis=0)
    summed = np.cumsum(weights[order], axis=0)
    places = [np.argmax(summed >= share, axis=0) for share in QUANTILES]
    ordered = np.take_along_axis(rows, order, axis=0)
    return np.array([np.take_along_axis(ordered, place[None], 0)[0] for place in places])


def algorithm_times(
    operation: str,
    curves: Sequence[TimeCurve],
    sizes_bytes: Sequence[float],
    target: Shape,
    known: RunFacts,
) -> dict[str, Array]:
    """The time of every modelled algorithm on ``target``, with parameters fitted to the curves.

    Of the hypothesis that fits best; without the factors at each size, which another algorithm
    would not have.
    """
    sizes = np.array(sizes_bytes, dtype=float)
    curves = _without_pairs(operation, curves, known)
    priors = _priors(operation, curves, known)
    models = [model for model, _ in models_of(operation, known, target.per_node)]
    logs, _, _ = min((_fitted(curves, model, priors) for model in models), key=lambda one: one[2])
    used = {name for model in models for name in model.algorithms} | {HIERARCHICAL}
    parameters = Parameters.of_logs(logs)
    times = {}
    for name in ALGORITHMS[operation]:
        if name in used:
            model = AlgorithmModel(operation, (name,), architecture_of(known.device))
            times[name] = model.time_s(parameters, sizes, target, levels=known.levels)
    return times
