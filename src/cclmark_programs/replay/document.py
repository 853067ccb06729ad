"""What a run of replays says, and the fields of its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import cast

import msgspec

from cclmark.analysis.ratio import LEAST_RUNS
from cclmark.analysis.steps import slowest_of
from cclmark.base.grouping import abridged, by_key
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
)
from cclmark.document.case_fields import interval_fields, status_fields, wrong_field
from cclmark.document.fields import Field, Fields, TableField
from cclmark.document.finding_rules import gain_of, ratio_to_default, step_against
from cclmark.document.insight_words import amount
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import ReportKind
from cclmark.document.soundness import or_unlocated, wrong_data
from cclmark.document.text import TWO_ROUNDS, counted
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header, Summary
from cclmark.references.match import Match
from cclmark.work.cases import Case
from cclmark.work.operations import OPERATIONS, info_of
from cclmark.work.sizes import format_size
from cclmark.work.variants import LIBRARY
from cclmark_programs.replay.choices import DROP, FITTED, FIXED, KEEP, LARGE_ERROR, NEAREST
from cclmark_programs.replay.figures import (
    ReplaySummary,
    communication_of,
    span_of,
    step_of_result,
    summaries_of_replays,
    way_of,
)
from cclmark_programs.replay.plan import OriginalStep, Replay
from cclmark_programs.replay.result import ReplayedOperation, ReplayResult

_MS_PER_S = 1e3
_MOST_NAMES = 2


def beside_references(
    summaries: Sequence[ReplaySummary], header: Header | None, notes: ReferenceNotes
) -> Iterator[Finding]:
    """A finding on each group that has references.

    The ranks of a smaller group are not known, so it has references only if all devices are alike,
    on one host. The gain of an operation is its time less that of as many calls at the bandwidth of
    the nearest reference, nothing if it is faster. It is a gain of the step as far as the program
    waits for its communication, so at most.
    """
    if header is None or not summaries or summaries[0].span_s is None:
        return
    one = summaries[0]
    groups = by_key(
        (part.operation.group, part)
        for part in one.operations
        if (info := OPERATIONS.get(part.operation.operation)) is not None
        and (not info.of_two)
        and (1 < part.operation.group_ranks <= one.replay.ranks)
    )
    by_ranks = {one.replay.ranks: (header, notes)}
    for group, parts in groups.items():
        ranks = parts[0].operation.group_ranks
        if ranks not in by_ranks:
            own = _header_of(header, ranks)
            if own is None:
                continue
            by_ranks[ranks] = own, notes.for_other_devices()
        yield from _beside_reference(one, group, parts, *by_ranks[ranks])


def _header_of(header: Header, ranks: int) -> Header | None:
    """The header of a run on some of the devices, None if these are not alike or on one host."""
    alike = {(device.name, device.host) for device in header.devices}
    if len(alike) != 1 or len(header.hosts) > 1:
        return None
    return msgspec.structs.replace(header, devices=header.devices[:ranks])


def _beside_reference(
    one: ReplaySummary,
    group: int,
    parts: Sequence[ReplayedOperation],
    header: Header,
    notes: ReferenceNotes,
) -> Iterator[Finding]:
    matches = [(part, match) for part in parts if (match := _match(one, part, header, notes))]
    if not matches:
        return
    gain_s = sum(max(0.0, part.time_s - part.calls * match.time_s) for part, match in matches)
    step_s = one.step_s if one.step_s is not None else one.span_s
    assert step_s is not None
    names = list(dict.fromkeys(match.name_and_differences for _, match in matches))
    share = 100 * gain_s / step_s if step_s > 0 else 0.0
    ranks = parts[0].operation.group_ranks
    of = "" if ranks == one.replay.ranks else f" ({ranks} of {one.replay.ranks} ranks)"
    text = (
        f"if {len(matches)} of {counted(len(parts), 'operation')} of group {group}{of} ran at "
        f"reference bandwidth, the step would take at most {share:.1f} % "
        f"({gain_s * _MS_PER_S:.3f} ms) less: "
        f"{abridged(names, _MOST_NAMES, '; ')}"
    )
    yield _beside(text, Evidence.of("above_reference_ms", gain_s, f"group {group}{of}"))


def _match(
    one: ReplaySummary, part: ReplayedOperation, header: Header, notes: ReferenceNotes
) -> Match | None:
    own = part.operation
    if part.time_s <= 0:
        return None
    info = info_of(own.operation)
    case = Case(
        own.operation,
        one.replay.ccl,
        own.group_ranks,
        own.dtype,
        own.size_bytes,
        own.count,
        False,
        reduction="sum" if info.reduces else None,
        root=0 if info.rooted else None,
    )
    time_s = part.time_s / part.calls
    algbw = own.size_bytes / time_s
    summary = Summary(
        clock="device",
        time_s=time_s,
        min_s=time_s,
        p95_s=time_s,
        p99_s=time_s,
        max_s=time_s,
        samples=one.steps,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * info.bus_factor(own.group_ranks),
    )
    return notes.nearest(case, summary, header)


_LONGEST_NAME = 64
_GAPS = {
    KEEP: "each call begins as long after the last call that had ended before it as in the program",
    FIXED: "each call begins at its moment in the program, or when the one before it has ended",
    DROP: "calls follow each other at once",
}
_SHORT_S = 1e-4
_LARGE_CHANGE = 9.0  # ten times as long
_LARGE_RATIO = 100
_MOST_TRIED = 3
_LEAST_OF_MEDIAN = 2
_HEAD = (
    *("variant", "communication ms", "first to last ms", "95 % interval", "step ms"),
    "to default",
)
_HEAD_OF_OPERATIONS = (
    *("group", "operation", "type", "size", "calls", "program ms", "replay ms", "ratio"),
    "of single calls",
)
_FITS = {FITTED: "fitted to", NEAREST: "nothing fits; this is nearest to"}


def _program_communication_s(result: ReplayResult) -> float | None:
    own_s = result.replay.original.communication_s
    return sum(own_s) / len(own_s) if own_s else None


def _program_span_s(result: ReplayResult) -> float | None:
    original = result.replay.original
    return max(original.span_s) if original.communication_s else None


def _span_interval_s(result: ReplayResult, end: int) -> float | None:
    interval = median_interval(slowest_of(result.span_s)) if result.is_measured else None
    return None if interval is None else interval[end]


FIELDS = Fields(
    [
        Field(
            "variant", "Settings of the variant.", lambda one: one.replay.variant.describe(), "text"
        ),
        Field("round", "Number of the round, from 1.", lambda one: one.replay.round + 1, "int"),
        Field("ccl", "Library that performs the calls.", lambda one: one.replay.ccl, "text"),
        Field("ranks", "Ranks of the program.", lambda one: one.replay.ranks, "int"),
        Field("program", "Name of the profile.", lambda one: one.replay.program, "text"),
        Field(
            "calls",
            "Calls in a step, of the rank that makes most.",
            lambda one: one.replay.calls,
            "int",
        ),
        Field("groups", "Communicators of the program.", lambda one: one.replay.groups, "int"),
        Field(
            "gaps", "When calls begin: keep, fixed or drop.", lambda one: one.replay.gaps, "text"
        ),
        TableField("compute", "What runs beside the calls.", lambda one: one.replay.beside, "text"),
        TableField(
            "fit",
            "Whether the gaps and what runs beside were fitted to the program: fitted, or nearest.",
            lambda one: one.replay.fit,
            "text",
        ),
        *status_fields("reason"),
        Field(
            "communication_ms",
            "Time of one step of a program in which at least one call runs.",
            lambda one: communication_of(one) if one.is_measured else None,
            gauge="communication_seconds",
        ),
        Field(
            "program_communication_ms",
            "Time of one step of the program in which at least one call ran, mean of the ranks.",
            _program_communication_s,
        ),
        Field(
            "span_ms",
            "Time from the first call of a step to the end of the last one.",
            lambda one: span_of(one) if one.is_measured else None,
            gauge="span_seconds",
        ),
        *interval_fields(
            "span_ms", lambda one: _span_interval_s(one, 0), lambda one: _span_interval_s(one, 1)
        ),
        Field(
            "program_span_ms",
            "Time from the first call of a step to the end of the last one in the program.",
            _program_span_s,
        ),
        Field(
            "step_ms",
            "Time of one step of a program.",
            lambda one: step_of_result(one) if one.is_measured else None,
            gauge="step_seconds",
        ),
        Field(
            "program_step_ms",
            "Time of one step of the program itself.",
            lambda one: max(one.replay.original.step_s, default=None),
        ),
        TableField(
            "enqueue_ms",
            "Time of the host to enqueue the calls of a step.",
            lambda one: one.enqueue_s if one.is_measured else None,
        ),
        Field(
            "steps",
            "Steps that were timed.",
            lambda one: len(one.span_s[0]) if one.is_measured else None,
            "int",
        ),
        replace(wrong_field(), on_page=False),
    ],
    gauges="cclmark_replay",
    labels=("variant", "round", "ccl", "ranks", "program", "gaps"),
    noun="a replay",
)


def document_of_replays(run: RunContent) -> Document:
    """Composes everything that a run says."""
    results = cast("Sequence[ReplayResult]", run.results)
    summaries = summaries_of_replays(results)
    return Document(
        "Replay",
        method_of_replays(run.header),
        [*_blocks(summaries)] if summaries else [],
        [
            *or_unlocated(_wrong_findings(results), results),
            *_ratios(summaries),
            *errors_of(summaries),
            *_ranges(summaries),
            *beside_references(summaries, run.header, run.references),
            *_remarks(summaries),
        ],
        outcome_of_replays(results),
        any(one.status == "wrong" for one in results),
        head_figures=[*_head_figures(summaries[0])] if summaries else [],
    )


def _head_figures(one: ReplaySummary) -> Iterator[HeadFigure]:
    """The communication and the step of the default, beside those of the program."""
    times = (
        ("communication of a step", one.communication_s, one.program_communication_s),
        ("step", one.step_s, one.program_step_s),
    )
    doubt = "" if one.converged else ", precision not reached"
    for label, own_s, program_s in times:
        if own_s is not None:
            beside = "" if program_s is None else f"{ms(program_s)} ms in the program"
            note = f"{beside}{doubt}".removeprefix(", ")
            yield HeadFigure(label, ms(own_s), "ms", note)
    if one.communication_error is not None and one.communication_error < _LARGE_CHANGE:
        value = f"{one.communication_error * 100:+.1f}"
        yield HeadFigure("communication against the program", value, "%")


def _blocks(summaries: Sequence[ReplaySummary]) -> Iterator[Block]:
    yield table_of_replays(summaries)
    if summaries[0].operations:
        yield _operations(summaries[0])
    if bars := [*_bars(summaries)]:
        yield Bars("From the first call of a step to the last", "variant", bars)


def _bars(
    summaries: Sequence[ReplaySummary],
) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Communication and the rest between the first and the last call, of each variant."""
    one = summaries[0]
    if one.program_communication_s is not None:
        yield "the program", _parts(one.program_communication_s, max(one.replay.original.span_s))
    for each in summaries:
        if each.communication_s is not None and each.span_s is not None:
            yield name_of_replay(each), _parts(each.communication_s, each.span_s)


def _parts(communication_s: float, span_s: float) -> list[tuple[str, float]]:
    found = [("communication", communication_s)]
    if span_s > communication_s:
        found.append(("gaps", span_s - communication_s))
    return found


def _beside(text: str, *evidence: Evidence) -> Finding:
    return Finding("replay-beside-program", "note", text, evidence=evidence)


def _ratio(one: ReplaySummary) -> Evidence:
    assert one.ratio is not None
    return Evidence.of("ratio", one.ratio.ratio, name_of_replay(one), 1)


def _ratios(summaries: Sequence[ReplaySummary]) -> Iterator[Finding]:
    """How much longer a step takes with each variant than with its default."""
    for one in summaries:
        if one.ratio is not None:
            own = (each for each in summaries if each.variant.is_default and each.way == one.way)
            default = next(own, summaries[0])
            name = name_of_replay(one)
            text, severity = step_against(one.ratio, name, name_of_replay(default))
            beside, gain = _beside(text, _ratio(one)), gain_of(one.ratio, name)
            yield replace(beside, severity=severity, gain=gain)


def method_of_replays(header: Header) -> str:
    """Describes in a line how replays were measured."""
    settings = header.settings
    if settings.iterations is not None:
        length = f"{settings.iterations} timed steps"
    else:
        length = f"steps until the median is known to ±{settings.precision * 100:g} % (95 %)"
    check = "every call of a step checked before" if settings.check else "no data checked"
    return f"{length}, slowest rank, {check}"


def gaps_line(one: Replay) -> str:
    """What happens between the calls."""
    beside = f", beside {one.beside}" if one.beside else ""
    if not one.fit:
        return _GAPS[one.gaps] + beside
    times = "communication and step" if one.original.step_s else "communication"
    return f"{_GAPS[one.gaps]}{beside} ({_FITS[one.fit]} the program's {times})"


def gaps_lines(summaries: Sequence[ReplaySummary]) -> list[str]:
    """What happens between the calls; of several ways, unless they are many, each with its name."""
    if not summaries or not summaries[0].way:
        return [gaps_line(one.replay) for one in summaries[:1]]
    ways = {one.way: one.replay for one in summaries}
    if len(ways) > len(_GAPS):
        return []
    return [f"{way}: {gaps_line(replay)}" for way, replay in ways.items()]


def _ranges(summaries: Sequence[ReplaySummary]) -> Iterator[Finding]:
    """Between which ratios the step of the program is expected with each variant."""
    for variant in dict.fromkeys(one.variant for one in summaries if one.way):
        by_gaps = {
            one.replay.gaps: one
            for one in summaries
            if one.variant == variant and one.ratio is not None
        }
        if not {KEEP, FIXED} <= by_gaps.keys():
            continue
        waits = {KEEP: "computation waits for communication", FIXED: "it does not"}
        ends = [
            f"{ratio_to_default(one.ratio)} times as long ({gaps}: {words}{_doubt(one)})"
            for one, gaps, words in ((by_gaps[gaps], gaps, waits[gaps]) for gaps in waits)
        ]
        text = (
            f"with {plain(variant.describe())} a step of the program is expected to take between "
            f"{' and '.join(ends)}"
        )
        yield _beside(text, *(_ratio(by_gaps[gaps]) for gaps in waits))


def _doubt(one: ReplaySummary) -> str:
    return "" if one.replay.fit == FITTED else ", and does not fit the program"


def fit_notice(chosen: Replay, tried: Sequence[ReplaySummary]) -> str:
    """The candidates beside and between the calls, with their errors, the smallest first."""
    texts = {way_of(one.replay): _errors(one) for one in tried}
    own = way_of(chosen)
    said = "chose" if chosen.fit == FITTED else "found nothing that fits; the nearest is"
    text = f"--compute fit {said} {own} ({texts.pop(own)})"
    others = [f"{way} ({errors})" for way, errors in texts.items()]
    left = len(others) - _MOST_TRIED
    more = [f"{left} more"] if left > 0 else []
    return f"{text}; tried: {'; '.join([*others[:_MOST_TRIED], *more])}" if others else text


def _errors(one: ReplaySummary) -> str:
    step = "" if one.step_error is None else f", step {change_text(one.step_error)}"
    return f"communication {change_text(one.communication_error or 0.0)}{step}"


def name_of_replay(one: ReplaySummary) -> str:
    """The variant in words, by its library if that is what differs."""
    if one.variant.is_default or one.variant.value_of(LIBRARY):
        named = one.replay.ccl if not one.variant.value_of(LIBRARY) else ""
        text = one.variant.value_of(LIBRARY) or f"{named} (default)"
    else:
        text = one.variant.describe()
    return plain(f"{text}, {one.way}" if one.way else text)


def ms(time_s: float | None) -> str:
    """Milliseconds, short ones to 10 ns; a dash if unknown."""
    if time_s is None:
        return "-"
    return f"{time_s * _MS_PER_S:.{3 if time_s >= _SHORT_S else 5}f}"


def change_text(difference: float) -> str:
    """A relative difference in per cent, or how many times as long."""
    if difference < _LARGE_CHANGE:
        return f"{difference * 100:+.1f} %"
    return f"{difference + 1:,.0f} times as long"


def ratio_text(ratio: float) -> str:
    """A ratio, a large one without decimals."""
    return f"{ratio:.3f}" if ratio < _LARGE_RATIO else f"{ratio:,.0f}"


def table_of_replays(summaries: Sequence[ReplaySummary]) -> Table:
    """A row for the program, if its times are known, and for each variant."""
    one, rows = summaries[0], [_cells(each) for each in summaries]
    if one.program_communication_s is not None:
        original = one.replay.original
        times_s = (one.program_communication_s, max(original.span_s), one.program_step_s)
        communication, span, step = map(ms, times_s)
        rows.insert(0, [_program_name(original), communication, span, "", step, ""])
    shown = [True] * 4 + [any(each.step_s is not None for each in summaries), len(summaries) > 1]
    head, *rows = ([*compress(row, shown)] for row in (_HEAD, *rows))
    replay, sides = one.replay, "<" + ">" * (len(head) - 1)
    title = (
        f"a step of {replay.program}: {counted(replay.calls, 'call')} of a rank in "
        f"{counted(replay.groups, 'group')}, {counted(replay.ranks, 'rank')}"
    )
    return Table(title, head, rows, sides, gaps_lines(summaries))


def _cells(one: ReplaySummary) -> list[str]:
    name = name_of_replay(one)
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 1] + "…"
    interval = "-" if one.interval_s is None else " to ".join(map(ms, one.interval_s))
    times = (ms(one.communication_s), ms(one.span_s), interval, ms(one.step_s))
    return [name, *times, ratio_to_default(one.ratio)]


def _program_name(original: OriginalStep) -> str:
    """The row of the program, with the number of steps of which its figures are medians."""
    if original.steps < _LEAST_OF_MEDIAN:
        return "the program"
    return f"the program (median of {_steps_text(original)})"


def _steps_text(original: OriginalStep) -> str:
    """The number of steps, or of repetitions if they are not known to be steps."""
    return counted(original.steps, "step" if original.step_s else "repetition")


def _operations(one: ReplaySummary) -> Table:
    """A row for each operation of the step with the default."""
    rows = []
    for part in one.operations:
        own, known = part.operation, part.program_s > 0
        rows.append(
            [
                *(str(own.group), own.operation, own.dtype, format_size(own.size_bytes)),
                *(str(part.calls), ms(part.program_s) if known else "-", ms(part.time_s)),
                ratio_text(part.time_s / part.program_s) if known else "-",
                " to ".join(map(ratio_text, part.ratios)) if part.ratios else "-",
            ]
        )
    return Table("calls of a rank in a step", _HEAD_OF_OPERATIONS, rows, "><<<>>>>>")


def errors_of(summaries: Sequence[ReplaySummary]) -> Iterator[Finding]:
    """How far the replay is from the program."""
    one = summaries[0] if summaries else None
    if one is None or (one.span_s is None and one.replay.gaps != DROP):
        return
    if one.replay.gaps == DROP:
        yield _beside(
            "the time between calls is left out: the step consists of communication alone"
        )
        return
    step = "" if one.step_error is None else f"step {change_text(one.step_error)}"
    times = (
        ("communication_ms", one.communication_s, one.program_communication_s),
        ("step_ms", one.step_s, one.program_step_s),
    )
    beside = [
        Evidence.of(name, own_s, "the default", program_s)
        for name, own_s, program_s in times
        if own_s is not None and program_s is not None
    ]
    if one.communication_error is None:
        text = "the profile has no times of kernels: the replay cannot be compared with the program"
        if one.replay.original.span_s:
            text = (
                "the step consists of messages, whose whole times the profile does not contain: "
                f"the communication cannot be compared with the program's{f': {step}' * bool(step)}"
            )
        yield replace(_beside(text, *beside), severity="unknown")
        return
    text = f"replay against program: communication {change_text(one.communication_error)}"
    text += f", {step}" * bool(step) + _spread_text(one.replay.original)
    yield _beside(text, *beside)
    if one.traffic:
        busy = [blocks for blocks in one.traffic if blocks]
        yield _beside(
            f"memory traffic on {min(busy)} to {max(busy)} multiprocessors runs beside "
            f"{len(busy)} of {counted(len(one.traffic), 'call')} of all ranks, which takes longer "
            "in the program than alone"
            if busy
            else "no call takes longer in the program than alone: nothing runs beside them"
        )
    if abs(one.communication_error) > LARGE_ERROR:
        why = (
            "compute beside communication, which it leaves out"
            if one.replay.compute is None and not one.replay.traffic
            else "a compute that differs from the program's"
        )
        text = (
            f"the replay differs by more than 5 % from the program: {why}, or another machine, "
            "library or setting changes the time"
        )
        yield _beside(text, beside[0])


def _spread_text(original: OriginalStep) -> str:
    """How much the steps of the program differ, which the error cannot show."""
    if original.steps < _LEAST_OF_MEDIAN:
        return ""
    text = f" (medians of {_steps_text(original)} of the program"
    if original.quartiles_s:
        low_s, high_s = original.quartiles_s
        text += f"; half of them have {ms(low_s)} to {ms(high_s)} ms of communication"
    return f"{text})"


def _remarks(summaries: Sequence[ReplaySummary]) -> Iterator[Finding]:
    """What limits the figures."""
    for one in summaries:
        name, text = name_of_replay(one), ""
        if one.status != "ok":
            text = f"{one.status}: {plain(one.reason)}"
        elif one.is_host_bound:
            text = (
                "the host needs more than half of a step to enqueue its calls, which makes the "
                "times of calls longer"
            )
        elif not one.converged:
            text = "the median did not reach the requested precision; raise --max-time or --rounds"
        if text:
            yield Finding("limited-figures", "look", f"{name}: {text}")
    if any(one.rounds == LEAST_RUNS - 1 for one in summaries):
        yield Finding("limited-figures", "look", TWO_ROUNDS)


def _wrong_findings(results: Sequence[ReplayResult]) -> Iterator[Finding]:
    """The wrong elements of every result."""
    for result in results:
        findings = result.verification.findings if result.verification is not None else []
        for one in findings:
            at = f"rank {one.rank} with {plain(result.replay.variant.describe())}"
            text = (
                f"WRONG DATA on {at}: {counted(one.wrong, 'element')} of the step, the first is "
                f"element {one.first_element} of {plain(one.actual)}"
            )
            yield wrong_data(text, one.wrong, at)


def outcome_of_replays(results: Sequence[ReplayResult]) -> str:
    """The line about the checks."""
    measured = [one for one in results if one.is_measured]
    checked = sum(one.is_checked for one in measured)
    wrong = sum(one.status == "wrong" for one in measured)
    if wrong:
        return f"{wrong} of {counted(len(measured), 'replay')} with wrong data"
    if not checked:
        return f"{counted(len(measured), 'replay')} measured, no data checked"
    return f"{checked} of {counted(len(measured), 'replay')} checked, all right"


def _headline(run: NamedRun) -> str:
    """The communication of the default; empty if it was not measured."""
    summaries = summaries_of_replays(run.journal.of(ReplayResult))
    if not summaries or summaries[0].communication_s is None:
        return ""
    one = summaries[0]
    text = f"communication {ms(one.communication_s)} ms per step"
    if one.program_communication_s is not None:
        text += f", {ms(one.program_communication_s)} in the program"
    return text


def _titled(runs: Sequence[NamedRun]) -> str:
    """The names of the programs."""
    results = [result for run in runs for result in run.journal.of(ReplayResult)]
    return f"replay of {', '.join(dict.fromkeys(one.replay.program for one in results))}"


def _counted(journal: Journal) -> str:
    variants = {result.replay.variant for result in journal.of(ReplayResult)}
    return f"{amount(len(journal.results), 'replay')} of {amount(len(variants), 'variant')}"


REPORT = ReportKind(
    noun="replays",
    title="replays",
    has_times=False,
    fields=FIELDS,
    counted=_counted,
    headline=_headline,
    document=document_of_replays,
    titled=_titled,
    method=method_of_replays,
    by_session=False,
)
