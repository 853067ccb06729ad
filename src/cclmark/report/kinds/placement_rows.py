"""Pairs the placements of a case: formats in the manner of nccl-tests show both on one row."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.results.kinds import CaseResult
from cclmark.results.schema import Summary


@dataclass(frozen=True)
class Row:
    """The results of one case out-of-place and in-place, one of which may not have been tried."""

    out_of_place: CaseResult | None
    in_place: CaseResult | None

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """Those that there are, out-of-place first: at least one."""
        return tuple(it for it in (self.out_of_place, self.in_place) if it is not None)

    @property
    def case(self) -> Case:
        """What was measured; of its placement it says nothing."""
        return self.results[0].case

    @property
    def summary(self) -> Summary | None:
        """The figures for formats that show one placement: out-of-place, else in-place."""
        return next((it.summary for it in self.results if it.summary is not None), None)


class RowCollector:
    """Takes results in the order of the run and gives rows back as early as they are whole.

    A row is whole when both placements came, when one came that cannot have a second (a barrier, or
    ``single``: the run is known to measure one placement), or when the next result belongs to
    another row. The last also tells that this operation is measured in one placement: its further
    rows are given back at once.
    """

    def __init__(self, *, single: bool = False) -> None:
        self._single = single
        self._pending: CaseResult | None = None
        self._unpaired: tuple[str, str] | None = None

    def add(self, result: CaseResult) -> list[Row]:
        """The rows, in order, that ``result`` completes: none, one or two."""
        pending, self._pending = self._pending, None
        if pending is not None and _belong_together(pending, result):
            return [_row(pending, result)]
        rows: list[Row] = []
        if pending is not None:
            self._unpaired = _operation(pending)
            rows.append(_row(pending))
        if self._single or not moves_data(result.case.operation) or self._came_alone(result):
            rows.append(_row(result))
        else:
            self._pending = result
        return rows

    def finish(self) -> list[Row]:
        """The row that still waited for its second placement, if one did."""
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


def _row(*results: CaseResult) -> Row:
    by_placement = {result.case.in_place: result for result in results}
    return Row(out_of_place=by_placement.get(False), in_place=by_placement.get(True))
