"""The commands of the collectives, for example ``cclmark all_reduce``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import click

from cclmark.kinds.collective.formats import CASE_FORMATS
from cclmark.options import groups
from cclmark.options.click_command import command
from cclmark.options.command import (
    OPERATION,
    Action,
    Excludes,
    OptionRules,
    Requires,
    changed,
    option,
)
from cclmark.options.groups import one_operation, operations_in_help
from cclmark.options.printed_help import Example
from cclmark.options.types import Names, Parsed
from cclmark.work.operations import COLLECTIVES, OPERATIONS, moves_data

_WITH_REFERENCES = ("table", "markdown")
_WITH_PIECES = ("table", "json", "csv", "markdown")


@dataclass
class CollectiveOptions(groups.CaseOptions):
    """What the commands that measure collectives have."""

    rules: ClassVar[OptionRules] = (
        Excludes("columns", "duration", "use cclmark export --columns for its journal"),
        Requires(
            "references",
            "format",
            _WITH_REFERENCES,
            "for csv and json use cclmark references check JOURNAL",
        ),
    )
    why: ClassVar[bool] = False  # whether the command shows the library's predictions

    format: str = changed(
        groups.FormatOptions,
        "format",
        type=click.Choice(["table", "json", "csv", "markdown", *CASE_FORMATS]),
    )


def _pieces(text: str) -> list[int]:
    from cclmark.kinds.pieces.plan import parse_pieces

    return parse_pieces(text)


@dataclass
class OperationFlags(CollectiveOptions):
    """The options of the command of one collective."""

    rules: ClassVar[OptionRules] = (
        Excludes("pieces", "like", "rounds of divisions have a method of their own"),
        Excludes("pieces", "explain", "one operation has one explanation"),
        Excludes("pieces", "references", "references are single messages"),
        Excludes("pieces", "cycles", "rounds alternate the divisions already"),
        Excludes("pieces", "duration", "rounds alternate the divisions already"),
        Excludes("pieces", "iterations", "--precision and --max-time end the rounds"),
        Excludes("pieces", "warmup", "the warm-up ends when two batches agree"),
        Excludes("pieces", "group", "groups of pieces are measured by default"),
        Requires("pieces", "format", _WITH_PIECES),
    )

    pieces: list[int] = option(
        "--pieces",
        title=OPERATION,
        default=[],
        type=Parsed(_pieces),
        metavar="1,10,100",
        help="The whole message in one call and in so many pieces: calls one after another, one "
        "group, and for all_reduce as DDP's buckets.",
    )


@dataclass
class BarrierFlags(OperationFlags):
    """The options of ``cclmark barrier``; those on data, as of the others, have no effect."""

    examples: ClassVar = [
        ("cclmark barrier", "All accelerators of this machine."),
        ("cclmark barrier --devices host:2 --max-time 0.1", "Two ranks of the host."),
        (
            "cclmark barrier -g 2 --ccl nccl,torch:nccl",
            "Two accelerators with two libraries side by side.",
        ),
    ]
    epilog: ClassVar = (
        "A barrier moves no data. Options on sizes and elements, as of the other collectives, are "
        "accepted and have no effect, which a notice reports."
    )


@dataclass
class CollectivesFlags(CollectiveOptions):
    """The same options, and the selection of operations."""

    usual: ClassVar = ("only", *groups.CaseOptions.usual)
    examples: ClassVar = [
        ("cclmark collectives", "All collectives of all accelerators."),
        (
            "cclmark collectives --devices host:2 --only reduce,gather -e 1K --max-time 0.1",
            "Two collectives between two ranks of the host.",
        ),
        ("cclmark collectives -b 1M -e 1G --format csv -O all.csv", "All collectives, as CSV."),
    ]

    only: list[str] = option(
        "--only",
        title=OPERATION,
        default=[],
        type=Names(COLLECTIVES, "operation", exact=True),
        metavar="A,B",
        help="Only these operations [all].",
    )


@dataclass
class ExplainFlags(CollectiveOptions):
    """The options of ``cclmark explain``, which always explains."""

    examples: ClassVar = [
        ("cclmark explain all_reduce", "The algorithm and protocol of each size, and why."),
        (
            "cclmark explain all_gather -b 1M -e 1M --ccl nccl",
            "One size of another operation with NCCL.",
        ),
        (
            "cclmark explain broadcast --devices host:2 -b 1K -e 4K --max-time 0.1",
            "Two ranks of the host.",
        ),
    ]
    about: ClassVar = "Measures, and shows the library's predictions for what it could have chosen."
    epilog: ClassVar = operations_in_help()
    without: ClassVar = {
        groups.ExplainOptions: "cclmark explain always explains",
        groups.SoakOptions: "cclmark explain measures once: cclmark all_reduce has this option",
    }
    why: ClassVar[bool] = True

    operation: str = one_operation()


def _examples(name: str) -> list[Example]:
    return [
        (f"cclmark {name}", "All accelerators of this machine, 8 B to 128 MiB."),
        (
            f"cclmark {name} --devices host:2 -b 1K -e 64K --max-time 0.1",
            "Two ranks of the host, sizes from 1 KiB to 64 KiB.",
        ),
        (
            f"cclmark {name} -g 2 --ccl nccl,torch:nccl -d bfloat16",
            "Two accelerators with two libraries side by side.",
        ),
    ]


@cache
def _flags_of(name: str) -> type[OperationFlags]:
    """The class of the command's options, which lists only those that the operation has.

    The others are parsed too: scripts pass the same options to all operations.
    """
    operation = OPERATIONS[name]
    options = {
        ("reduction",): operation.reduces,
        ("root",): operation.rooted,
        ("pattern",): operation.uneven,
        ("pieces",): operation.divisible,
        ("begin", "end", "step", "factor", "dtype", "placement", "like"): operation.moves_data,
    }
    unlisted = [one for names, are_used in options.items() if not are_used for one in names]
    base = OperationFlags if operation.moves_data else BarrierFlags
    return type(base.__name__, (base,), {"unlisted": unlisted})


def collective_command(name: str, summary: str, run: Action) -> click.Command:
    """Returns the command of the operation ``name``."""

    def measured(flags: OperationFlags) -> Any:
        return run([name], flags, flags.pieces)

    examples = _examples(name) if moves_data(name) else ()
    return command(name, summary, _flags_of(name), measured, examples=examples)
