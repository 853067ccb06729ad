"""The combinations of a library's settings that one environment can contain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

# The place of the value of each axis that differs from the default, by the number of the axis,
# ascending. Empty: the default.
Combination = tuple[tuple[int, int], ...]
DEFAULT_COMBINATION: Combination = ()


@dataclass(frozen=True)
class Axis:
    """One setting.

    ``values``: what can be tried, in their order if they have one (``ordered``). ``usual``: the
    place of the default among them, None if it is unknown or not among them. ``first``: the places
    with which a search begins; the others lie between or beyond these.
    """

    name: str
    values: Sequence[str]
    first: Sequence[int]
    usual: int | None = None
    ordered: bool = False


@dataclass(frozen=True)
class EnvironmentSpace:
    """``possible``: whether values can be set together, by the names of the settings."""

    axes: Sequence[Axis]
    possible: Callable[[Mapping[str, str]], bool] = lambda _: True

    def variables(self, combination: Combination) -> dict[str, str]:
        """The variables of a combination."""
        return {self.axes[axis].name: self.axes[axis].values[at] for axis, at in combination}

    def changed(self, base: Combination, changes: Iterable[tuple[int, int]]) -> Combination:
        """``base`` with other values of some axes. The default of an axis is not part of it."""
        places = {**dict(base), **dict(changes)}
        return tuple(
            (axis, at) for axis, at in sorted(places.items()) if at != self.axes[axis].usual
        )

    def changes(self, base: Combination) -> Iterator[Combination]:
        """``base`` with each first value of each axis, one changed at a time."""
        for number, axis in enumerate(self.axes):
            places = [*axis.first, *([] if axis.usual is None else [axis.usual])]
            for at in places:
                other = self.changed(base, [(number, at)])
                if other != base and self.possible(self.variables(other)):
                    yield other
            if axis.usual is None and number in dict(base):
                yield tuple(one for one in base if one[0] != number)

    def around(self, base: Combination) -> Iterator[Combination]:
        """``base`` with one of the two values before or after its own, of each axis with an order.

        Two, because adjacent values are often alike: a threshold between two measured sizes.
        """
        for number, at in base:
            axis = self.axes[number]
            for beside in (at - 1, at + 1, at - 2, at + 2) if axis.ordered else ():
                if 0 <= beside < len(axis.values):
                    other = self.changed(base, [(number, beside)])
                    if self.possible(self.variables(other)):
                        yield other


def difference(one: Combination, base: Combination) -> tuple[tuple[int, int | None], ...]:
    """The axes in which two combinations differ, with the place of ``one``, None: its default."""
    own, other = dict(one), dict(base)
    axes = sorted({*own, *other})
    return tuple((axis, own.get(axis)) for axis in axes if own.get(axis) != other.get(axis))
