"""Text output of trainings: a line for each variant, losses side by side, and remarks."""

from __future__ import annotations

from cclmark.analysis.training_summaries import TrainingSummary, summaries_of
from cclmark.report.wording.head import opening_lines
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.remarks import ending_line
from cclmark.report.wording.text import aligned
from cclmark.report.wording.training_words import (
    cells_of,
    device_line,
    head_of,
    loss_lines,
    method_of_trainings,
    outcome_line,
    peak_line,
    remarks_of,
    sides_of,
    title_of_training,
    variant_lines,
    wrong_lines,
)
from cclmark.results.kinds import TrainingResult
from cclmark.results.schema import Footer, Header


class GatheredTrainings:
    """Collects the results, which are summarised at the end."""

    def __init__(self) -> None:
        self._results: list[TrainingResult] = []
        self._header: Header | None = None

    def begin(self, header: Header) -> str:
        """Keeps the header."""
        self._header = header
        return ""

    def add(self, result: TrainingResult) -> str:
        """Keeps the result."""
        self._results.append(result)
        return ""

    def summaries(self) -> list[TrainingSummary]:
        """The summaries of all results so far."""
        return summaries_of(self._results, self._header.devices if self._header else [])

    def notes(self, summaries: list[TrainingSummary]) -> list[str]:
        """The losses side by side, remarks, and the peak of the MFU."""
        lines = [
            *variant_lines(summaries),
            *loss_lines(summaries),
            *remarks_of(summaries),
            device_line(self._header.devices if self._header is not None else []),
            peak_line(summaries),
        ]
        return [line for line in lines if line]

    def is_wrong(self) -> bool:
        """Whether a result is wrong."""
        return any(one.status == "wrong" for one in self._results)


class TrainingTable(GatheredTrainings):
    """A table, and remarks."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        super().__init__()
        self._paint = paint

    def begin(self, header: Header) -> str:
        """Returns the devices, their links, the library and the method."""
        super().begin(header)
        lines = opening_lines(header, "rank", method_of_trainings(header), self._paint)
        return "\n".join(lines) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the table and the remarks."""
        summaries = self.summaries()
        lines: list[str] = []
        if summaries:
            rows = aligned(
                [head_of(summaries), *(cells_of(one, summaries) for one in summaries)],
                sides_of(summaries),
            )
            title = f"  {title_of_training(summaries[0].training)}"
            lines = ["", self._paint(title, "bold"), self._paint(rows[0], "dim"), *rows[1:], ""]
        lines += [f"  {line}" for line in self.notes(summaries)]
        lines += [f"  {self._paint(line, 'red')}" for line in wrong_lines(self._results)]
        outcome = f"  {outcome_line(self._results)}"
        lines.append(self._paint(outcome, "red") if self.is_wrong() else outcome)
        if footer is None or footer.message:
            lines.append(self._paint(f"  ended early: {ending_line(footer)}", "red"))
        return "\n".join(lines) + "\n"


class TrainingMarkdown(GatheredTrainings):
    """The same as a Markdown table."""

    def begin(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        super().begin(header)
        lines = opening_lines(header, "rank", method_of_trainings(header), unpainted)
        return "\n".join(["# Training", "", "```text", *lines, "```", ""]) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the table and the remarks."""
        summaries = self.summaries()
        lines: list[str] = []
        if summaries:
            head = head_of(summaries)
            lines += [f"## {title_of_training(summaries[0].training)}", ""]
            lines.append(f"| {' | '.join(head)} |")
            lines.append(f"|---|{'---:|' * (len(head) - 1)}")
            lines += [
                f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
                for cells in (cells_of(one, summaries) for one in summaries)
            ]
            lines.append("")
        notes = [*self.notes(summaries), *wrong_lines(self._results), outcome_line(self._results)]
        lines += [f"- {note}" for note in notes]
        if footer is None or footer.message:
            lines += ["", f"Ended early: {ending_line(footer)}"]
        return "\n".join(lines) + "\n"
