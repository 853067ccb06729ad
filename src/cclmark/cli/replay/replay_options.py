"""The options of ``cclmark replay``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.cli.options import METHOD, OPERATION, Flags, argument, changed, option
from cclmark.plan.replay_choices import GAPS, KEEP

_SHARED = Flags.__dataclass_fields__
USUAL_ROUNDS = 5


@dataclass
class ReplayFlags:
    """The options of ``cclmark replay``."""

    profile: str = argument("PROFILE")
    gaps: str = option(
        OPERATION,
        "--gaps",
        type=click.Choice(list(GAPS)),
        default=KEEP,
        help="keep: each call begins as long after the last call that had ended before it as in "
        "the program (its compute waits for communication); fixed: at its moment in the program "
        "(its compute does not wait); drop: at once [keep].",
    )
    vary: list[str] = option(
        OPERATION,
        "--vary",
        multiple=True,
        metavar="NAME=A,B",
        help="A variable of the environment or an option of all communicators and its values, for "
        "example NCCL_P2P_DISABLE=1 or config.minCTAs=32, each compared with the default in new "
        "processes; may be repeated. Values that contain commas are separated by |.",
    )
    one_at_a_time: bool = option(
        OPERATION,
        "--one-at-a-time",
        default=False,
        is_flag=True,
        help="Each value alone instead of all combinations.",
    )
    ccl: str = changed(
        _SHARED["ccl"],
        metavar="NAMES",
        help="Libraries, with commas; the first one is the default, with which the others are "
        "compared [nccl; host: shm].",
    )
    ccl_path: str = changed(_SHARED["ccl_path"])
    devices: str = changed(_SHARED["devices"])
    count: int | None = changed(_SHARED["count"])
    bind: str = changed(_SHARED["bind"])
    steps: int | None = option(
        METHOD,
        "-n",
        "--steps",
        "--iters",
        type=click.IntRange(1, 100_000),
        metavar="N",
        help="Timed steps instead of --precision.",
    )
    warmup: int | None = changed(
        _SHARED["warmup"],
        drop=("--warmup-iters", "--warmup_iters"),
        help="Fixed number of warm-up steps instead of warm-up until steps agree.",
    )
    rounds: int | None = option(
        METHOD,
        "--rounds",
        type=click.IntRange(1, 1000),
        metavar="N",
        help="Rounds, each in new processes, in which all variants are measured in turn "
        f"[{USUAL_ROUNDS} with variants, else 1].",
    )
    check: int = changed(
        _SHARED["check"],
        type=click.IntRange(0, 1),
        metavar="0|1",
        help="1: check the output of every call of a step before the timed ones [1].",
    )
    precision_percent: float = changed(_SHARED["precision_percent"])
    max_time_s: float = changed(
        _SHARED["max_time_s"], 10.0, help="Maximum time for timing steps of a variant [10]."
    )
    timeout_s: float = changed(_SHARED["timeout_s"])
    seed: int = changed(_SHARED["seed"])
    inject: list[str] = changed(
        _SHARED["inject"],
        help="A fault to inject, to verify its detection: corrupt:rank=1,index=5 (an element of "
        "an output) or delay:rank=1,ms=50 (before each step).",
    )
    format: str = changed(
        _SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )
    output: Path | None = changed(_SHARED["output"])
    journal: Path | None = changed(_SHARED["journal"])
    resume: Path | None = changed(_SHARED["resume"])
