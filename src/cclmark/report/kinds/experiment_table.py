"""Text output of experiments: heat maps of speed-ups, the fastest variant of each size."""

from __future__ import annotations

import math

from cclmark.analysis.experiments import Experiment, VariantResult, experiment_of
from cclmark.plan.cases import Case
from cclmark.plan.variants import Variant
from cclmark.printable import plain
from cclmark.document.grid import grid_lines, usual_width
from cclmark.document.insight_words import sentence
from cclmark.document.head import method_of, opening_lines
from cclmark.document.paint import HEAT_STEPS, Paint, unpainted
from cclmark.document.remarks import conclusion_lines, ending_line
from cclmark.report.wording.variant_words import (
    best_lines,
    default_time_text,
    groups_of,
    noise_text,
    noise_warning,
    outcome_text,
    overall_lines,
    remarks_of,
    size_text,
    speed_up_text,
    variant_name,
)
from cclmark.kinds.experiment.result import TrialResult
from cclmark.results.schema import Explanation, Footer, Header

_SPAN = math.log(1.25)  # a factor with the strongest colour
_CELL = 9


class GatheredTrials:
    """Collects the results of an experiment, which is compared at the end."""

    def __init__(self) -> None:
        self._results: list[TrialResult] = []
        self._header: Header | None = None

    def begin(self, header: Header) -> str:
        """Returns the text before the first result."""
        self._header = header
        return self.opening(header)

    def opening(self, header: Header) -> str:
        """Returns the head of the format."""
        raise NotImplementedError

    def add(self, result: TrialResult) -> str:
        """Keeps the result."""
        self._results.append(result)
        return ""

    def explain(self, explanation: Explanation) -> None:
        """Adds what ran to the result of the trial."""
        for result in self._results:
            if result.index == explanation.index:
                result.explanation = explanation

    def experiment(self) -> Experiment:
        """The comparison of all results so far."""
        timing = "throughput" if self._header is None else self._header.settings.timing
        return experiment_of(self._results, timing)


class ExperimentTable(GatheredTrials):
    """A heat map for each operation, the fastest variant of each size, and remarks."""

    def __init__(self, *, paint: Paint = unpainted, width: int | None = None) -> None:
        """``width``: characters of a line; None: from the environment or the terminal."""
        super().__init__()
        self._paint = paint
        self._width = width or usual_width()

    def opening(self, header: Header) -> str:
        """Returns the devices, their links, the library and the method."""
        return "\n".join(opening_lines(header, "rank", method_of(header), self._paint)) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the heat maps and the findings."""
        experiment = self.experiment()
        lines: list[str] = []
        for cases in groups_of(experiment):
            lines += self._section(experiment, cases)
        overall = overall_lines(experiment)
        if overall and len(experiment.cases) > 1:
            lines += ["", self._paint("  Geometric mean of the speed-ups of all cases", "bold")]
            lines += [f"    {line}" for line in overall]
        if warning := noise_warning(experiment):
            lines += ["", *(self._paint(f"  {line}", "yellow") for line in warning)]
        remarks = remarks_of(experiment)
        if remarks:
            lines += ["", self._paint("  Not ranked", "bold")]
            lines += [self._paint(f"    {line}", "yellow") for line in remarks]
        if conclusion := conclusion_lines(footer):
            lines += ["", self._paint("Result of the search", "bold"), *conclusion]
        checked = sum(one.is_checked for one in self._results)
        wrong = sum(one.status == "wrong" for one in self._results)
        measured = sum(one.is_measured for one in self._results)
        outcome = (
            f"  {outcome_text(experiment)}; {checked} of {measured} trials checked, {wrong} wrong"
        )
        lines += ["", self._paint(outcome, "red") if wrong else outcome]
        if footer is None or footer.message:
            lines.append(self._paint(f"  ended early: {ending_line(footer)}", "red"))
        return "\n".join(lines) + "\n"

    def _section(self, experiment: Experiment, cases: list[Case]) -> list[str]:
        title = f"{cases[0].series().group_words()}: speed-up over the default"
        rows = ["default µs", "noise"]
        cells = [
            [default_time_text(experiment, case) for case in cases],
            [noise_text(experiment, case) or "unknown" for case in cases],
        ]
        for variant in experiment.variants:
            rows.append(plain(variant_name(variant)))
            cells.append([self._cell(experiment, variant, case) for case in cases])
        grid = grid_lines(
            rows,
            [size_text(case) for case in cases],
            cells,
            paint=self._paint,
            width=self._width,
        )
        lines = ["", self._paint(title, "bold"), *grid, ""]
        number = len(experiment.variants)
        lines.append("  The fastest variant of each size, with the 95 % interval of its speed-up:")
        if number > 1:
            lines[-1] = lines[-1].removesuffix(":") + (
                f" (it is the best of {number}, which makes the interval optimistic):"
            )
        return [*lines, *(f"    {line}" for line in best_lines(experiment, cases))]

    def _cell(self, experiment: Experiment, variant: Variant, case: Case) -> str:
        result = experiment.compared.get((variant, case))
        text = speed_up_text(result)
        style = _style(result)
        return self._paint(text.rjust(_CELL), style) if style else text.rjust(_CELL)


def _style(result: VariantResult | None) -> str:
    """The colour of a cell: by the speed-up, none within the noise."""
    if result is None:
        return ""
    if result.effect in ("failed", "wrong"):
        return "red"
    if result.effect not in ("faster", "slower") or result.speed_up is None:
        return "dim" if result.effect == "inconclusive" else ""
    share = (math.log(result.speed_up) + _SPAN) / (2 * _SPAN)
    step = min(HEAT_STEPS - 1, max(0, int(share * HEAT_STEPS)))
    return f"heat{step}"


class BisectionTable(GatheredTrials):
    """The head of a run, and at its end the lines of ``result``, which is set before."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        super().__init__()
        self._paint = paint
        self.result: list[str] = []

    def opening(self, header: Header) -> str:
        """Returns the devices, their links, the library and the method."""
        return "\n".join(opening_lines(header, "rank", method_of(header), self._paint)) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the result."""
        lines = [*self.result]
        if footer is None or footer.message:
            lines.append(self._paint(f"  ended early: {ending_line(footer)}", "red"))
        return "\n".join(lines) + "\n"


class ExperimentMarkdown(GatheredTrials):
    """The same as Markdown tables."""

    def opening(self, header: Header) -> str:
        """Returns the title and the head as a list."""
        lines = opening_lines(header, "rank", method_of(header), unpainted)
        return "\n".join(["# Experiment", "", "```text", *lines, "```", ""]) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns a table for each operation, and the findings."""
        experiment = self.experiment()
        lines: list[str] = []
        for cases in groups_of(experiment):
            lines += [f"## {cases[0].series().group_words()}: speed-up over the default", ""]
            sizes = [size_text(case) for case in cases]
            lines.append(f"| variant | {' | '.join(sizes)} |")
            lines.append(f"|---|{'---:|' * len(cases)}")
            times = [default_time_text(experiment, case) for case in cases]
            lines.append(f"| default, µs | {' | '.join(times)} |")
            noise = [noise_text(experiment, case) or "unknown" for case in cases]
            lines.append(f"| noise | {' | '.join(noise)} |")
            for variant in experiment.variants:
                cells = [speed_up_text(experiment.compared.get((variant, case))) for case in cases]
                name = plain(variant_name(variant)).replace("|", "\\|")
                lines.append(f"| `{name}` | {' | '.join(cells)} |")
            lines += ["", "The fastest variant of each size, with the 95 % interval:", ""]
            lines += [f"- {line.strip()}" for line in best_lines(experiment, cases)]
            lines.append("")
        if warning := noise_warning(experiment):
            lines += [*map(sentence, warning), ""]
        remarks = remarks_of(experiment)
        if remarks:
            lines += ["Not ranked:", "", *(f"- {line}" for line in remarks), ""]
        if conclusion := conclusion_lines(footer):
            lines += ["## Result of the search", "", "```text", *conclusion, "```", ""]
        lines.append(f"{outcome_text(experiment)}.")
        if footer is None or footer.message:
            lines += ["", f"Ended early: {ending_line(footer)}"]
        return "\n".join(lines) + "\n"
