"""Reads the line above rows of cclmark's formats that contain neither operation nor type."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cclmark.importing.cleaned_text import Text, TextLine
from cclmark.importing.run import RankCount
from cclmark.importing.spelling import dtype_of, reduction_of
from cclmark.plan.operations import OPERATIONS

_SERIES = re.compile(
    r"# (?P<operation>[a-z_]+) (?P<dtype>\w+)(?: (?P<reduction>[a-z]+))?"
    r"(?: root (?P<root>\d{1,7}))?(?: (?P<placement>in-place|out-of-place))?"
    r", (?P<ccl>[\w:.+-]+), (?P<ranks>\d{1,7}) ranks?"
)


@dataclass(frozen=True)
class RowSeries:
    """The common fields of all rows after the line: out-of-place unless specified."""

    operation: str | None = None
    dtype: str | None = None
    reduction: str | None = None
    root: int | None = None
    ccl: str | None = None
    ranks: RankCount | None = None
    in_place: bool = False


def read_series(text: Text, line: TextLine) -> RowSeries | None:
    """Reads such a line, None for any other. Raises UsageError for an impossible rank count."""
    found = _SERIES.fullmatch(line.text.strip())
    if found is None or found["operation"] not in OPERATIONS or dtype_of(found["dtype"]) is None:
        return None
    return RowSeries(
        operation=found["operation"],
        dtype=dtype_of(found["dtype"]),
        reduction=reduction_of(found["reduction"] or "none"),
        root=None if found["root"] is None else int(found["root"]),
        ccl=found["ccl"],
        ranks=RankCount(text.ranks(line.number, found["ranks"]), line.number),
        in_place=found["placement"] == "in-place",
    )
