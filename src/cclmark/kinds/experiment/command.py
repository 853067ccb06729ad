"""``cclmark experiment``: settings compared with the default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cclmark.options import groups
from cclmark.options.command import OPERATION, Distinct, Excludes, OptionRules, changed, option
from cclmark.options.groups import (
    ONE_LIBRARY,
    USUAL_ROUNDS,
    operations_in_help,
    placement_option,
    rounds_option,
    several_operations,
)
from cclmark.options.types import Names, Parsed, Percent

_ONE_VALUE, _ITS_JOURNAL = "it varies one value", "use cclmark export for its journal"


def _bisected(text: str) -> tuple[str, Sequence[int]]:
    from cclmark.kinds.experiment.plan import parse_bisect

    return parse_bisect(text)


@dataclass
class ExperimentFlags(groups.CaseOptions, groups.VariedOptions, groups.NumberOptions):
    """The options of ``cclmark experiment``, which always explains, and measures round by round."""

    title: ClassVar[str] = OPERATION
    examples: ClassVar = [
        (
            "cclmark experiment all_reduce --vary NCCL_PROTO=LL128,Simple -b 1M -e 64M",
            "Two protocols of NCCL, each compared with the default.",
        ),
        (
            "cclmark experiment reduce --devices host:2 -e 8 --rounds 2 "
            "--vary CCLMARK_SHM_INLINE_BYTES=0,4096",
            "A variable of shm, between two ranks of the host.",
        ),
        (
            "cclmark experiment all_reduce --bisect NCCL_MAX_CTAS=1:32 --keep 98%",
            "The smallest number of channels that keeps 98 % of the bandwidth.",
        ),
    ]
    about: ClassVar = "Measures round by round in new processes: speed-ups with intervals."
    epilog: ClassVar = operations_in_help()
    usual: ClassVar = ("vary", "libraries", "bisect", "rounds", *groups.CaseOptions.usual)
    without: ClassVar = {
        groups.ExplainOptions: "cclmark experiment always explains",
        **dict.fromkeys(
            (
                groups.ModuleOptions,
                groups.LikeOptions,
                groups.FaultOptions,
                groups.ReferenceOptions,
                groups.SoakOptions,
            ),
            "cclmark experiment compares settings in rounds: cclmark all_reduce has this option",
        ),
    }

    rules: ClassVar[OptionRules] = (
        Distinct("bisect"),
        *(Excludes("bisect", one, _ONE_VALUE) for one in ("vary", "libraries", "one_at_a_time")),
        *(Excludes("bisect", one, _ITS_JOURNAL) for one in ("output", "columns")),
    )

    operations: list[str] = several_operations()
    ccl: list[str] = changed(groups.LibraryOptions, "ccl", metavar="NAME", help=ONE_LIBRARY)
    vary: list[tuple[str, list[str]]] = changed(
        groups.VariedOptions,
        "vary",
        help="A setting and its values: an environment variable, an option of the communicator "
        "(config.minCTAs), memory, registration or placement; may be repeated. Values that "
        "contain commas are separated by |.",
    )
    libraries: list[str] = option(
        "--library",
        default=[],
        type=Names(what="library", example="libnccl.so,rccl"),
        metavar="A,B",
        help="Files or names of libraries that are compared with the default one.",
    )
    allow_unknown_settings: bool = changed(
        groups.VariedOptions,
        "allow_unknown_settings",
        help="Vary variables too that the file of no library lists. A difference counts only "
        "beyond the noise of the default against itself.",
    )
    bisect: list[tuple[str, Sequence[int]]] = option(
        "--bisect",
        multiple=True,
        type=Parsed(_bisected),
        metavar="NAME=LOW:HIGH",
        help="Find the smallest value of a variable or an option (config.maxCTAs) that keeps a "
        "share of the best bandwidth; NAME=LOW:HIGH:STEP or NAME=LOW:HIGH:x2 for large ranges. "
        "Given for several names with one range, all have the same value.",
    )
    keep: float = option(
        "--keep",
        default=99.0,
        type=Percent("99%", above=True, most=100),
        metavar="SHARE",
        help="The share that --bisect keeps at every size [99%].",
    )
    rounds: int = rounds_option(USUAL_ROUNDS)
    placement: str = placement_option()
    max_time_s: float = changed(groups.SamplingOptions, "max_time_s", 0.2, shown="0.2")
