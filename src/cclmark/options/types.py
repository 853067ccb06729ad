"""The types of options, on the command line and in Python: each parses and checks a value.

Their messages describe in words what is expected; click adds the name of the option.
``OTHER_PROGRAMS`` are the values of ``--like``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cclmark.base.errors import UsageError
from cclmark.work.sizes import parse_duration, parse_size, size_text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)", re.ASCII)
_MOST_PERCENT = 1000.0  # more is a typing error, and a check that cannot fail


class WholeNumber(click.IntRange):
    """A whole number within inclusive bounds; None is no bound.

    ``unset``: a number that means the default, as in PCCL's program.
    """

    name = "n"

    def __init__(
        self, least: int | None = None, most: int | None = None, *, unset: int | None = None
    ) -> None:
        super().__init__(least, most)
        self._unset = unset

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the number, None for ``unset``. Raises click.BadParameter."""
        if self._unset is not None and str(value) == str(self._unset):
            return None
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(_mismatch(value, "a whole number", self), param, ctx)

    def _describe_range(self) -> str:
        described = "" if self._unset is not None else super()._describe_range()
        return _range_in_help(self, described)


class RealNumber(click.FloatRange):
    """A number within bounds; None is no bound.

    ``above``: the lower bound itself is excluded. ``shown``: the help shows the bounds.
    """

    name = "float"

    def __init__(
        self,
        least: float | None = None,
        most: float | None = None,
        *,
        above: bool = False,
        shown: bool = True,
    ) -> None:
        super().__init__(least, most, min_open=above)
        self._shown = shown

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Returns the number. Raises click.BadParameter, also for ``nan`` and ``inf``."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            self.fail(_mismatch(value, "a number", self), param, ctx)
        return number

    def _describe_range(self) -> str:
        return _range_in_help(self, super()._describe_range()) if self._shown else ""


#: The precision of a measurement in percent, and times in seconds.
LIMIT = RealNumber(0, 1e6, above=True, shown=False)
FACTOR = RealNumber(1, above=True, shown=False)


def _mismatch(value: object, noun: str, kind: WholeNumber | RealNumber) -> str:
    words = noun
    most = f"{kind.max:g}" if isinstance(kind.max, float) else kind.max
    if kind.min is not None and kind.max is not None and not kind.min_open:
        words += f" from {kind.min} to {most}"
    elif kind.min is not None:
        words += f" above {kind.min}" if kind.min_open else f" of at least {kind.min}"
        words += "" if kind.max is None else f" and at most {most}"
    elif kind.max is not None:
        words += f" of at most {most}"
    return f"{value!r} is not {words}."


def _range_in_help(kind: WholeNumber | RealNumber, described: str) -> str:
    """Returns the range for the help, where click would show ``x<=None`` without bounds."""
    return "" if kind.min is None and kind.max is None else described


class Parsed(click.ParamType[Any]):
    """A value that the function ``parse`` reads from a text; its UsageError refuses the option.

    A command line that only prints help has no time for large modules: a function imports them
    when it is called.
    """

    def __init__(self, parse: Callable[[str], Any], name: str = "text") -> None:
        self._parse, self.name = parse, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the value; one that is no text, for example a default, is read already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Size(Parsed):
    """A number of bytes: 8, 128K, 4G, 1GiB. ``least``, ``most``: inclusive bounds."""

    def __init__(self, least: int = 1, most: int | None = None) -> None:
        super().__init__(parse_size, "size")
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the bytes. Raises click.BadParameter."""
        size = super().convert(0 if value == "0" and not self._least else value, param, ctx)
        if size is None or not isinstance(value, str):
            return size
        is_small = size < self._least
        if is_small or (self._most is not None and size > self._most):
            bound = f"at least {size_text(self._least)}" if is_small else ""
            bound = bound or f"at most {size_text(self._most or 0)}"
            self.fail(f"{value!r} is not a size of {bound}.", param, ctx)
        return size


_MOST_GBIT = 1e6
_RATE = re.compile(r"(?:(\d{1,4})x)?(\d{1,6}(?:\.\d{1,6})?)g?", re.ASCII | re.IGNORECASE)


class Numbers(Parsed):
    """Different numbers from ``least`` to ``most`` with commas, in ascending order. ``noun``: what
    they count, in the plural."""

    def __init__(self, noun: str, least: int, most: int, most_numbers: int = 64) -> None:
        super().__init__(self._read, "numbers")
        self._noun, self._least, self._most, self._number = noun, least, most, most_numbers

    def _read(self, text: str) -> list[int]:
        found = set()
        for word in (one.strip() for one in text.split(",")):
            number = int(word) if word.isascii() and word.isdecimal() and len(word) < 9 else -1
            if not self._least <= number <= self._most:
                raise UsageError(
                    f"{text!r}: write numbers of {self._noun} from {self._least} to {self._most}, "
                    "for example 8,64,512"
                )
            found.add(number)
        if len(found) > self._number:
            raise UsageError(f"{len(found)} numbers of {self._noun} are more than {self._number}")
        return sorted(found)


class LineRate(NamedTuple):
    """``gbit``: of each device, or of each of a node's ``interfaces``, which are then above 0."""

    gbit: float
    interfaces: int = 0


def parse_line_rate(text: str) -> LineRate:
    """Reads ``400`` or ``8x400``. Raises UsageError."""
    read = _RATE.fullmatch(text.strip())
    found = LineRate(float(read[2]), int(read[1] or 0)) if read is not None else LineRate(0)
    if not 0 < found.gbit <= _MOST_GBIT or (read is not None and read[1] and not found.interfaces):
        raise UsageError(
            f"{text!r}: write the Gb/s of each GPU, 400, or interfaces of a node and their Gb/s, "
            "8x400"
        )
    return found


DURATION = Parsed(parse_duration, "time")
PATH = click.Path(path_type=Path)


class Percent(click.ParamType[Any]):
    """A percentage: 5% or 5. ``example``: for messages. ``above``: 0 itself is excluded.

    Values without a percent sign that are ambiguous are refused: 0.05 may mean 5 % or 0.05 %, and
    more than 100 may mean bytes or microseconds.
    """

    name = "percent"

    def __init__(
        self, example: str = "5%", *, above: bool = False, most: float = _MOST_PERCENT
    ) -> None:
        self._example, self._above, self._most = example, above, most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | None:
        """Returns the percentage. Raises click.BadParameter."""
        if not isinstance(value, str):
            return value if value is None else float(value)
        read = _SHARE.fullmatch(value.strip())
        if read is None:
            self.fail(f"cannot read {value!r}: write a share such as {self._example}", param, ctx)
        percent = float(read[1])
        if 0 < percent < 1 and not read[2]:
            self.fail(
                f"{value.strip()} is ambiguous, {percent * 100:g}% or {percent:g}%: write it with "
                "%",
                param,
                ctx,
            )
        if percent > self._most or (self._above and not percent):
            bound = f"must not exceed {self._most:g}%" if percent else "must be above 0"
            self.fail(
                f"{value.strip()}: the share {bound}: write a share such as {self._example}",
                param,
                ctx,
            )
        if percent > 100 and not read[2]:
            self.fail(
                f"{value.strip()}: this is {percent:g}%: write it with %, or write a share such as "
                f"{self._example}",
                param,
                ctx,
            )
        return percent


class Names(click.ParamType[Any]):
    """Names separated by commas, each once.

    ``known``: the possible names, any without; unless ``exact`` is set, their case, hyphens and
    underscores do not matter. ``what``: such a name in messages. ``every``: ``all`` is all of
    them. ``one``: only one name is accepted. ``example``: for messages.
    """

    name = "names"

    def __init__(
        self,
        known: Iterable[str] = (),
        what: str = "name",
        *,
        every: bool = True,
        exact: bool = False,
        one: bool = False,
        example: str = "",
    ) -> None:
        self._spelling: Callable[[str], str] = str if exact else _bare
        self._known = {self._spelling(name): name for name in known}
        self._what, self._every, self._one, self._example = what, every and not one, one, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the list of names. Raises click.BadParameter."""
        if not isinstance(value, str):
            return list(value or ())
        words = [word.strip() for word in value.split(",")]
        if not self._known:
            if not all(words):
                example = f"; write {self._example}" if self._example else ""
                self.fail(f"{value!r}: a {self._what} is empty{example}", param, ctx)
            return list(dict.fromkeys(words))
        words = [word for word in words if word]
        if self._every and [word.lower() for word in words] == ["all"]:
            return list(self._known.values())
        choice = ", ".join(self._known.values()) + (", or all" if self._every else "")
        if not words and isinstance(param, click.Argument):
            raise click.MissingParameter(f"Choose from {choice}", ctx, param)
        if not words:
            self.fail(f"the {self._what} is missing: choose from {choice}", param, ctx)
        for word in words:
            if self._spelling(word) not in self._known:
                from cclmark.work.thresholds import meant

                hint = meant(word, self._known.values())
                choice = (
                    f"{hint} Choose from {choice}" if "?" in hint else f": choose from {choice}"
                )
                self.fail(f"unknown {self._what} {word!r}{choice}", param, ctx)
        found = list(dict.fromkeys(self._known[self._spelling(word)] for word in words))
        if self._one and len(found) > 1:
            self.fail(f"{value!r}: choose one {self._what}, from {choice}", param, ctx)
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Completes the last name."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        names = [name for name in self._known.values() if name.startswith(last)]
        return [CompletionItem(f"{before}{comma}{name}") for name in names]


class OneName(Names):
    """One of several names."""

    def __init__(self, known: Iterable[str], what: str) -> None:
        super().__init__(known, what, exact=True, one=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the name. Raises click.BadParameter."""
        return super().convert(value, param, ctx)[0]


def _bare(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


class Pair(click.ParamType[Any]):
    """``NAME=VALUE``. ``pattern``: of the name. ``example``: for messages."""

    name = "pair"

    def __init__(self, pattern: str = r"[^=]+", example: str = "NAME=VALUE") -> None:
        self._pattern, self._example = re.compile(pattern, re.ASCII), example

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Returns the name and the value. Raises click.BadParameter."""
        if not isinstance(value, str):
            return (value[0], value[1])
        name, _, found = value.strip().partition("=")
        if not self._pattern.fullmatch(name) or not found:
            self.fail(f"{value!r}: write {self._example}", param, ctx)
        return name, found


class OtherProgram(NamedTuple):
    """A program whose method ``--like`` requests, as defaults of other options.

    ``defaults``: by the name of an option (cclmark.options.groups), as typed. ``end_bytes``: the
    largest size on accelerators. ``shows_gbps``: whether it also prints bandwidths in Gbit/s.
    """

    defaults: Mapping[str, str]
    end_bytes: int
    shows_gbps: bool = False


OTHER_PROGRAMS = {
    # network/benchmarks/all_reduce_bench.py of Machine Learning Engineering: 5 trials after 2
    # warm-ups, each a barrier of torch, one call between two events, and a wait; the mean of ranks.
    "all_reduce_bench": OtherProgram(
        {
            "begin": "32K",
            "iterations": "5",
            "warmup": "2",
            "timing": "blocking",
            "barrier": "library",
            "clock": "device",
            "across": "mean",
            "cache": "warm",
            "placement": "in-place",
        },
        end_bytes=16 << 30,
        shows_gbps=True,
    )
}


def apply_method(
    context: click.Context, parameter: click.Parameter, name: str | None
) -> OtherProgram | None:
    """Makes the method of the program ``name`` the default of the command's other options.

    The option must be eager: only options that are processed later get the defaults. Returns the
    program, None if none was requested.
    """
    if not name:
        return None
    context.default_map = {**(context.default_map or {}), **OTHER_PROGRAMS[name].defaults}
    return OTHER_PROGRAMS[name]
