"""Bounds in the syntax of suites: ``300 GB/s``, ``12 us``, ``0.75 of limit``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cclmark.errors import UsageError

BANDWIDTH_UNITS: dict[str, float] = {
    "B/s": 1.0,
    "kB/s": 1e3,
    "MB/s": 1e6,
    "GB/s": 1e9,
    "TB/s": 1e12,
    "KiB/s": 2.0**10,
    "MiB/s": 2.0**20,
    "GiB/s": 2.0**30,
    "TiB/s": 2.0**40,
    "Mbit/s": 1e6 / 8,
    "Gbit/s": 1e9 / 8,
    "Tbit/s": 1e12 / 8,
}
# The micro sign and the Greek letter mu look the same but are different characters.
TIME_UNITS: dict[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
}
REFERENCES = ("limit", "baseline")

_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*([^\d\s.]\S*)", re.ASCII)
_SHARE = re.compile(rf"({_NUMBER})\s*(%?)\s*of\s+(?:the\s+)?(\w+)", re.ASCII)
_LARGEST_SHARE = 10.0  # a larger value is probably a percentage without its sign
_LARGEST = 1e18


@dataclass(frozen=True)
class Bound:
    """A bound in base units (bytes per second, seconds), or as a share of the reference ``of``.

    ``of``: empty, limit or baseline. ``text``: the bound as the suite spells it.
    """

    value: float
    of: str
    text: str


def parse_bandwidth(text: str) -> float:
    """Parses a bandwidth such as ``300 GB/s`` to bytes per second. Raises UsageError."""
    return _quantity(text, BANDWIDTH_UNITS, "bandwidth", "300 GB/s")


def parse_time(text: str) -> float:
    """Parses a time such as ``12 us`` to seconds. Raises UsageError."""
    return _quantity(text, TIME_UNITS, "time", "12 us")


def parse_bound(text: str, *, bandwidth: bool, references: tuple[str, ...]) -> Bound:
    """Parses a bandwidth or a time, or a share of one of ``references``. Raises UsageError."""
    words = " ".join(text.split())
    share = _SHARE.fullmatch(words)
    if share is None:
        return Bound(parse_bandwidth(words) if bandwidth else parse_time(words), "", words)
    number, percent, of = share.groups()
    if of not in REFERENCES:
        raise UsageError(f"cannot read {text!r}: a share must be of limit or of baseline")
    if of not in references:
        raise UsageError(f"{text!r}: this figure has no {of} to compare with")
    value = float(number) / (100 if percent else 1)
    if not 0 < value <= _LARGEST_SHARE:
        raise UsageError(f"{text!r} is out of range: write 0.75 of {of} or 75 % of {of}")
    return Bound(value, of, words)


def _quantity(text: str, units: Mapping[str, float], what: str, example: str) -> float:
    """Parses a positive number with a unit and converts it to base units. Raises UsageError."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise UsageError(
            f"cannot read the {what} {text!r}: write {example}; units are {', '.join(units)}"
        )
    value = float(match[1]) * units[match[2]]
    if not 0 < value < _LARGEST:
        raise UsageError(f"the {what} {text!r} is out of range: it must be above 0 and finite")
    return value
