"""The types of options that are numbers. Their messages describe the expected number in words."""

from __future__ import annotations

import math
import re
from typing import Any

import click

from cclmark.errors import UsageError

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)", re.ASCII)
_MOST_PERCENT = 1000.0  # more is a typing error, and a check that cannot fail


def percent_of(option: str, text: str, example: str = "5%") -> float:
    """Returns the percentage in ``text`` of ``option``: 5% or 5; ``example`` is for messages.

    Raises UsageError, also for ambiguous values without a percent sign: 0.05 may mean 5 % or
    0.05 %, and more than 100 may mean bytes or microseconds.
    """
    read = _SHARE.fullmatch(text.strip())
    if read is None:
        raise UsageError(f"{option}: cannot read {text!r}: write a share such as {example}")
    percent = float(read[1])
    if 0 < percent < 1 and not read[2]:
        raise UsageError(
            f"{option} {text.strip()} is ambiguous, {percent * 100:g}% or {percent:g}%: write it "
            "with %"
        )
    if 100 < percent <= _MOST_PERCENT and not read[2]:
        raise UsageError(
            f"{option} {text.strip()}: this is {percent:g}%: write it with %, or write a share "
            f"such as {example}"
        )
    if percent > _MOST_PERCENT:
        raise UsageError(
            f"{option} {text.strip()}: the share must not exceed {_MOST_PERCENT:g}%: write a share "
            f"such as {example}"
        )
    return percent


class WholeNumber(click.IntRange):
    """A whole number within inclusive bounds; None is no bound."""

    name = "integer"

    def __init__(self, least: int | None = None, most: int | None = None) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number. Raises click.BadParameter."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(_mismatch(value, "a whole number", self), param, ctx)

    def _describe_range(self) -> str:
        return _range_in_help(self, super()._describe_range())


class RealNumber(click.FloatRange):
    """A number within bounds; None is no bound. ``above``: the lower bound itself is excluded."""

    name = "float"

    def __init__(
        self, least: float | None = None, most: float | None = None, *, above: bool = False
    ) -> None:
        super().__init__(least, most, min_open=above)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Returns the number. Raises click.BadParameter, also for ``nan``."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if math.isnan(number):
            self.fail(_mismatch(value, "a number", self), param, ctx)
        return number

    def _describe_range(self) -> str:
        return _range_in_help(self, super()._describe_range())


def _mismatch(value: object, noun: str, kind: WholeNumber | RealNumber) -> str:
    words = noun
    if kind.min is not None and kind.max is not None and not kind.min_open:
        words += f" from {kind.min} to {kind.max}"
    elif kind.min is not None:
        words += f" above {kind.min}" if kind.min_open else f" of at least {kind.min}"
        words += "" if kind.max is None else f" and at most {kind.max}"
    elif kind.max is not None:
        words += f" of at most {kind.max}"
    return f"{value!r} is not {words}."


def _range_in_help(kind: WholeNumber | RealNumber, described: str) -> str:
    """Returns the range for the help, where click would show ``x<=None`` without bounds."""
    return "" if kind.min is None and kind.max is None else described
