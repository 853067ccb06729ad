"""``cclmark torch``: a backend of torch.distributed as a training program uses it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.cli.numbers import WholeNumber
from cclmark.cli.options import OPERATION, OUTPUT, Flags, changed, command, option
from cclmark.cli.printed_help import SaysHelp

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


_OBJECT_SHARED = Flags.__dataclass_fields__
_OF_TORCH = TorchFlags.__dataclass_fields__
USUAL_FACTOR = 16.0


@dataclass
class ObjectFlags:
    """The options of ``cclmark torch objects``."""

    begin: str = changed(_OBJECT_SHARED["begin"], "64", shown="64")
    end: str = changed(
        _OBJECT_SHARED["end"],
        "4M",
        help="Largest size of a pickled object: 8, 128K, 4M, 1GiB [4M, or -b].",
    )
    step: str = changed(_OBJECT_SHARED["step"])
    factor: float | None = changed(_OBJECT_SHARED["factor"], shown=f"{USUAL_FACTOR:g}")
    backend: str = changed(_OF_TORCH["backend"])
    modules: list[str] = changed(_OBJECT_SHARED["modules"])
    only: str = option(
        OPERATION,
        "--only",
        default="",
        metavar="A,B",
        help="Only these calls: flag, all_gather_object, broadcast_object_list, "
        "scatter_object_list, gather_object, send_object_list, or the first part of a name [all].",
    )
    content: str = option(
        OPERATION,
        "--content",
        default="bytes",
        type=click.Choice(["bytes", "numbers"]),
        help="The object: bytes, one bytes object, which pickles at the speed of a copy; numbers, "
        "a list of floats, which pickles element by element [bytes].",
    )
    devices: str = changed(_OBJECT_SHARED["devices"])
    bind: str = changed(_OBJECT_SHARED["bind"])
    count: int | None = changed(_OBJECT_SHARED["count"])
    check: int = changed(
        _OBJECT_SHARED["check"],
        type=WholeNumber(0, 1),
        metavar="0|1",
        help="Whether received objects and tensors are compared with the sent ones [1].",
    )
    precision_percent: float = changed(_OBJECT_SHARED["precision_percent"])
    max_time_s: float = changed(
        _OBJECT_SHARED["max_time_s"], help="Maximum time for the rounds of one call [1]."
    )
    timeout_s: float = changed(_OBJECT_SHARED["timeout_s"])
    seed: int = changed(_OBJECT_SHARED["seed"])
    inject: list[str] = changed(
        _OBJECT_SHARED["inject"],
        help=(
            "A fault to inject, to verify its detection: corrupt:rank=1,index=5, "
            "delay:rank=2,ms=50 or hang:rank=1,case=3."
        ),
    )
    format: str = changed(
        _OBJECT_SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )
    output: Path | None = changed(_OBJECT_SHARED["output"])
    journal: Path | None = changed(_OBJECT_SHARED["journal"])
    resume: Path | None = changed(
        _OBJECT_SHARED["resume"],
        help="Measure only the calls that are missing in this journal of the same command.",
    )


class _Torch(SaysHelp, click.Group):
    """The commands about torch."""


def torch_commands(name: str) -> click.Group:
    """Returns the group with its commands."""
    group = _Torch(
        name,
        help="Check and measure a backend of torch.distributed as a training program uses it.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    group.add_command(
        command(
            "check",
            "Call every operation of a backend and compare the results.",
            TorchFlags,
            _check,
        )
    )
    group.add_command(
        command(
            "objects",
            "Time Python objects through a backend, and the same data as tensors.",
            ObjectFlags,
            _measure_objects,
        )
    )
    return group


def _check(flags: TorchFlags) -> None:
    from cclmark.cli.torch.run import check_torch

    sys.exit(check_torch(flags))


def _measure_objects(flags: ObjectFlags) -> None:
    from cclmark.cli.torch.run import measure_objects

    sys.exit(measure_objects(flags))
