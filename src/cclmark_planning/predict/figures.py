"""What is computed from predictions: bandwidths, errors of measured counts, what leaves a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from cclmark.base.grouping import by_key
from cclmark_planning.predict.plan import Prediction
from cclmark_planning.predict.result import PredictResult
from cclmark_planning.scale.algorithms import ALGORITHMS, HIERARCHICAL, RING, TREE, wire_bytes

_MIB = 1 << 20
#: Classes of sizes in words, from a size and below one.
SIZE_CLASSES = (("< 1 MiB", 0, _MIB), ("1 to 64 MiB", _MIB, 64 * _MIB), ("≥ 64 MiB", 64 * _MIB, 0))
# A faster algorithm is named if it takes at most this part of the predicted time.
_CLEARLY_FASTER = 0.8
# The models alone have to be so close to the prediction to be compared with each other.
_FITTING = 1.3


def bus_bandwidth(item: Prediction, time_s: float) -> float:
    """In bytes/s, as nccl-tests has it."""
    return item.size_bytes * item.bus_factor / time_s


def rate_out_of_node(item: Prediction, time_s: float) -> float:
    """The bytes that a node sends to others in a second: of a flat ring if all runs used it, else
    at least as many, those of a hierarchical algorithm."""
    known = ALGORITHMS[item.operation]
    algorithm = item.algorithm or (HIERARCHICAL if HIERARCHICAL in known else known[0])
    return wire_bytes(item.operation, algorithm, item.size_bytes, item.shape) / time_s


def is_exact_rate(item: Prediction) -> bool:
    """Whether the algorithm, and so what leaves a node, is known."""
    return item.algorithm == RING or HIERARCHICAL not in ALGORITHMS[item.operation]


def of_operations(results: Sequence[PredictResult]) -> dict[str, list[PredictResult]]:
    """The results of each operation."""
    return by_key((one.prediction.operation, one) for one in results)


def measured_counts(results: Sequence[PredictResult]) -> list[int]:
    """The measured numbers of nodes."""
    return sorted({one.prediction.nodes for one in results if one.prediction.is_measured})


def predicted_counts(results: Sequence[PredictResult]) -> list[int]:
    """The numbers of nodes that were asked for."""
    return sorted({one.prediction.nodes for one in results if not one.prediction.is_measured})


def at(results: Sequence[PredictResult], nodes: int) -> dict[int, PredictResult]:
    """The results of a number of nodes by size."""
    return {one.prediction.size_bytes: one for one in results if one.prediction.nodes == nodes}


class Skill(NamedTuple):
    """Errors of predictions of measured numbers of nodes, for a class of sizes.

    ``error``, ``baseline``: medians of the absolute errors as shares, of the predictions and of the
    same bus bandwidth. ``inside``: how many of the ``number`` measured times lie in the interval.
    """

    sizes: str
    number: int
    error: float
    baseline: float
    inside: int

    @property
    def skill(self) -> float:
        """1: no error, 0: the error of the baseline."""
        if self.baseline:
            return 1 - self.error / self.baseline
        return 0.0 if not self.error else -1.0


def size_class(result: PredictResult) -> str:
    """The class of the size, of SIZE_CLASSES."""
    size = result.prediction.size_bytes
    return next(name for name, least, below in SIZE_CLASSES if least <= size < (below or size + 1))


def judging(results: Sequence[PredictResult]) -> list[PredictResult]:
    """The measured times that predictions are judged by, of one operation.

    What two nodes say of the next number judges only predictions that stand on two nodes alone,
    because two are special where trees may run, which send less between two nodes.
    """
    measured = [one for one in results if one.prediction.is_measured]
    nodes = sorted({one.prediction.nodes for one in measured})
    larger = [one for one in nodes if one > 2]
    item = measured[0].prediction if measured else None
    if item is None or not larger or TREE not in ALGORITHMS[item.operation]:
        return measured
    if item.algorithm == RING:
        return measured
    return [one for one in measured if one.prediction.nodes != larger[0]]


def skills(results: Sequence[PredictResult]) -> list[Skill]:
    """By class of sizes, for one operation; of those with a measured and a predicted time."""
    by_class = by_key((size_class(one), one) for one in results)
    every = [skill_of(name, by_class.get(name, [])) for name, _, _ in SIZE_CLASSES]
    return [one for one in every if one is not None]


def skill_of(name: str, results: Sequence[PredictResult]) -> Skill | None:
    """Of all results that have both times; None without any."""
    errors, baselines, inside = [], [], 0
    for one in results:
        if one.time_s is None or one.measured_s is None or one.baseline_s is None:
            continue
        errors.append(abs(one.time_s / one.measured_s - 1))
        baselines.append(abs(one.baseline_s / one.measured_s - 1))
        inside += (one.low_s or 0) <= one.measured_s <= (one.high_s or 0)
    if not errors:
        return None
    return Skill(name, len(errors), median(errors), median(baselines), inside)


class FasterAlgorithm(NamedTuple):
    """An algorithm that the models find clearly faster than what is predicted."""

    result: PredictResult
    name: str
    time_s: float


def faster_algorithms(results: Sequence[PredictResult]) -> Iterator[FasterAlgorithm]:
    """Those that beat all that the library is thought to choose from."""
    for one in results:
        if one.time_s is None or one.prediction.is_measured or not one.algorithms:
            continue
        chosen = {
            word
            for name, weight in one.weights.items()
            if weight > 0
            for word in name.removeprefix("fastest of ").split(" and ")
        }
        name = min(one.algorithms, key=lambda key: one.algorithms[key])
        own = min((one.algorithms[key] for key in one.algorithms if key in chosen), default=0.0)
        fits = 1 / _FITTING < own / one.time_s < _FITTING
        if fits and name not in chosen and one.algorithms[name] < own * _CLEARLY_FASTER:
            yield FasterAlgorithm(one, name, one.algorithms[name])
