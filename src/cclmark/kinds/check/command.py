"""``cclmark torch check``: every operation of a backend of torch.distributed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.options.flags import OPERATION, OUTPUT, Action, Flags, changed, command, option

_SHARED = Flags.__dataclass_fields__


@dataclass
class TorchFlags:
    """The options of ``cclmark torch check``."""

    backend: str = option(
        OPERATION,
        "--backend",
        default="",
        metavar="NAME",
        help="gloo, nccl, flagcx, ucc, mpi or any registered backend [nccl on accelerators, "
        "gloo on the host].",
    )
    modules: list[str] = changed(_SHARED["modules"])
    only: str = option(
        OPERATION,
        "--only",
        default="",
        metavar="A,B",
        help="Only these checks; a part selects all checks that begin with it [all].",
    )
    values: bool = option(
        OUTPUT,
        "--values",
        default=False,
        is_flag=True,
        help="The tensors before and after each operation on every rank, long ones by their ends.",
    )
    devices: str = changed(_SHARED["devices"])
    bind: str = changed(_SHARED["bind"])
    count: int | None = changed(_SHARED["count"])
    timeout_s: float = changed(_SHARED["timeout_s"])
    inject: list[str] = changed(
        _SHARED["inject"],
        help=(
            "A fault to inject, to verify its detection: corrupt:rank=1,index=5 or "
            "delay:rank=2,ms=50."
        ),
    )
    format: str = changed(
        _SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )
    output: Path | None = changed(_SHARED["output"])
    journal: Path | None = changed(_SHARED["journal"])


def check_command(run: Action) -> click.Command:
    """Returns the command."""
    return command(
        "check", "Call every operation of a backend and compare the results.", TorchFlags, run
    )
