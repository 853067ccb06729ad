"""``cclmark replay``: the communication of a profiled program, without the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.options import groups
from cclmark.options.command import OPERATION, Excludes, OptionRules, argument, changed, option
from cclmark.work.work_beside import FIT, MATMUL, NO_COMPUTE, OF_PROFILE, TRIAD
from cclmark_programs.replay.choices import GAPS


@dataclass
class ReplayFlags(groups.StepOptions, groups.LibraryFileOptions, groups.ComputeOptions):
    """The options of ``cclmark replay``."""

    examples: ClassVar = [
        (
            "cclmark replay job.jsonl",
            "The profile's communication on as many devices of this machine.",
        ),
        (
            "cclmark replay job.jsonl --devices host:4 --gaps drop",
            "On four ranks of the host, without the times between calls.",
        ),
        (
            "cclmark replay job.jsonl --vary NCCL_PROTO=LL128,Simple --compute fit",
            "Two protocols against the default, beside work like the program's.",
        ),
    ]
    about: ClassVar = "Repeats one step, verified, with any library or setting."
    elsewhere: ClassVar = dict.fromkeys(
        ("-b", "--begin", "-e", "--end", "-f", "--factor", "-d", "--dtype", "-o", "--op"),
        "The profile has the operations, sizes and types of all calls.",
    )
    usual: ClassVar = (
        *("count", "devices", "ccl", "gaps", "compute", "vary", "rounds", "steps", "check"),
        *("format", "output", "journal"),
    )
    rules: ClassVar[OptionRules] = tuple(
        Excludes(name, "compute", "it chooses the size", (FIT,)) for name in ("matrix", "array")
    )

    profile: str = argument("PROFILE")
    gaps: str | None = option(
        "--gaps",
        title=OPERATION,
        type=click.Choice(list(GAPS)),
        help="When calls begin; keep: each call as long after the last call that had ended before "
        "it as in the program (its compute waits for communication); fixed: at its moment in the "
        "program (its compute does not wait); drop: at once [keep; --compute fit: keep or fixed, "
        "whichever fits].",
    )
    compute: str = changed(
        groups.ComputeOptions,
        "compute",
        OF_PROFILE,
        type=click.Choice([OF_PROFILE, NO_COMPUTE, MATMUL, TRIAD, FIT]),
        help="What runs beside the calls, in place of the program's computation; profile: memory "
        "traffic beside those that took longer in the program than alone, as much as makes them as "
        "long; none; matmul, matrix products; memory, triads that are bound by the memory; fit, "
        "the one of the last three and the gaps with which communication and step take about as "
        "long as in the program [profile].",
    )
    matrix: int | None = changed(
        groups.ComputeOptions,
        "matrix",
        help="matmul: rows and columns of the matrices [4096, bfloat16; host: 128, float32]. "
        "Calls wait for the blocks of a product, the longer the larger it is.",
    )
    array: int | None = changed(
        groups.ComputeOptions,
        "array",
        help="memory: size of each of the three arrays [64M; host: 1M].",
    )
    vary: list[tuple[str, list[str]]] = changed(
        groups.VariedOptions,
        "vary",
        help="A variable of the environment or an option of all communicators and its values, for "
        "example NCCL_P2P_DISABLE=1 or config.minCTAs=32, each compared with the default in new "
        "processes; may be repeated. Values that contain commas are separated by |.",
    )
    ccl: list[str] = changed(
        groups.StepOptions,
        "ccl",
        help="Libraries, with commas; the first one is the default, with which the others are "
        "compared [nccl; host: shm].",
    )
    check: int = changed(
        groups.StepOptions,
        "check",
        help="1: check the output of every call of a step before the timed ones [1].",
    )
    max_time_s: float = changed(
        groups.SamplingOptions,
        "max_time_s",
        10.0,
        help="Maximum time for timing steps of a variant [10].",
    )
    inject: list[str] = changed(
        groups.FaultOptions,
        "inject",
        help="A fault to inject, to verify its detection: corrupt:rank=1,index=5 (an element of "
        "an output) or delay:rank=1,ms=50 (before each step).",
    )
