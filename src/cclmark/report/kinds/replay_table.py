"""Text output of replays: a line for each variant, the operations of the step, and remarks."""

from __future__ import annotations

from cclmark.analysis.replay_summaries import ReplaySummary, summaries_of_replays
from cclmark.report.wording.head import opening_lines
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.reference_notes import ReferenceNotes
from cclmark.report.wording.remarks import ending_line
from cclmark.report.wording.replay_references import reference_lines
from cclmark.report.wording.replay_words import (
    cells_of_replay,
    error_lines,
    gaps_lines,
    head_of_replays,
    method_of_replays,
    operation_head,
    operation_rows,
    outcome_of_replays,
    program_cells,
    range_lines,
    remarks_of_replays,
    title_of_replay,
    wrong_replay_lines,
)
from cclmark.report.wording.text import aligned
from cclmark.results.kinds import ReplayResult
from cclmark.results.schema import Footer, Header


class GatheredReplays:
    """Collects the results, which are summarised at the end."""

    def __init__(self, references: ReferenceNotes | None = None) -> None:
        self.results: list[ReplayResult] = []
        self._references = references or ReferenceNotes()
        self._header: Header | None = None

    def keep(self, header: Header) -> None:
        """Keeps the header."""
        self._header = header

    def add(self, result: ReplayResult) -> str:
        """Keeps the result."""
        self.results.append(result)
        return ""

    def summaries(self) -> list[ReplaySummary]:
        """The summaries of all results so far."""
        return summaries_of_replays(self.results)

    def notes(self, summaries: list[ReplaySummary]) -> list[str]:
        """The error against the program, and remarks."""
        beside = reference_lines(summaries, self._header, self._references)
        return [
            *gaps_lines(summaries),
            *error_lines(summaries),
            *range_lines(summaries),
            *beside,
            *remarks_of_replays(summaries),
        ]


class ReplayTable(GatheredReplays):
    """Two tables, and remarks."""

    def __init__(
        self, *, paint: Paint = unpainted, references: ReferenceNotes | None = None
    ) -> None:
        super().__init__(references)
        self._paint = paint

    def begin(self, header: Header) -> str:
        """Returns the devices, their links, the library and the method."""
        self.keep(header)
        lines = opening_lines(header, "rank", method_of_replays(header), self._paint)
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the tables and the remarks."""
        summaries = self.summaries()
        lines: list[str] = []
        if summaries:
            head = head_of_replays(summaries)
            body = [cells_of_replay(one, summaries) for one in summaries]
            if program := program_cells(summaries):
                body.insert(0, program)
            rows = aligned([head, *body], "<" + ">" * (len(head) - 1))
            title = f"  {title_of_replay(summaries[0].replay)}"
            lines = ["", self._paint(title, "bold"), self._paint(rows[0], "dim"), *rows[1:]]
            if operations := operation_rows(summaries[0]):
                rows = aligned([operation_head(), *operations], "><<<>>>>>")
                lines += ["", self._paint("  calls of a rank in a step", "bold")]
                lines += [self._paint(rows[0], "dim"), *rows[1:]]
            lines.append("")
        lines += [f"  {line}" for line in self.notes(summaries)]
        lines += [f"  {self._paint(line, 'red')}" for line in wrong_replay_lines(self.results)]
        outcome = f"  {outcome_of_replays(self.results)}"
        is_wrong = any(one.status == "wrong" for one in self.results)
        lines.append(self._paint(outcome, "red") if is_wrong else outcome)
        if footer is None or footer.message:
            lines.append(self._paint(f"  ended early: {ending_line(footer)}", "red"))
        return "\n".join(lines) + "\n"


class ReplayMarkdown(GatheredReplays):
    """The same as Markdown."""

    def begin(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        self.keep(header)
        lines = opening_lines(header, "rank", method_of_replays(header), unpainted)
        return "\n".join(["# Replay", "", "```text", *lines, "```", ""]) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the tables and the remarks."""
        summaries = self.summaries()
        lines: list[str] = []
        if summaries:
            lines += [f"## {title_of_replay(summaries[0].replay)}", ""]
            body = [cells_of_replay(one, summaries) for one in summaries]
            if program := program_cells(summaries):
                body.insert(0, program)
            lines += _table(head_of_replays(summaries), body)
            if operations := operation_rows(summaries[0]):
                lines += _table(operation_head(), operations)
        notes = [*self.notes(summaries), *wrong_replay_lines(self.results)]
        lines += [f"- {note}" for note in (*notes, outcome_of_replays(self.results))]
        if footer is None or footer.message:
            lines += ["", f"Ended early: {ending_line(footer)}"]
        return "\n".join(lines) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    lines += [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in rows
    ]
    return [*lines, ""]
