"""The common options of commands with ``--vary``, and of commands that measure steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.options.flags import METHOD, OPERATION, Flags, changed, option
from cclmark.options.numbers import WholeNumber

_SHARED = Flags.__dataclass_fields__
USUAL_ROUNDS = 5


@dataclass
class VariedFlags:
    """The options of every command that compares settings."""

    vary: list[str] = option(
        OPERATION,
        "--vary",
        multiple=True,
        metavar="NAME=A,B",
        help="A variable of the environment and its values, for example NCCL_P2P_DISABLE=1, each "
        "compared with the default in new processes; may be repeated. Values that contain commas "
        "are separated by |.",
    )
    one_at_a_time: bool = option(
        OPERATION,
        "--one-at-a-time",
        default=False,
        is_flag=True,
        help="Each value alone instead of all combinations.",
    )
    allow_unknown_settings: bool = option(
        OPERATION,
        "--allow-unknown-settings",
        default=False,
        is_flag=True,
        help="Vary variables too that the file of no library lists.",
    )


@dataclass
class StepFlags(VariedFlags):
    """The options of the commands that measure steps: ``train`` and ``replay``."""

    ccl: str = changed(_SHARED["ccl"], metavar="NAMES")
    devices: str = changed(_SHARED["devices"])
    count: int | None = changed(_SHARED["count"])
    bind: str = changed(_SHARED["bind"])
    steps: int | None = option(
        METHOD,
        "-n",
        "--steps",
        "--iters",
        type=WholeNumber(1, 100_000),
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
        type=WholeNumber(1, 1000),
        metavar="N",
        help="Rounds, each in new processes, in which all variants are measured in turn "
        f"[{USUAL_ROUNDS} with variants, else 1].",
    )
    check: int = changed(_SHARED["check"], type=WholeNumber(0, 1), metavar="0|1")
    precision_percent: float = changed(_SHARED["precision_percent"])
    max_time_s: float = changed(_SHARED["max_time_s"])
    timeout_s: float = changed(_SHARED["timeout_s"])
    seed: int = changed(_SHARED["seed"])
    inject: list[str] = changed(_SHARED["inject"])
    format: str = changed(
        _SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )
    output: Path | None = changed(_SHARED["output"])
    journal: Path | None = changed(_SHARED["journal"])
    resume: Path | None = changed(_SHARED["resume"])
