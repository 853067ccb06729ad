"""Pairs the placements of a case: formats like that of nccl-tests show both on one row."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Summary
from cclmark.work.cases import Case
from cclmark.work.operations import moves_data


@dataclass(frozen=True)
class PlacementRow:
    """The results of one case out-of-place and in-place; one of them may be missing."""

    out_of_place: CaseResult | None
    in_place: CaseResult | None

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """The available results, out-of-place first: at least one."""
        return tuple(it for it in (self.out_of_place, self.in_place) if it is not None)

    @property
    def case(self) -> Case:
        """The measured case; its placement has no meaning."""
        return self.results[0].case

    @property
    def summary(self) -> Summary | None:
        """The figures for formats that show one placement: out-of-place, else in-place."""
        return next((it.summary for it in self.results if it.summary is not None), None)


class RowCollector:
    """Receives results in the order of the run and returns rows as soon as they are complete.

    A row is complete with both placements, with a single result that cannot have a second placement
    (a barrier, or with ``single``: the run measures one placement), or when the next result belongs
    to another row. In the last case this operation is measured in one placement: its further rows
    are returned at once.
    """

    def __init__(self, *, single: bool = False) -> None:
        self._single = single
        self._pending: CaseResult | None = None
        self._unpaired: tuple[str, str] | None = None

    def add(self, result: CaseResult) -> list[PlacementRow]:
        """Returns the rows, in order, that ``result`` completes: none, one or two."""
        pending, self._pending = self._pending, None
        if pending is not None and _belong_together(pending, result):
            return [_row(pending, result)]
        rows: list[PlacementRow] = []
        if pending is not None:
            self._unpaired = _operation(pending)
            rows.append(_row(pending))
        if self._single or not moves_data(result.case.operation) or self._came_alone(result):
            rows.append(_row(result))
        else:
            self._pending = result
        return rows

    def finish(self) -> list[PlacementRow]:
        """Returns the row whose second placement is missing, if any."""
        pending, self._pending = self._pending, None
        return [] if pending is None else [_row(pending)]

    def _came_alone(self, result: CaseResult) -> bool:
        return self._unpaired == _operation(result)


def _operation(result: CaseResult) -> tuple[str, str]:
    return result.case.operation, result.case.ccl


def _belong_together(one: CaseResult, other: CaseResult) -> bool:
    if one.cycle != other.cycle or one.case.in_place == other.case.in_place:
        return False
    return msgspec.structs.replace(one.case, in_place=other.case.in_place) == other.case


def _row(*results: CaseResult) -> PlacementRow:
    by_placement = {result.case.in_place: result for result in results}
    return PlacementRow(out_of_place=by_placement.get(False), in_place=by_placement.get(True))
