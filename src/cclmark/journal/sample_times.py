"""Times of samples in lines of journals: rounded, and in a text that is compressed.

In memory, times are seconds per operation. Measured ones are whole nanoseconds of a sample, rounded
to 11 bits, far below the noise of any sample. Lines have a text that is read as exactly the same.
Times that are no whole nanoseconds are lists of seconds, as all times were before.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import chain, repeat
from operator import or_
from typing import Any

import msgspec

ROUNDED_BITS = 11  # an error of at most 1/2048
_NS_PER_S = 1e9
_MOST_NS = 1 << 53  # whole numbers up to here are exact as floats
_MOST_BYTES = 64 << 20  # of the times in one line
_RAW = -zlib.MAX_WBITS  # without a checksum: the line has one

_Rows = Sequence[Sequence[float | None]]  # [sample][place]
_Column = Sequence[int | None]
# Operations per sample, nanoseconds per unit, columns: [clock][place][sample].
_Content = tuple[int, int, list[list[list[int | None]]]]


class SampleTimes(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Times of several clocks, in fields ``NAME_s``, and the number of operations that a sample
    times together, in ``NAME_per_sample``. ``packed``: empty except in lines.
    """

    packed: str = ""

    def __post_init__(self) -> None:
        """Unpacks the times of a line. Raises ValueError if they are damaged."""
        if self.packed:
            divisor, clocks = _unpacked(self.packed)
            times = zip(self._clocks(), clocks, strict=True)
            found = msgspec.convert({self._divisor(): divisor, **dict(times)}, type(self))
            for name in self.__struct_fields__:
                setattr(self, name, getattr(found, name))

    def stored(self) -> dict[str, Any]:
        """Returns the fields in a line of a journal, which is read as an equal object."""
        times = getattr(self, self._divisor()), [getattr(self, name) for name in self._clocks()]
        text = _packed(*times)
        if text and _unpacked(text) == times:
            return {"packed": text}
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "packed"}

    @classmethod
    def _clocks(cls) -> list[str]:
        return [name for name in cls.__struct_fields__ if name.endswith("_s")]

    @classmethod
    def _divisor(cls) -> str:
        return next(name for name in cls.__struct_fields__ if name.endswith("_per_sample"))


def rounded(rows: _Rows, divisor: int) -> list[list[Any]]:
    """Times whose samples are rounded to ``ROUNDED_BITS`` of nanoseconds, if they have some."""
    found = _whole_ns(rows, divisor)
    if found is None:
        return [[*row] for row in rows]
    return _seconds([[one and _of_bits(one) for one in row] for row in found], divisor)


def _of_bits(value: int) -> int:
    unit = 1 << max(0, value.bit_length() - ROUNDED_BITS)
    return (value + unit // 2) // unit * unit


def _whole_ns(rows: _Rows, divisor: int) -> list[list[int | None]] | None:
    """Returns the nearest nanoseconds of samples; None without a divisor, or if they have none."""
    scale = divisor * _NS_PER_S
    try:
        found = [[None if one is None else round(one * scale) for one in row] for row in rows]
    except (ValueError, OverflowError):  # NaN, infinity
        return None
    fits = all(one is None or 0 <= one <= _MOST_NS for row in found for one in row)
    return found if fits and divisor else None


def _seconds(rows: Sequence[_Column], divisor: int) -> list[list[float | None]]:
    return [[None if one is None else one / _NS_PER_S / divisor for one in row] for row in rows]


def _packed(divisor: int, clocks: Sequence[_Rows]) -> str:
    """The times in a text; an empty one if they have no such text."""
    found: list[list[_Column]] = []
    for rows in clocks:
        in_ns = _whole_ns(rows, divisor)
        if in_ns is None or len(set(map(len, in_ns))) > 1:
            return ""
        found.append([*zip(*in_ns, strict=True)])
    bits = reduce(or_, (one or 0 for columns in found for column in columns for one in column), 0)
    unit = bits & -bits or 1
    parts = [
        [
            [
                None if one is None else (one - (other or 0)) // unit
                for one, other in _beside(column, found, clock, place)
            ]
            for place, column in enumerate(columns)
        ]
        for clock, columns in enumerate(found)
    ]
    content = msgspec.json.encode((divisor, unit, parts))
    return base64.b64encode(zlib.compress(content, 9, _RAW)).decode()


def _unpacked(text: str) -> tuple[int, list[list[list[float | None]]]]:
    """Returns the divisor and the rows of each clock. Raises ValueError if the text is damaged."""
    try:
        inflating = zlib.decompressobj(_RAW)
        content = inflating.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        divisor, unit, parts = msgspec.json.decode(content, type=_Content)
    except (binascii.Error, zlib.error, msgspec.DecodeError):
        raise ValueError("damaged times") from None
    found: list[list[_Column]] = []
    for clock, columns in enumerate(parts):
        found.append([])
        for place, column in enumerate(columns):
            ns = [
                None if one is None else one * unit + (other or 0)
                for one, other in _beside(column, found, clock, place)
            ]
            if not all(one is None or 0 <= one <= _MOST_NS for one in ns):
                raise ValueError("impossible times")
            found[-1].append(ns)
    if divisor < 1:
        raise ValueError("samples of no operation")
    rows = ([*zip(*columns, strict=True)] for columns in found)
    return divisor, [_seconds(one, divisor) for one in rows]


def _beside(
    column: _Column, clocks: Sequence[Sequence[_Column]], clock: int, place: int
) -> zip[tuple[int | None, int | None]]:
    """The values of a column, and those from which they differ little.

    These are of the same place by the first clock; for the first clock, of the first place.
    """
    others = clocks[0][place : place + 1] if clock else clocks[0][: min(place, 1)]
    return zip(column, chain(*others, repeat(0)))  # noqa: B905 - the second is endless


_HOLD_SAMPLES = ("samples", "device", "rows")  # fields of lines, and of what is in them


def with_stored_samples(value: Any) -> Any:
    """Returns a line, or a part of it, whose samples are as ``stored``."""
    if isinstance(value, SampleTimes):
        return value.stored()
    return _changed(value, _HOLD_SAMPLES, with_stored_samples)


_MEASURED = ("duration_s", "summary", "device", "rows", "verification")
FIGURE_DIGITS = 5


def with_short_figures(value: Any) -> Any:
    """Returns a measured result with figures of five digits: more are noise, and long.

    The time of its start has milliseconds.
    """
    found = _changed(value, _MEASURED, _short)
    return msgspec.structs.replace(found, started_at_s=round(found.started_at_s, 3))


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{FIGURE_DIGITS}g}")
    if isinstance(value, msgspec.Struct) and not isinstance(value, SampleTimes):
        return _changed(value, value.__struct_fields__, _short)
    return _changed(value, (), _short)


def _changed(value: Any, names: Sequence[str], change: Callable[[Any], Any]) -> Any:
    """Returns a list whose elements, or a struct whose fields of some names, are changed."""
    if isinstance(value, list | tuple):
        return type(value)(map(change, value))
    if not isinstance(value, msgspec.Struct):
        return value
    fields = [name for name in names if name in value.__struct_fields__]
    changes: dict[str, Any] = {name: change(getattr(value, name)) for name in fields}
    return msgspec.structs.replace(value, **changes) if changes else value
