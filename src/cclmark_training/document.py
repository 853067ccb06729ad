"""What a run of trainings says, and the fields of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, cast

from cclmark.analysis.steps import StepRun, slowest_of
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.base.statistics import median_interval
from cclmark.document.blocks import (
    Bars,
    Block,
    Document,
    Evidence,
    Finding,
    HeadFigure,
    RunContent,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.case_fields import status_fields, variant_fields
from cclmark.document.chart_model import ChartCurve, Lines
from cclmark.document.fields import Field, Fields
from cclmark.document.finding_rules import gain_of, ratio_to_default, step_against
from cclmark.document.insight_words import amount
from cclmark.document.naming import NamedRun
from cclmark.document.report_kind import ReportKind
from cclmark.document.step_words import PARTS, STEP, interval_text, ms_text, part_texts
from cclmark.document.text import BYTES_PER_GB, TWO_ROUNDS
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceDescription, Header
from cclmark.work.models import MODELS
from cclmark.work.sizes import format_size
from cclmark.work.variants import LIBRARY
from cclmark_training.choices import (
    COMPILABLE,
    DDP,
    EXPERT,
    MIXED,
    PARALLELISMS,
    PIPELINE,
    TENSOR,
    ZERO1,
)
from cclmark_training.figures import (
    GroupFigures,
    RoundFigures,
    TrainingSummary,
    figures_of,
    sent_by_rank,
    summaries_of,
)
from cclmark_training.layout import DIMENSIONS, REPLICAS, SHARDS, TIED
from cclmark_training.memory import memory_of
from cclmark_training.plan import Training
from cclmark_training.recipes import RECIPES, differences
from cclmark_training.result import GroupCalls, TrainingResult

_GroupRow: TypeAlias = tuple[TrainingSummary, GroupFigures]

_LONGEST_NAME = 48
# What is compared after a training. Others hold no parameter on several ranks that must be equal.
_COMPARED = {
    DDP: "parameters of all ranks",
    ZERO1: "parameters of all ranks",
    EXPERT: "parameters of all ranks outside the experts",
    PIPELINE: "a tied embedding, if there is one, of the first and the last stage",
}
_GROUPS = {
    TENSOR: "to the ranks that share its matrices",
    PIPELINE: "to other stages of the pipeline",
    REPLICAS: "to other replicas",
    SHARDS: "to the ranks that hold other shards",
    EXPERT: "to or from the ranks of other experts, and gradients of the parameters that all share",
    TIED: "to the other stage that holds the tied embedding",
}
_TYPES = {
    "bfloat16": "all in bfloat16",
    "float32": "all in float32",
    MIXED: "mixed (float32, products in bfloat16)",
}
_LARGE_DIFFERENCE = 0.05  # of a profiled step to a timed one
_MUCH_IDLE = 0.05  # of a step


def _figure(
    of: Callable[[RoundFigures], float | None],
) -> Callable[[TrainingResult], float | None]:
    """The value of a field that is a figure of its round."""

    def value(result: TrainingResult) -> float | None:
        figures = figures_of(result)
        return None if figures is None else of(figures)

    return value


def _interval_s(result: TrainingResult, end: int) -> float | None:
    interval = median_interval(slowest_of(result.step_s)) if result.is_measured else None
    return None if interval is None else interval[end]


def _sent(calls: Sequence[GroupCalls]) -> int | None:
    return round(max(sent_by_rank(calls))) if calls else None


def _sent_in(group: str, result: TrainingResult) -> int | None:
    return _sent([one for one in result.groups if one.group == group])


def _rate(result: TrainingResult, of_step: float) -> float | None:
    figures = figures_of(result)
    return None if figures is None else of_step / figures.step_s


FIELDS = Fields(
    [
        *variant_fields("training"),
        Field("ccl", "Library that communicates.", lambda one: one.training.ccl, "text"),
        Field("ranks", "Ranks of the training.", lambda one: one.training.ranks, "int"),
        Field("model", "Name of the model.", lambda one: one.training.model.name, "text"),
        Field("layers", "Layers of the model.", lambda one: one.training.model.layers, "int"),
        Field(
            "parameters",
            "Parameters of the model.",
            lambda one: one.training.model.parameters,
            "int",
            on_page=False,
        ),
        Field(
            "parallel",
            "How the training is parallel: ddp, fsdp and others, or a layout: tp=2,dp=2.",
            lambda one: one.training.arrangement,
            "text",
        ),
        Field(
            "batch",
            "Sequences of a replica in a step, of the one with most.",
            lambda one: one.training.batch,
            "int",
        ),
        Field(
            "global_batch",
            "Sequences of all ranks in a step.",
            lambda one: one.training.global_batch,
            "int",
            on_page=False,
        ),
        Field(
            "micro_batch",
            "Sequences that a rank computes at once, of the replica with most.",
            lambda one: one.training.micro_batch,
            "int",
            on_page=False,
        ),
        Field("sequence", "Tokens of a sequence.", lambda one: one.training.sequence, "int"),
        Field("dtype", "Data types: of all, or mixed.", lambda one: one.training.dtype, "text"),
        Field("optimizer", "Optimizer.", lambda one: one.training.optimizer, "text", on_page=False),
        Field(
            "microbatches",
            "Parts of a batch that are computed one after the other; 0: the whole batch at once.",
            lambda one: one.training.microbatches,
            "int",
            on_page=False,
        ),
        *status_fields("reason"),
        Field(
            "step_ms",
            "Time of one training step.",
            _figure(lambda one: one.step_s),
            gauge="step_seconds",
        ),
        Field(
            "step_low_ms",
            "Lower end of the 95 % interval of step_ms.",
            lambda one: _interval_s(one, 0),
            on_page=False,
        ),
        Field(
            "step_high_ms",
            "Upper end of the 95 % interval of step_ms.",
            lambda one: _interval_s(one, 1),
            on_page=False,
        ),
        Field(
            "tokens_per_s",
            "Tokens of all ranks in a second.",
            lambda one: _rate(one, one.training.tokens),
            gauge="tokens_per_second",
        ),
        Field(
            "samples_per_s",
            "Sequences of all ranks in a second.",
            lambda one: _rate(one, one.training.global_batch),
        ),
        Field(
            "flops_per_s",
            "Floating-point operations of all ranks in a second, by the formula of the MFU.",
            lambda one: _rate(one, one.training.operations),
            on_page=False,
        ),
        Field(
            "alone_ms",
            "Time of one training step without communication.",
            _figure(lambda one: one.alone_s),
            gauge="alone_seconds",
        ),
        Field(
            "cost_ms",
            "How much longer a step takes with communication than without.",
            _figure(lambda one: one.cost_s),
        ),
        Field(
            "profiled_ms",
            "Time of a profiled step: compute, exposed and idle together.",
            _figure(lambda one: one.profiled_s),
        ),
        Field(
            "compute_ms",
            "Time of one training step in which something computes.",
            _figure(lambda one: one.compute_s),
            gauge="compute_seconds",
        ),
        Field(
            "exposed_ms",
            "Communication of one training step beside which nothing computes.",
            _figure(lambda one: one.exposed_s),
            gauge="exposed_seconds",
        ),
        Field(
            "idle_ms",
            "Time of one training step in which the device does nothing.",
            _figure(lambda one: one.idle_s),
            gauge="idle_seconds",
        ),
        Field(
            "hidden_ms",
            "Communication beside which something computes.",
            _figure(lambda one: one.hidden_s),
        ),
        Field(
            "communication_ms",
            "Time in which something communicates.",
            _figure(lambda one: one.communication_s),
        ),
        Field(
            "slow_down_ms",
            "How much more something computes than in a step without communication.",
            _figure(lambda one: one.slow_down_s),
        ),
        Field(
            "timed_steps",
            "Steps that were timed.",
            lambda one: len(one.step_s[0]) if one.is_measured else None,
            "int",
        ),
        Field(
            "steps",
            "All steps of the training.",
            lambda one: len(one.losses) or None,
            "int",
            on_page=False,
        ),
        Field(
            "training_s",
            "Time of all steps of the training, from the first one to the last timed one.",
            lambda one: one.training_s or None,
            on_page=False,
        ),
        Field(
            "first_loss",
            "Loss of the first training step.",
            lambda one: one.losses[0] if one.losses else None,
            direction="lower",
        ),
        Field(
            "last_loss",
            "Loss of the last training step.",
            lambda one: one.losses[-1] if one.losses else None,
            gauge="loss",
            direction="lower",
        ),
        Field(
            "different_ranks",
            "Ranks whose parameters differ; empty if they were not compared.",
            lambda one: None if one.check is None else len(one.check.differences),
            "int",
            direction="lower",
        ),
        Field(
            "sent_bytes",
            "Bytes that a rank sends in a step, as over rings, of the rank with most.",
            lambda one: _sent(one.groups),
            "int",
        ),
        *(
            Field(
                f"{group}_sent_bytes",
                f"Bytes that a rank sends in a step {where}.",
                partial(_sent_in, group),
                "int",
                on_page=False,
            )
            for group, where in _GROUPS.items()
        ),
        Field(
            "peak_allocated_bytes",
            "Most memory that torch had allocated, of the largest rank; empty on the host.",
            lambda one: max(one.peak_allocated_bytes, default=None),
            "int",
        ),
        Field(
            "peak_reserved_bytes",
            "Most memory that torch had reserved, of the largest rank; empty on the host.",
            lambda one: max(one.peak_reserved_bytes, default=None),
            "int",
            on_page=False,
        ),
        Field(
            "estimated_bytes",
            "Least memory that the training requires, as estimated.",
            lambda one: one.estimated_bytes or None,
            "int",
        ),
    ],
    gauges="cclmark_training",
    labels=(
        *("variant", "round", "ccl", "ranks", "model", "layers", "parallel", "batch", "sequence"),
        "dtype",
    ),
    noun="a training",
)


def document_of_trainings(run: RunContent) -> Document:
    """Composes everything that a run says."""
    results = cast("Sequence[TrainingResult]", run.results)
    devices = run.header.devices
    summaries = summaries_of(results, devices)
    return Document(
        "Training",
        method_of_trainings(run.header),
        [*_blocks(summaries)] if summaries else [],
        [
            *_wrong_findings(results),
            *_ratios(summaries),
            *losses_of(summaries),
            *remarks_of(summaries),
            *(Finding("limited-figures", "look", line) for line in device_lines(devices)),
        ],
        outcome_line(results),
        any(one.status == "wrong" for one in results),
        head_figures=[*_head_figures(summaries[0])] if summaries else [],
    )


def _head_figures(one: TrainingSummary) -> Iterator[HeadFigure]:
    """The rate of the default, its step, and what communication adds to it."""
    figures = one.figures
    if figures.step_s is None:
        return
    doubt = "" if one.converged else "precision not reached"
    yield HeadFigure("tokens of all ranks", tokens_text(one), "/s", doubt)
    yield HeadFigure("step", ms_text(figures.step_s), "ms", doubt)
    if one.share_of_peak is not None:
        yield HeadFigure("MFU", f"{one.share_of_peak * 100:.1f}", "%")
    if figures.exposed_s is not None:
        of = "of profiled steps" if differs_when_profiled(one) else "of a step"
        yield HeadFigure("exposed communication", ms_text(figures.exposed_s), "ms", of)


def _blocks(summaries: Sequence[TrainingSummary]) -> Iterator[Block]:
    head = head_of(summaries)
    yield Table(
        title_of_training(summaries[0].training),
        head,
        [cells_of(one, summaries) for one in summaries],
        "<" + ">" * (len(head) - 1),
        [
            *variant_lines(summaries),
            *peak_lines(summaries),
            *model_lines(summaries[0].training),
        ],
    )
    if any(one.groups for one in summaries):
        yield table_of(
            "Communication of a step by group, of the rank that sends most",
            _GROUP_COLUMNS,
            [(one, group) for one in summaries for group in one.groups],
            notes=[_SENT_NOTE],
        )
    if bars := [*_bars(summaries)]:
        names = (f"{number}: {name_of(one)}" for number, one in enumerate(summaries, start=1))
        yield Bars(f"Parts of a profiled step ({'; '.join(names)})", "step", bars)
    if losses := [*_losses(summaries)]:
        yield Lines(
            key="train-losses",
            title="Loss by step",
            says="The loss of each step, a curve for each variant with the same data and seed.",
            x_title="step",
            y_title="loss (cross entropy)",
            series=losses,
            x_kind="number",
            zero_based=False,
        )


def _calls_text(row: _GroupRow) -> str:
    return ", ".join(
        f"{number} {operation} {format_size(size_bytes)}"
        for operation, (number, size_bytes) in row[1].calls.items()
    )


def _needed(row: _GroupRow) -> str:
    step_s = row[0].figures.step_s
    return f"{row[1].sent_bytes / step_s / BYTES_PER_GB:.3g}" if step_s else "-"


_SENT_NOTE = (
    "calls: with the bytes of all their messages together; sent: by a rank, as over a ring; "
    "GB/s: sent over the time of a step, a mean: what waits for it (tp, pp) needs more"
)
_GROUP_COLUMNS = (
    TableColumn("variant", lambda row: plain(name_of(row[0]))),
    TableColumn("group", lambda row: row[1].group),
    TableColumn("ranks", lambda row: str(row[1].ranks), ">"),
    TableColumn("calls of a step", _calls_text),
    TableColumn("sent", lambda row: format_size(round(row[1].sent_bytes)), ">"),
    TableColumn("step ms", lambda row: ms_text(row[0].figures.step_s), ">"),
    TableColumn("GB/s", _needed, ">"),
)


def _bars(
    summaries: Sequence[TrainingSummary],
) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """The parts of a step one after the other, and the hidden communication below it."""
    for number, summary in enumerate(summaries, start=1):
        one = summary.figures
        if one.exposed_s is None:
            continue
        parts = (
            ("compute", one.compute_s),
            ("exposed communication", one.exposed_s),
            ("idle", one.idle_s),
        )
        yield f"step {number}", [(name, time_s) for name, time_s in parts if time_s and time_s > 0]
        if one.hidden_s and one.hidden_s > 0:
            yield f"hidden {number}", [("hidden communication", one.hidden_s)]


def _losses(summaries: Sequence[TrainingSummary]) -> Iterator[ChartCurve]:
    for number, one in enumerate(summaries):
        if one.losses:
            steps = range(1, len(one.losses) + 1)
            yield ChartCurve(name_of(one), [*steps], [*one.losses], colour=number)


def _method_of(arrangement: str) -> str | None:
    """What is compared after a training with a parallelism or a layout; None for nothing."""
    if "=" not in arrangement:
        return _COMPARED.get(arrangement)
    names = {part.partition("=")[0] for part in arrangement.split(",")}
    if REPLICAS in names:
        return "parameters of replicas"
    return _COMPARED[PIPELINE] if PIPELINE in names and SHARDS not in names else None


def _of_variants(text: str, figure: Evidence) -> Finding:
    return Finding("steps-of-variants", "note", plain(text), evidence=(figure,))


def _ratios(summaries: Sequence[TrainingSummary]) -> Iterator[Finding]:
    """How much longer a step takes with each variant than with the default."""
    for one in summaries:
        if one.ratio is not None:
            name = name_of(one)
            text, severity = step_against(one.ratio, name, name_of(summaries[0]))
            beside = _of_variants(text, Evidence.of("ratio", one.ratio.ratio, name, 1))
            yield replace(beside, severity=severity, gain=gain_of(one.ratio, name))


def method_of_trainings(header: Header) -> str:
    """Describes in a line how trainings were measured."""
    settings = header.settings
    if settings.iterations is not None:
        length = f"{settings.iterations} timed steps"
    else:
        length = f"steps until the median is known to ±{settings.precision * 100:g} % (95 %)"
    compared = {
        what: None
        for name in (header.plan.values.get("parallel", []) if header.plan is not None else [])
        if (what := _method_of(str(name)))
    }
    check = "no parameters compared"
    if settings.check and compared:
        check = f"{', '.join(compared)} compared afterwards"
    return f"{length}, slowest rank, {check}"


def title_of_training(one: Training) -> str:
    """Describes the training in a line."""
    parts = f", {one.microbatches} microbatches" if one.microbatches else ""
    if one.uneven:
        parts = f", microbatches {' + '.join(map(str, one.uneven))}"
    if one.layout is not None or (one.microbatches and one.replicas > 1):
        parts += f", global batch {one.global_batch}"
    shared = ", sequence parallel" if one.by_sequence else ""
    balanced = f", balance loss {one.balance_weight:g}" if one.balance_weight else ""
    compiled = ", compiled" if one.compiled else ""
    return (
        f"{one.model.describe()}: {_parallel_text(one)}{shared}, {one.ranks} "
        f"rank{'s' * (one.ranks > 1)}, batch {one.batch} x {one.sequence}{parts}, "
        f"{_TYPES[one.dtype]}, {one.optimizer}{balanced}{compiled}"
    )


def _parallel_text(one: Training) -> str:
    if one.layout is None:
        return PARALLELISMS[one.parallel]
    return ", ".join(f"{name}={size} {DIMENSIONS[name]}" for name, size in one.layout.sizes.items())


def model_lines(one: Training) -> list[str]:
    """What is smaller than in the model, the least memory, and differences to the recipe."""
    whole = MODELS.get(one.model.name)
    lines = []
    if whole is not None and whole.layers != one.model.layers:
        lines.append(
            f"{one.model.layers} of the {whole.layers} layers of {whole.name}: times, bytes and "
            "memory are not those of the whole model"
        )
    need = memory_of(one)
    lines.append(f"memory of a rank: at least {format_size(need.total)} ({need.describe()})")
    recipe = RECIPES.get(one.recipe)
    if recipe is not None:
        different = ", ".join(differences(one))
        lines.append(
            f"recipe {one.recipe} ({recipe.source}): {different or 'no number differs'}; not "
            f"executed: {recipe.others}"
        )
    return lines


def name_of(one: TrainingSummary) -> str:
    """The variant in words, by its library if that is what differs."""
    if one.variant.is_default or one.variant.value_of(LIBRARY):
        return one.training.ccl
    text = one.variant.describe()
    first = one.variant.assignments[0].name
    more = len(one.variant.assignments) - 1
    return text if len(text) <= _LONGEST_NAME or not more else f"{first} and {more} more"


def tokens_text(one: TrainingSummary) -> str:
    """The tokens of all ranks per second."""
    return "-" if one.tokens_per_s is None else f"{one.tokens_per_s:,.0f}"


def samples_text(one: TrainingSummary) -> str:
    """The sequences of all ranks per second."""
    return "-" if one.samples_per_s is None else f"{one.samples_per_s:,.1f}"


def share_text(one: TrainingSummary) -> str:
    """The share of the peak in per cent; hosts have none without a given peak."""
    if one.share_of_peak is None:
        return "-" if one.on_host else "unknown"
    return f"{one.share_of_peak * 100:.1f} %"


def differs_when_profiled(one: TrainingSummary) -> bool:
    """Whether the parts of a profiled step do not describe a timed one."""
    difference = one.figures.profile_difference
    return difference is not None and abs(difference) > _LARGE_DIFFERENCE


def head_of(summaries: Sequence[TrainingSummary]) -> list[str]:
    """The titles of the columns of ``cells_of``."""
    compared = ["x default (95 %)"] if len(summaries) > 1 else []
    return [
        *("variant", STEP, *compared, "samples/s", "tokens/s", "MFU", "alone ms", "cost"),
        *(*PARTS, "profile", "memory", "total s", "loss"),
    ]


def cells_of(one: TrainingSummary, summaries: Sequence[TrainingSummary]) -> list[str]:
    """The cells of a line."""
    name, figures, losses = plain(name_of(one)), one.figures, one.losses
    if figures.step_s is None:
        return [name, one.status, *["-"] * (len(head_of(summaries)) - 2)]
    compared = [ratio_to_default(one.ratio)] if len(summaries) > 1 else []
    difference = figures.profile_difference
    return [
        *(name, interval_text(figures.step_s, figures.interval_s), *compared),
        *(samples_text(one), tokens_text(one), share_text(one)),
        *(ms_text(one.alone_s), ms_text(one.cost_s)),
        *part_texts(figures),
        "-" if difference is None else f"{difference * 100:+.1f} %",
        "-" if one.allocated_bytes is None else format_size(one.allocated_bytes),
        "-" if one.training_s is None else f"{one.training_s:.1f}",
        f"{losses[0]:.4f} to {losses[-1]:.4f}" if losses else "-",
    ]


def losses_of(summaries: Sequence[TrainingSummary]) -> Iterator[Finding]:
    """The losses of variants beside those of the default, and of rounds beside the first one."""
    for one in summaries:
        name, found = name_of(one), one.beside_default
        if found is not None:
            yield _of_variants(
                f"losses of {name} and {name_of(summaries[0])} over {found.steps} steps: "
                f"largest difference {found.largest:.3g}, at step {found.at}; last "
                f"{found.last:.6f} and {found.default_last:.6f}",
                Evidence.of("loss_difference", found.largest, f"{name}, step {found.at}"),
            )
        if one.repetition is not None:
            yield _of_variants(
                f"losses of {name} in {one.rounds} rounds: largest difference {one.repetition:.3g}",
                Evidence.of("loss_difference", one.repetition, f"{name}, between rounds"),
            )


def remarks_of(summaries: Sequence[TrainingSummary]) -> Iterator[Finding]:
    """What failed, is unknown, or was not measured precisely."""
    found = by_key((own, (name_of(one), own)) for one in summaries for own in _remarks(one))
    for first, named in found.items():
        names = f": {', '.join(name for name, _ in named)}" * (len(named) < len(summaries))
        evidence = tuple(figure for _, own in named for figure in own.evidence)
        yield replace(first, sentence=plain(first.sentence + names), evidence=evidence)


def _remarks(one: TrainingSummary) -> Iterator[Finding]:
    name, figures = name_of(one), one.figures
    limited = partial(Finding, "limited-figures", "look")
    unknown = partial(Finding, "limited-figures", "unknown")
    if one.status not in ("ok", "wrong"):
        yield limited(f"{one.status}: {one.reason}")
    if figures.step_s is None:
        return
    if one.share_of_peak is None and not one.on_host:
        yield unknown(f"MFU is unknown: {one.peak_reason}")
    if one.timeline_reason and one.training.ranks > 1:
        yield unknown(f"communication is unknown: {one.timeline_reason}")
    if one.idle_share is not None and one.idle_share > _MUCH_IDLE and not one.on_host:
        text = f"the devices are idle for {one.idle_share:.0%} of a step: {_why_idle(one.training)}"
        idle = Evidence.of("idle_percent", one.idle_share, name, _MUCH_IDLE)
        yield limited(text, evidence=(idle,))
    difference = figures.profile_difference
    if figures.profiled_s is not None and difference is not None and differs_when_profiled(one):
        text = (
            "compute, exposed and idle describe profiled steps, which take "
            f"{difference * 100:+.0f} % compared with timed ones"
        )
        profiled = Evidence.of("profiled_ms", figures.profiled_s, name, figures.step_s)
        yield limited(text, evidence=(profiled,))
    if one.lacks_rounds:
        yield limited(TWO_ROUNDS)
    if not one.converged:
        yield limited("the precision was not reached: raise --max-time")


def _why_idle(one: Training) -> str:
    if one.parallel == EXPERT:
        return (
            "in each layer the host waits for the number of rows of each expert, so that it cannot "
            "launch ahead, and a faster interconnect changes little; raise --batch"
        )
    if one.degrees.pp > 1:
        return (
            "stages wait for each other (the pipeline's bubbles) or for the host's launches; raise "
            "--batch with --microbatches"
        )
    more = ", add --compile" if one.parallel in COMPILABLE and not one.compiled else ""
    return (
        "the host's launches determine it, so that a faster interconnect changes little; raise "
        f"--batch{more}, or use CUDA graphs in the program"
    )


def device_lines(devices: Sequence[DeviceDescription]) -> list[str]:
    """A remark on unequal devices; none if they are alike."""
    names = list(dict.fromkeys(device.name for device in devices))
    if len(names) < 2:
        return []
    text = (
        f"the devices differ ({', '.join(names)}): the slowest one determines the step, and the "
        "MFU relates to the sum of their peaks"
    )
    return [plain(text)]


def variant_lines(summaries: Sequence[TrainingSummary]) -> list[str]:
    """The settings of variants whose names in the table are shortened."""
    return [
        plain(f"{name}: {one.variant.describe()}")
        for one in summaries
        if not one.variant.is_default
        and (name := name_of(one)) not in (one.variant.describe(), one.training.ccl)
    ]


def peak_lines(summaries: Sequence[TrainingSummary]) -> list[str]:
    """The peak rates behind the MFU; none if it is unknown."""
    known = next((one.peak_reason for one in summaries if one.share_of_peak is not None), "")
    given = any(one.training.peak_flops for one in summaries)
    text = plain(f"MFU of the {'' if given else 'dense bfloat16 '}peak, {known}")
    return [text] if known else []


def _wrong_findings(results: Sequence[TrainingResult]) -> Iterator[Finding]:
    """A finding on each wrong training."""
    for one in results:
        if one.status == "wrong":
            at, ranks = (
                one.training.describe(),
                0 if one.check is None else len(one.check.differences),
            )
            evidence = (Evidence.of("different_ranks", ranks, at, 0),) * bool(ranks)
            text = plain(f"WRONG in {at}: {one.reason}")
            yield Finding("wrong-data", "bad", text, evidence=evidence)


def outcome_line(results: Sequence[TrainingResult]) -> str:
    """Describes the checks in a line."""
    measured = [one for one in results if one.is_measured]
    wrong = sum(one.status == "wrong" for one in results)
    steps = sum(len(one.losses) for one in measured)
    checked = [one for one in measured if one.check is not None]
    text = f"{steps} training steps, {wrong} wrong of {len(measured)} trainings"
    if checked and checked[0].check is not None:
        text += (
            f"; after {len(checked)} of them {checked[0].check.elements:,} parameters were "
            "compared across ranks"
        )
    return text


def headline_of_trainings(run: NamedRun) -> str:
    """The rate of the default; empty if it was not measured."""
    summaries = summaries_of(run.journal.of(TrainingResult), run.journal.header.devices)
    if not summaries or summaries[0].figures.step_s is None:
        return ""
    one = summaries[0]
    text = f"{tokens_text(one)} tokens/s, {ms_text(one.figures.step_s)} ms per step"
    if one.share_of_peak is not None:
        text += f", MFU {share_text(one)}"
    if one.figures.exposed_s is not None and not differs_when_profiled(one):
        text += f", exposed communication {ms_text(one.figures.exposed_s)} ms"
    return text


def _work(one: Training) -> str:
    return f"{one.model.name} with {one.arrangement}"


def _titled(runs: Sequence[NamedRun]) -> str:
    """The models and their parallelism."""
    results = [result for run in runs for result in run.journal.of(TrainingResult)]
    return f"training of {', '.join(dict.fromkeys(_work(one.training) for one in results))}"


def _counted(journal: Journal) -> str:
    variants = {result.training.variant for result in journal.of(TrainingResult)}
    return f"{amount(len(journal.results), 'training')} of {amount(len(variants), 'variant')}"


def _step_runs(journal: Journal) -> list[StepRun]:
    """The steps of each variant."""
    summaries = summaries_of(journal.of(TrainingResult), journal.header.devices)
    return [
        StepRun(
            variant=name_of(one) if len(summaries) > 1 else "",
            work=_work(one.training),
            ccl=one.training.ccl,
            ranks=one.training.ranks,
            status=one.status,
            figures=one.figures,
            operations=one.training.operations,
            dtype=one.training.dtype,
        )
        for one in summaries
    ]


REPORT = ReportKind(
    noun="trainings",
    title="trainings",
    has_times=False,
    fields=FIELDS,
    counted=_counted,
    headline=headline_of_trainings,
    document=document_of_trainings,
    titled=_titled,
    method=method_of_trainings,
    by_session=False,
    step_runs=_step_runs,
)
