"""The comments in cclmark's own texts: the errors of cases, and the end of the run."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cclmark.importing.run import ForeignRun, ImportedRow
from cclmark.plan.sizes import format_size

_PROBLEM = re.compile(
    r"# (?P<case>.{1,200}) (?P<placement>out-of-place|in-place): wrong"
    r"(?:: (?:(?P<elements>\d{1,18}) elements|rank \d{1,7}, (?P<of_rank>\d{1,18}) in all,|).*)?"
)
_UNENDED = ("the end of the run is missing", "the run did not end by itself")  # older last
_ENDED = re.compile(r"exit code (?P<code>\d{1,3})(?:: (?P<message>.*))?")


@dataclass(frozen=True)
class Problem:
    """A case with wrong data. ``case`` does not contain the placement.

    ``elements``: the number of wrong elements, on all ranks or on one of them; None if unknown.
    """

    case: str
    in_place: bool
    elements: int | None

    def is_about(self, row: ImportedRow) -> bool:
        """Whether a row belongs to this case, in either placement."""
        words = [row.operation, format_size(row.size_bytes), row.dtype, row.reduction]
        words.append(None if row.root is None else f"root {row.root}")
        return self.case == " ".join(filter(None, words))


def read_problem(line: str) -> Problem | None:
    """Reads such a line; None for any other."""
    found = _PROBLEM.fullmatch(line.strip())
    if found is None:
        return None
    elements = found["elements"] or found["of_rank"]
    return Problem(
        found["case"],
        found["placement"] == "in-place",
        None if elements is None else int(elements),
    )


def with_problem(row: ImportedRow, problem: Problem) -> ImportedRow:
    """Returns ``row`` with its wrong elements, added up over ranks."""
    if problem.elements is None:
        return replace(row, failed=True)
    return replace(row, failed=False, wrong=(row.wrong or 0) + problem.elements)


def read_ending(line: str, run: ForeignRun) -> bool:
    """Whether a line describes the end of the run, which is then stored in ``run``."""
    words = line.strip().removeprefix("# ").removeprefix("error: ")
    if words in _UNENDED:
        run.whole = False
        return True
    found = _ENDED.fullmatch(words)
    if found is None:
        return False
    if int(found["code"]) > run.exit_code:
        run.exit_code, run.message = int(found["code"]), found["message"] or ""
    return True


class Shown:
    """The last row of a format that shows one of two placements, and the comments on it."""

    def __init__(self, run: ForeignRun) -> None:
        self._run = run
        self._itself = False  # whether the shown placement was reported as wrong
        self._other = ""  # the case whose other placement was wrong

    def added(self) -> None:
        """Notes that a row was added to the run."""
        self._itself = False
        self._other = ""

    def take(self, number: int, line: str) -> bool:
        """Whether the comment on line ``number`` is about a case; the run then records its content.

        A wrong placement that is not shown marks the run as failed. A row of cclmark that contains
        ``failed`` for the other placement alone is correct itself.
        """
        problem = read_problem(line)
        if problem is None:
            return False
        rows = self._run.rows
        row = rows[-1] if rows and problem.is_about(rows[-1]) else None
        if row is not None and row.in_place == problem.in_place:
            rows[-1] = with_problem(row if self._itself else replace(row, wrong=None), problem)
            self._itself = True
            return True
        if row is not None and row.failed and not self._itself:
            rows[-1] = replace(row, failed=False, wrong=0)
        self._run.failed = True
        if self._other != problem.case:  # each rank with wrong elements has a line
            placement = "in-place" if problem.in_place else "out-of-place"
            self._run.notices.append(
                f"line {number}: {problem.case} {placement} was wrong; the text has no figures "
                "of it"
            )
        self._other = problem.case
        return True
