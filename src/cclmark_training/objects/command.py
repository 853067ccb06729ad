"""``cclmark torch objects``: Python objects through a backend of torch.distributed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options import groups
from cclmark.options.command import OPERATION, changed, option
from cclmark.options.types import Parsed, Size, WholeNumber
from cclmark_training.check.command import CCL_OF_TORCH, BackendOptions

USUAL_END_BYTES = 4 << 20


def _calls(text: str) -> list[str]:
    from cclmark_training.objects.plan import chosen_calls

    return chosen_calls(text)


@dataclass
class ObjectFlags(
    groups.SizeOptions,
    BackendOptions,
    groups.ModuleOptions,
    groups.DeviceOptions,
    groups.CheckOptions,
    groups.SamplingOptions,
    groups.TimeoutOptions,
    groups.SeedOptions,
    groups.FaultOptions,
    groups.FormatOptions,
    groups.ColumnOptions,
    groups.ConditionOptions,
    groups.FileOptions,
    groups.ResumeOptions,
):
    """The options of ``cclmark torch objects``."""

    examples: ClassVar = [
        ("cclmark torch objects", "All calls, with objects of 64 B to 4 MiB."),
        (
            "cclmark torch objects --backend gloo -g 2 --only flag --max-time 0.1",
            "One call of gloo, between two ranks of the host.",
        ),
        ("cclmark torch objects -b 1M -e 64M --content numbers", "Larger lists of numbers."),
    ]
    elsewhere: ClassVar = {"--ccl": CCL_OF_TORCH}
    usual: ClassVar = (
        *("only", "content", "begin", "end", "factor", "backend", "count", "devices"),
        *("max_time_s", "check", "format", "output"),
    )
    usual_factor: ClassVar = 16.0

    begin: int = changed(groups.SizeOptions, "begin", 64, shown="64")
    end: int | None = changed(
        groups.SizeOptions,
        "end",
        type=Size(most=1 << 30),
        help="Largest size of a pickled object: 8, 128K, 4M, 1GiB [4M, or -b].",
    )
    factor: float | None = changed(groups.SizeOptions, "factor", shown="16")
    only: list[str] = option(
        "--only",
        title=OPERATION,
        default=[],
        type=Parsed(_calls),
        metavar="A,B",
        help="Only these calls: flag, all_gather_object, broadcast_object_list, "
        "scatter_object_list, gather_object, send_object_list, or the first part of a name [all].",
    )
    content: str = option(
        "--content",
        title=OPERATION,
        default="bytes",
        type=click.Choice(["bytes", "numbers"]),
        help="The object: bytes, one bytes object, which pickles at the speed of a copy; numbers, "
        "a list of floats, which pickles element by element [bytes].",
    )
    check: int = changed(
        groups.CheckOptions,
        "check",
        type=WholeNumber(0, 1),
        metavar="0|1",
        help="Whether received objects and tensors are compared with the sent ones [1].",
    )
    max_time_s: float = changed(
        groups.SamplingOptions, "max_time_s", help="Maximum time for the rounds of one call [1]."
    )
    inject: list[str] = changed(
        groups.FaultOptions,
        "inject",
        help="A fault to inject, to verify its detection: corrupt:rank=1,index=5, "
        "delay:rank=2,ms=50 or hang:rank=1,case=3.",
    )
    resume: Path | None = changed(
        groups.ResumeOptions,
        "resume",
        help="Measure only the calls that are missing in this journal of the same command.",
    )
