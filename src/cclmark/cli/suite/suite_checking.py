"""Checks a suite before it measures: its required devices, and tests that cannot fail."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cclmark.cli.commands import load_command
from cclmark.cli.option_values import size_of
from cclmark.cli.pairs import pairing
from cclmark.errors import MissingError, UsageError
from cclmark.launch.devices import choose_devices
from cclmark.plan.runtimes import RUNTIMES
from cclmark.plan.sizes import format_size, sweep
from cclmark.plan.suites import ACCELERATORS, Suite, SuiteCommand
from cclmark.plan.thresholds import SizeRange, meant
from cclmark.run.probe import count_devices

_USUAL_FACTORS = {"collective": 2.0, "pairs": pairing.USUAL_FACTOR}


def require_devices(suite: Suite) -> None:
    """Raises MissingError if this machine lacks the devices that the suite requires.

    Raises UsageError for an unknown device name.
    """
    if not suite.needs:
        return
    known = (ACCELERATORS, *(runtime for runtime in RUNTIMES if runtime != "host"))
    if suite.needs not in known:
        raise UsageError(
            f"{suite.name}: needs: unknown devices {suite.needs!r}{meant(suite.needs, known)} "
            f"Choose from {', '.join(known)}."
        )
    runtime = "" if suite.needs == ACCELERATORS else suite.needs
    reason = ""
    try:
        if choose_devices(runtime, 1, count_devices, falls_back=True).runtime != "host":
            return
    except MissingError as error:
        reason = f": {str(error).splitlines()[0]} See cclmark info for details"
    kind = f"{runtime} " if runtime else ""
    raise MissingError(
        f"no {kind}accelerators on this machine, which the suite {suite.name} requires{reason}"
    )


def check_sizes(suite: Suite) -> None:
    """Raises UsageError for a threshold of sizes that its command does not measure.

    If the command's options do not determine the sizes, the check is left to the verdict.
    """
    for command in suite.commands:
        wanted = [one for one in command.thresholds if one.sizes is not None]
        sizes = _sizes_of(command) if wanted else []
        for threshold in wanted if sizes else []:
            assert threshold.sizes is not None
            if not any(_may_be_in(size, threshold.sizes) for size in sizes):
                raise UsageError(
                    f"{suite.name}: {command.name!r}: {threshold.describe()}: the command measures "
                    f"{_listed(sizes)}, so this threshold can never fail"
                )


def _sizes_of(command: SuiteCommand) -> Sequence[int]:
    """Returns the sizes that the command's options request; none if they leave that open."""
    name, *words = command.arguments
    if command.kind not in _USUAL_FACTORS or {"-h", "--help"} & set(words):
        return []
    try:
        values = load_command(name).make_context(name, words).params
        if not values["end"]:
            return []
        step = size_of("-i", values["step"]) if values["step"] else 0
        begin, end = size_of("-b", values["begin"]), size_of("-e", values["end"])
        return sweep(begin, end, step, values["factor"] or _USUAL_FACTORS[command.kind])
    except (click.ClickException, UsageError):
        return []  # the command itself reports the error


def _may_be_in(size_bytes: int, sizes: SizeRange) -> bool:
    """Whether a size may be in the range after an operation's rounding, by less than half."""
    least, most = sizes.least_bytes, sizes.most_bytes
    return (least is None or least < 2 * size_bytes) and (most is None or size_bytes < 2 * most)


def _listed(sizes: Sequence[int]) -> str:
    if len(sizes) <= 4:
        return " and ".join(map(format_size, sizes))
    shown = ", ".join(map(format_size, sizes[:2]))
    return f"{len(sizes)} sizes ({shown}, … {format_size(sizes[-1])})"
