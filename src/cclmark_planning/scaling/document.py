"""What predicted steps say, and the fields of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Block,
    Document,
    Evidence,
    Facts,
    Finding,
    HeadFigure,
    RunContent,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.case_fields import status_fields
from cclmark.document.chart_model import ChartCurve, Lines
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import amount
from cclmark.document.report_kind import ComputedFigure, ComputedFigures, report_of_formulas
from cclmark.document.text import figure, percent_words, three_digits, time_words
from cclmark.journal.schema import Header
from cclmark.work.sizes import format_size
from cclmark_planning.need.figures import trained_model
from cclmark_planning.scaling.figures import (
    EXPOSED_SHARE,
    efficiency,
    of_purpose,
    per_gpu,
    step_errors,
    tokens_per_s,
)
from cclmark_planning.scaling.plan import LAYOUT, MEASURED, STRONG, WEAK
from cclmark_planning.scaling.result import ScaledResult

_INTERVAL_NOTE = "[ ]: nine of ten steps are expected within."
_MOST_NAMED = 4
_TITLES = {
    STRONG: "step with the same batch on all numbers of GPUs",
    WEAK: "step with a batch that grows with the GPUs",
}


def _tokens(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s >= 100 else figure(per_s)


def _range(one: ScaledResult) -> str:
    if one.step is None or one.low_s is None or one.high_s is None:
        return "-"
    middle = time_words(one.step.step_s)
    return f"{middle} [{time_words(one.low_s)}–{time_words(one.high_s)}]"


FIELDS = Fields(
    [
        Field("model", "Model that is trained, or the profiled program.", "scaled.name", "text"),
        Field(
            "purpose", "measured, strong or weak scaling, or a layout.", "scaled.purpose", "text"
        ),
        Field("gpus", "GPUs of the job.", "scaled.devices", "int"),
        Field("nodes", "Nodes of the job.", "scaled.nodes", "int"),
        Field(
            "layout",
            "How the GPUs divide the work.",
            "scaled.layout",
            "text",
        ),
        Field("batch", "Sequences of a step.", "scaled.batch", "int"),
        Field(
            "micro_batch",
            "Sequences that a replica computes at once.",
            "scaled.micro_batch",
            "int",
        ),
        Field("sequence", "Tokens of a sequence.", "scaled.sequence", "int"),
        *status_fields("reason", "status"),
        Field("step_ms", "Predicted step.", "step.step_s"),
        Field("low_ms", "Beginning of the interval of nine of ten steps.", "low_s"),
        Field("high_ms", "End of the interval of nine of ten steps.", "high_s"),
        Field("measured_ms", "Measured step.", "measured_s"),
        Field(
            "baseline_ms",
            "Step with the model FLOPs utilization of the other measured steps.",
            "baseline_s",
        ),
        Field(
            "tokens_per_s",
            "Tokens of all GPUs in a second.",
            lambda one: tokens_per_s(one) or None,
            direction="higher",
        ),
        Field(
            "exposed_percent",
            "Share of exposed communication in a step.",
            lambda one: one.step and one.step.exposed_share * 100,
        ),
        Field(
            "needed_bytes",
            "Memory of a GPU that the job takes at least.",
            lambda one: one.needed_bytes or None,
        ),
    ],
)


def document_of_steps(run: RunContent) -> Document:
    """Composes everything that predicted steps say."""
    results = cast("Sequence[ScaledResult]", run.results)
    return Document(
        "Predicted steps",
        method_of_steps(run.header),
        [*_blocks(results)],
        [*_findings(results)],
        notes=[_INTERVAL_NOTE] if any(one.step is not None for one in results) else [],
        head_figures=[*_head_figures(results)],
    )


def method_of_steps(header: Header) -> str:
    """Describes in a line how the figures were obtained."""
    return (
        "formulas of cclmark need, calibrated by measured steps if there are any; nothing is "
        "measured"
    )


def _known(results: Sequence[ScaledResult], purpose: str) -> list[ScaledResult]:
    return [one for one in of_purpose(results, purpose) if one.step is not None]


def _purposes(results: Sequence[ScaledResult]) -> tuple[str, str]:
    """The main kind of scaling first: that of programs, whose batch is unknown, is weak."""
    is_program = any(one.scaled.program is not None for one in results)
    return (WEAK, STRONG) if is_program else (STRONG, WEAK)


def _head_figures(results: Sequence[ScaledResult]) -> Iterator[HeadFigure]:
    """Of the largest number of GPUs: step, tokens and efficiency."""
    first, second = _purposes(results)
    own = _known(results, first) or _known(results, second)
    if not own or own[-1].step is None:
        return
    last = own[-1]
    gpus = amount(last.scaled.devices, "GPU")
    value, unit = time_words(last.step.step_s).split() if last.step else ("", "")
    yield HeadFigure("step", value, unit, f"{gpus} {_range(last).partition(' [')[2]}".rstrip("]"))
    if last.scaled.tokens:
        yield HeadFigure("tokens", _tokens(tokens_per_s(last)), "tokens/s", gpus)
    if len(own) > 1:
        beside = amount(own[0].scaled.devices, "GPU")
        share = efficiency(last, own[0])
        yield HeadFigure("efficiency", three_digits(share * 100), "%", f"{gpus}, beside {beside}")
    found = step_errors(results)
    if found is not None:
        name, _ = _baseline(of_purpose(results, MEASURED))
        note = f"{name}: {percent_words(found.baseline)}"
        yield HeadFigure("error of measured steps", three_digits(found.error * 100), "%", note)


def _blocks(results: Sequence[ScaledResult]) -> Iterator[Block]:
    if not results:
        return
    yield Facts([*_facts(results)])
    shown = [one for one in _purposes(results) if _known(results, one)]
    for purpose in shown:
        yield _scaling_table(_known(results, purpose), purpose, explained=purpose == shown[0])
    measured = of_purpose(results, MEASURED)
    if measured:
        yield _measured_table(measured)
    layouts = _known(results, LAYOUT)
    if layouts:
        yield _layout_table(layouts)
    if _known(results, STRONG) or _known(results, WEAK):
        yield _chart(results)


def _facts(results: Sequence[ScaledResult]) -> Iterator[tuple[str, str]]:
    asked = of_purpose(results, WEAK) or list(results)
    scaled = asked[-1].scaled
    if scaled.program is not None:
        measured = scaled.program.step.measured
        yield "program", f"{plain(scaled.name)}, profiled on {amount(measured.devices, 'GPU')}"
    else:
        job = scaled.of_model.job
        yield "model", job.model.describe()
        yield "layout", job.layout.describe() or "one GPU"
        words = [job.framework, job.precision, *["recomputation"] * job.recompute]
        yield "messages", ", ".join(words)
    if scaled.network.bps:
        yield "network", f"{scaled.network.bps * scaled.per_node * 8e-9:.4g} Gb/s of a node"
    for one in scaled.assumptions:
        yield one.name, f"{one.figure} ({one.source})"


def _scaling_table(own: Sequence[ScaledResult], purpose: str, *, explained: bool) -> Table:
    first = own[0]

    def exposed(one: ScaledResult) -> str:
        return "" if one.step is None else percent_words(one.step.exposed_share)

    def is_exposed(one: ScaledResult) -> bool:
        return one.step is not None and one.step.exposed_share > EXPOSED_SHARE

    of_tokens = [
        TableColumn("tokens/s", lambda one: _tokens(tokens_per_s(one)), ">"),
        TableColumn("tokens/s/GPU", lambda one: _tokens(per_gpu(one)), ">"),
    ]
    has_batch = first.scaled.batch is not None
    columns = [
        TableColumn("GPUs", lambda one: f"{one.scaled.devices:,}", ">"),
        TableColumn("nodes", lambda one: f"{one.scaled.nodes:,}", ">"),
        *([TableColumn("batch", lambda one: f"{one.scaled.batch:,}", ">")] if has_batch else []),
        TableColumn("step", _range, ">"),
        *(of_tokens if first.scaled.tokens else []),
        TableColumn("efficiency", lambda one: percent_words(efficiency(one, first)), ">"),
        TableColumn("exposed", exposed, ">", look=lambda one: "look" if is_exposed(one) else ""),
    ]
    notes = [
        f"efficiency: the work of a GPU in a second beside "
        f"{amount(first.scaled.devices, 'GPU')}; exposed: communication that nothing hides, as a "
        "share of a step"
    ]
    return table_of(_TITLES[purpose], columns, own, notes=notes if explained else [])


def _measured_table(measured: Sequence[ScaledResult]) -> Table:
    def error(one: ScaledResult, predicted_s: float | None) -> str:
        return (
            "-" if not predicted_s else f"{(predicted_s / (one.measured_s or 1) - 1) * 100:+.1f} %"
        )

    baseline, meaning = _baseline(measured)
    of_layout = [
        TableColumn("layout", lambda one: one.scaled.layout),
        TableColumn("micro-batch", lambda one: f"{one.scaled.micro_batch}", ">"),
    ]
    columns = [
        TableColumn("GPUs", lambda one: f"{one.scaled.devices:,}", ">"),
        *(of_layout if measured[0].scaled.program is None else []),
        TableColumn("measured", lambda one: time_words(one.measured_s or 0.0), ">"),
        TableColumn("predicted", _range, ">"),
        TableColumn("error", lambda one: error(one, one.step and one.step.step_s), ">"),
        TableColumn(baseline, lambda one: error(one, one.baseline_s), ">"),
    ]
    notes = [f"predicted: from the other measured steps; {baseline}: the baseline, {meaning}"]
    return table_of("measured steps", columns, measured, notes=notes)


def _baseline(measured: Sequence[ScaledResult]) -> tuple[str, str]:
    """The naive prediction of measured steps, and what it is."""
    if measured[0].scaled.program is None:
        return "same MFU", "the model FLOPs utilization of the other measured steps"
    return "same step", "the step of the next smaller number of GPUs"


def _layout_table(layouts: Sequence[ScaledResult]) -> Table:
    job = layouts[0].scaled
    columns = [
        TableColumn("layout", lambda one: one.scaled.layout),
        TableColumn("micro-batch", lambda one: f"{one.scaled.micro_batch}", ">"),
        TableColumn("step", _range, ">"),
        TableColumn("tokens/s/GPU", lambda one: _tokens(per_gpu(one)), ">"),
        TableColumn("exposed", lambda one: percent_words(one.step.exposed_share), ">"),
        TableColumn("memory", lambda one: f"≥ {format_size(round(one.needed_bytes))}", ">"),
    ]
    notes = ["memory: of a GPU, without buffers of communication and of allocators"]
    title = f"fastest layouts of {amount(job.devices, 'GPU')}, batch {job.batch:,}"
    return table_of(title, columns, layouts, notes=notes)


def _chart(results: Sequence[ScaledResult]) -> Lines:
    series = []
    names = {STRONG: "same batch", WEAK: "batch grows"}
    for number, (purpose, name) in enumerate(names.items()):
        own = _known(results, purpose)
        if own:
            series.append(
                ChartCurve(
                    name,
                    [one.scaled.devices for one in own],
                    [one.step.step_s for one in own if one.step is not None],
                    low=[one.low_s for one in own],
                    high=[one.high_s for one in own],
                    colour=number,
                    dashed=True,
                )
            )
    measured = of_purpose(results, MEASURED)
    if measured:
        ordered = sorted(measured, key=lambda one: one.scaled.devices)
        series.append(
            ChartCurve(
                "measured",
                [one.scaled.devices for one in ordered],
                [one.measured_s or 0.0 for one in ordered],
                colour=len(names),
                hover=[one.scaled.layout for one in ordered],
            )
        )
    return Lines(
        key="step-by-gpus",
        title="step by the number of GPUs",
        says="The predicted step by the number of GPUs with its interval, and measured steps.",
        x_title="GPUs",
        x_kind="log",
        y_title="step, s",
        y_log=True,
        series=series,
    )


def _findings(results: Sequence[ScaledResult]) -> Iterator[Finding]:
    skipped = [one for one in results if one.step is None and one.measured_s is None]
    full = [one for one in skipped if one.needed_bytes]
    if full and not _known(results, LAYOUT):
        first = full[0]
        gpus = [*dict.fromkeys(f"{one.scaled.devices:,}" for one in full)][:_MOST_NAMED]
        yield Finding(
            "does-not-fit",
            "look",
            f"the layout that was asked for does not fit on {', '.join(gpus)} GPUs: "
            f"{first.scaled.layout or 'one GPU'}: {first.reason}",
            advice="Divide it: zero=3, tp, pp or --recompute; --layouts ranks those that fit.",
        )
    for one in skipped:
        if one.needed_bytes:
            continue
        text = f"{one.scaled.describe()}: {one.status}{f': {one.reason}' if one.reason else ''}"
        yield Finding("not-measured", "look", plain(text))
    for purpose in _purposes(results):
        own = _known(results, purpose)
        if own:
            yield from _of_scaling(own, purpose)
    layouts = _known(results, LAYOUT)
    if layouts and layouts[0].step is not None:
        best, job = layouts[0], layouts[0].scaled
        yield Finding(
            "fastest-layout",
            "note",
            f"{amount(job.devices, 'GPU')}: the fastest layout is "
            f"{job.layout or 'one GPU'} with micro-batches of {job.micro_batch}, a step "
            f"of {_range(best)}{'; the one that was asked for does not fit' if full else ''}",
            evidence=(Evidence.of("step_ms", best.step.step_s if best.step else 0.0),),
        )
    found = step_errors(results)
    if found is not None:
        _, baseline = _baseline(of_purpose(results, MEASURED))
        ranks = "" if found.correlation is None else f", rank correlation {found.correlation:.2f}"
        yield Finding(
            "prediction-error",
            "good" if found.skill > 0 else "look",
            "measured steps, predicted from the others, differ by "
            f"{percent_words(found.error)} (median of {found.number}){ranks}, {baseline} by "
            f"{percent_words(found.baseline)}; {found.inside} of {found.number} are within their "
            "interval",
            evidence=(Evidence.of("error_percent", found.error, "", found.baseline),),
        )
    elif any(one.scaled.program is not None for one in results):
        yield Finding(
            "prediction-error",
            "unknown",
            "the error of predictions is unknown: one number of GPUs was profiled",
            advice="Profile the program on another number of GPUs, and give both with --job: the "
            "larger one is then predicted from the smaller one.",
        )
    elif results and not of_purpose(results, MEASURED):
        yield Finding(
            "prediction-error",
            "unknown",
            "the error of predictions is unknown: no step was measured",
            advice=f"`cclmark train --model {trained_model(results[0].scaled.of_model.job.model)}` "
            "measures compute on a few GPUs, and --measured takes its journal; --steps takes a "
            "table of measured steps.",
        )


def _of_scaling(own: Sequence[ScaledResult], purpose: str) -> Iterator[Finding]:
    last = own[-1]
    how = "the same batch" if purpose == STRONG else "a batch that grows"
    at = amount(last.scaled.devices, "GPU")
    text = f"{at} with {how}: a step takes {_range(last)}"
    if last.scaled.tokens:
        text += f", {_tokens(tokens_per_s(last))} tokens/s"
    if len(own) > 1:
        beside = amount(own[0].scaled.devices, "GPU")
        text += f", {percent_words(efficiency(last, own[0]))} of the efficiency of {beside}"
    yield Finding(
        "predicted-step",
        "note",
        text,
        evidence=(Evidence.of("step_ms", last.step.step_s if last.step else 0.0, at),),
    )
    exposed = [one for one in own if one.step and one.step.exposed_share > EXPOSED_SHARE]
    if exposed and exposed[0].step is not None:
        first = exposed[0]
        where = amount(first.scaled.devices, "GPU")
        program = first.scaled.program
        is_profiled = program is not None and program.step.copies == 1
        yield Finding(
            "communication-exposed",
            "look",
            f"with {how}, from {where} on{', as profiled' if is_profiled else ''}, exposed "
            f"communication takes more than {EXPOSED_SHARE * 100:.3g} % of a step: "
            f"{percent_words(exposed[0].step.exposed_share)} there",
            evidence=(
                Evidence.of("exposed_percent", exposed[0].step.exposed_share, where, EXPOSED_SHARE),
            ),
        )


def _headline(results: Sequence[ScaledResult]) -> str:
    found = _findings(results)
    return next((one.sentence for one in found if one.id == "predicted-step"), "")


def _titled(results: Sequence[ScaledResult]) -> str:
    names = dict.fromkeys(one.scaled.name for one in results)
    return f"Steps of {', '.join(names)}"


def _compared() -> ComputedFigures:
    """By what two predictions are compared: the same purpose, GPUs, layout and micro-batch."""
    fields = {one.key: one for one in FIELDS.all}
    return ComputedFigures(
        figures=[
            ComputedFigure(
                fields["step_ms"],
                "step",
                _range,
                is_time=True,
                interval=lambda one: one.low_s and (one.low_s, one.high_s),
            ),
            ComputedFigure(
                fields["exposed_percent"],
                "exposed communication",
                lambda one: "-" if one.step is None else percent_words(one.step.exposed_share),
            ),
        ],
        key=lambda one: (
            *(one.scaled.purpose, one.scaled.devices, one.scaled.layout),
            *(one.scaled.micro_batch, one.scaled.sequence, one.scaled.batch),
        ),
        words=lambda one: f"{one.scaled.purpose}: {one.scaled.describe()}",
        is_main=lambda one: one.scaled.purpose in _TITLES,
        inputs=_facts,
        without_time="predict possible jobs on both sides",
    )


REPORT = report_of_formulas(
    "steps",
    "predicted steps",
    FIELDS,
    document_of_steps,
    method_of_steps,
    _compared(),
    headline=_headline,
    titled=_titled,
)
