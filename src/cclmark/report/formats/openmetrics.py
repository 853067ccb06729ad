"""The text that Prometheus reads, and OpenMetrics.

Names end in their base unit, ``# UNIT`` contains it, ``# EOF`` ends the text, and there are no time
stamps, which node_exporter's textfile collector refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """A gauge. ``name`` ends in ``unit``, which is empty for one that has none."""

    name: str
    unit: str
    help: str


@dataclass
class Series:
    """The values of all metrics by labels; those of a later run take the place of an earlier's."""

    metrics: Sequence[Metric]
    values: dict[str, dict[Labels, float]] = field(init=False)
    _of_this_run: set[Labels] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.values = {metric.name: {} for metric in self.metrics}

    def begin_run(self) -> None:
        """What follows is of another run."""
        self._of_this_run.clear()

    def begin(self, labels: Labels) -> None:
        """A result: nothing that an earlier run said of the same is left beside it."""
        if labels not in self._of_this_run:
            self._of_this_run.add(labels)
            for values in self.values.values():
                values.pop(labels, None)

    def set(self, name: str, labels: Labels, value: float | None) -> None:
        """Sets a gauge; an infinite or unknown value leaves it as it was."""
        if value is not None and math.isfinite(value):
            self.values[name][labels] = value

    def clear(self, labels: Labels, names: Iterable[str]) -> None:
        """What an earlier cycle said and a later one does not."""
        for name in names:
            self.values[name].pop(labels, None)

    def worst(
        self, name: str, labels: Labels, value: float, choose: Callable[[float, float], float]
    ) -> None:
        """``value``, or what an earlier cycle of the run said where ``choose`` takes that."""
        known = self.values[name].get(labels)
        self.set(name, labels, value if known is None else choose(known, value))


def lines_of(series: Series) -> Iterator[str]:
    """The text of all series."""
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
    """Without those that are empty: to Prometheus that is the same."""
    return tuple((name, text) for name, text in pairs if text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(value)
