"""``cclmark pairs``: collectives of every two devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.options import groups
from cclmark.options.command import METHOD, OPERATION, OUTPUT, changed, flag, option
from cclmark.options.groups import placement_option
from cclmark.options.types import Names, WholeNumber
from cclmark.work.operations import PAIR_OPERATIONS
from cclmark.work.runtimes import NamedDevices


@dataclass
class PairFlags(groups.CaseOptions):
    """The options of ``cclmark pairs``, which measures both roots, and every case once."""

    examples: ClassVar = [
        ("cclmark pairs", "All operations between every two accelerators, as heat maps."),
        (
            "cclmark pairs --devices host:3 --only sendrecv -b 1K -e 1K --max-time 0.1",
            "One operation and size between three ranks of the host.",
        ),
        ("cclmark pairs --only all_reduce -b 64M -e 64M", "One size between accelerators."),
    ]
    usual: ClassVar = ("only", *groups.CaseOptions.usual)
    usual_factor: ClassVar = 4.0
    without: ClassVar = {
        groups.RootOptions: "cclmark pairs measures both devices of a pair as the root",
        **dict.fromkeys(
            (
                groups.IslandOptions,
                groups.ModuleOptions,
                groups.LikeOptions,
                groups.ReferenceOptions,
                groups.SoakOptions,
            ),
            "cclmark pairs measures two devices at a time: cclmark all_reduce has this option",
        ),
    }

    only: list[str] = option(
        "--only",
        title=OPERATION,
        default=[],
        type=Names(PAIR_OPERATIONS, "operation"),
        metavar="A,B",
        help="Only these operations [all].",
    )
    devices: NamedDevices = changed(
        groups.DeviceOptions,
        "devices",
        help="0,2,3 or cuda:0-3 or host or host:4 [all accelerators, else the host].",
    )
    ccl: list[str] = changed(
        groups.LibraryOptions,
        "ccl",
        help="Collective library, or several with commas [the devices' own].",
    )
    placement: str = placement_option("both")
    factor: float | None = changed(groups.SizeOptions, "factor", shown="4")
    timing: str | None = changed(
        groups.TimingOptions,
        "timing",
        type=click.Choice(["throughput", "blocking", "graph", "per-op"]),
        help="How operations are timed [throughput].",
    )
    max_time_s: float = changed(groups.SamplingOptions, "max_time_s", 0.1, shown="0.1")
    one_by_one: bool = flag(
        "--one-by-one",
        title=METHOD,
        help="Never measure several pairs at once, even if they do not disturb each other.",
    )
    inject: list[str] = changed(
        groups.FaultOptions,
        "inject",
        help="A fault to inject, to verify its detection: corrupt:pair=0-1,index=5 or "
        "delay:pair=2-3,ms=5.",
    )
    most_shown: int = option(
        "--max-display",
        title=OUTPUT,
        default=32,
        type=WholeNumber(least=2),
        help="Maximum number of devices in a matrix [32].",
    )
