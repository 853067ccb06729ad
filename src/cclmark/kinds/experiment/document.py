"""Reports of experiments: settings compared with the default."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from cclmark.document.case_columns import explained_cells, figure_cells, what_cells
from cclmark.document.case_fields import case_labels
from cclmark.document.chart_model import Heat, key_of, marked
from cclmark.document.columns import Cell, Layout, Row, columns
from cclmark.document.exporter import Exporter
from cclmark.document.grid import grid_lines, usual_width
from cclmark.document.head import method_of, opening_lines
from cclmark.document.insight_words import Insight, amount, sentence
from cclmark.document.naming import Run
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.page.page import Section
from cclmark.document.paint import HEAT_STEPS, Paint, unpainted
from cclmark.document.remarks import conclusion_lines, ending_line
from cclmark.document.report_kind import ReportKind, RunLabels, View
from cclmark.document.soundness import of_completeness
from cclmark.document.text import US_PER_S
from cclmark.kinds.experiment.figures import Experiment, VariantResult, experiment_of
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.experiment.words import (
    best_lines,
    default_time_text,
    groups_of,
    interval_text,
    noise_text,
    noise_warning,
    outcome_text,
    overall_lines,
    remarks_of,
    size_text,
    speed_up_text,
    variant_name,
)
from cclmark.plan.cases import Case
from cclmark.plan.variants import Variant
from cclmark.printable import plain
from cclmark.results.journal import Journal
from cclmark.results.schema import Explanation, Footer, Header

_OF_TRIAL = (
    "variant round operation ccl ranks dtype reduction root placement size_bytes count status "
    "reason"
)
_FIGURES = (
    "time_us min_us p95_us p99_us max_us cv half_width samples algbw_gbps busbw_gbps slowest_rank "
    "late_rank clock"
)
_OTHERS = "device_us wrong converged kernel algorithm protocol channels explained_by explanation"
_TEXTS = (
    "variant operation ccl dtype reduction placement status reason clock kernel algorithm protocol "
    "explained_by explanation"
)
_WHOLE = "round ranks root size_bytes count samples slowest_rank late_rank wrong channels"


def _rows(header: Header) -> Callable[[TrialResult], Iterable[Row]]:
    return lambda result: [trial_cells(result)]


def trial_cells(result: TrialResult) -> list[Cell]:
    """Returns a cell for each column. Rounds are counted from 1."""
    trial, verification = result.trial, result.verification
    return [
        trial.variant.describe(),
        trial.round + 1,
        *what_cells(trial.case),
        result.status,
        result.reason,
        *figure_cells(result.summary),
        None if result.device is None else result.device.summary.time_s * US_PER_S,
        None if verification is None else verification.wrong,
        None if result.summary is None else int(result.converged),
        *explained_cells(result.explanation),
    ]


TRIALS = Layout(
    columns(f"{_OF_TRIAL} {_FIGURES} {_OTHERS}", texts=_TEXTS, whole=_WHOLE, flags="converged"),
    _rows,
)


EXPERIMENT_METRICS = (
    Metric("cclmark_trial_time_seconds", "seconds", "Median time of one operation with a variant."),
    Metric(
        "cclmark_trial_device_time_seconds",
        "seconds",
        "Median time that the devices need, where launches determine the time of an operation.",
    ),
    Metric("cclmark_trial_ok", "", "1 for a trial that was measured and not wrong, else 0."),
)


def measure_trial(series: Series, result: TrialResult, run: RunLabels) -> None:
    """Sets the gauges of one trial."""
    trial, case = result.trial, result.trial.case
    labels = labels_of(
        [
            ("variant", trial.variant.describe()),
            ("round", str(trial.round + 1)),
            *case_labels(case),
            *run.method,
            *run.where,
        ]
    )
    series.begin(labels)
    series.set("cclmark_trial_ok", labels, float(result.status == "ok"))
    if result.summary is not None:
        series.set("cclmark_trial_time_seconds", labels, result.summary.time_s)
    if result.device is not None:
        series.set("cclmark_trial_device_time_seconds", labels, result.device.summary.time_s)


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


_LEAST_SPAN_PERCENT = 10.0
_CERTAIN = ("faster", "slower")
# Of the lines that commands print at their end.
_CONCLUDES = re.compile(
    r"nothing beats the default|no gain was proven|geometric mean|no artifact is written|"
    r"no file is written|"
    r"smallest value that keeps|no value keeps"
)
_MOST_CONCLUDED = 3


def _experiment(run: Run) -> Experiment:
    return experiment_of(run.journal.of(TrialResult), run.journal.header.settings.timing)


def title_of_experiments(runs: Sequence[Run]) -> str:
    """Returns the operations, and the varied settings unless tune has chosen them."""
    results = [result for run in runs for result in run.journal.of(TrialResult)]
    operations = dict.fromkeys(one.trial.case.operation for one in results)
    names = dict.fromkeys(
        assignment.name for one in results for assignment in one.trial.variant.assignments
    )
    if any(one.trial.stage for one in results):
        return f"tuning of {', '.join(operations)}"
    varied = f" with {', '.join(names)}" if names else ""
    return f"experiment on {', '.join(operations)}{varied}"


def headline_of_experiment(run: Run) -> str:
    """Returns the conclusion of an adaptive run, else the largest speed-up that counts."""
    footer = run.journal.footer
    if footer is not None and footer.conclusion:
        found = [line.strip() for line in footer.conclusion if _CONCLUDES.search(line)]
        return sentence("; ".join(found[:_MOST_CONCLUDED]) or "the result is below")
    experiment = _experiment(run)
    faster = [best for case in experiment.cases if (best := experiment.fastest(case)) is not None]
    if not faster:
        return "No variant is proven to be faster than the default"
    best = max(faster, key=lambda one: one.speed_up or 0.0)
    return (
        f"{variant_name(best.variant)} is {interval_text(best)} times as fast as the default for "
        f"{best.case.describe()}"
    )


def insights_on_experiment(run: Run) -> list[Insight]:
    """Returns the fastest variants, and those that failed or had no effect."""
    experiment = _experiment(run)
    found = [
        Insight("bad", f"Wrong data with {variant_name(one.variant)} in {one.case.describe()}.")
        for one in experiment.compared.values()
        if one.effect == "wrong"
    ]
    for cases in groups_of(experiment):
        lines = [line.strip() for line in best_lines(experiment, cases)]
        text = f"Fastest for {cases[0].series().group_words()}: {'; '.join(lines)}."
        found.append(Insight("note", text))
    if warning := noise_warning(experiment):
        found.append(Insight("look", *map(sentence, warning)))
    found += [Insight("look", sentence(line)) for line in remarks_of(experiment)]
    return [*found, *of_completeness(run.journal, [])]


def experiment_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the heat maps of every run, after the result of adaptive runs."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        experiment = _experiment(run)
        footer = run.journal.footer
        if conclusion := conclusion_lines(footer):
            lines = "\n".join(conclusion)
            sections.append(Section(f"result{mark}", f"Result{name}", listing=lines))
        keys: set[str] = set()
        charts = [_heat(experiment, cases, keys) for cases in groups_of(experiment)]
        if charts:
            title = f"Speed-up over the default{name}"
            sections.append(Section(f"experiment{mark}", title, charts=marked(charts, mark)))
    return sections


def _heat(experiment: Experiment, cases: Sequence[Case], keys: set[str]) -> Heat:
    title = f"{cases[0].series().group_words()}: speed-up over the default"
    values: list[list[float | None]] = []
    texts: list[list[str]] = []
    hover: list[list[str]] = []
    variants = _in_order(experiment.variants)
    for variant in variants:
        found = [experiment.compared.get((variant, case)) for case in cases]
        values.append([_percent_faster(one) for one in found])
        texts.append([speed_up_text(one) for one in found])
        hover.append(
            [
                "not measured"
                if one is None
                else f"{interval_text(one)}, {one.effect}{f': {one.reason}' if one.reason else ''}"
                f"{f'; {one.ran}' if one.ran else ''}; noise {noise_text(experiment, case)}"
                for one, case in zip(found, cases, strict=True)
            ]
        )
    known = [
        one.speed_up
        for (_, case), one in experiment.compared.items()
        if case in cases and one.is_ranked and one.speed_up is not None
    ]
    span = f"from {min(known):.3f} to {max(known):.3f}" if known else "none is known"
    return Heat(
        key=key_of(f"experiment {cases[0].series().group_words()}", keys),
        title=title,
        says=f"{title}, by settings and message size: {span}.",
        column_title="message size",
        unit="% faster",
        rows=[variant_name(variant) for variant in variants],
        columns=[size_text(case) for case in cases],
        values=values,
        texts=texts,
        hover=hover,
        centred=True,
        least_span=_LEAST_SPAN_PERCENT,
        notes=[
            "Cells have the speed-up, the default's time over the variant's. Only those that are "
            "faster or slower beyond the noise have a colour: by how many percent the variant is "
            "faster than the default, negative if it is slower."
        ],
    )


def _percent_faster(one: VariantResult | None) -> float | None:
    """What a cell's colour means: 0 within the noise, None without a speed-up that counts."""
    if one is None or not one.is_ranked or one.speed_up is None:
        return None
    return (one.speed_up - 1) * 100 if one.effect in _CERTAIN else 0.0


def _in_order(variants: Sequence[Variant]) -> list[Variant]:
    """Variants of one setting with numbers by number, for example of a bisection."""
    of_one = len({one.name for variant in variants for one in variant.assignments}) == 1
    values = [one.value for variant in variants for one in variant.assignments]
    if not of_one or not all(value.isdecimal() and value.isascii() for value in values):
        return list(variants)
    return sorted(variants, key=lambda variant: int(variant.assignments[0].value))


def cells_of_trial(run: Run, result: TrialResult) -> Mapping[str, Cell]:
    """Returns the cells of a trial by column."""
    names = [column.name for column in TRIALS.columns]
    return dict(zip(names, trial_cells(result), strict=True))


PAGE_COLUMNS = (
    *("variant", "round", "operation", "ccl", "ranks", "dtype", "reduction", "root", "placement"),
    *("size_bytes", "status", "reason", "time_us", "device_us", "busbw_gbps", "half_width"),
    *("wrong", "converged", "kernel", "protocol", "channels"),
)


def _table(view: View) -> Exporter[TrialResult]:
    return ExperimentTable(paint=view.paint, width=view.columns)


def _markdown(view: View) -> Exporter[TrialResult]:
    return ExperimentMarkdown()


def _counted(journal: Journal) -> str:
    variants = {
        one.trial.variant for one in journal.of(TrialResult) if not one.trial.variant.is_default
    }
    return f"{amount(len(journal.results), 'trial')} of {amount(len(variants), 'variant')}"


KIND = ReportKind(
    noun="trials",
    title="experiments",
    has_times=False,
    csv=TRIALS,
    exported=TRIALS,
    formats={"table": _table, "markdown": _markdown},
    metrics=EXPERIMENT_METRICS,
    measure=measure_trial,
    counted=_counted,
    headline=headline_of_experiment,
    insights=insights_on_experiment,
    titled=title_of_experiments,
    method=method_of,
    sections=experiment_sections,
    page_columns=PAGE_COLUMNS,
    page_cells=cells_of_trial,
)
