"""Text output of profiles: the operations, the processes, and remarks."""

from __future__ import annotations

from cclmark.analysis.profiles import completed
from cclmark.analysis.steps import steps_of_profile
from cclmark.printable import plain
from cclmark.document.head import labelled, opening_lines
from cclmark.document.paint import Paint, unpainted
from cclmark.report.wording.profile_words import (
    OPERATION_HEAD,
    OPERATION_SIDES,
    PROCESS_HEAD,
    PROCESS_SIDES,
    group_lines,
    method_of_profile,
    operation_rows,
    process_rows,
    program_lines,
    remarks_of,
    used_columns,
)
from cclmark.document.remarks import ending_line
from cclmark.document.step_words import PROGRAM_HEAD, STEPS_TITLE, program_row, step_notes
from cclmark.document.text import aligned
from cclmark.results.item_results import ProfileResult
from cclmark.results.schema import Footer, Header, Profile


class _Gathered:
    """Collects the results, which are summed up at the end."""

    def __init__(self, profile: Profile | None = None) -> None:
        self._profile = profile or Profile("")
        self._results: list[ProfileResult] = []

    def profile(self, profile: Profile) -> None:
        """Receives what the profile contains besides its operations."""
        self._profile = profile

    def add(self, result: ProfileResult) -> str:
        """Keeps the result."""
        self._results.append(result)
        return ""

    def _whole(self) -> Profile:
        return completed(self._profile, self._results)

    def _tables(self) -> list[tuple[str, list[list[str]], str]]:
        """The title, the rows with their head, and the sides of the columns of each table."""
        operations = used_columns(
            OPERATION_HEAD, operation_rows(self._results, self._whole()), OPERATION_SIDES
        )
        processes = used_columns(
            PROCESS_HEAD, process_rows(self._results, self._whole()), PROCESS_SIDES
        )
        found = [("operations of a rank", *operations), ("ranks", *processes)]
        return [one for one in found if len(one[1]) > 1]

    def _steps(self) -> tuple[list[list[str]], list[str]]:
        """The steps in the columns of trainings, with their head, and notes on them."""
        figures = steps_of_profile(self._whole())
        return [[*PROGRAM_HEAD], program_row(figures)], step_notes(figures)


class ProfileTable(_Gathered):
    """Two tables, and remarks."""

    def __init__(self, profile: Profile | None = None, *, paint: Paint = unpainted) -> None:
        super().__init__(profile)
        self._paint = paint

    def begin(self, header: Header) -> str:
        """Returns the processes, the library, the program's end and the groups."""
        lines = opening_lines(header, "process", method_of_profile(header), self._paint)
        lines[0] = lines[0].replace("processs", "processes")
        lines += labelled("program", program_lines(self._profile))
        lines += labelled("groups", [plain(line) for line in group_lines(self._profile)])
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the tables and the remarks. Without an operation there are no steps."""
        lines: list[str] = []
        if self._results:
            rows, notes = self._steps()
            shown = aligned(rows, ">" * len(PROGRAM_HEAD))
            title = self._paint(f"  {STEPS_TITLE}", "bold")
            lines += ["", title, self._paint(shown[0], "dim"), *shown[1:]]
            lines += [f"  {note}" for note in notes]
        for title, rows, sides in self._tables():
            shown = aligned([[plain(cell) for cell in row] for row in rows], sides)
            lines += ["", self._paint(f"  {title}", "bold")]
            lines += [self._paint(shown[0], "dim"), *shown[1:]]
        remarks = remarks_of(self._results, self._whole())
        lines += [""] * bool(remarks)
        lines += [self._paint(f"  {plain(line)}", "yellow") for line in remarks]
        if footer is None or footer.message:
            lines.append(self._paint(f"  {ending_line(footer)}", "red"))
        return "\n".join(lines).rstrip("\n") + "\n" * bool(lines)


class ProfileMarkdown(_Gathered):
    """The same as Markdown tables."""

    def begin(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        lines = opening_lines(header, "process", method_of_profile(header), unpainted)
        lines[0] = lines[0].replace("processs", "processes")
        lines += labelled("program", program_lines(self._profile))
        lines += labelled("groups", [plain(line) for line in group_lines(self._profile)])
        return "\n".join(["# Profile", "", "```text", *lines, "```", ""]) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the tables, and the remarks as a list."""
        lines: list[str] = []
        if self._results:
            (head, row), notes = self._steps()
            lines += [f"## {STEPS_TITLE.capitalize()}", "", f"| {' | '.join(head)} |"]
            lines += [f"|{'---:|' * len(head)}", f"| {' | '.join(row)} |", ""]
            lines += [*(f"- {note}" for note in notes), *[""] * bool(notes)]
        for title, rows, sides in self._tables():
            lines += [f"## {title.capitalize()}", ""]
            cells = [[plain(cell).replace("|", "\\|") for cell in row] for row in rows]
            lines.append(f"| {' | '.join(cells[0])} |")
            lines.append("|" + "".join("---:|" if side == ">" else "---|" for side in sides))
            lines += [f"| {' | '.join(row)} |" for row in cells[1:]]
            lines.append("")
        lines += [f"- {plain(line)}" for line in remarks_of(self._results, self._whole())]
        if footer is None or footer.message:
            lines += ["", ending_line(footer)]
        return "\n".join(lines) + "\n"
