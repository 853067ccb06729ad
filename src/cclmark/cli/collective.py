"""The collectives: ``cclmark all_reduce`` and its kin."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from cclmark.cli import options as opt
from cclmark.errors import UsageError
from cclmark.plan.operations import OPERATIONS

_SUMMARIES = {
    "all_reduce": "Every rank gets the reduction of all ranks' data.",
    "all_gather": "Every rank gets every rank's data.",
    "reduce_scatter": "Every rank gets its part of the reduction.",
    "broadcast": "Every rank gets the root's data.",
    "reduce": "The root gets the reduction.",
    "alltoall": "Every rank sends a part to every rank.",
    "alltoallv": "The same with parts of different sizes.",
    "gather": "The root gets every rank's data.",
    "scatter": "Every rank gets its part of the root's data.",
    "sendrecv": "Every rank sends to its right neighbour in a ring.",
    "barrier": "Every rank waits for every other.",
}


def summary_of(operation: str) -> str:
    """One line of help."""
    return _SUMMARIES[operation]


@dataclass
class Flags:
    """What all measuring commands can be told; typer makes the options from it."""

    begin: opt.Begin = "8"
    end: opt.End = ""
    step: opt.Step = ""
    factor: opt.Factor = None
    dtype: opt.Dtype = "float32"
    reduction: opt.Reduction = "sum"
    root: opt.Root = "0"
    placement: opt.PlacementOption = opt.Placement.both
    pattern: opt.Pattern = "uniform"
    ccl: opt.CclOption = ""
    ccl_path: opt.CclPath = ""
    devices: opt.Devices = ""
    count: opt.Count = None
    register: opt.RegisterOption = None
    register_number: opt.RegisterNumber = None
    timing: opt.TimingOption = None
    iterations: opt.Iterations = None
    warmup: opt.WarmUpIterations = None
    group: opt.Group = 1
    blocking: opt.Blocking = None
    graph: opt.Graph = None
    cycles: opt.Cycles = 1
    check: opt.Check = 1
    across: opt.Across = opt.AcrossRanks.max
    precision_percent: opt.PrecisionOption = 2.0
    max_time_s: opt.MaxTime = 1.0
    timeout_s: opt.Timeout = 60.0
    seed: opt.Seed = 1
    inject: opt.Inject = None
    format: opt.FormatOption = opt.Format.table
    output: opt.Output = None
    journal: opt.JournalOption = None


@dataclass
class CollectivesFlags(Flags):
    """The same, and which operations."""

    only: opt.Only = ""


def command_for(operation: str) -> Callable[..., None]:
    """The command that measures ``operation``."""
    return _with_options(Flags, lambda flags: [operation])


def collectives_command() -> Callable[..., None]:
    """The command that measures every operation, or those of ``--only``, in one launch."""
    return _with_options(CollectivesFlags, lambda flags: _chosen(flags.only))


FlagsType = TypeVar("FlagsType", bound=Flags)


def _with_options(
    flags_type: type[FlagsType], operations: Callable[[FlagsType], list[str]]
) -> Callable[..., None]:
    def command(**values: Any) -> None:
        from cclmark.cli.measuring import measure

        flags = flags_type(**values)
        sys.exit(measure(operations(flags), flags))

    hints = get_type_hints(flags_type, include_extras=True)
    signature = inspect.signature(flags_type)
    parameters = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values()]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = hints
    return command


def _chosen(only: str) -> list[str]:
    names = [name.strip() for name in only.split(",") if name.strip()] or list(OPERATIONS)
    for name in names:
        if name not in OPERATIONS:
            raise UsageError(
                f"unknown operation {name!r} in --only: choose from {', '.join(OPERATIONS)}"
            )
    return list(dict.fromkeys(names))
