"""What a run of an experiment says, and the fields of its results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from cclmark.analysis.paired import noise_floor
from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.grouping import abridged, by_key
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Block,
    Document,
    Evidence,
    Finding,
    HeadFigure,
    Listing,
    RunContent,
    Severity,
    Table,
)
from cclmark.document.case_fields import (
    CASE_LABELS,
    case_fields,
    explained_fields,
    status_fields,
    summary_fields,
    variant_fields,
    wrong_field,
)
from cclmark.document.chart_model import Heat, key_of
from cclmark.document.fields import Field, Fields
from cclmark.document.finding_rules import evidence_of_speed_up, gain_of
from cclmark.document.head import method_of
from cclmark.document.insight_words import amount, sentence
from cclmark.document.naming import NamedRun
from cclmark.document.remarks import conclusion_lines
from cclmark.document.report_kind import ReportKind
from cclmark.document.text import counted, format_time_us, us_text
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Footer
from cclmark.kinds.experiment.bisection import Bisected
from cclmark.kinds.experiment.figures import MOST_NOISE, Experiment, VariantResult, experiment_of
from cclmark.kinds.experiment.result import BisectionResult, TrialResult, found_in
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size
from cclmark.work.variants import Variant

_ON_PAGE = (
    *("variant", "round", "operation", "ccl", "ranks", "dtype", "reduction", "root", "placement"),
    *("size_bytes", "status", "reason", "time_us", "device_us", "busbw_gbps", "half_width"),
    *("wrong", "converged", "kernel", "protocol", "channels"),
)
_GAUGES = {"time_us": "time_seconds", "device_us": "device_time_seconds"}
_ALL = [
    *variant_fields("trial"),
    *case_fields("trial.case"),
    *status_fields("reason"),
    *summary_fields("summary"),
    Field(
        "device_us",
        "Median time that the devices need, where launches determine the time of an operation.",
        "device.summary.time_s",
    ),
    wrong_field(),
    Field(
        "converged",
        "Whether the median reached the requested precision.",
        lambda one: None if one.summary is None else int(one.converged),
        "bool",
    ),
    *explained_fields(),
    Field(
        "stage", "Part of a tuning: search or proof; empty in an experiment.", "trial.stage", "text"
    ),
]
FIELDS = Fields(
    [replace(one, gauge=_GAUGES.get(one.key, ""), on_page=one.key in _ON_PAGE) for one in _ALL],
    gauges="cclmark_trial",
    labels=("variant", "round", *CASE_LABELS),
    noun="a trial",
    by_method=True,
)

# The cell of a variant without a speed-up, by its effect.
_NOTES = {
    "within noise": "noise",
    "no effect": "no effect",
    "failed": "failed",
    "wrong": "WRONG",
    "skipped": "skipped",
    "inconclusive": "-",
}
_CERTAIN = ("faster", "slower")
_LEAST_SPAN_PERCENT = 10.0
_MOST_NAMED = 8
# Of the lines at the end of journals of earlier versions.
_CONCLUDES = re.compile(
    r"nothing beats the default|no gain was proven|geometric mean|no artifact is written|"
    r"no file is written|smallest value that keeps|no value keeps"
)
_MOST_CONCLUDED = 3
_OF_TUNE = re.compile(r"=/\S*/candidates/(?=\S+\.(?:rules|table|json)\b)")
_LEAST_DOUBT = 0.01  # part of a share by which the end of its interval may miss the request
_MORE_THAN_ALL = 1.0005
_EXCEEDS = "shares above 100 % are faster than the best value by no more than noise"


def document_of_experiment(run: RunContent) -> Document:
    """Composes everything that a run says: the comparison, and the result of a bisection.

    A live bisection has only its result: trials are many.
    """
    results = cast("Sequence[TrialResult]", run.results)
    experiment = experiment_of(results, run.header.settings.timing)
    wrong = sum(one.status == "wrong" for one in results)
    checked = sum(one.is_checked for one in results)
    measured = sum(one.is_measured for one in results)
    bisection = found_in(run.footer, BisectionResult)
    findings = [] if bisection is None else [*_of_bisection(bisection)]
    closing = [] if bisection is None else [*_shares(bisection)]
    is_shown = bisection is None or not run.is_live
    if is_shown:
        findings += [
            *_of_variants(experiment, ("wrong",)),
            *_of_noise(experiment),
            *_of_variants(experiment, ("within noise", "no effect", "failed", "skipped")),
            *_of_fastest(experiment),
        ]
    return Document(
        "Speed-up over the default",
        method_of(run.header),
        [*_blocks(experiment, run.footer)] if is_shown else [],
        findings,
        f"{_numbers(experiment)}; {checked} of {measured} trials checked, {wrong} wrong",
        is_wrong=bool(wrong),
        notes=[*_notes(experiment)] if is_shown else [],
        closing=closing,
        head_figures=[*_head_figures(experiment, run.footer)],
    )


def _head_figures(experiment: Experiment, footer: Footer | None) -> Iterator[HeadFigure]:
    """Those of the result, if the run has one: trials of a search prove nothing."""
    if bisection := found_in(footer, BisectionResult):
        yield from _found(bisection)
    elif not conclusion_lines(footer):
        yield from _of_experiment(experiment)


def _of_experiment(experiment: Experiment) -> Iterator[HeadFigure]:
    """The largest speed-up, and the numbers of comparisons with each verdict."""
    best = _best_of(experiment)
    if best is not None and best.speed_up is not None and best.interval is not None:
        low, high = best.interval
        at = f"{variant_name(best.variant)}, {best.case.describe()}"
        note = plain(f"{low:.3f} to {high:.3f} (95 %): {at}")
        yield HeadFigure("largest speed-up", f"{best.speed_up:.3f}", "×", note)
    effects = [one.effect for one in experiment.compared.values()]
    of = f"of {amount(len(effects), 'comparison')}"
    for effect in ("faster", "slower", "no difference"):
        if number := effects.count(effect):
            yield HeadFigure(effect, str(number), of, "variant and size, with the default")


def _found(result: BisectionResult) -> Iterator[HeadFigure]:
    """The smallest value that keeps the share, and its smallest share; none without a proof."""
    found = result.found
    if found is None or not found.complete or found.value is None:
        return
    kept = f"keeps {result.keep * 100:g} % of the best bandwidth"
    yield HeadFigure(f"smallest {plain(result.name)}", str(found.value), "", kept)
    shares = found.curve[found.value]
    worst = min(range(len(shares)), key=lambda place: shares[place].ratio)
    at = f"at {_case_name(result.cases[worst])}"
    yield HeadFigure("its smallest share", f"{shares[worst].ratio * 100:.1f}", "%", at)


def _blocks(experiment: Experiment, footer: Footer | None) -> Iterator[Block]:
    keys: set[str] = set()
    for cases in experiment.groups:
        yield _heat(experiment, cases, keys)
    if len(experiment.cases) > 1 and (means := experiment.means()):
        rows = [(plain(variant_name(one)), f"{mean:.3f}") for one, mean in means[:_MOST_NAMED]]
        left = means[_MOST_NAMED:]
        notes = [f"means of {len(left)} more, down to {left[-1][1]:.3f}"] if left else []
        title = "geometric mean of the speed-ups of all cases"
        yield Table(title, ("variant", "mean"), rows, "<>", notes)
    if conclusion := conclusion_lines(footer):
        yield Listing("result of the search", conclusion)


def _heat(experiment: Experiment, cases: Sequence[Case], keys: set[str]) -> Heat:
    """The speed-ups of a series of cases, below the default's time and noise."""
    series = cases[0].series().group_words()
    title = f"{series}: speed-up over the default"
    variants = _in_order(experiment.variants)
    found = [[experiment.compared.get((one, case)) for case in cases] for one in variants]
    known = [one.speed_up for row in found for one in row if one and one.is_ranked and one.speed_up]
    span = f"from {min(known):.3f} to {max(known):.3f}" if known else "none is known"
    unknown: list[list[float | None]] = [[None] * len(cases)] * 2
    return Heat(
        key=key_of(f"experiment {series}", keys),
        title=title,
        says=f"{title}, by settings and message size: {span}.",
        column_title="message size",
        unit="% faster",
        rows=["default µs", "noise", *map(variant_name, variants)],
        columns=[case.size_words() for case in cases],
        values=[*unknown, *([_percent_faster(one) for one in row] for row in found)],
        texts=[
            [_default_time_text(experiment, case) for case in cases],
            [_noise_text(experiment, case) or "unknown" for case in cases],
            *([_speed_up_words(one) for one in row] for row in found),
        ],
        numbers=[
            [_default_time_text(experiment, case) for case in cases],
            [_noise_text(experiment, case) or "unknown" for case in cases],
            *([_speed_up_text(one) for one in row] for row in found),
        ],
        hover=[
            *([[""] * len(cases)] * 2),
            *(
                [
                    _details(one, _noise_text(experiment, case))
                    for one, case in zip(row, cases, strict=True)
                ]
                for row in found
            ),
        ],
        centred=True,
        least_span=_LEAST_SPAN_PERCENT,
        notes=[
            "Only speed-ups that are faster or slower beyond the noise have a colour: by how many "
            "percent the variant is faster than the default, negative if it is slower."
        ],
        wrong=[
            (place + 2, column)
            for place, row in enumerate(found)
            for column, one in enumerate(row)
            if one is not None and one.effect in ("failed", "wrong")
        ],
    )


def _notes(experiment: Experiment) -> Iterator[str]:
    """How speed-ups are to be read."""
    number = len(experiment.variants)
    if not number or not experiment.cases:
        return
    yield (
        "speed-up: the time of the default over that of the variant, in parentheses its 95 % "
        "interval; variants without a speed-up are not ranked"
    )
    if number > 1 and any(map(experiment.fastest, experiment.cases)):
        yield (
            f"the fastest variant of a size is the best of {number}, which makes its interval "
            "optimistic"
        )


def _of_fastest(experiment: Experiment) -> Iterator[Finding]:
    """For each size the fastest variant with its interval and what ran, or that none is faster."""
    for cases in experiment.groups:
        series = cases[0].series().group_words()
        subject = f"{series}, the fastest variant of each size"
        found = [(case.size_words(), experiment.fastest(case)) for case in cases]
        for size, best in found:
            if best is not None:
                text = f"{size}: {variant_name(best.variant)}: {_interval_text(best)}"
                yield Finding(
                    "faster-variant",
                    "note",
                    plain(f"{text}{_what_ran(best)}"),
                    subject,
                    evidence=_speed_ups([best]),
                    gain=gain_of(best.estimate, f"{series} {size}", rounds=0),
                )
        others = by_key(
            ("; ".join(experiment.not_compared(case)), case)
            for case in cases
            if experiment.fastest(case) is None
        )
        for reason, own in others.items():
            names = [case.size_words() for case in own]
            where = f" at {', '.join(names)}" if names != ["-"] else ""
            text = f"no variant was proven to be faster than the default{where}"
            if reason:
                text = f"no variant could be compared with the default{where}: {plain(reason)}"
            is_all = len(own) == len(cases)
            best_of = [best for case in own for best in experiment.ranked(case)[:1]]
            yield Finding(
                "nothing-faster",
                "unknown" if reason else "note",
                f"{series}: {text}" if is_all else text,
                "" if is_all else subject,
                evidence=(*_intervals(best_of[:_MOST_NAMED]), *_noise(experiment, own)),
            )


def _speed_ups(found: Sequence[VariantResult]) -> tuple[Evidence, ...]:
    """The speed-ups over the default that are known."""
    named = ((one, f"{one.case.describe()}, {variant_name(one.variant)}") for one in found)
    return tuple(
        Evidence.of("speed_up", one.speed_up, at, 1)
        for one, at in named
        if one.speed_up is not None
    )


def _intervals(found: Sequence[VariantResult]) -> Iterator[Evidence]:
    """The speed-ups over the default that are known, with their intervals."""
    for one in found:
        if one.estimate is not None:
            at = f"{one.case.describe()}, {variant_name(one.variant)}"
            yield from evidence_of_speed_up(one.estimate, at)


def _noise(experiment: Experiment, cases: Sequence[Case]) -> Iterator[Evidence]:
    """How much the default differs from itself in each case, as far as that was measured."""
    for case in [one for one in cases if one in experiment.controls][:_MOST_NAMED]:
        noise = noise_floor(experiment.controls[case])
        yield Evidence.of("noise_percent", noise, case.describe(), MOST_NOISE)


def _what_ran(best: VariantResult) -> str:
    """What the library ran with the fastest variant and by default, and a remark on its setting."""
    usual = "" if best.usual is None else best.usual.choice_with_channels
    instead = f" instead of {usual}" if usual and usual != best.ran else ""
    ran = f"; {best.ran}{instead}" if best.ran else ""
    return f"{ran}; {best.reason}" if best.reason else ran


def _of_noise(experiment: Experiment) -> Iterator[Finding]:
    """Where the machine was too noisy, the worst size first, and what to do."""
    noisy = [case for case in experiment.cases if experiment.is_too_noisy(case)]
    if not noisy or not experiment.variants:
        return
    noisy.sort(key=lambda case: -noise_floor(experiment.controls[case]))
    worst = noise_floor(experiment.controls[noisy[0]])
    yield Finding(
        "too-noisy",
        "look",
        f"too noisy: the default differs from itself by up to ±{worst * 100:.1f} % "
        f"({_named(noisy)}): smaller differences of these sizes are inconclusive",
        advice="end other work on the machine, use at most as many host ranks as processors, or "
        "measure longer with more --rounds and --max-time",
        evidence=(Evidence.of("noise_percent", worst, noisy[0].describe(), MOST_NOISE),),
    )


def _of_variants(experiment: Experiment, effects: Sequence[str]) -> Iterator[Finding]:
    """What did not take effect, failed or was wrong, a sentence for each reason."""
    found: dict[tuple[str, str, str], list[Case]] = {}
    for (variant, case), result in experiment.compared.items():
        if result.effect in effects:
            key = (variant_name(variant), result.effect, result.reason)
            found.setdefault(key, []).append(case)
    for (name, effect, reason), cases in found.items():
        if effect == "wrong":
            text = f"wrong data with {name}: {reason} ({_named(cases)})"
            yield Finding("wrong-data", "bad", plain(text))
        else:
            text = f"{name}: {_NOTES[effect]}: {reason} ({_named(cases)})"
            yield Finding("variant-without-effect", "look", plain(text))


def _named(cases: Sequence[Case]) -> str:
    names = list(dict.fromkeys(f"{case.operation} {case.size_words()}" for case in cases))
    return abridged(names, _MOST_NAMED)


def variant_name(variant: Variant) -> str:
    """The variant as a label: files that tune wrote for its search and proof without their place.

    Their directory is part of the value in the journal.
    """
    return _OF_TUNE.sub("=", variant.describe())


def _speed_up_words(result: VariantResult | None) -> str:
    """The same, or the word for what noise decides."""
    is_noise = result is not None and result.effect == "inconclusive"
    return "inconclusive" if is_noise else _speed_up_text(result)


def _speed_up_text(result: VariantResult | None) -> str:
    """The speed-up of a variant, or why there is none: ``1.13``, ``no effect``."""
    if result is None:
        return ""
    if not result.is_ranked or result.speed_up is None:
        return _NOTES.get(result.effect, "-")
    return f"{result.speed_up:.3f}"


def _interval_text(result: VariantResult) -> str:
    """The speed-up with its interval: ``1.132 (1.121 to 1.143)``."""
    if result.speed_up is None or result.interval is None:
        return "unknown"
    low, high = result.interval
    return f"{result.speed_up:.3f} ({low:.3f} to {high:.3f})"


def _noise_text(experiment: Experiment, case: Case) -> str:
    """How far the default differs from itself: ``±0.8 %``; empty if it was not measured twice."""
    control = experiment.controls.get(case)
    return "" if control is None else f"±{noise_floor(control) * 100:.1f} %"


def _default_time_text(experiment: Experiment, case: Case) -> str:
    """The time of the default in microseconds, in which ratios are formed."""
    for variant in experiment.variants:
        result = experiment.compared.get((variant, case))
        if result is not None and result.default_times_s:
            times = sorted(result.default_times_s)
            return format_time_us(times[len(times) // 2])
    return us_text(experiment.defaults_s.get(case))


def _details(one: VariantResult | None, noise: str) -> str:
    """The interval, the verdict and what ran, for a cell of a page."""
    if one is None:
        return "not measured"
    reason = f": {one.reason}" if one.reason else ""
    ran = f"; {one.ran}" if one.ran else ""
    return f"{_interval_text(one)}, {one.effect}{reason}{ran}; noise {noise}"


def _percent_faster(one: VariantResult | None) -> float | None:
    """What a cell's colour means: 0 within the noise, None without a speed-up that counts."""
    if one is None or not one.is_ranked or one.speed_up is None:
        return None
    return (one.speed_up - 1) * 100 if one.effect in _CERTAIN else 0.0


def _in_order(variants: Sequence[Variant]) -> list[Variant]:
    """Variants of one number by number, for example of a bisection."""
    of_one = len({tuple(one.name for one in variant.assignments) for variant in variants}) == 1
    values = [[*{one.value for one in variant.assignments}] for variant in variants]
    if not of_one or not all(len(own) == 1 and re.fullmatch("[0-9]+", own[0]) for own in values):
        return list(variants)
    return sorted(variants, key=lambda variant: int(variant.assignments[0].value))


def _numbers(experiment: Experiment) -> str:
    """The numbers of variants, cases and rounds."""
    numbers = {
        "variant": len(experiment.variants),
        "case": len(experiment.cases),
        "round": experiment.rounds,
    }
    return ", ".join(counted(number, noun) for noun, number in numbers.items())


def _shares(result: BisectionResult) -> Iterator[Heat]:
    """The share of the best bandwidth of each value in each case."""
    found = result.found
    if found is None:
        return
    shares = [found.curve[value] for value in sorted(found.curve)]
    title = f"{result.name}: share of the best bandwidth"
    exceeds = any(one.ratio > _MORE_THAN_ALL for own in shares for one in own)
    yield Heat(
        key=key_of(f"bisection {result.name}", set()),
        title=title,
        says=f"{title}, by value and case.",
        column_title="case",
        unit="%",
        rows=[*map(str, sorted(found.curve))],
        columns=[*map(_case_name, result.cases)],
        values=[[one.ratio * 100 for one in own] for own in shares],
        texts=[[f"{one.ratio * 100:.1f} %" for one in own] for own in shares],
        hover=[[_share_text(one) for one in own] for own in shares],
        reasons=[_EXCEEDS] if exceeds else [],
    )


def _case_name(case: Case) -> str:
    return f"{case.operation} {format_size(case.size_bytes)}"


def _share_text(one: RatioEstimate) -> str:
    """A share of the best bandwidth with its interval."""
    if one.deviation == 0:
        return f"{one.ratio * 100:.1f} % (shares refer to this value)"
    return f"{one.ratio * 100:.1f} % ({one.low * 100:.1f} to {one.high * 100:.1f} %)"


def _of_bisection(result: BisectionResult) -> Iterator[Finding]:
    """The smallest value that keeps the share, or why it is not known."""
    found, name = result.found, result.name
    if found is None:
        return
    percent = f"{result.keep * 100:g} %"
    so_far = ""
    if not found.complete:
        so_far = "so far, "
        text = "the run ended before the result was certain; of the values measured up to then are"
        yield Finding("no-proof", "unknown", f"{text} {_decided(found, percent)}")
    if result.without_effect and set(found.curve) == set(result.without_effect):
        reason = next(iter(result.without_effect.values()))
        yield Finding("variant-without-effect", "look", f"{name} has no effect: {reason}")
        return
    share = f"{percent} of the best bandwidth at every size"
    if found.value is None:
        yield Finding("smallest-value", "note", f"{so_far}no value keeps {share}")
    else:
        yield from _of_value(
            result, found, found.value, f"is the smallest value that keeps {share}"
        )
    if found.elsewhere:
        listed = ", ".join(map(str, found.elsewhere))
        text = f"smaller values keep it too, although values between do not: {listed}"
        yield Finding("smallest-value", "note", text)
    reasons = by_key((reason, value) for value, reason in sorted(result.without_effect.items()))
    for reason, values in reasons.items():
        text = f"no effect with {', '.join(map(str, values))}: {reason}"
        yield Finding("variant-without-effect", "note", text)
    if found.failed:
        text = f"failed: {', '.join(map(str, sorted(found.failed)))}"
        yield Finding("variant-without-effect", "look", text)


def _of_value(
    result: BisectionResult, found: Bisected, value: int, keeps: str
) -> Iterator[Finding]:
    """The smallest value with its smallest share, and whether that is certain."""
    keep, shares = result.keep, found.curve[value]
    worst = min(range(len(shares)), key=lambda place: shares[place].ratio)
    one, at = shares[worst], _case_name(result.cases[worst])
    so_far = "" if found.complete else "so far, "
    evidence = Evidence.of("share_percent", one.ratio, at, keep)
    if_another = min(_shares_if_another_is_best(found, value), default=1.0)
    least = keep - max(_LEAST_DOUBT, (1 - keep) / 2)
    is_certain = min(one.low, if_another) >= least
    named = f"{result.name}={value}"
    severity: Severity = "good" if is_certain and found.complete else "note"
    yield Finding("smallest-value", severity, f"{so_far}{named} {keeps}", evidence=(evidence,))
    text = f"the smallest share of {named} is {_share_text(one)} at {at}"
    yield Finding("smallest-value", "note", text)
    if not is_certain:
        cause = "that share may be smaller than requested"
        if one.low >= least:
            cause = f"another value may be the best one, of whose bandwidth {value} has "
            cause += f"{if_another * 100:.1f} %"
        yield Finding(
            "uncertain-value",
            "unknown",
            f"not certain, because {cause}",
            advice="repeat the search on an idle machine, or measure longer (--max-time)",
        )


def _shares_if_another_is_best(found: Bisected, value: int) -> list[float]:
    """The smallest share of the value at each size where shares refer to it.

    Another value, which may be faster, is then the best one.
    """
    best = []
    for size, own in enumerate(found.curve[value]):
        if own.deviation == 0:
            others = [one[size].high for at, one in found.curve.items() if at not in found.below]
            best.append(1 / max(others, default=1.0))
    return best


def _decided(found: Bisected, percent: str) -> str:
    """Which of the measured values certainly keep the share, and which certainly do not."""
    undecided = sorted(set(found.curve) - {*found.below, *found.above})
    groups = (
        (f"certainly below {percent} at a size", found.below),
        (f"certainly {percent} or more at every size", found.above),
        ("not decided", undecided),
    )
    return "; ".join(
        f"{words}: {', '.join(map(str, values))}" for words, values in groups if values
    )


def _titled(runs: Sequence[NamedRun]) -> str:
    """The operations, and the varied settings unless tune has chosen them."""
    results = [result for run in runs for result in run.journal.of(TrialResult)]
    operations = dict.fromkeys(one.trial.case.operation for one in results)
    names = dict.fromkeys(
        assignment.name for one in results for assignment in one.trial.variant.assignments
    )
    if any(one.trial.stage for one in results):
        return f"tuning of {', '.join(operations)}"
    varied = f" with {', '.join(names)}" if names else ""
    return f"experiment on {', '.join(operations)}{varied}"


def _headline(run: NamedRun) -> str:
    """The conclusion of an adaptive run, else the largest speed-up that counts."""
    if bisection := found_in(run.journal.footer, BisectionResult):
        return sentence(next(iter(_of_bisection(bisection))).sentence)
    if conclusion := conclusion_lines(run.journal.footer):
        found = [line.strip() for line in conclusion if _CONCLUDES.search(line)]
        return sentence("; ".join(found[:_MOST_CONCLUDED]) or "the result is below")
    trials = run.journal.of(TrialResult)
    if not any(one.is_measured for one in trials):
        return ""
    best = _best_of(experiment_of(trials, run.journal.header.settings.timing))
    if best is None:
        return "No variant is proven to be faster than the default."
    return (
        f"{variant_name(best.variant)} is {_interval_text(best)} times as fast as the default for "
        f"{best.case.describe()}."
    )


def _best_of(experiment: Experiment) -> VariantResult | None:
    """The largest speed-up of all cases that counts."""
    faster = [best for case in experiment.cases if (best := experiment.fastest(case)) is not None]
    return max(faster, key=lambda one: one.speed_up or 0.0, default=None)


def _counted(journal: Journal) -> str:
    variants = {
        one.trial.variant for one in journal.of(TrialResult) if not one.trial.variant.is_default
    }
    return f"{amount(len(journal.results), 'trial')} of {amount(len(variants), 'variant')}"


REPORT = ReportKind(
    noun="trials",
    title="experiments",
    has_times=False,
    fields=FIELDS,
    document=document_of_experiment,
    counted=_counted,
    headline=_headline,
    titled=_titled,
    method=method_of,
)
