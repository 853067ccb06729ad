"""Options that are numbers: what they accept, and messages that describe the expected number."""

import click
import pytest

from cclmark.cli.commands import COMMANDS, load_command
from cclmark.options.numbers import RealNumber, WholeNumber


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        (WholeNumber(1), "1", 1),
        (WholeNumber(1, 9), "9", 9),
        (WholeNumber(), "-3", -3),
        (RealNumber(0, 1e6, above=True), "1e-9", 1e-9),
        (RealNumber(0, 1000), "0", 0.0),
        (RealNumber(), "2", 2.0),
    ],
)
def test_numbers_within_the_bounds(kind, text, number):
    converted = kind.convert(text, None, None)
    assert (converted, type(converted)) == (number, type(number))


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (WholeNumber(1), "abc", "'abc' is not a whole number of at least 1."),
        (WholeNumber(1), "0", "'0' is not a whole number of at least 1."),
        (WholeNumber(1, 9), "10", "'10' is not a whole number from 1 to 9."),
        (WholeNumber(1, 9), "1.5", "'1.5' is not a whole number from 1 to 9."),
        (WholeNumber(most=9), "10", "'10' is not a whole number of at most 9."),
        (WholeNumber(), "x", "'x' is not a whole number."),
        (RealNumber(0, 5.5), "6", "'6' is not a number from 0 to 5.5."),
        (RealNumber(0, above=True), "0", "'0' is not a number above 0."),
        (RealNumber(0, 9, above=True), "0", "'0' is not a number above 0 and at most 9."),
        (RealNumber(), "two", "'two' is not a number."),
        (RealNumber(0, 9), "nan", "'nan' is not a number from 0 to 9."),
    ],
)
def test_the_message_describes_the_expected_number(kind, text, message):
    with pytest.raises(click.BadParameter) as caught:
        kind.convert(text, None, None)
    assert caught.value.message == message


def _options(command):
    yield from (one for one in command.params if isinstance(one, click.Option))
    for inner in getattr(command, "commands", {}).values():
        yield from _options(inner)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_numeric_option_has_these_messages(name):
    numeric = (click.IntRange, click.FloatRange, type(click.INT), type(click.FLOAT))
    for option in _options(load_command(name)):
        if isinstance(option.type, numeric) and not option.count:
            assert isinstance(option.type, WholeNumber | RealNumber), option.opts
