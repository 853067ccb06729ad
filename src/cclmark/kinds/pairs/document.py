"""What a run of pairs says, and the fields of its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from cclmark.analysis.outliers import times_mean_little
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Block,
    Document,
    Evidence,
    Finding,
    HeadFigure,
    RunContent,
    Table,
)
from cclmark.document.case_fields import (
    EXPORTED_CASES,
    METHOD_OF_CASES,
    PAIR_FIELDS,
    case_cells,
    measure_case,
    notes_on_cases,
    title_of_cases,
)
from cclmark.document.chart_model import ChartCurve, Heat, Lines, key_of
from cclmark.document.deviations import (
    OTHER_LINKS,
    TOO_FEW_PAIRS,
    extremes,
    least_span,
    link_advice,
    pairs_alike,
    relative,
)
from cclmark.document.device_labels import device_labels, pair_name, way_between
from cclmark.document.explained import RAN_NOTE, tables_of_pairs
from cclmark.document.head import method_of
from cclmark.document.insight_words import amount
from cclmark.document.naming import NamedRun
from cclmark.document.remarks import outcome_of_cases
from cclmark.document.report_kind import ReportKind
from cclmark.document.sample_columns import CASE_SAMPLES
from cclmark.document.soundness import (
    nothing_wrong,
    of_data,
    of_noise,
    of_paths,
    of_statuses,
    of_tails,
    of_what_ran,
)
from cclmark.document.text import BYTES_PER_GB, UNSETTLED, UNSETTLED_NOTE, US_PER_S, figure
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header, Summary
from cclmark.kinds.pairs.figures import (
    PairDeviation,
    PairPoint,
    PairSweep,
    at_once,
    compared_pairs,
    pair_outliers,
    sweeps,
)
from cclmark.work.cases import Case
from cclmark.work.pair_cases import Pair
from cclmark.work.sizes import format_size

_ROOTED = {
    "broadcast": "the row's device is the root and sends to the column's",
    "send": "the row's device sends to the column's",
    "reduce": "the row's device is the root and gets the reduction of both",
}
_BETWEEN = {
    "ping_pong": "half of a round trip between the two devices",
    "sendrecv": "both devices send to each other at once",
}
_SIGNS = {"skipped": "n/a", "wrong": "WRONG", "timeout": "hung"}
_GIVEN_UP = ("timeout", "died")
_MOST_NAMED = 10
_MOST_REASONS = 20  # below the matrices of an operation
_LEAST_AT_ONCE = 4  # devices: with fewer, a round has only one pair
_LATENCY_BYTES = 64 << 10
_LATENCY_ADVICE = (
    "with messages this small the time depends more on the processors that launch operations than "
    "on links: it does not indicate a slow link"
)


def document_of_pairs(run: RunContent) -> Document:
    """Composes everything that a run says. Only the last pair completes a matrix."""
    results = cast("Sequence[CaseResult]", run.results)
    found = sweeps(results)
    names = names_of([sweep.series for sweep in found])
    named = [*zip(found, names, strict=True)]
    journal = Journal(run.header, results=[*results], paths=[*run.paths], footer=run.footer)
    findings = [*_findings(journal, named)]
    compared, rest = compared_pairs(found, run.header)
    findings += nothing_wrong(
        *(journal, findings),
        compared=compared > 0,
        lacking=TOO_FEW_PAIRS,
        unjudged=OTHER_LINKS * bool(rest),
    )
    return Document(
        "Collectives of pairs",
        method_of(run.header),
        [*_blocks(run, named)],
        findings,
        outcome_of_cases(run.header, results),
        any(one.status == "wrong" for one in results),
        noun="device",
        head_figures=[*_head_figures(found, run.header)],
    )


def names_of(series: Sequence[Case]) -> list[str]:
    """Names each series by its operation, its distinguishing properties, and in-place."""
    shared = {
        name: len({getattr(one, name) for one in series}) == 1
        for name in ("ccl", "dtype", "placement")
    }
    reductions = {one.reduction for one in series if one.reduction is not None}
    # Out-of-place is the default, so one placement for all is named only if it is the other one.
    shared["placement"] = shared["placement"] and not any(one.in_place for one in series)
    names = []
    for one in series:
        words = [one.operation]
        words += [getattr(one, name) for name, same in shared.items() if not same]
        words += [one.reduction] if one.reduction is not None and len(reductions) > 1 else []
        names.append(" ".join(words))
    return names


def _blocks(run: RunContent, named: Sequence[tuple[PairSweep, str]]) -> Iterator[Block]:
    devices = device_labels(run.header.devices)
    keys: set[str] = set()
    for sweep, name in named:
        yield from _heats(sweep, name, run.header, devices, keys)
    if (chart := _against_size(named)) is not None:
        yield chart
    if named:
        yield _medians(named, devices)
    results = cast("Sequence[CaseResult]", run.results)
    tables = tables_of_pairs(results, lambda case: way_between(case, devices))
    for table in tables:
        notes = [*table.notes, RAN_NOTE] if table is tables[-1] else table.notes
        yield replace(table, notes=notes)


def _heats(
    sweep: PairSweep, name: str, header: Header, devices: Sequence[str], keys: set[str]
) -> Iterator[Heat]:
    """Bandwidth and time of the largest size, and the time of the smallest."""
    ends = sweep.ends()
    maps = [(ends[-1], "GB/s"), (ends[-1], "µs"), *([(ends[0], "µs")] if len(ends) > 1 else [])]
    heats = [_heat(sweep, name, point, unit, header, devices, keys) for point, unit in maps]
    heats[1] = replace(heats[1], twin_of=heats[0].key)
    yield from heats[:-1]
    yield replace(heats[-1], reasons=_reasons(sweep, devices))


def _heat(
    sweep: PairSweep,
    name: str,
    point: PairPoint,
    unit: str,
    header: Header,
    devices: Sequence[str],
    keys: set[str],
) -> Heat:
    """The bandwidth or the time of each pair."""
    what, key, of = ("time", "time", _time_us)
    if unit == "GB/s":
        what, key, of = ("algbw", "bandwidth", _rate)
    size, numbers = format_size(point.size_bytes), range(len(devices))
    group = f"{name} · {plain(sweep.series.ccl)}"
    title = f"{group}: {what} [{unit}] at {size}"
    known = {place: of(summary) for place, summary in point.figures.items()}
    values = [[known.get((row, column)) for column in numbers] for row in numbers]
    texts = [[_text(known, point, (row, column)) for column in numbers] for row in numbers]
    kinds = {(one.first, one.second): one.kind for one in header.relations}
    return Heat(
        key=key_of(f"pairs {name} {key} {size}", keys),
        title=title,
        says=f"{title}. {extremes(values, unit, devices, devices)}",
        column_title="",
        unit=unit,
        rows=devices,
        columns=devices,
        values=values,
        texts=texts,
        hover=[
            [
                f"{text} {unit}, {kinds.get((row, column), '?')}"
                if (row, column) in known
                else text
                for column, text in enumerate(shown)
            ]
            for row, shown in enumerate(texts)
        ],
        higher_is_better=unit == "GB/s",
        least_span=least_span(values),
        wrong=[
            place
            for place, result in point.results.items()
            if place not in known and result.status != "skipped"
        ],
        meaning=[
            _meaning_of(sweep.series.operation),
            *([] if all(_is_settled(point, place) for place in known) else [UNSETTLED_NOTE]),
        ],
        group=group,
        of_devices=True,
    )


def _rate(summary: Summary) -> float:
    return summary.algbw_bytes_per_s / BYTES_PER_GB


def _time_us(summary: Summary) -> float:
    return summary.time_s * US_PER_S


def _text(known: Mapping[Pair, float], point: PairPoint, place: Pair) -> str:
    """A figure, or why there is none: x on the diagonal, - if nothing was measured (yet)."""
    if place in known:
        return f"{'' if _is_settled(point, place) else UNSETTLED}{figure(known[place])}"
    if place[0] == place[1]:
        return "x"
    result = point.results.get(place)
    return "-" if result is None else _sign_of(result)


def _is_settled(point: PairPoint, place: Pair) -> bool:
    result = point.results.get(place)
    return result is None or result.converged


def _sign_of(result: CaseResult) -> str:
    return _SIGNS.get(result.status, result.status)


def _meaning_of(operation: str) -> str:
    """The meaning of rows and columns."""
    if operation in _ROOTED:
        return _ROOTED[operation]
    return _BETWEEN.get(operation, "one figure for each pair, in both of its cells")


def _reasons(sweep: PairSweep, devices: Sequence[str]) -> list[str]:
    """Why cases have no figures: the sign in the cells, the size or pair; then wrong elements."""
    groups: dict[tuple[str, str, str], list[Case]] = {}
    wrong: dict[str, None] = {}
    for point in sweep.points:
        for case, result in {one.case: one for one in point.results.values()}.items():
            if result.summary is None and case.pair is not None:
                about = format_size(case.size_bytes)
                if result.status in _GIVEN_UP:
                    about = pair_name(case.pair, case.operation, devices)
                groups.setdefault((_sign_of(result), about, result.reason), []).append(case)
        for result in point.results.values():
            beside = f" (with {amount(result.beside, 'other pair')} at work)" * bool(result.beside)
            for one in result.verification.findings if result.verification is not None else ():
                wrong[
                    f"{_case_text(result.case, devices)}: {devices[one.rank]} got {one.wrong} "
                    f"wrong, first at index {one.first_element}: expected {one.expected}, got "
                    f"{one.actual}{beside}"
                ] = None
    lines = [
        f"{sign}  {_case_text(cases[0], devices) if len(cases) == 1 else about}: {reason}"
        for (sign, about, reason), cases in groups.items()
    ]
    lines += wrong
    more = len(lines) - _MOST_REASONS
    return [*lines[:_MOST_REASONS], *([f"{more} more: see the journal"] if more > 0 else [])]


def _case_text(case: Case, devices: Sequence[str]) -> str:
    return f"{format_size(case.size_bytes)} {way_between(case, devices)}"


def _against_size(named: Sequence[tuple[PairSweep, str]]) -> Lines | None:
    """The bandwidths of all operations by size; None for one size."""
    series = [
        ChartCurve(
            name=name,
            x=[point.size_bytes for point in points],
            y=[(point.bytes_per_s or 0.0) / BYTES_PER_GB for point in points],
            colour=number,
        )
        for number, (sweep, name) in enumerate(named)
        if (points := [one for one in sweep.measured if one.bytes_per_s])
    ]
    if len({size for one in series for size in one.x}) < 2:
        return None
    title = "Algorithm bandwidth against size, of the median time over the pairs [GB/s]"
    return Lines(
        key="pairs-bandwidth",
        title=title,
        says=f"{title}: a curve for each operation.",
        x_title="message size",
        y_title="algorithm bandwidth [GB/s]",
        series=series,
        in_texts=True,
    )


def _medians(named: Sequence[tuple[PairSweep, str]], devices: Sequence[str]) -> Table:
    """The bandwidth of each operation at the largest size, and its time at the smallest."""
    rows = []
    for sweep, name in named:
        if not (points := sweep.measured):
            statuses = {result.status for result in sweep.points[-1].results.values()}
            what = "every pair was wrong" if "wrong" in statuses else "nothing was measured"
            rows.append([name, what, *[""] * 5])
            continue
        largest, smallest = points[-1], points[0]
        rates = {place: _rate(summary) for place, summary in largest.once.items()}
        ends = [min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)]
        texts = [
            f"{figure(rates[place])} ({pair_name(place, sweep.series.operation, devices)})"
            for place in ends
        ]
        rows.append(
            [
                *(name, figure((largest.bytes_per_s or 0.0) / BYTES_PER_GB)),
                *(format_size(largest.size_bytes), *(texts if len(rates) > 1 else ("", ""))),
                *(figure((smallest.time_s or 0.0) * US_PER_S), format_size(smallest.size_bytes)),
            ]
        )
    head = ("operation", "algbw GB/s", "at", "lowest", "highest", "time µs", "at")
    return Table(
        "median over the pairs, at the largest and the smallest size", head, rows, "<>>>>>>"
    )


def _findings(journal: Journal, named: Sequence[tuple[PairSweep, str]]) -> Iterator[Finding]:
    results = journal.cases
    # Texts have the cases and their elements below matrices.
    for one in of_data(journal, results, with_elements=False):
        yield replace(one, is_outcome=one.severity == "good")
    for one in of_statuses(results):
        yield replace(one, is_outcome=one.severity == "note")
    yield from _standing_out(journal, named)
    yield from of_paths(journal)
    # Tables have what ran, and its reasons.
    yield from (replace(one, is_outcome=True) for one in of_what_ran(journal))
    yield from of_noise(journal)
    yield from of_tails(journal)
    yield from _at_once(journal.header, results)


def _standing_out(journal: Journal, named: Sequence[tuple[PairSweep, str]]) -> Iterator[Finding]:
    """The pairs that stand out among those with the same kind of link, the slowest first."""
    found = [sweep for sweep, _ in named]
    names = {sweep.series: name for sweep, name in named}
    devices = device_labels(journal.header.devices)
    outliers = pair_outliers(found, journal.header)
    compared, rest = compared_pairs(found, journal.header)
    if not outliers and compared and not times_mean_little(journal.header):
        yield pairs_alike("no pair of devices", rest)
    advised: set[str] = set()
    for one in outliers[:_MOST_NAMED]:
        pair = pair_name(one.pair, one.series.operation, devices)
        what = f"{names[one.series]}, {format_size(one.size_bytes)}"
        slow = one.time_s > one.usual_s
        large = one.size_bytes >= _LATENCY_BYTES
        advice = (link_advice(journal) if large else _LATENCY_ADVICE) if slow else ""
        own = "" if advice in advised else advice
        advised.add(advice)
        yield Finding(
            "slow-pair" if slow else "fast-pair",
            "look" if slow and large else "note",
            f"{pair}: {_deviation(one)}: {what}",
            advice=own,
            evidence=(_evidence(one, pair),),
        )
    if len(outliers) > _MOST_NAMED:
        text = f"{len(outliers) - _MOST_NAMED} more pairs and sizes stand out"
        yield Finding("more-pairs", "note", text)


def _evidence(one: PairDeviation, pair: str) -> Evidence:
    at = f"{pair}, {format_size(one.size_bytes)}"
    return Evidence.of("time_us", one.time_s, at, one.usual_s)


def _deviation(one: PairDeviation) -> str:
    return (
        f"{figure(one.time_s * US_PER_S)} µs, usual for {one.kind} "
        f"{figure(one.usual_s * US_PER_S)} µs "
        f"({relative(one.time_s, one.usual_s, lower_is_better=True)})"
    )


def _at_once(header: Header, results: Sequence[CaseResult]) -> Iterator[Finding]:
    """How many cases were measured beside other pairs, and the effect on times."""
    found = at_once(results)
    if found is not None:
        text = (
            f"{found.kept} of {len(results)} cases were measured with other pairs at work, because "
            "a message of another size took the same pairs "
            f"{found.median_ratio - 1:+.1%} (median), {found.worst_ratio - 1:+.1%} (worst) longer "
            "so than alone"
        )
        ratios = {"median": found.median_ratio, "worst": found.worst_ratio}
        evidence = tuple(Evidence.of("at_once_ratio", one, at, 1) for at, one in ratios.items())
        yield Finding("pairs-at-once", "note", text, evidence=evidence)
    elif len(header.devices) >= _LEAST_AT_ONCE and results and not header.settings.one_by_one:
        yield Finding("pairs-at-once", "note", "every pair was measured alone")


def _usual(found: Sequence[PairSweep]) -> PairSweep | None:
    """The sweep of the best known operation that was measured."""
    measured = [one for one in found if one.measured and one.measured[-1].bytes_per_s]
    usual = [one for one in measured if one.series.operation == "all_reduce"]
    return next(iter(usual or measured), None)


def _head_figures(found: Sequence[PairSweep], header: Header) -> Iterator[HeadFigure]:
    """The bandwidths of the median and the slowest pair, and the time of the smallest message."""
    sweep = _usual(found)
    if sweep is None:
        return
    operation, largest, smallest = sweep.series.operation, sweep.measured[-1], sweep.measured[0]
    rate, size = (largest.bytes_per_s or 0.0) / BYTES_PER_GB, format_size(largest.size_bytes)
    pairs = amount(len(largest.once), "pair")
    yield HeadFigure(
        "median algorithm bandwidth", figure(rate), "GB/s", f"{operation} of {size}, {pairs}"
    )
    slowest = min(largest.once, key=lambda place: _rate(largest.once[place]))
    if len(largest.once) > 1 and _is_settled(largest, slowest):
        names = device_labels(header.devices)
        slowest_rate = figure(_rate(largest.once[slowest]))
        pair = pair_name(slowest, operation, names)
        yield HeadFigure("slowest pair", slowest_rate, "GB/s", pair)
    time_us, of = figure((smallest.time_s or 0.0) * US_PER_S), format_size(smallest.size_bytes)
    yield HeadFigure("smallest message", time_us, "µs", f"of {of}, the median of {pairs}")


def _headline(run: NamedRun) -> str:
    """The bandwidth between two devices."""
    sweep = _usual(sweeps([one for one in run.journal.cases if one.case.pair is not None]))
    if sweep is None:
        return ""
    point = sweep.measured[-1]
    rates = sorted(map(_rate, point.once.values()))
    return (
        f"{sweep.series.operation} between two devices: "
        f"{(point.bytes_per_s or 0.0) / BYTES_PER_GB:.1f} GB/s at "
        f"{format_size(point.size_bytes)}, the median of {amount(len(rates), 'pair')}, from "
        f"{rates[0]:.1f} to {rates[-1]:.1f}."
    )


REPORT = ReportKind(
    noun="pairs",
    title="pairs of ranks",
    has_times=True,
    fields=PAIR_FIELDS,
    exported=EXPORTED_CASES,
    samples=CASE_SAMPLES,
    document=document_of_pairs,
    needs_samples=False,
    measure=measure_case,
    counted=lambda journal: (
        f"{amount(len(journal.results), 'case')} between single pairs of devices"
    ),
    headline=_headline,
    titled=title_of_cases,
    method=method_of,
    method_words=METHOD_OF_CASES,
    page_cells=partial(case_cells, PAIR_FIELDS),
    page_notes=notes_on_cases,
)
