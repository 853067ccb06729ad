"""``cclmark torch check``: every operation of a backend of torch.distributed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.options import groups
from cclmark.options.command import OPERATION, OUTPUT, Action, command, option
from cclmark.options.types import Parsed

_EXAMPLES = [
    ("cclmark torch check", "Every operation of nccl on all accelerators, of gloo on the host."),
    (
        "cclmark torch check --backend gloo --devices host:2 --only broadcast,barrier",
        "Two operations of gloo, between two ranks of the host.",
    ),
]


@dataclass
class BackendOptions:
    """The backend of torch.distributed."""

    title: ClassVar[str] = OPERATION

    backend: str = option(
        "--backend",
        default="",
        type=Parsed("options.chosen_devices.one_backend"),
        metavar="NAME",
        help="gloo, nccl, flagcx, ucc, mpi or any registered backend [nccl on accelerators, "
        "gloo on the host].",
    )


@dataclass
class TorchFlags(
    BackendOptions,
    groups.ModuleOptions,
    groups.DeviceOptions,
    groups.TimeoutOptions,
    groups.FaultOptions,
    groups.FormatOptions,
    groups.FileOptions,
):
    """The options of ``cclmark torch check``."""

    only: list[str] = option(
        "--only",
        title=OPERATION,
        default=[],
        type=Parsed("kinds.check.plan.checks_called"),
        metavar="A,B",
        help="Only these checks; a part selects all checks that begin with it [all].",
    )
    values: bool = option(
        "--values",
        title=OUTPUT,
        default=False,
        is_flag=True,
        help="The tensors before and after each operation on every rank, long ones by their ends.",
    )


def check_command(run: Action) -> click.Command:
    """Returns the command."""
    summary = "Call every operation of a backend and compare the results."
    return command("check", summary, TorchFlags, run, examples=_EXAMPLES)
