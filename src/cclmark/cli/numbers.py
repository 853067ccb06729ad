"""The types of options that are numbers. Their messages describe the expected number in words."""

from __future__ import annotations

import math
from typing import Any

import click


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
