"""Times of samples in lines of journals: whole nanoseconds, finer than which no clock resolves.

In memory, times are seconds per operation, mostly with 17 digits. A line has the times of samples,
``host_ns`` instead of ``host_s``, in less than half the bytes. Lists of times that are no whole
nanoseconds, and those of earlier versions, are in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

_NS_PER_S = 1e9
_MOST_NS = 1 << 53  # whole numbers up to here are exact as floats
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=_MOST_NS)]
_Rows = Sequence[Sequence[float | None]]


class SampleTimes(msgspec.Struct, omit_defaults=True):
    """Times as [sample][place]. Each field ``NAME_s`` has a ``NAME_ns``, empty except in lines."""

    @property
    def divisor(self) -> int:
        """The number of operations that a sample times together."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        """Converts the times of a line. Raises ValueError if a sample has no operations."""
        for name in self.__struct_fields__:
            if name.endswith("_ns") and (rows := getattr(self, name)):
                if not self.divisor:
                    raise ValueError("samples of no operation")
                setattr(self, name.removesuffix("ns") + "s", _seconds(rows, self.divisor))
                setattr(self, name, [])

    def stored(self) -> dict[str, Any]:
        """Returns the fields in a line of a journal, which is read as an equal object."""
        found = {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}
        for name in [one for one in found if one.endswith("_s")]:
            rows = whole_ns(found[name], self.divisor)
            if rows is not None and _seconds(rows, self.divisor) == found[name]:
                found[name.removesuffix("s") + "ns"] = rows
                del found[name]
        return found


def whole_ns(rows: _Rows, divisor: int) -> list[list[int | None]] | None:
    """Returns the nearest nanoseconds of samples; None without a divisor, or if they have none."""
    scale = divisor * _NS_PER_S
    try:
        found = [[None if one is None else round(one * scale) for one in row] for row in rows]
    except (ValueError, OverflowError):  # NaN, infinity
        return None
    fits = all(one is None or 0 <= one <= _MOST_NS for row in found for one in row)
    return found if fits and divisor else None


def rounded(rows: _Rows, divisor: int) -> list[list[Any]]:
    """Times whose samples are rounded to nanoseconds, if they can be.

    The times of CUDA's events are multiples of 32 ns, as numbers of 24 bits.
    """
    found = whole_ns(rows, divisor)
    return [[*row] for row in rows] if found is None else _seconds(found, divisor)


def _seconds(rows: Sequence[Sequence[int | None]], divisor: int) -> list[list[float | None]]:
    return [[None if one is None else one / _NS_PER_S / divisor for one in row] for row in rows]


_HOLD_SAMPLES = ("samples", "device", "rows")  # fields of lines, and of what is in them


def with_stored_samples(value: Any) -> Any:
    """Returns a line, or a part of it, whose samples are as ``stored``."""
    if isinstance(value, SampleTimes):
        return value.stored()
    if isinstance(value, list):
        return [*map(with_stored_samples, value)]
    if not isinstance(value, msgspec.Struct):
        return value
    held = [name for name in _HOLD_SAMPLES if name in value.__struct_fields__]
    changes: dict[str, Any] = {name: with_stored_samples(getattr(value, name)) for name in held}
    return msgspec.structs.replace(value, **changes) if changes else value
