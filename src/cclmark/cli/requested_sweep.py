"""The sweep of cases that the options of a command request."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.cli.options import AUTO_PLACEMENT, Flags
from cclmark.errors import UsageError
from cclmark.kinds.registry import read_journal
from cclmark.plan.cases import Sweep, UnevenPattern, rows_pattern
from cclmark.plan.operations import (
    DTYPE_BYTES,
    OPERATIONS,
    moves_data,
    parse_dtypes,
    parse_reductions,
)
from cclmark.plan.sizes import format_size, sweep
from cclmark.results.schema import Settings

USUAL_ROOT = "0"


def sweep_of(
    operations: list[str],
    flags: Flags,
    ccls: list[str],
    settings: Settings,
    ranks: int,
    roots: list[int],
) -> Sweep:
    """Creates the sweep that the flags request, with the libraries ``ccls``. Raises UsageError."""
    uneven = UnevenPattern.parse(_pattern_text(flags))
    if any(OPERATIONS[name].uneven for name in operations):
        uneven.check(ranks)
    elif flags.pattern != "uniform":
        raise UsageError("--pattern is supported for alltoallv only")
    placements = {
        "both": (False, True),
        "out-of-place": (False,),
        "in-place": (True,),
        AUTO_PLACEMENT: (),
    }
    return Sweep(
        operations=operations,
        ccls=ccls,
        ranks=ranks,
        sizes=sweep(settings.begin_bytes, settings.end_bytes, settings.step_bytes, settings.factor),
        dtypes=parse_dtypes(flags.dtype),
        reductions=parse_reductions(flags.reduction),
        roots=roots,
        placements=placements[flags.placement],
        uneven=uneven,
    )


def _pattern_text(flags: Flags) -> str:
    """Returns ``--pattern``; with ``--resume``, the journal's weights for the same file."""
    if flags.resume is None or not flags.pattern.startswith("matrix:"):
        return flags.pattern
    then = read_journal(flags.resume, as_written=True).header.settings
    return (
        rows_pattern(then.weights)
        if then.pattern == flags.pattern and then.weights
        else flags.pattern
    )


def rounding_of(plan: Sweep) -> list[str]:
    """Returns one notice, with an example, if sizes are not a whole number of elements."""
    if not any(moves_data(name) for name in plan.operations):
        return []
    for dtype in plan.dtypes:
        width = DTYPE_BYTES[dtype]
        for size in plan.sizes:
            if size % width:
                return [
                    "sizes are rounded down to whole elements, as in nccl-tests: "
                    f"{format_size(size)} is {format_size(size - size % width)} of {dtype}"
                ]
    return []


def root_without_effect(operations: Sequence[str], root: str | None) -> list[str]:
    """Returns a notice if ``-r`` has no effect because none of the operations has a root.

    Every program of nccl-tests accepts ``-r``, so scripts pass its default to all of them. Raises
    UsageError for another root, which cannot be measured.
    """
    if root is None or any(OPERATIONS[name].rooted for name in operations):
        return []
    text = (
        f"-r {root}: {' and '.join(operations)} {'has' if len(operations) == 1 else 'have'} no root"
    )
    if root != USUAL_ROOT:
        raise UsageError(text)
    return [f"{text}, so the option has no effect"]


def roots_of(text: str, ranks: int) -> list[int]:
    """Parses ``--root``: a rank, or all of them. Raises UsageError."""
    if text in ("all", "-1"):
        return list(range(ranks))
    if not (text.isascii() and text.isdecimal()) or int(text) >= ranks:
        raise UsageError(f"unknown root {text!r}: choose from 0 to {ranks - 1}, or all")
    return [int(text)]
