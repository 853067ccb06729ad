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
from cclmark.kinds.scaling.figures import (
    EXPOSED_SHARE,
    efficiency,
    of_purpose,
    per_gpu,
    step_errors,
    tokens_per_s,
)
from cclmark.kinds.scaling.plan import LAYOUT, MEASURED, STRONG, WEAK
from cclmark.kinds.scaling.result import ScaledResult
from cclmark.work.sizes import format_size

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
        Field("model", "Model that is trained.", "scaled.need.job.model.name", "text"),
        Field(
            "purpose", "measured, strong or weak scaling, or a layout.", "scaled.purpose", "text"
        ),
        Field("gpus", "GPUs of the job.", "scaled.need.job.devices", "int"),
        Field("nodes", "Nodes of the job.", "scaled.need.job.nodes", "int"),
        Field(
            "layout",
            "How the GPUs divide the work.",
            lambda one: one.scaled.need.job.layout.describe(),
            "text",
        ),
        Field("batch", "Sequences of a step.", "scaled.need.job.batch", "int"),
        Field(
            "micro_batch",
            "Sequences that a replica computes at once.",
            "scaled.need.job.micro_batch",
            "int",
        ),
        Field("sequence", "Tokens of a sequence.", "scaled.need.job.sequence", "int"),
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


def _head_figures(results: Sequence[ScaledResult]) -> Iterator[HeadFigure]:
    """Of the largest number of GPUs with the same batch: step, tokens and efficiency."""
    own = _known(results, STRONG) or _known(results, WEAK)
    if not own or own[-1].step is None:
        return
    last = own[-1]
    gpus = amount(last.scaled.need.job.devices, "GPU")
    value, unit = time_words(last.step.step_s).split() if last.step else ("", "")
    yield HeadFigure("step", value, unit, f"{gpus} {_range(last).partition(' [')[2]}".rstrip("]"))
    yield HeadFigure("tokens", _tokens(tokens_per_s(last)), "tokens/s", gpus)
    if len(own) > 1:
        beside = amount(own[0].scaled.need.job.devices, "GPU")
        share = efficiency(last, own[0])
        yield HeadFigure("efficiency", three_digits(share * 100), "%", f"{gpus}, beside {beside}")
    found = step_errors(results)
    if found is not None:
        note = f"same MFU: {percent_words(found.baseline)}"
        yield HeadFigure("error of measured steps", three_digits(found.error * 100), "%", note)


def _blocks(results: Sequence[ScaledResult]) -> Iterator[Block]:
    if not results:
        return
    yield Facts([*_facts(results)])
    for purpose in (STRONG, WEAK):
        own = _known(results, purpose)
        if own:
            yield _scaling_table(own, purpose)
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
    need = asked[-1].scaled.need
    yield "model", need.job.model.describe()
    yield "layout", need.job.layout.describe() or "one GPU"
    words = [need.job.framework, need.job.precision, *["recomputation"] * need.job.recompute]
    yield "messages", ", ".join(words)
    if need.network.bps:
        rate = need.network.bps * need.job.per_node * 8e-9
        yield "network", f"{rate:.4g} Gb/s of a node"
    for one in need.assumptions:
        yield one.name, f"{one.figure} ({one.source})"


def _scaling_table(own: Sequence[ScaledResult], purpose: str) -> Table:
    first = own[0]

    def exposed(one: ScaledResult) -> str:
        return "" if one.step is None else percent_words(one.step.exposed_share)

    def is_exposed(one: ScaledResult) -> bool:
        return one.step is not None and one.step.exposed_share > EXPOSED_SHARE

    columns = [
        TableColumn("GPUs", lambda one: f"{one.scaled.need.job.devices:,}", ">"),
        TableColumn("nodes", lambda one: f"{one.scaled.need.job.nodes:,}", ">"),
        TableColumn("batch", lambda one: f"{one.scaled.need.job.batch:,}", ">"),
        TableColumn("step", _range, ">"),
        TableColumn("tokens/s", lambda one: _tokens(tokens_per_s(one)), ">"),
        TableColumn("tokens/s/GPU", lambda one: _tokens(per_gpu(one)), ">"),
        TableColumn("efficiency", lambda one: percent_words(efficiency(one, first)), ">"),
        TableColumn("exposed", exposed, ">", look=lambda one: "look" if is_exposed(one) else ""),
    ]
    notes = [
        f"efficiency: tokens/s/GPU beside {amount(first.scaled.need.job.devices, 'GPU')}; exposed: "
        "communication that nothing hides, as a share of a step"
    ]
    return table_of(_TITLES[purpose], columns, own, notes=notes)


def _measured_table(measured: Sequence[ScaledResult]) -> Table:
    def error(one: ScaledResult, predicted_s: float | None) -> str:
        return (
            "-" if not predicted_s else f"{(predicted_s / (one.measured_s or 1) - 1) * 100:+.1f} %"
        )

    columns = [
        TableColumn("GPUs", lambda one: f"{one.scaled.need.job.devices:,}", ">"),
        TableColumn("layout", lambda one: one.scaled.need.job.layout.describe()),
        TableColumn("micro-batch", lambda one: f"{one.scaled.need.job.micro_batch}", ">"),
        TableColumn("measured", lambda one: time_words(one.measured_s or 0.0), ">"),
        TableColumn("predicted", _range, ">"),
        TableColumn("error", lambda one: error(one, one.step and one.step.step_s), ">"),
        TableColumn("same MFU", lambda one: error(one, one.baseline_s), ">"),
    ]
    notes = [
        "predicted: from the other measured steps; same MFU: the baseline, the model FLOPs "
        "utilization of the other measured steps"
    ]
    return table_of("measured steps", columns, measured, notes=notes)


def _layout_table(layouts: Sequence[ScaledResult]) -> Table:
    job = layouts[0].scaled.need.job
    columns = [
        TableColumn("layout", lambda one: one.scaled.need.job.layout.describe()),
        TableColumn("micro-batch", lambda one: f"{one.scaled.need.job.micro_batch}", ">"),
        TableColumn("step", _range, ">"),
        TableColumn("tokens/s/GPU", lambda one: _tokens(per_gpu(one)), ">"),
        TableColumn("exposed", lambda one: percent_words(one.step.exposed_share), ">"),
        TableColumn("memory", lambda one: f"≥ {format_size(round(one.needed_bytes))}", ">"),
    ]
    notes = [
        "tp, pp and ep of powers of two; memory: of a GPU, without buffers of communication and of "
        "allocators"
    ]
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
                    [one.scaled.need.job.devices for one in own],
                    [one.step.step_s for one in own if one.step is not None],
                    low=[one.low_s for one in own],
                    high=[one.high_s for one in own],
                    colour=number,
                    dashed=True,
                )
            )
    measured = of_purpose(results, MEASURED)
    if measured:
        ordered = sorted(measured, key=lambda one: one.scaled.need.job.devices)
        series.append(
            ChartCurve(
                "measured",
                [one.scaled.need.job.devices for one in ordered],
                [one.measured_s or 0.0 for one in ordered],
                colour=len(names),
                hover=[one.scaled.need.job.layout.describe() for one in ordered],
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
    if full:
        first = full[0]
        gpus = ", ".join(f"{one.scaled.need.job.devices:,}" for one in full[:_MOST_NAMED])
        yield Finding(
            "does-not-fit",
            "look",
            f"on {gpus} GPUs, {first.scaled.need.job.layout.describe() or 'one GPU'} does not fit: "
            f"{first.reason}",
            advice="Divide it: zero=3, tp, pp or --recompute; --layouts ranks those that fit.",
        )
    for one in skipped:
        if one.needed_bytes:
            continue
        text = f"{one.scaled.describe()}: {one.status}{f': {one.reason}' if one.reason else ''}"
        yield Finding("not-measured", "look", plain(text))
    for purpose in (STRONG, WEAK):
        own = _known(results, purpose)
        if own:
            yield from _of_scaling(own, purpose)
    layouts = _known(results, LAYOUT)
    if layouts and layouts[0].step is not None:
        best, job = layouts[0], layouts[0].scaled.need.job
        yield Finding(
            "fastest-layout",
            "note",
            f"{amount(job.devices, 'GPU')}: the fastest layout is "
            f"{job.layout.describe() or 'one GPU'} with micro-batches of {job.micro_batch}, a step "
            f"of {_range(best)}",
            evidence=(Evidence.of("step_ms", best.step.step_s if best.step else 0.0),),
        )
    found = step_errors(results)
    if found is not None:
        ranks = "" if found.correlation is None else f", rank correlation {found.correlation:.2f}"
        yield Finding(
            "prediction-error",
            "good" if found.skill > 0 else "look",
            "measured steps, predicted from the others, differ by "
            f"{percent_words(found.error)} (median of {found.number}){ranks}, the same model FLOPs "
            "utilization by "
            f"{percent_words(found.baseline)}; {found.inside} of {found.number} are within their "
            "interval",
            evidence=(Evidence.of("error_percent", found.error, "", found.baseline),),
        )
    elif not of_purpose(results, MEASURED):
        yield Finding(
            "prediction-error",
            "unknown",
            "the error of predictions is unknown: no step was measured",
            advice="`cclmark train` measures the compute of a model on a few GPUs, and --measured "
            "takes its journal; --steps takes a table of measured steps.",
        )


def _of_scaling(own: Sequence[ScaledResult], purpose: str) -> Iterator[Finding]:
    last = own[-1]
    how = "the same batch" if purpose == STRONG else "a batch that grows"
    at = amount(last.scaled.need.job.devices, "GPU")
    text = f"{at} with {how}: a step takes {_range(last)}, {_tokens(tokens_per_s(last))} tokens/s"
    if len(own) > 1:
        beside = amount(own[0].scaled.need.job.devices, "GPU")
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
        where = amount(first.scaled.need.job.devices, "GPU")
        yield Finding(
            "communication-exposed",
            "look",
            f"with {how}, from {where} on, exposed communication takes more than "
            f"{EXPOSED_SHARE * 100:.3g} % of a step: "
            f"{percent_words(exposed[0].step.exposed_share)} there",
            evidence=(
                Evidence.of("exposed_percent", exposed[0].step.exposed_share, where, EXPOSED_SHARE),
            ),
        )


def _headline(results: Sequence[ScaledResult]) -> str:
    found = _findings(results)
    return next((one.sentence for one in found if one.id == "predicted-step"), "")


def _titled(results: Sequence[ScaledResult]) -> str:
    names = dict.fromkeys(one.scaled.need.job.model.name for one in results)
    return f"Steps of {', '.join(names)}"


def _compared() -> ComputedFigures:
    """By what two predictions are compared: the same purpose, GPUs, layout and micro-batch."""
    fields = {one.key: one for one in FIELDS.all}
    return ComputedFigures(
        figures=[
            ComputedFigure(fields["step_ms"], "step", _range, is_time=True),
            ComputedFigure(
                fields["exposed_percent"],
                "exposed communication",
                lambda one: "-" if one.step is None else percent_words(one.step.exposed_share),
            ),
        ],
        key=lambda one: (
            *(one.scaled.purpose, one.scaled.need.job.devices, one.scaled.need.job.layout),
            *(one.scaled.need.job.micro_batch, one.scaled.need.job.sequence),
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
