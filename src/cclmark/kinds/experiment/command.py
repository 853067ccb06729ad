"""``cclmark experiment``: settings compared with the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.options.flags import (
    AUTO_PLACEMENT,
    METHOD,
    ONE_LIBRARY,
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
USUAL_ROUNDS = 5


@dataclass
class ExperimentFlags(Flags):
    """The options of ``cclmark experiment``, which always explains, and measures round by round."""

    without: ClassVar[frozenset[str]] = frozenset(
        {
            *(
                "explain",
                "cycles",
                "duration",
                "summary_every",
                "like",
                "references",
                "inject",
                "modules",
            ),
        }
    )

    operations: str = argument("OPERATION[,OPERATION...]")
    ccl: str = changed(_SHARED["ccl"], metavar="NAME", help=ONE_LIBRARY)
    vary: list[str] = changed(
        _VARIED["vary"],
        help=(
            "A setting and its values: an environment variable, an option of the communicator "
            "(config.minCTAs), memory, registration or placement; may be repeated. Values that "
            "contain commas are separated by |."
        ),
    )
    libraries: str = option(
        OPERATION,
        "--library",
        default="",
        metavar="A,B",
        help="Files or names of libraries that are compared with the default one.",
    )
    one_at_a_time: bool = changed(_VARIED["one_at_a_time"])
    allow_unknown_settings: bool = changed(
        _VARIED["allow_unknown_settings"],
        help="Vary variables too that the file of no library lists. A difference counts only "
        "beyond the noise of the default against itself.",
    )
    bisect: str = option(
        OPERATION,
        "--bisect",
        default="",
        metavar="NAME=LOW:HIGH",
        help=(
            "Find the smallest value of a variable that keeps a share of the best bandwidth; "
            "NAME=LOW:HIGH:STEP or NAME=LOW:HIGH:x2 for large ranges."
        ),
    )
    keep: str = option(
        OPERATION,
        "--keep",
        default="99%",
        metavar="SHARE",
        help="The share that --bisect keeps at every size [99%].",
    )
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
    max_time_s: float = changed(_SHARED["max_time_s"], 0.2, shown="0.2")
    format: str = changed(
        _SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )


def experiment_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    experiment = command(
        name,
        "Compare settings of a library with its default, round by round: speed-ups with intervals.",
        ExperimentFlags,
        run,
    )
    experiment.epilog = operations_in_help()
    return experiment
