"""``cclmark tune``: settings that are proven to be faster, as files to deploy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options import groups
from cclmark.options.command import METHOD, OPERATION, Excludes, OptionRules, changed, option
from cclmark.options.groups import operations_in_help, placement_option, several_operations
from cclmark.options.types import DURATION, Names, Percent, WholeNumber

LEAST_ROUNDS = 7
USUAL_ROWS = 8192  # of the matrices


@dataclass
class TuneFlags(groups.OneOfEachOptions, groups.NumberOptions):
    """The options of ``cclmark tune``."""

    title: ClassVar[str] = METHOD
    examples: ClassVar = [
        ("cclmark tune all_reduce", "Rules by size for the library of the devices, in tuned/."),
        (
            "cclmark tune all_reduce,all_gather --budget 20m -b 64K -e 1G -O rules",
            "Two operations, more time, other sizes.",
        ),
        (
            "cclmark tune sendrecv --settings NCCL_MIN_P2P_NCHANNELS,NCCL_P2P_NVL_CHUNKSIZE",
            "One environment for all sizes, of these variables.",
        ),
    ]
    about: ClassVar = (
        "Searches, and proves in fresh processes against the default what counts as faster."
    )
    epilog: ClassVar = operations_in_help()
    usual: ClassVar = ("budget", "settings", "output", "dry_run", *groups.CaseOptions.usual)
    without: ClassVar = dict.fromkeys(
        (
            groups.ModuleOptions,
            groups.CommunicatorOptions,
            groups.LikeOptions,
            groups.CheckOptions,
            groups.CheckPlaceOptions,
            groups.FaultOptions,
            groups.ColumnOptions,
            groups.ReferenceOptions,
            groups.SoakOptions,
            groups.ExplainOptions,
            groups.ConditionOptions,
        ),
        "cclmark tune searches and proves by a separate method: cclmark all_reduce has this option",
    )

    rules: ClassVar[OptionRules] = (Excludes("settings", "app_changes", values=("yes",)),)

    operations: list[str] = several_operations()
    budget: float = option(
        "--budget",
        default=300.0,
        type=DURATION,
        help="Time for search and proof, for example 90s or 5m; the search ends when the rest is "
        "required for the proof, which is always complete [5m].",
    )
    proof_rounds: int = option(
        "--proof-rounds",
        default=LEAST_ROUNDS,
        type=WholeNumber(least=LEAST_ROUNDS, most=1000),
        help=f"Rounds of the proof, each in fresh processes [{LEAST_ROUNDS}].",
    )
    allow_loss: float = option(
        "--allow-loss",
        default=2.0,
        type=Percent("4%"),
        help="Largest loss of a size without a rule that the files may cause, as settings of the "
        "whole process can; not for libraries with one environment [2%].",
    )
    app_changes: str = option(
        "--app-changes",
        title=OPERATION,
        default="no",
        type=click.Choice(["no", "yes"]),
        help="Also try registered buffers, which the program has to allocate itself, and request "
        "channels by options of its communicator instead of NCCL_MIN_CTAS [no].",
    )
    settings: list[str] = option(
        "--settings",
        title=OPERATION,
        default=[],
        type=Names(what="variable", example="NCCL_MIN_CTAS,NCCL_PROTO"),
        metavar="NAME[,NAME...]",
        help="The variables to try, as one environment for all sizes; also those that are set "
        "already, which begin with their value; also of nccl and rccl, whose sends and receives "
        "have no tuner; not for mpi [nccl, rccl: rules by size; others: all unset variables].",
    )
    sm_cost: int = option(
        "--sm-cost",
        default=USUAL_ROWS,
        type=WholeNumber(least=0, most=65536),
        help="On CUDA devices, measure the slow-down of an N x N matrix product beside the tuned "
        f"collectives, before and after; 0 disables [{USUAL_ROWS}].",
    )
    begin: int = changed(groups.SizeOptions, "begin", 1 << 10, shown="1K")
    end: int | None = changed(groups.SizeOptions, "end", 256 << 20, shown="256M")
    usual_factor: ClassVar = 4.0
    factor: float | None = changed(groups.SizeOptions, "factor", shown="4")
    placement: str = placement_option()
    max_time_s: float = changed(groups.SamplingOptions, "max_time_s", 0.05, shown="0.05")
    files: ClassVar = ("output",)
    output: Path | None = changed(
        groups.FileOptions,
        "output",
        help="The directory of the artifacts, new or empty [tuned].",
        metavar="DIR",
    )
