"""``cclmark torch objects``: Python objects through a backend of torch.distributed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.kinds.check.command import TorchFlags
from cclmark.options.flags import OPERATION, Action, Flags, changed, command, option
from cclmark.options.numbers import WholeNumber

_SHARED = Flags.__dataclass_fields__


_OF_TORCH = TorchFlags.__dataclass_fields__


USUAL_FACTOR = 16.0


@dataclass
class ObjectFlags:
    """The options of ``cclmark torch objects``."""

    begin: str = changed(_SHARED["begin"], "64", shown="64")
    end: str = changed(
        _SHARED["end"],
        "4M",
        help="Largest size of a pickled object: 8, 128K, 4M, 1GiB [4M, or -b].",
    )
    step: str = changed(_SHARED["step"])
    factor: float | None = changed(_SHARED["factor"], shown=f"{USUAL_FACTOR:g}")
    backend: str = changed(_OF_TORCH["backend"])
    modules: list[str] = changed(_SHARED["modules"])
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
    devices: str = changed(_SHARED["devices"])
    bind: str = changed(_SHARED["bind"])
    count: int | None = changed(_SHARED["count"])
    check: int = changed(
        _SHARED["check"],
        type=WholeNumber(0, 1),
        metavar="0|1",
        help="Whether received objects and tensors are compared with the sent ones [1].",
    )
    precision_percent: float = changed(_SHARED["precision_percent"])
    max_time_s: float = changed(
        _SHARED["max_time_s"], help="Maximum time for the rounds of one call [1]."
    )
    timeout_s: float = changed(_SHARED["timeout_s"])
    seed: int = changed(_SHARED["seed"])
    inject: list[str] = changed(
        _SHARED["inject"],
        help=(
            "A fault to inject, to verify its detection: corrupt:rank=1,index=5, "
            "delay:rank=2,ms=50 or hang:rank=1,case=3."
        ),
    )
    format: str = changed(
        _SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )
    output: Path | None = changed(_SHARED["output"])
    journal: Path | None = changed(_SHARED["journal"])
    resume: Path | None = changed(
        _SHARED["resume"],
        help="Measure only the calls that are missing in this journal of the same command.",
    )


def objects_command(run: Action) -> click.Command:
    """Returns the command."""
    return command(
        "objects",
        "Time Python objects through a backend, and the same data as tensors.",
        ObjectFlags,
        run,
    )
