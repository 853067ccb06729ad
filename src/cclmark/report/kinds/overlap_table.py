"""Text output of overlaps: a line for each size and variant, and remarks."""

from __future__ import annotations

from cclmark.analysis.overlap_summaries import OverlapSummary, summaries_of
from cclmark.printable import plain
from cclmark.report.wording.head import labelled, opening_lines
from cclmark.report.wording.overlap_words import (
    AGAINST_HEAD,
    against_rows,
    against_title,
    alone_text,
    cells_of,
    computed_by,
    group_title,
    grouped,
    head_of,
    method_of_overlaps,
    remarks_of,
    share_text,
    wrong_lines,
)
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.remarks import ending_line
from cclmark.report.wording.text import aligned, counted
from cclmark.results.kinds import OverlapResult
from cclmark.results.schema import Explanation, Footer, Header

_SIDES = "><" + ">" * 6
_AGAINST_SIDES = "><>>"
_MOST_WRONG = 8


class GatheredOverlaps:
    """Collects the results, which are summarised at the end."""

    def __init__(self) -> None:
        self._results: list[OverlapResult] = []

    def begin(self, header: Header) -> str:
        """Returns the text before the first result."""
        raise NotImplementedError

    def add(self, result: OverlapResult) -> str:
        """Keeps the result."""
        self._results.append(result)
        return ""

    def explain(self, explanation: Explanation) -> None:
        """Adds what ran to the result of the overlap."""
        for result in self._results:
            if result.index == explanation.index:
                result.explanation = explanation

    def outcome(self) -> str:
        """The numbers of rounds and of checked results."""
        rounds = len({one.overlap.round for one in self._results})
        measured = [one for one in self._results if one.is_measured]
        checked = sum(one.is_checked for one in measured)
        wrong = sum(one.status == "wrong" for one in self._results)
        return (
            f"{counted(rounds, 'round')}; {checked} of {len(measured)} results checked, "
            f"{wrong} wrong"
        )

    def is_wrong(self) -> bool:
        """Whether a result is wrong."""
        return any(one.status == "wrong" for one in self._results)


class OverlapTable(GatheredOverlaps):
    """A table for each collective, and remarks."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        super().__init__()
        self._paint = paint

    def begin(self, header: Header) -> str:
        """Returns the devices, their links, the library and the method."""
        lines = opening_lines(header, "rank", method_of_overlaps(header), self._paint)
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the tables and the remarks."""
        summaries = summaries_of(self._results)
        lines: list[str] = []
        lines += labelled("compute", computed_by(summaries))
        for group in grouped(summaries):
            lines += self._section(group)
        lines += [""]
        lines += [f"  {self._paint(line, 'yellow')}" for line in remarks_of(summaries)]
        wrong = wrong_lines(self._results)
        lines += [f"  {self._paint(line, 'red')}" for line in wrong[:_MOST_WRONG]]
        lines += [f"  {text}" for text in (share_text(summaries), alone_text(summaries)) if text]
        outcome = f"  {self.outcome()}"
        lines.append(self._paint(outcome, "red") if self.is_wrong() else outcome)
        if footer is None or footer.message:
            lines.append(self._paint(f"  ended early: {ending_line(footer)}", "red"))
        return "\n".join(lines) + "\n"

    def _section(self, group: list[OverlapSummary]) -> list[str]:
        lines = aligned([head_of(group[0]), *(cells_of(one) for one in group)], _SIDES)
        compared = against_rows(group)
        rows = aligned([list(AGAINST_HEAD), *compared], _AGAINST_SIDES) if compared else []
        more = [f"  {self._paint(against_title(group), 'dim')}", *rows] if rows else []
        ran = {f"{one.variant.describe()}: {one.ran}": None for one in group if one.ran}
        return [
            "",
            self._paint(f"  {plain(group_title(group[0]))}", "bold"),
            self._paint(lines[0], "dim"),
            *lines[1:],
            *more,
            *(f"  ran with {plain(text)}" for text in ran),
        ]


class OverlapMarkdown(GatheredOverlaps):
    """The same as Markdown tables."""

    def begin(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        lines = opening_lines(header, "rank", method_of_overlaps(header), unpainted)
        return "\n".join(["# Overlap", "", "```text", *lines, "```", ""]) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns a table for each collective, and the remarks."""
        summaries = summaries_of(self._results)
        lines: list[str] = []
        for group in grouped(summaries):
            lines += [f"## {plain(group_title(group[0]))}", ""]
            lines.append(f"| {' | '.join(head_of(group[0]))} |")
            lines.append(f"|---:|---|{'---:|' * 6}")
            lines += [_markdown_row(cells_of(one)) for one in group]
            lines.append("")
            if compared := against_rows(group):
                lines += [against_title(group), "", f"| {' | '.join(AGAINST_HEAD)} |"]
                lines.append("|---:|---|---:|---:|")
                lines += [_markdown_row(cells) for cells in compared]
                lines.append("")
        notes = [f"Computed by {text}" for text in computed_by(summaries)]
        notes += [*remarks_of(summaries), *wrong_lines(self._results)[:_MOST_WRONG]]
        notes += filter(None, (share_text(summaries), alone_text(summaries)))
        lines += [f"- {note}" for note in [*notes, self.outcome()]]
        if footer is None or footer.message:
            lines += ["", f"Ended early: {ending_line(footer)}"]
        return "\n".join(lines) + "\n"


def _markdown_row(cells: list[str]) -> str:
    escaped = (cell.replace("|", chr(92) + "|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
