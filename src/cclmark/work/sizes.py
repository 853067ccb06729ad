"""Sizes, durations and ranges of numbers as users write and read them; sweeps of sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cclmark.base.errors import UsageError

_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd]?)", re.IGNORECASE | re.ASCII)
_LONGEST_S = 366 * 86400.0


def parse_duration(text: str) -> float:
    """Parses a duration to seconds. Raises UsageError for zero or more than 366 days too."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"cannot read the duration {text!r}: write 45s, 30m, 12h or 2d")
    duration_s = float(match[1]) * _UNITS_S[match[2].lower()]
    if not 0 < duration_s <= _LONGEST_S:
        raise UsageError(f"the duration {text!r} must be above 0 and at most 366d")
    return duration_s


_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_LARGEST_BYTES = 1 << 50
_MOST_SIZES = 100_000


def parse_size(text: str) -> int:
    """Parses a size such as 8, 128K, 4G, 1GiB or 1.5M to bytes.

    Units are powers of 1024, as in other benchmarks. Raises UsageError for anything else, for less
    than one byte, for fractions of a byte and for sizes of a pebibyte or more.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"cannot read the size {text!r}: write 8, 128K, 4G or 1GiB")
    size = float(match[1]) * 1024 ** _UNITS[match[2].upper()]
    if size < 1:
        raise UsageError(f"the size {text!r} is less than one byte")
    if size >= _LARGEST_BYTES:
        raise UsageError(f"the size {text!r} is too large: the limit is 1024T")
    if size != int(size):
        raise UsageError(f"the size {text!r} is not a whole number of bytes")
    return int(size)


def size_text(size_bytes: int) -> str:
    """The shortest text that ``parse_size`` reads as this size: 128K, 1536."""
    for unit, power in reversed(_UNITS.items()):
        if size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{unit}"
    raise AssertionError("every size is a number of bytes")


def sweep(begin: int, end: int, step: int, factor: float) -> list[int]:
    """Sizes from ``begin`` to ``end`` in steps of ``step`` bytes, or by ``factor`` if step is 0.

    Raises UsageError for bounds in the wrong order, for sizes that do not grow and for too many
    sizes.
    """
    if begin > end:
        raise UsageError(
            f"the sweep begins at {format_size(begin)} (-b) and ends at {format_size(end)} (-e): "
            "-b must not be above -e"
        )
    if step < 0:
        raise UsageError("the step (-i) must be at least one byte")
    if step == 0 and not 1 < factor < float("inf"):
        raise UsageError(f"the factor (-f) must be above 1, not {factor:g}")
    sizes: list[int] = []
    size = begin
    while size <= end:
        sizes.append(size)
        if len(sizes) > _MOST_SIZES:
            raise UsageError(
                f"the sweep has more than {_MOST_SIZES} sizes: use a larger step (-i) or factor "
                "(-f)"
            )
        size = size + step if step else max(size + 1, int(size * factor))
    return sizes


def format_size(size_bytes: int) -> str:
    """Formats a size, or a difference of sizes, for users: 8 B, 1.5 GiB, -128 KiB."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(float(f"{value:.4g}")) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def in_ranges(numbers: Sequence[int]) -> str:
    """Formats ascending numbers as ranges, for example ``0-3,7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
