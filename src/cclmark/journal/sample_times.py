"""Times of samples in lines of journals: rounded, and in a compact text.

In memory, times are seconds per operation. Measured ones are whole nanoseconds of a sample, rounded
to 11 bits, far below the noise of any sample. Lines have a text that is read as exactly the same.
Times that are no whole nanoseconds are lists of seconds, as all times were before.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice, repeat
from operator import or_
from typing import Any

import msgspec

#: The fields of SampleTimes that only lines have.
TEXTS = ("packed", "coded")
ROUNDED_BITS = 11  # an error of at most 1/2048
_NS_PER_S = 1e9
_MOST_NS = 1 << 53  # whole numbers up to here are exact as floats
_MOST_DIGITS = 64  # binary ones of a number in a text
_MOST_BYTES = 64 << 20  # of the times in one line of schema 5
_RAW = -zlib.MAX_WBITS  # without a checksum: the line has one

_Rows = Sequence[Sequence[float | None]]  # [sample][place]
_Column = Sequence[int | None]
# Length, and of each column order and middle; None for a column without times.
_Shape = tuple[int, Sequence[tuple[int, int] | None]]
# Operations per sample, nanoseconds per unit, columns: [clock][place][sample].
_Content = tuple[int, int, list[list[list[int | None]]]]


class SampleTimes(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Times of several clocks, in fields ``NAME_s``, and the number of operations that a sample
    times together, in ``NAME_per_sample``. ``coded`` and, of schema 5, ``packed``: empty except in
    lines.
    """

    packed: str = ""
    coded: str = ""

    def __post_init__(self) -> None:
        """Decodes the times of a line. Raises ValueError if they are damaged."""
        if self.coded or self.packed:
            divisor, clocks = _decoded(self.coded) if self.coded else _unpacked(self.packed)
            times = zip(self._clocks(), clocks, strict=True)
            found = msgspec.convert({self._divisor(): divisor, **dict(times)}, type(self))
            for name in self.__struct_fields__:
                setattr(self, name, getattr(found, name))

    def stored(self) -> dict[str, Any]:
        """Returns the fields in a line of a journal, which is read as an equal object."""
        times = getattr(self, self._divisor()), [getattr(self, name) for name in self._clocks()]
        text = _coded(*times)
        if _is_exact(text, times):
            return {"coded": text}
        names = (name for name in self.__struct_fields__ if name not in TEXTS)
        return {name: getattr(self, name) for name in names}

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


def _coded(divisor: int, clocks: Sequence[_Rows]) -> str:
    """The times in a text; an empty one if they have no such text.

    Exponential-Golomb codes of order k (Teuhola 1978; ITU-T H.264, 9.1): n + 2^k in binary, after
    as many zeros as it has digits more than k + 1. Of the times, all zeros with the first digits
    precede all other digits, so that both are decoded by operations on whole texts.
    """
    found: list[list[_Column]] = []
    for rows in clocks:
        in_ns = _whole_ns(rows, divisor)
        if in_ns is None or len(set(map(len, in_ns))) > 1:
            return ""
        found.append([*zip(*in_ns, strict=True)])
    bits = reduce(or_, (one or 0 for columns in found for column in columns for one in column), 0)
    shift = max(0, (bits & -bits).bit_length() - 1)
    numbers = [divisor, shift, len(clocks)]
    prefixes: list[str] = []
    digits: list[str] = []
    for clock, columns in enumerate(found):
        numbers += (len(columns), len(columns[0]) if columns else 0)
        for place, column in enumerate(columns):
            if None in column:
                if any(one is not None for one in column):
                    return ""
                numbers.append(0)
                continue
            beside = _beside(column, found, clock, place)
            units = [((one or 0) - (other or 0)) >> shift for one, other in beside]
            middle = sorted(units)[len(units) // 2]
            values = [_unsigned(one - middle) for one in units]
            order = _order(values)
            numbers += (order + 1, _unsigned(middle))
            for value in values:
                text = f"{value + (1 << order):b}"
                prefixes.append("0" * (len(text) - 1 - order) + "1")
                digits.append(text[1:])
    text = "".join((*map(_code, numbers), *prefixes, *digits))
    text += "0" * (-len(text) % 8)
    return base64.b64encode(int(text, 2).to_bytes(len(text) // 8, "big")).decode()


def _code(number: int) -> str:
    """The code of order 0."""
    text = f"{number + 1:b}"
    return "0" * (len(text) - 1) + text


def _order(values: Sequence[int]) -> int:
    """An order whose codes are nearly the shortest for times, one less than the median's digits."""
    return max(0, sorted(values)[len(values) // 2].bit_length() - 1)


def _unsigned(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def _signed(number: int) -> int:
    return -(number + 1 >> 1) if number & 1 else number >> 1


def _decoded(text: str) -> tuple[int, list[list[list[float | None]]]]:
    """Returns the divisor and the rows of each clock. Raises ValueError if the text is damaged."""
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("damaged times") from None
    bits = f"{int.from_bytes(bytes([1]) + content, 'big'):b}"
    place = 1

    def number(most: int = (1 << _MOST_DIGITS) - 1) -> int:
        nonlocal place
        first = bits.find("1", place)
        end = 2 * first - place + 1
        if not 0 < end <= min(len(bits), first + _MOST_DIGITS):
            raise ValueError("damaged times")
        found, place = int(bits[first:end], 2) - 1, end
        if found > most:
            raise ValueError("impossible times")
        return found

    divisor, shift, clocks = number(), number(_MOST_DIGITS), number()
    shapes: list[_Shape] = []
    for _ in range(clocks):
        places = number()
        # A time takes at least one digit, and a clock that is missing has as many as the first.
        length = number(len(bits) // max(1, places))
        orders = (number(_MOST_DIGITS) for _ in range(places))
        shapes.append((length, [(one - 1, _signed(number())) if one else None for one in orders]))
    prefixes, digits = _divided(bits[place:], shapes)
    values = _values(shapes, prefixes, digits)
    found: list[list[_Column]] = []
    for clock, (_, columns) in enumerate(shapes):
        found.append([])
        for place, column in enumerate(columns):
            units = next(values)
            if column is not None:
                beside = _beside(units, found, clock, place)
                units = ns = [
                    (one << shift) + (other or 0) for one, other in beside if one is not None
                ]
                if ns and not 0 <= min(ns) <= max(ns) <= _MOST_NS:
                    raise ValueError("impossible times")
            found[-1].append(units)
    return _by_sample(divisor, found)


def _divided(bits: str, shapes: Sequence[_Shape]) -> tuple[list[str], str]:
    """Returns the zeros before each time, and the digits of all. Raises ValueError."""
    orders = [(length, one[0]) for length, columns in shapes for one in columns if one is not None]
    times = sum(length for length, _ in orders)
    *prefixes, digits = bits.split("1", times)
    needed = sum(map(len, prefixes)) + sum(length * order for length, order in orders)
    if len(prefixes) < times or not 0 <= len(digits) - needed < 8:
        raise ValueError("damaged times")
    return prefixes, digits


def _values(shapes: Sequence[_Shape], prefixes: Iterable[str], digits: str) -> Iterator[_Column]:
    """Yields the values of each column."""
    sizes, end = map(len, prefixes), 0
    for length, columns in shapes:
        for column in columns:
            if column is None:
                yield [None] * length
                continue
            order, middle = column
            least = 1 << order
            found = []
            for size in islice(sizes, length):
                begin, end = end, end + size + order
                value = int("1" + digits[begin:end], 2) - least
                found.append(middle + (-(value + 1 >> 1) if value & 1 else value >> 1))
            yield found


def _by_sample(
    divisor: int, found: Sequence[Sequence[_Column]]
) -> tuple[int, list[list[list[float | None]]]]:
    """Returns the divisor and the rows of each clock."""
    if divisor < 1:
        raise ValueError("samples of no operation")
    rows = ([*zip(*columns, strict=True)] for columns in found)
    return divisor, [_seconds(one, divisor) for one in rows]


def _is_exact(text: str, times: object) -> bool:
    """Whether a text has exactly these times."""
    try:
        return bool(text) and _decoded(text) == times
    except ValueError:  # an empty clock before one that is missing
        return False


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
    return _by_sample(divisor, found)


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
    found = _changed(value, _MEASURED, short)
    return msgspec.structs.replace(found, started_at_s=round(found.started_at_s, 3))


def short(value: Any) -> Any:
    """A value whose numbers have FIGURE_DIGITS digits."""
    if isinstance(value, float):
        return float(f"{value:.{FIGURE_DIGITS}g}")
    if isinstance(value, msgspec.Struct) and not isinstance(value, SampleTimes):
        return _changed(value, value.__struct_fields__, short)
    return _changed(value, (), short)


def _changed(value: Any, names: Sequence[str], change: Callable[[Any], Any]) -> Any:
    """Returns a list whose elements, or a struct whose fields of some names, are changed."""
    if isinstance(value, list | tuple):
        return type(value)(map(change, value))
    if not isinstance(value, msgspec.Struct):
        return value
    fields = [name for name in names if name in value.__struct_fields__]
    changes: dict[str, Any] = {name: change(getattr(value, name)) for name in fields}
    return msgspec.structs.replace(value, **changes) if changes else value
