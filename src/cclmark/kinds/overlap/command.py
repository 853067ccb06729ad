"""``cclmark overlap``: collectives beside compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.options.flags import (
    AUTO_PLACEMENT,
    METHOD,
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
from cclmark.options.step_options import VariedFlags

_SHARED = Flags.__dataclass_fields__
_VARIED = VariedFlags.__dataclass_fields__
USUAL_ROUNDS = 7
USUAL_FACTOR = 4.0


@dataclass
class OverlapFlags(Flags):
    """The options of ``cclmark overlap``, which measures round by round."""

    without: ClassVar[frozenset[str]] = frozenset(
        {
            *("timing", "iterations", "warmup", "group", "blocking", "graph", "cycles"),
            *("duration", "summary_every", "like", "across", "cache", "barrier", "clock", "inject"),
            *("precision_percent", "max_time_s", "references", "islands", "through_host"),
        }
    )

    operations: str = argument("OPERATION[,OPERATION...]", is_optional=True)
    begin: str = changed(_SHARED["begin"], "1M", shown="1M")
    factor: float | None = changed(_SHARED["factor"], shown=f"{USUAL_FACTOR:g}")
    compute: str = option(
        OPERATION,
        "--compute",
        default="matmul",
        type=click.Choice(["matmul", "memory"]),
        help="The work beside the collective: matmul, a matrix product (cuBLASLt on CUDA devices, "
        "a loop on the host; other devices have none); memory, a triad that is bound by the memory "
        "[matmul].",
    )
    matrix: int | None = option(
        OPERATION,
        "--matrix",
        type=WholeNumber(least=16, most=65536),
        metavar="N",
        help="matmul: rows and columns of the matrices [8192, bfloat16; host: 256, float32].",
    )
    array: str = option(
        OPERATION,
        "--array",
        default="",
        metavar="SIZE",
        help="memory: size of each of the three arrays [1G; host: 16M].",
    )
    vary: list[str] = changed(
        _VARIED["vary"],
        help=(
            "A setting and its values, for example NCCL_MAX_CTAS=4,8,16,32,64: an environment "
            "variable, an option of the communicator (config.maxCTAs), memory, registration or "
            "placement; may be repeated. Values that contain commas are separated by |."
        ),
    )
    one_at_a_time: bool = changed(_VARIED["one_at_a_time"])
    allow_unknown_settings: bool = changed(_VARIED["allow_unknown_settings"])
    rounds: int = option(
        METHOD,
        "--rounds",
        default=USUAL_ROUNDS,
        type=WholeNumber(least=2, most=1000),
        metavar="N",
        help=f"Rounds, in each of which everything is measured [{USUAL_ROUNDS}].",
    )
    placement: str = changed(
        _SHARED["placement"],
        AUTO_PLACEMENT,
        type=click.Choice([AUTO_PLACEMENT, "out-of-place", "in-place"]),
        help=PLACEMENT_HELP,
    )
    format: str = changed(
        _SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )


def overlap_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    overlap = command(
        name,
        "Measure a collective and a matrix product alone and at once: the slow-down of each.",
        OverlapFlags,
        run,
    )
    overlap.epilog = operations_in_help()
    return overlap
