"""``cclmark pairs``: collectives of every two devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.options.flags import (
    AUTO_PLACEMENT,
    METHOD,
    OPERATION,
    OUTPUT,
    PLACEMENT_HELP,
    Action,
    Flags,
    changed,
    command,
    option,
)
from cclmark.options.numbers import WholeNumber

_SHARED = Flags.__dataclass_fields__


@dataclass
class PairFlags(Flags):
    """The options of ``cclmark pairs``, which measures both roots, and every case once."""

    without: ClassVar[frozenset[str]] = frozenset(
        {
            *("root", "cycles", "duration", "summary_every", "like", "modules", "islands"),
            *("through_host", "references"),
        }
    )

    only: str = option(
        OPERATION, "--only", default="", metavar="A,B", help="Only these operations [all]."
    )
    devices: str = changed(
        _SHARED["devices"],
        help="0,2,3 or cuda:0-3 or host or host:4 [all accelerators, else the host].",
    )
    ccl: str = changed(
        _SHARED["ccl"], help="Collective library, or several with commas [the devices' own]."
    )
    placement: str = changed(
        _SHARED["placement"],
        AUTO_PLACEMENT,
        type=click.Choice([AUTO_PLACEMENT, "both", "out-of-place", "in-place"]),
        help=PLACEMENT_HELP,
    )
    factor: float | None = changed(_SHARED["factor"], shown="4")
    timing: str | None = changed(
        _SHARED["timing"],
        type=click.Choice(["throughput", "blocking", "graph", "per-op"]),
        help="How operations are timed [throughput].",
    )
    max_time_s: float = changed(_SHARED["max_time_s"], 0.1, shown="0.1")
    one_by_one: bool = option(
        METHOD,
        "--one-by-one",
        default=False,
        is_flag=True,
        help="Never measure several pairs at once, even if they do not disturb each other.",
    )
    inject: list[str] = changed(
        _SHARED["inject"],
        help=(
            "A fault to inject, to verify its detection: corrupt:pair=0-1,index=5 or "
            "delay:pair=2-3,ms=5."
        ),
    )
    most_shown: int = option(
        OUTPUT,
        "--max-display",
        default=32,
        type=WholeNumber(least=2),
        metavar="N",
        help="Maximum number of devices in a matrix [32].",
    )
    format: str = changed(
        _SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )


def pairs_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    return command(name, "Collectives of every pair of devices, as heat maps.", PairFlags, run)
