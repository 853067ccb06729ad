"""Reads the rows of nccl-tests' tables, whose columns a layout defines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.importing.cleaned_text import PrintedFigure, Text, read_count, read_figure
from cclmark.importing.nccl_layout import NcclTestsLayout
from cclmark.importing.run import ImportedRow
from cclmark.importing.spelling import dtype_of, reduction_of

# The deviation that versions with a column ``error`` or ``res`` allow for each rank but one.
_ALLOWED = {"float16": 1e-2, "bfloat16": 1e-2, "float32": 1e-5, "float64": 1e-12}


def read_half(
    text: Text, number: int, lead: Mapping[str, str], cells: Mapping[str, str], unit_s: float
) -> ImportedRow | None:
    """Reads one placement of the row on line ``number``, None if it has no time.

    ``lead`` and ``cells`` are words by column, ``unit_s`` the unit of times. Raises UsageError for
    a word that is not a number.
    """
    if cells["time"] == "N/A":
        return None
    time = _figure(text, number, "time", cells["time"])
    busbw = _rate(text, number, "busbw", cells.get("busbw", "N/A"))
    size, count = read_count(lead["size"]), read_count(lead["count"])
    assert size is not None
    root = lead.get("root", "-1")
    wrong, deviation = _checked(text, number, cells)
    return ImportedRow(
        line=number,
        size_bytes=size,
        count=count,
        in_place=False,
        dtype=dtype_of(lead["type"]),
        reduction=reduction_of(lead.get("redop", "none")),
        root=read_count(root),
        time=time.times(unit_s),
        algbw=_rate(text, number, "algbw", cells.get("algbw", "N/A")),
        busbw=busbw,
        wrong=wrong,
        deviation=deviation,
    )


def _figure(text: Text, number: int, name: str, word: str) -> PrintedFigure:
    found = read_figure(word)
    if found is None:
        raise text.refuse(number, f"the {name} {word[:40]!r} is not a number")
    return found


def _rate(text: Text, number: int, name: str, word: str) -> PrintedFigure | None:
    if word == "N/A" or word.lstrip("-") in ("nan", "inf"):
        return None
    return _figure(text, number, name, word).times(1e9)


def _checked(
    text: Text, number: int, cells: Mapping[str, str]
) -> tuple[int | None, PrintedFigure | None]:
    """Returns wrong elements and the largest deviation of older versions, conclusive only if 0."""
    word = cells.get("wrong", "N/A").rstrip("*")
    if "wrong" in cells and word != "N/A":
        return round(_figure(text, number, "#wrong", word).value), None
    deviation = read_figure(cells.get("error", cells.get("res", "N/A")).rstrip("*"))
    return 0 if deviation is not None and deviation.value == 0 else None, deviation


def out_of_bounds(rows: Sequence[ImportedRow]) -> list[int]:
    """Returns the wrong rows of a failed table, by their deviations.

    Those are the rows beyond nccl-tests' tolerance if it is known, else all that deviate.
    """
    deviating = [
        (place, row.deviation, row)
        for place, row in enumerate(rows)
        if row.deviation is not None and row.deviation.value > 0
    ]
    beyond = [
        place
        for place, deviation, row in deviating
        if row.ranks is None
        or deviation.value + deviation.error
        > _ALLOWED.get(row.dtype or "", 0.0) * max(1, row.ranks.number - 1)
    ]
    return beyond or [place for place, _, _ in deviating]


def looks_like_row(tokens: Sequence[str], layout: NcclTestsLayout) -> bool:
    """Whether words are a row even though they do not begin with two numbers."""
    return len(tokens) == layout.columns and dtype_of(tokens[layout.lead.index("type")]) is not None


def is_figure(word: str) -> bool:
    """Whether a row may contain this word among its figures."""
    return word == "N/A" or read_figure(word) is not None
