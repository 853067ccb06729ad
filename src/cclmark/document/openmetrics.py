"""Text in the formats of Prometheus and OpenMetrics.

Names end in their base unit, ``# UNIT`` contains it, ``# EOF`` ends the text. There are no
timestamps, because node_exporter's textfile collector rejects them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """A gauge. ``name`` ends in ``unit``, which is empty for a gauge without one."""

    name: str
    unit: str
    help: str


@dataclass(frozen=True)
class RunLabels:
    """The labels shared by all series of a run. ``devices``: the names of its devices.

    ``host_ranks``: the ranks that compute on the host.
    """

    where: Sequence[tuple[str, str]]
    method: Sequence[tuple[str, str]]
    devices: Sequence[str]
    host_ranks: Collection[int] = ()


@dataclass
class Series:
    """The values of all metrics by labels; a later run's values replace those of an earlier run.

    ``replaced``: how many results of each run, numbered from 1, later runs replaced.
    """

    metrics: Sequence[Metric]
    values: dict[str, dict[Labels, float]] = field(init=False)
    replaced: Counter[int] = field(default_factory=Counter)
    _run: int = 0
    _runs: dict[Labels, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {metric.name: {} for metric in self.metrics}

    def begin_run(self) -> None:
        """Begins another run."""
        self._run += 1

    def begin(self, labels: Labels) -> None:
        """Begins a result: removes all values of earlier runs with the same labels."""
        earlier, self._runs[labels] = self._runs.get(labels), self._run
        if earlier != self._run:
            if earlier is not None:
                self.replaced[earlier] += 1
            for values in self.values.values():
                values.pop(labels, None)

    def set(self, name: str, labels: Labels, value: float | None) -> None:
        """Sets a gauge; an infinite or unknown value leaves it unchanged."""
        if value is not None and math.isfinite(value):
            self.values[name][labels] = value

    def clear(self, labels: Labels, names: Iterable[str]) -> None:
        """Removes values of an earlier cycle that a later cycle does not have."""
        for name in names:
            self.values[name].pop(labels, None)

    def worst(
        self, name: str, labels: Labels, value: float, choose: Callable[[float, float], float]
    ) -> None:
        """Sets a gauge to ``choose`` of ``value`` and an earlier cycle of the run, if any."""
        known = self.values[name].get(labels)
        self.set(name, labels, value if known is None else choose(known, value))


def lines_of(series: Series) -> Iterator[str]:
    """Returns the text of all series."""
    for metric in series.metrics:
        name, values = metric.name, series.values[metric.name]
        if not values:
            continue
        yield f"# HELP {name} {metric.help}\n# TYPE {name} gauge\n"
        if metric.unit:
            yield f"# UNIT {name} {metric.unit}\n"
        for labels, value in values.items():
            told = ",".join(f'{label}="{_escape(text)}"' for label, text in labels)
            yield f"{name}{{{told}}} {_number(value)}\n"
    yield "# EOF\n"


def labels_of(pairs: Iterable[tuple[str, str]]) -> Labels:
    """Removes empty labels, which Prometheus treats as missing."""
    return tuple((name, text) for name, text in pairs if text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(value)
