"""Thresholds of a suite: bounds for the figures of selected cases."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.operations import (
    COLLECTIVES,
    OPERATIONS,
    PAIR_OPERATIONS,
    REDUCTIONS,
    parse_dtypes,
)
from cclmark.work.pair_cases import Pair
from cclmark.work.sizes import format_size, parse_size
from cclmark.work.transfers import DIRECTIONS, ENGINES, KERNELS, MEASURES, SCOPES

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


ConditionValue = str | int | bool
Words = str | list[str]
T = TypeVar("T")
V = TypeVar("V")

_PAIR = re.compile(r"(\d{1,6})-(\d{1,6})", re.ASCII)


@dataclass(frozen=True)
class ThresholdMetric:
    """A figure that can be bounded. ``references``: the references for bounds that are shares."""

    name: str
    at_least: bool
    references: tuple[str, ...]

    @property
    def key(self) -> str:
        """The key of a bound for this metric in a suite."""
        return f"{self.name}_at_{'least' if self.at_least else 'most'}"


METRICS = (
    ThresholdMetric("busbw", True, ("limit", "baseline")),
    ThresholdMetric("algbw", True, ("baseline",)),
    ThresholdMetric("time", False, ("baseline",)),
    ThresholdMetric("bandwidth", True, ("limit", "baseline")),
    ThresholdMetric("latency", False, ("baseline",)),
)

# The figures that a threshold can bound and the keys that select cases, by kind of command.
_FIGURES: dict[str, tuple[str, ...]] = {
    "collective": ("busbw", "algbw", "time"),
    "pairs": ("busbw", "algbw", "time"),
    "p2p": ("bandwidth", "latency"),
    "torch": (),
}
_OF_CASES = ("operation", "size", "dtype", "reduction", "placement", "ccl")
_OF_TRANSFERS = ("measure", "direction", "engine", "kernel", "scope", "host_memory", "numa")
_SELECTORS: dict[str, tuple[str, ...]] = {
    "collective": (*_OF_CASES, "root"),
    "pairs": (*_OF_CASES, "pair"),
    "p2p": ("pair", "size", *_OF_TRANSFERS, "to_host"),
    "torch": (),
}
_CHOICES: dict[str, Sequence[str]] = {
    "reduction": REDUCTIONS,
    "placement": ("out-of-place", "in-place"),
    "measure": MEASURES,
    "direction": DIRECTIONS,
    "engine": ENGINES,
    "kernel": KERNELS,
    "scope": SCOPES,
    "host_memory": ("pinned", "pageable"),
    "numa": ("near", "far"),
}


class WrittenThreshold(msgspec.Struct, forbid_unknown_fields=True):
    """A ``[[command.threshold]]`` table as the file contains it."""

    busbw_at_least: str | None = None
    algbw_at_least: str | None = None
    time_at_most: str | None = None
    bandwidth_at_least: str | None = None
    latency_at_most: str | None = None
    operation: Words | None = None
    size: str | None = None
    dtype: Words | None = None
    reduction: Words | None = None
    root: int | None = None
    placement: Words | None = None
    ccl: Words | None = None
    pair: Words | None = None
    measure: Words | None = None
    direction: Words | None = None
    engine: Words | None = None
    kernel: Words | None = None
    scope: Words | None = None
    host_memory: Words | None = None
    to_host: bool | None = None
    numa: Words | None = None


@dataclass(frozen=True)
class SizeRange:
    """Sizes from ``least_bytes`` to ``most_bytes``, both inclusive; None is no bound."""

    least_bytes: int | None
    most_bytes: int | None

    @classmethod
    def parse(cls, text: str) -> SizeRange:
        """Parses ``1M``, ``1M-1G``, ``1G-`` or ``-64K``. Raises UsageError."""
        first, dash, last = (part.strip() for part in text.partition("-"))
        if not dash:
            return cls(parse_size(first), parse_size(first))
        least = parse_size(first) if first else None
        most = parse_size(last) if last else None
        if least is None and most is None:
            raise UsageError(f"cannot read the sizes {text!r}: write 1M, 1M-1G, 1G- or -64K")
        if least is not None and most is not None and least > most:
            raise UsageError(
                f"the sizes {text!r} are in the wrong order: write the smaller size first"
            )
        return cls(least, most)

    def describe(self) -> str:
        """The range in words."""
        if self.least_bytes is None:
            return f"up to {format_size(self.most_bytes or 0)}"
        if self.most_bytes is None:
            return f"from {format_size(self.least_bytes)}"
        if self.least_bytes == self.most_bytes:
            return format_size(self.least_bytes)
        return f"{format_size(self.least_bytes)} to {format_size(self.most_bytes)}"


@dataclass(frozen=True)
class Threshold:
    """A bound for one figure of all selected cases.

    ``where``: attributes of a case or a transfer with the values that select it. ``pairs``:
    (from, to) as device numbers of the run. A selector that is empty or None selects all cases.
    """

    metric: ThresholdMetric
    bound: Bound
    where: tuple[tuple[str, tuple[ConditionValue, ...]], ...] = ()
    sizes: SizeRange | None = None
    pairs: tuple[Pair, ...] = ()

    def describe(self) -> str:
        """The threshold in words: the bound, then the selected cases."""
        words = [_describe(name, values) for name, values in self.where]
        words += [self.sizes.describe()] if self.sizes is not None else []
        words += [f"pair {start}-{end}" for start, end in self.pairs]
        side = "least" if self.metric.at_least else "most"
        text = f"{self.metric.name} at {side} {self.bound.text}"
        return f"{text}: {', '.join(words)}" if words else text


def parse_threshold(written: WrittenThreshold, kind: str, command: str) -> list[Threshold]:
    """A threshold for each bound of ``written`` for ``command``. Raises UsageError with the key."""
    given = {
        name: value for name, value in msgspec.structs.asdict(written).items() if value is not None
    }
    allowed = [metric.key for metric in METRICS if metric.name in _FIGURES[kind]]
    if not allowed:
        raise UsageError(f"{command} does not support thresholds: every check must pass")
    for name in given:
        if name not in (*allowed, *_SELECTORS[kind]):
            known = ", ".join((*allowed, *_SELECTORS[kind]))
            raise UsageError(f"{name} does not apply to {command}: choose from {known}")
    bounds = [metric for metric in METRICS if metric.key in given]
    if not bounds:
        raise UsageError(f"the threshold has no bound: add {' or '.join(allowed)}")
    where: list[tuple[str, tuple[ConditionValue, ...]]] = []
    for name, value in given.items():
        if isinstance(value, int):
            where.append((name, (value,)))
        elif name in _SELECTORS[kind] and name not in ("size", "pair"):
            where.append((name, in_key(name, partial(_names, name, kind, command), value)))
    sizes = in_key("size", SizeRange.parse, given["size"]) if "size" in given else None
    pairs = in_key("pair", _pairs, given["pair"]) if "pair" in given else ()
    return [
        Threshold(
            metric,
            in_key(metric.key, _bound_of(metric), given[metric.key]),
            tuple(where),
            sizes,
            pairs,
        )
        for metric in bounds
    ]


def in_key(key: str, parse: Callable[[V], T], value: V) -> T:
    """Parses the value of ``key``, and prefixes the key to a UsageError of ``parse``."""
    try:
        return parse(value)
    except UsageError as error:
        raise UsageError(f"{key}: {error}") from None


def meant(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to a message if a name in ``known`` is similar, else a full stop."""
    names = list(known)
    close = [one for one in names if len(name) > 1 and one.startswith(name)]
    close = close or difflib.get_close_matches(name, names, n=1)
    return f": did you mean {close[0]!r}?" if close else "."


def _bound_of(metric: ThresholdMetric) -> Callable[[str], Bound]:
    return lambda text: parse_bound(text, bandwidth=metric.at_least, references=metric.references)


def _names(name: str, kind: str, command: str, words: Words) -> tuple[str, ...]:
    """The attribute values that select a case. Raises UsageError for an unknown one."""
    listed = [words] if isinstance(words, str) else words
    if not listed:
        raise UsageError("an empty list selects nothing: remove it to select all")
    if name == "dtype":
        return tuple(dtype for word in listed for dtype in parse_dtypes(word))
    known = _choices(name, kind, command)
    for word in listed:
        if known and word not in known:
            raise UsageError(
                f"unknown value {word!r}{meant(word, known)} Choose from {', '.join(known)}."
            )
    return tuple(dict.fromkeys(listed))


def _choices(name: str, kind: str, command: str) -> Sequence[str]:
    """The supported values, empty where they are unknown."""
    if name != "operation":
        return _CHOICES.get(name, ())
    if kind == "pairs":
        return PAIR_OPERATIONS
    return [command] if command in OPERATIONS else COLLECTIVES


def _pairs(words: Words) -> tuple[Pair, ...]:
    listed = [words] if isinstance(words, str) else words
    pairs: list[Pair] = []
    for word in listed:
        match = _PAIR.fullmatch(word.strip())
        if match is None:
            raise UsageError(f"cannot read {word!r}: write 0-1 for the pair from 0 to 1")
        pairs.append((int(match[1]), int(match[2])))
    if not pairs:
        raise UsageError("an empty list selects nothing: remove it to select all")
    return tuple(dict.fromkeys(pairs))


def _describe(name: str, values: tuple[ConditionValue, ...]) -> str:
    if name == "to_host":
        return "to the host" if values[0] else "from the host"
    if name == "root":
        return f"root {values[0]}"
    if name == "numa":
        return " or ".join(f"{value} NUMA node" for value in values)
    return " or ".join(map(str, values))
