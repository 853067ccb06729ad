"""``cclmark overlap``: collectives beside compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cclmark.options import groups
from cclmark.options.command import changed
from cclmark.options.groups import (
    operations_in_help,
    placement_option,
    rounds_option,
    several_operations,
)

USUAL_ROUNDS = 7


@dataclass
class OverlapFlags(
    groups.CaseOptions, groups.ComputeOptions, groups.VariedOptions, groups.NumberOptions
):
    """The options of ``cclmark overlap``, which measures round by round."""

    examples: ClassVar = [
        ("cclmark overlap", "all_reduce beside a matrix product, 1 MiB to 128 MiB."),
        (
            "cclmark overlap all_gather --devices host:2 -b 256K -e 256K --rounds 2",
            "Another operation and size, between two ranks of the host.",
        ),
        (
            "cclmark overlap all_reduce -b 64M -e 64M --vary NCCL_MAX_CTAS=4,8,16",
            "The slow-down of both with fewer channels of NCCL.",
        ),
    ]
    about: ClassVar = "Both alone and at once: the slow-down of each."
    epilog: ClassVar = operations_in_help()
    usual: ClassVar = (
        *("begin", "end", "factor", "count", "devices", "ccl", "compute", "matrix", "vary"),
        *("rounds", "format", "dry_run"),
    )
    usual_factor: ClassVar = 4.0
    without: ClassVar = dict.fromkeys(
        (
            groups.IslandOptions,
            groups.TimingOptions,
            groups.LikeOptions,
            groups.CountOptions,
            groups.SamplingOptions,
            groups.FaultOptions,
            groups.ReferenceOptions,
            groups.SoakOptions,
        ),
        "cclmark overlap measures in rounds, by a separate method: cclmark all_reduce has this "
        "option",
    )

    operations: list[str] = several_operations(is_optional=True)
    begin: int = changed(groups.SizeOptions, "begin", 1 << 20, shown="1M")
    factor: float | None = changed(groups.SizeOptions, "factor", shown="4")
    vary: list[tuple[str, list[str]]] = changed(
        groups.VariedOptions,
        "vary",
        help="A setting and its values, for example NCCL_MAX_CTAS=4,8,16,32,64: an environment "
        "variable, an option of the communicator (config.maxCTAs), memory, registration or "
        "placement; may be repeated. Values that contain commas are separated by |.",
    )
    rounds: int = rounds_option(USUAL_ROUNDS)
    placement: str = placement_option()
