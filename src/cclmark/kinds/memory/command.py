"""``cclmark memory``: the buffers of an operation, and the memory that the library takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cclmark.options import groups
from cclmark.options.command import changed
from cclmark.options.groups import ONE_LIBRARY, one_operation, operations_in_help, placement_option


@dataclass
class MemoryFlags(groups.CaseOptions):
    """The options of ``cclmark memory``: of collectives, without options on times."""

    examples: ClassVar = [
        ("cclmark memory all_reduce", "The memory for 1 MiB on all devices."),
        (
            "cclmark memory alltoall --devices host:2 -b 1K -e 4K",
            "Three sizes of another operation, between two ranks of the host.",
        ),
        ("cclmark memory all_reduce -b 1G --format csv -O memory.csv", "Another size, as CSV."),
    ]
    about: ClassVar = "Lists buffers, and the memory that the library takes in each stage."
    epilog: ClassVar = operations_in_help()
    without: ClassVar = dict.fromkeys(
        (
            groups.TimingOptions,
            groups.LikeOptions,
            groups.CountOptions,
            groups.SamplingOptions,
            groups.FaultOptions,
            groups.ReferenceOptions,
            groups.SoakOptions,
            groups.ExplainOptions,
            groups.ConditionOptions,
        ),
        "cclmark memory measures no times: cclmark all_reduce has this option",
    )

    operation: str = one_operation()
    begin: int = changed(
        groups.SizeOptions, "begin", 1 << 20, help="Size, or the smallest one [1M]."
    )
    end: int | None = changed(
        groups.SizeOptions, "end", help="Largest size: 8, 128K, 4G, 1GiB [-b]."
    )
    placement: str = placement_option("both")
    ccl: list[str] = changed(groups.LibraryOptions, "ccl", metavar="NAME", help=ONE_LIBRARY)
    iterations: int | None = changed(
        groups.CountOptions,
        "iterations",
        help="Operations before the memory of the library is read [5].",
    )
