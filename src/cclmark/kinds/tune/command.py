"""``cclmark tune``: settings that are proven to be faster, as files to deploy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.flags import (
    AUTO_PLACEMENT,
    METHOD,
    ONE_LIBRARY,
    ONE_REDUCTION,
    ONE_TYPE,
    OPERATION,
    PLACEMENT_HELP,
    Action,
    Flags,
    argument,
    changed,
    command,
    option,
)
from cclmark.options.numbers import WholeNumber
from cclmark.options.operation_argument import operations_in_help

_SHARED = Flags.__dataclass_fields__
LEAST_ROUNDS = 7
USUAL_ROWS = 8192  # of the matrices


@dataclass
class TuneFlags(Flags):
    """The options of ``cclmark tune``."""

    without: ClassVar[frozenset[str]] = frozenset(
        {
            *("explain", "cycles", "duration", "summary_every", "like", "references", "inject"),
            *("modules", "register", "register_number", "format", "check", "config"),
        }
    )

    operations: str = argument("OPERATION[,OPERATION...]")
    budget: str = option(
        METHOD,
        "--budget",
        default="5m",
        metavar="TIME",
        help="Time for search and proof, for example 90s or 5m: the search ends when the rest is "
        "required for the proof, which is always complete [5m].",
    )
    proof_rounds: int = option(
        METHOD,
        "--proof-rounds",
        default=LEAST_ROUNDS,
        type=WholeNumber(least=LEAST_ROUNDS, most=1000),
        metavar="N",
        help=f"Rounds of the proof, each in fresh processes [{LEAST_ROUNDS}].",
    )
    allow_loss: str = option(
        METHOD,
        "--allow-loss",
        default="2%",
        metavar="PERCENT",
        help="Largest loss of a size without a rule that the files may cause, as settings of the "
        "whole process can; not for libraries with one environment [2%].",
    )
    app_changes: str = option(
        OPERATION,
        "--app-changes",
        default="no",
        type=click.Choice(["no", "yes"]),
        help="Also try registered buffers, which the program has to allocate itself, and request "
        "channels by options of its communicator instead of NCCL_MIN_CTAS [no].",
    )
    settings: str = option(
        OPERATION,
        "--settings",
        default="",
        metavar="NAME[,NAME...]",
        help="The variables to try, also those that are set already, which begin with their value: "
        "one environment for all sizes, also of nccl and rccl, whose sends and receives have no "
        "tuner; not for mpi [nccl, rccl: rules by size; others: all unset variables].",
    )
    sm_cost: int = option(
        METHOD,
        "--sm-cost",
        default=USUAL_ROWS,
        type=WholeNumber(least=0, most=65536),
        metavar="N",
        help="On CUDA devices, measure the slow-down of an N x N matrix product beside the tuned "
        f"collectives, before and after; 0 disables [{USUAL_ROWS}].",
    )
    dtype: str = changed(_SHARED["dtype"], metavar="TYPE", help=ONE_TYPE)
    reduction: str = changed(_SHARED["reduction"], metavar="OP", help=ONE_REDUCTION)
    root: str | None = changed(_SHARED["root"], help="Root [0].")
    ccl: str = changed(_SHARED["ccl"], metavar="NAME", help=ONE_LIBRARY)
    begin: str = changed(_SHARED["begin"], "1K", shown="1K")
    end: str = changed(_SHARED["end"], "256M", shown="256M")
    factor: float | None = changed(_SHARED["factor"], 4.0, shown="4")
    placement: str = changed(
        _SHARED["placement"],
        AUTO_PLACEMENT,
        type=click.Choice([AUTO_PLACEMENT, "out-of-place", "in-place"]),
        help=PLACEMENT_HELP,
    )
    max_time_s: float = changed(_SHARED["max_time_s"], 0.05, shown="0.05")
    output: Path | None = changed(
        _SHARED["output"],
        help="The directory of the artifacts, new or empty [tuned].",
        metavar="DIR",
    )


def tune_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    tune = command(
        name,
        "Search settings of a library that beat its default, prove them, and write their files.",
        TuneFlags,
        run,
    )
    tune.epilog = operations_in_help()
    return tune
