"""Reads the lines of hccl_test's ranks whose check failed: a table row reports the root's only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from cclmark.importing.cleaned_text import read_count
from cclmark.importing.run import ForeignRun

# The newest version, then older ones. Every rank prints its own, before or after the root's row.
_FAILED = re.compile(
    r"\b(?:local )?rank[_ ]id (\d{1,7}), check result failed(?:, *(\d{1,20})(?=\s*\||\s*$))?"
)


@dataclass(frozen=True)
class _Failure:
    """``before``: the number of rows read before it. ``size_bytes``: None if not printed."""

    line: int
    rank: int
    size_bytes: int | None
    before: int


@dataclass
class Failures:
    """The failures of one table, whose lines may arrive in any order, even before its head."""

    run: ForeignRun
    found: list[_Failure] = field(default_factory=list)
    first: int = 0

    def take(self, number: int, line: str) -> bool:
        """Whether the line reports a failure, which is then recorded."""
        told = _FAILED.search(line)
        if told is None:
            return False
        size_bytes = read_count(told[2]) if told[2] else None
        self.found.append(_Failure(number, int(told[1]), size_bytes, len(self.run.rows)))
        return True

    def settle(self) -> None:
        """Ends the table: marks its rows that a rank has reported as wrong."""
        for failure in self.found:
            places = self._places(failure)
            for place in places:
                self.run.rows[place] = replace(self.run.rows[place], wrong=None, failed=True)
            if not places:
                self.run.failed = True
                of = "" if failure.size_bytes is None else f" of {failure.size_bytes} bytes"
                self.run.notices.append(
                    f"line {failure.line}: the check of rank {failure.rank} failed, but the text "
                    f"has no row{of}"
                )
        self.found = []
        self.first = len(self.run.rows)

    def _places(self, failure: _Failure) -> list[int]:
        """Returns the rows that a failure refers to."""
        rows = range(self.first, len(self.run.rows))
        if failure.size_bytes is not None:
            return [one for one in rows if self.run.rows[one].size_bytes == failure.size_bytes]
        # The root prints its own before its row. The other ranks' order is unknown.
        place = min(failure.before, len(self.run.rows) - 1)
        if place not in rows:
            return []
        self.run.notices.append(
            f"line {failure.line}: the check of rank {failure.rank} failed for an unknown size: "
            f"the nearest row, on line {self.run.rows[place].line}, is marked; any row of this "
            "table may be wrong"
        )
        return [place]
