"""Sentences on the variants of an experiment, shared by all formats."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cclmark.analysis.paired import noise_floor
from cclmark.document.text import counted, format_time_us
from cclmark.kinds.experiment.figures import Experiment, VariantResult
from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
from cclmark.plan.variants import Variant
from cclmark.printable import plain

#: The cell of a variant without a speed-up, by its effect.
NOTES = {
    "within noise": "noise",
    "no effect": "no effect",
    "failed": "failed",
    "wrong": "WRONG",
    "skipped": "skipped",
    "inconclusive": "-",
}
_MOST_NAMED = 8
_OF_TUNE = re.compile(r"=/\S*/candidates/(?=\S+\.(?:rules|table|json)\b)")


def groups_of(experiment: Experiment) -> list[list[Case]]:
    """The cases of each series, by size."""
    groups: dict[Case, list[Case]] = {}
    for case in experiment.cases:
        groups.setdefault(case.series(), []).append(case)
    return [sorted(group, key=lambda case: case.size_bytes) for group in groups.values()]


def size_text(case: Case) -> str:
    """The size of a case: ``1 MiB``."""
    return format_size(case.size_bytes) if moves_data(case.operation) else "-"


def variant_name(variant: Variant) -> str:
    """The variant as a label: files that tune wrote for its search and proof without their place.

    Their directory is part of the value in the journal.
    """
    return _OF_TUNE.sub("=", variant.describe())


def speed_up_text(result: VariantResult | None) -> str:
    """The speed-up of a variant, or why there is none: ``1.13``, ``no effect``."""
    if result is None:
        return ""
    if not result.is_ranked or result.speed_up is None:
        return NOTES.get(result.effect, "-")
    return f"{result.speed_up:.3f}"


def interval_text(result: VariantResult) -> str:
    """The speed-up with its interval: ``1.132 (1.121 to 1.143)``."""
    if result.speed_up is None or result.interval is None:
        return "unknown"
    low, high = result.interval
    return f"{result.speed_up:.3f} ({low:.3f} to {high:.3f})"


def noise_text(experiment: Experiment, case: Case) -> str:
    """How far the default differs from itself: ``±0.8 %``; empty if it was not measured twice."""
    control = experiment.controls.get(case)
    return "" if control is None else f"±{noise_floor(control) * 100:.1f} %"


def default_time_text(experiment: Experiment, case: Case) -> str:
    """The time of the default in microseconds, in which ratios are formed."""
    for variant in experiment.variants:
        result = experiment.compared.get((variant, case))
        if result is not None and result.default_times_s:
            times = sorted(result.default_times_s)
            return format_time_us(times[len(times) // 2])
    time_s = experiment.defaults_s.get(case)
    return "-" if time_s is None else format_time_us(time_s)


def best_lines(experiment: Experiment, cases: Sequence[Case]) -> list[str]:
    """For each size the fastest variant with its interval and what ran, or that none is faster."""
    rows: list[tuple[str, str]] = []
    for case in cases:
        best = experiment.fastest(case)
        if best is None:
            rows.append((size_text(case), "nothing is faster than the default"))
            continue
        ran = ""
        if best.ran:
            usual = "" if best.usual is None else best.usual.choice_with_channels
            ran = f"; {best.ran}" + (f" instead of {usual}" if usual and usual != best.ran else "")
        ran += f"; {best.reason}" if best.reason else ""
        rows.append((size_text(case), f"{variant_name(best.variant)}: {interval_text(best)}{ran}"))
    width = max((len(size) for size, _ in rows), default=0)
    return [f"{size:>{width}}  {plain(text)}" for size, text in rows]


def remarks_of(experiment: Experiment) -> list[str]:
    """What did not take effect, failed or was wrong, a sentence for each reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for (variant, case), result in experiment.compared.items():
        key = (variant_name(variant), f"{NOTES.get(result.effect, '')}: {result.reason}")
        if result.effect in NOTES and result.effect != "inconclusive":
            found.setdefault(key, []).append(f"{case.operation} {size_text(case)}")
    lines = []
    for (name, reason), places in found.items():
        named = list(dict.fromkeys(places))
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        lines.append(plain(f"{name}: {reason} ({', '.join(named[:_MOST_NAMED])}{more})"))
    return lines


def noise_warning(experiment: Experiment) -> tuple[str, str] | None:
    """Returns where the machine was too noisy, the worst size first, and what to do.

    None if it was not too noisy at any size.
    """
    noisy = [case for case in experiment.cases if experiment.is_too_noisy(case)]
    if not noisy or not experiment.variants:
        return None
    noisy.sort(key=lambda case: -noise_floor(experiment.controls[case]))
    named = list(dict.fromkeys(f"{case.operation} {size_text(case)}" for case in noisy))
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    worst = max(noise_floor(experiment.controls[case]) for case in noisy)
    return (
        f"too noisy: the default differs from itself by up to ±{worst * 100:.1f} % "
        f"({', '.join(named[:_MOST_NAMED])}{more}): smaller differences of these sizes, and means "
        "that contain them, are inconclusive",
        "end other work on the machine, use at most as many host ranks as processors, or measure "
        "longer with more --rounds and --max-time",
    )


def overall_lines(experiment: Experiment) -> list[str]:
    """The geometric mean of each variant over all cases, the fastest first."""
    found: list[tuple[float, Variant]] = []
    for variant in experiment.variants:
        mean = experiment.overall(variant)
        if mean is not None:
            found.append((mean, variant))
    found.sort(key=lambda one: one[0], reverse=True)
    lines = [f"{mean:.3f}  {plain(variant_name(variant))}" for mean, variant in found[:_MOST_NAMED]]
    left = found[_MOST_NAMED:]
    return [*lines, f"{len(left)} more, down to {left[-1][0]:.3f}"] if left else lines


def outcome_text(experiment: Experiment) -> str:
    """The numbers of variants, cases and rounds."""
    numbers = {
        "variant": len(experiment.variants),
        "case": len(experiment.cases),
        "round": experiment.rounds,
    }
    return ", ".join(counted(number, noun) for noun, number in numbers.items())
