"""Sentences and cells on object calls, shared by all formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cclmark.kinds.objects.plan import FLAG, FLAG_CALL, OBJECT_CALLS, ObjectCall
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.document.remarks import ending
from cclmark.document.text import format_time_us, half_width_text
from cclmark.kinds.objects.result import ObjectResult
from cclmark.results.schema import Footer, Header
from cclmark.kinds.objects.result import ObjectFigures

#: The titles of the columns of ``cells_of``, and the side of each.
HEAD = ("size", "objects µs", "±%", "tensors µs", "±%", "ratio (95 %)", "pickling µs", "share")
SIDES = ">" * len(HEAD)
WIDTHS = (10, 11, 5, 11, 5, 26, 11, 6)
_MOST_NAMED = 4
_COUNTED_CALLS = 1000  # of a flag, as scripts that compare the two print it


def method_of_objects(header: Header) -> str:
    """Describes in a line how object calls were measured."""
    check = "received data compared" if header.settings.check else "received data not compared"
    return (
        "calls in a row, with objects and with the same data as tensors in every round, slowest "
        f"rank, host clock, {check}"
    )


def group_title(call: ObjectCall) -> str:
    """The calls that are compared: the title of a group."""
    row = OBJECT_CALLS.get(call.operation)
    ranks = f"{call.ranks} rank{'s' * (call.ranks > 1)}"
    if call.operation == FLAG_CALL:
        return (
            f"flag: all_gather_object of a bool, all_reduce of an int32 · {call.backend}, {ranks}"
        )
    against = f" and {row.tensor_call}" if row is not None else ""
    return f"{call.operation}{against} · {call.content}, {call.backend}, {ranks}"


def size_text(call: ObjectCall) -> str:
    """The size of a pickled object: ``1 KiB``."""
    return format_size(call.size_bytes)


def ratio_text(figures: ObjectFigures) -> str:
    """The ratio with its interval: ``4.39 (4.31 to 4.47)``."""
    return f"{figures.ratio:.3g} ({figures.ratio_low:.3g} to {figures.ratio_high:.3g})"


def cells_of(result: ObjectResult) -> list[str]:
    """The cells of a line."""
    figures = result.figures
    if figures is None:
        return [size_text(result.call), result.status, *["-"] * (len(HEAD) - 2)]
    return [
        size_text(result.call),
        format_time_us(figures.object_s),
        _half_width(figures.object_low_s, figures.object_high_s, figures.object_s),
        format_time_us(figures.tensor_s),
        _half_width(figures.tensor_low_s, figures.tensor_high_s, figures.tensor_s),
        ratio_text(figures),
        format_time_us(figures.pickling_s),
        f"{figures.pickling_s / figures.object_s:.0%}",
    ]


def _half_width(low_s: float, high_s: float, middle_s: float) -> str:
    return half_width_text((high_s - low_s) / 2 / middle_s)


def wrong_lines(results: Iterable[ObjectResult]) -> list[str]:
    """A line for each rank with wrong data."""
    return [
        plain(f"wrong {one.of} of {result.call.describe()} on rank {one.rank}: {one.text}")
        for result in results
        for one in result.findings
    ]


def remarks_of(results: Sequence[ObjectResult]) -> list[str]:
    """Skipped calls with the reason, and medians that are less precise than requested."""
    found: dict[str, list[str]] = {}
    for one in results:
        if one.status not in ("ok", "wrong"):
            found.setdefault(f"{one.status}: {one.reason}", []).append(one.call.describe())
    lines = [f"{text}: {_named(names)}" for text, names in found.items()]
    coarse = sum(not one.converged for one in results)
    if coarse:
        lines.append(
            f"{coarse} of {len(results)} calls reached --max-time before both medians had the "
            "precision of --precision: see ±%"
        )
    return [plain(line) for line in lines]


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def flag_lines(results: Iterable[ObjectResult]) -> list[str]:
    """A sentence on each flag with the times of 1000 calls, as scripts print them."""
    return [
        f"a flag of each rank by all_gather_object takes {ratio_text(one.figures)} times as "
        f"long as by all_reduce: {one.figures.object_s * _COUNTED_CALLS:.4f} against "
        f"{one.figures.tensor_s * _COUNTED_CALLS:.4f} s for {_COUNTED_CALLS} calls"
        for one in results
        if one.call.content == FLAG and one.figures is not None
    ]


def early_end(footer: Footer | None) -> str:
    """Why the run ended early, in a line; empty for a regular end."""
    if footer is not None and not footer.message:
        return ""
    reason = ending(None) if footer is None else plain(footer.message.splitlines()[0])
    return f"ended early: {reason}"


def outcome_of(results: Sequence[ObjectResult]) -> str:
    """The numbers of measured, checked and wrong calls."""
    measured = [one for one in results if one.is_measured]
    checked = sum(one.is_checked for one in measured)
    wrong = sum(one.status == "wrong" for one in results)
    return f"{len(measured)} of {len(results)} measured; {checked} checked, {wrong} wrong"
