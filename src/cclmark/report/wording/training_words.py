"""Sentences and cells on trainings, shared by all formats."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.steps import steps_of_training
from cclmark.analysis.training_summaries import TrainingSummary
from cclmark.plan.sizes import format_size
from cclmark.plan.training_choices import (
    COMPILABLE,
    DDP,
    EXPERT,
    MIXED,
    PARALLELISMS,
    PIPELINE,
    ZERO1,
)
from cclmark.plan.trainings import Training
from cclmark.plan.variants import LIBRARY
from cclmark.printable import plain
from cclmark.report.wording.step_words import PARTS, STEP, interval_text, ms_text, part_texts
from cclmark.report.wording.text import TWO_ROUNDS
from cclmark.results.kinds import TrainingResult
from cclmark.results.schema import DeviceDescription, Header

_LONGEST_NAME = 48
# What is compared after a training. Others hold no parameter on several ranks that must be equal.
_COMPARED = {
    DDP: "parameters of all ranks",
    ZERO1: "parameters of all ranks",
    EXPERT: "parameters of all ranks outside the experts",
    PIPELINE: "a tied embedding of the first and the last rank",
}
_TYPES = {
    "bfloat16": "all in bfloat16",
    "float32": "all in float32",
    MIXED: "mixed (float32, products in bfloat16)",
}
_LARGE_DIFFERENCE = 0.05  # of a profiled step to a timed one
_MUCH_IDLE = 0.05  # of a step


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
        if (what := _COMPARED.get(str(name)))
    }
    check = "no parameters compared"
    if settings.check and compared:
        check = f"{', '.join(compared)} compared afterwards"
    return f"{length}, slowest rank, {check}"


def title_of_training(one: Training) -> str:
    """Describes the training in a line."""
    pipeline = f", {one.microbatches} microbatches" if one.parallel == PIPELINE else ""
    balanced = f", balance loss {one.balance_weight:g}" if one.balance_weight else ""
    compiled = ", compiled" if one.compiled else ""
    return (
        f"{one.model.describe()}: {PARALLELISMS[one.parallel]}, {one.ranks} "
        f"rank{'s' * (one.ranks > 1)}, batch {one.batch} x {one.sequence}{pipeline}, "
        f"{_TYPES[one.dtype]}, {one.optimizer}{balanced}{compiled}"
    )


def name_of(one: TrainingSummary) -> str:
    """The variant in words, by its library if that is what differs."""
    if one.variant.is_default or one.variant.value_of(LIBRARY):
        return one.training.ccl
    text = one.variant.describe()
    first = one.variant.assignments[0].name
    more = len(one.variant.assignments) - 1
    return text if len(text) <= _LONGEST_NAME or not more else f"{first} and {more} more"


def step_text(one: TrainingSummary) -> str:
    """The time of a step with its interval, in milliseconds."""
    return interval_text(one.step_s, one.interval_s)


def ratio_text(one: TrainingSummary) -> str:
    """The time of a step over the default's, with its interval if it is known."""
    if one.ratio is None:
        return "-"
    if not one.has_interval_of_ratio:
        return f"{one.ratio.ratio:.3f}"
    return f"{one.ratio.ratio:.3f} ({one.ratio.low:.3f} to {one.ratio.high:.3f})"


def tokens_text(one: TrainingSummary) -> str:
    """The tokens of all ranks per second."""
    return "-" if one.tokens_per_s is None else f"{one.tokens_per_s:,.0f}"


def share_text(one: TrainingSummary) -> str:
    """The share of the peak in per cent; hosts have none without a given peak."""
    if one.share_of_peak is None:
        return "-" if one.on_host else "unknown"
    return f"{one.share_of_peak * 100:.1f} %"


def memory_text(one: TrainingSummary) -> str:
    """The largest peak of allocated memory of a rank."""
    return "-" if one.allocated_bytes is None else format_size(one.allocated_bytes)


def losses_text(losses: Sequence[float]) -> str:
    """The first and the last loss."""
    return f"{losses[0]:.4f} to {losses[-1]:.4f}" if losses else "-"


def difference_text(one: TrainingSummary) -> str:
    """How much longer a profiled step takes than a timed one."""
    difference = one.profile_difference
    return "-" if difference is None else f"{difference * 100:+.1f} %"


def differs_when_profiled(one: TrainingSummary) -> bool:
    """Whether the parts of a profiled step do not describe a timed one."""
    difference = one.profile_difference
    return difference is not None and abs(difference) > _LARGE_DIFFERENCE


def head_of(summaries: Sequence[TrainingSummary]) -> list[str]:
    """The titles of the columns of ``cells_of``."""
    compared = ["x default (95 %)"] if len(summaries) > 1 else []
    return [
        *("variant", STEP, *compared, "tokens/s", "MFU", "alone ms", "cost"),
        *(*PARTS, "profile", "memory", "loss"),
    ]


def sides_of(summaries: Sequence[TrainingSummary]) -> str:
    """The alignment of these columns."""
    return "<" + ">" * (len(head_of(summaries)) - 1)


def cells_of(one: TrainingSummary, summaries: Sequence[TrainingSummary]) -> list[str]:
    """The cells of a line."""
    name = plain(name_of(one))
    if one.step_s is None:
        return [name, one.status, *["-"] * (len(head_of(summaries)) - 2)]
    compared = [ratio_text(one)] if len(summaries) > 1 else []
    return [
        *(name, step_text(one), *compared, tokens_text(one), share_text(one)),
        *(ms_text(one.alone_s), ms_text(one.cost_s), *part_texts(steps_of_training(one))),
        *(difference_text(one), memory_text(one), losses_text(one.losses)),
    ]


def loss_lines(summaries: Sequence[TrainingSummary]) -> list[str]:
    """The losses of variants beside those of the default, and of rounds beside the first one."""
    lines = []
    for one in summaries:
        found = one.beside_default
        if found is not None:
            lines.append(
                f"losses of {name_of(one)} and {name_of(summaries[0])} over {found.steps} steps: "
                f"largest difference {found.largest:.3g}, at step {found.at}; last "
                f"{found.last:.6f} and {found.default_last:.6f}"
            )
        if one.repetition is not None:
            lines.append(
                f"losses of {name_of(one)} in {one.rounds} rounds: largest difference "
                f"{one.repetition:.3g}"
            )
    return [plain(line) for line in lines]


def remarks_of(summaries: Sequence[TrainingSummary]) -> list[str]:
    """What failed, is unknown, or was not measured precisely."""
    found: dict[str, list[str]] = {}
    for one in summaries:
        for text in _remarks(one):
            found.setdefault(text, []).append(name_of(one))
    lines = []
    for text, names in found.items():
        where = f": {', '.join(names)}" if len(names) < len(summaries) else ""
        lines.append(plain(f"{text}{where}"))
    return lines


def _remarks(one: TrainingSummary) -> list[str]:
    texts = []
    if one.status not in ("ok", "wrong"):
        texts.append(f"{one.status}: {one.reason}")
    if one.step_s is None:
        return texts
    if one.share_of_peak is None and not one.on_host:
        texts.append(f"MFU is unknown: {one.peak_reason}")
    if one.timeline_reason and one.training.ranks > 1:
        texts.append(f"communication is unknown: {one.timeline_reason}")
    if one.idle_share is not None and one.idle_share > _MUCH_IDLE and not one.on_host:
        texts.append(
            f"the devices are idle for {one.idle_share:.0%} of a step: {_why_idle(one.training)}"
        )
    difference = one.profile_difference
    if difference is not None and differs_when_profiled(one):
        texts.append(
            "compute, exposed and idle describe profiled steps, which take "
            f"{difference * 100:+.0f} % compared with timed ones"
        )
    if one.lacks_rounds:
        texts.append(TWO_ROUNDS)
    if not one.converged:
        texts.append("the precision was not reached: raise --max-time")
    return texts


def _why_idle(one: Training) -> str:
    if one.parallel == EXPERT:
        return (
            "in each layer the host waits for the number of rows of each expert, so that it cannot "
            "launch ahead, and a faster interconnect changes little; raise --batch"
        )
    if one.parallel == PIPELINE:
        return (
            "stages wait for each other (the pipeline's bubbles) or for the host's launches; raise "
            "--batch with --microbatches"
        )
    more = ", add --compile" if one.parallel in COMPILABLE and not one.compiled else ""
    return (
        "the host's launches determine it, so that a faster interconnect changes little; raise "
        f"--batch{more}, or use CUDA graphs in the program"
    )


def device_line(devices: Sequence[DeviceDescription]) -> str:
    """A remark on unequal devices, empty if they are alike."""
    names = list(dict.fromkeys(device.name for device in devices))
    if len(names) < 2:
        return ""
    return plain(
        f"the devices differ ({', '.join(names)}): the slowest one determines the step, and the "
        "MFU relates to the sum of their peaks"
    )


def variant_lines(summaries: Sequence[TrainingSummary]) -> list[str]:
    """The settings of variants whose names in the table are shortened."""
    return [
        plain(f"{name}: {one.variant.describe()}")
        for one in summaries
        if not one.variant.is_default
        and (name := name_of(one)) not in (one.variant.describe(), one.training.ccl)
    ]


def peak_line(summaries: Sequence[TrainingSummary]) -> str:
    """The peak rates behind the MFU, empty if none is known."""
    known = next((one.peak_reason for one in summaries if one.share_of_peak is not None), "")
    if not known:
        return ""
    given = any(one.training.peak_flops for one in summaries)
    return plain(f"MFU of the {'' if given else 'dense bfloat16 '}peak, {known}")


def wrong_lines(results: Sequence[TrainingResult]) -> list[str]:
    """A line for each wrong training."""
    return [
        plain(f"WRONG in {one.training.describe()}: {one.reason}")
        for one in results
        if one.status == "wrong"
    ]


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
