"""Sentences and cells on replays, shared by all formats."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.ratio import LEAST_RUNS
from cclmark.analysis.replay_summaries import ReplaySummary, way_of
from cclmark.plan.replay_choices import DROP, FITTED, FIXED, KEEP, LARGE_ERROR, NEAREST
from cclmark.plan.replays import OriginalStep, Replay
from cclmark.plan.sizes import format_size
from cclmark.plan.variants import LIBRARY
from cclmark.printable import plain
from cclmark.report.wording.text import TWO_ROUNDS, counted
from cclmark.results.kinds import ReplayResult
from cclmark.results.schema import Header

_MS_PER_S = 1e3
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
_FITS = {FITTED: "fitted to", NEAREST: "nothing fits; this is nearest to"}


def method_of_replays(header: Header) -> str:
    """Describes in a line how replays were measured."""
    settings = header.settings
    if settings.iterations is not None:
        length = f"{settings.iterations} timed steps"
    else:
        length = f"steps until the median is known to ±{settings.precision * 100:g} % (95 %)"
    check = "every call of a step checked before" if settings.check else "no data checked"
    return f"{length}, slowest rank, {check}"


def title_of_replay(one: Replay) -> str:
    """Describes the replay in a line."""
    groups = counted(one.groups, "group")
    return (
        f"a step of {one.program}: {counted(one.calls, 'call')} of a rank in {groups}, "
        f"{counted(one.ranks, 'rank')}"
    )


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


def range_lines(summaries: Sequence[ReplaySummary]) -> list[str]:
    """Between which ratios the step of the program is expected with each variant."""
    found = []
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
            f"{ratio_of(by_gaps[gaps])} times as long ({gaps}: {words}{_doubt(by_gaps[gaps])})"
            for gaps, words in waits.items()
        ]
        found.append(
            f"with {plain(variant.describe())} a step of the program is expected to take between "
            f"{' and '.join(ends)}"
        )
    return found


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


def head_of_replays(summaries: Sequence[ReplaySummary]) -> list[str]:
    """The heads of the columns."""
    found = ["variant", "communication ms", "first to last ms", "95 % interval"]
    if any(one.step_s is not None for one in summaries):
        found.append("step ms")
    if len(summaries) > 1:
        found.append("to default")
    return found


def cells_of_replay(one: ReplaySummary, summaries: Sequence[ReplaySummary]) -> list[str]:
    """The cells of a variant."""
    name = name_of_replay(one)
    if len(name) > _LONGEST_NAME:
        name = name[: _LONGEST_NAME - 1] + "…"
    interval = "-"
    if one.interval_s is not None:
        interval = f"{ms(one.interval_s[0])} to {ms(one.interval_s[1])}"
    cells = [name, ms(one.communication_s), ms(one.span_s), interval]
    if any(each.step_s is not None for each in summaries):
        cells.append(ms(one.step_s))
    if len(summaries) > 1:
        cells.append(ratio_of(one))
    return cells


def ratio_of(one: ReplaySummary) -> str:
    """The ratio to the default, with its interval from three rounds on."""
    if one.ratio is None:
        return "-"
    if one.ratio.runs < LEAST_RUNS:
        return f"{one.ratio.ratio:.3f}"
    return f"{one.ratio.ratio:.3f} ({one.ratio.low:.3f} to {one.ratio.high:.3f})"


def program_cells(summaries: Sequence[ReplaySummary]) -> list[str]:
    """The row of the program itself; empty if its times are unknown."""
    one = summaries[0]
    if one.program_communication_s is None:
        return []
    span_s = max(one.replay.original.span_s)
    cells = [_program_name(one.replay.original), ms(one.program_communication_s), ms(span_s), ""]
    if any(each.step_s is not None for each in summaries):
        cells.append(ms(one.program_step_s))
    if len(summaries) > 1:
        cells.append("")
    return cells


def _program_name(original: OriginalStep) -> str:
    """The row of the program, with the number of steps of which its figures are medians."""
    if original.steps < _LEAST_OF_MEDIAN:
        return "the program"
    return f"the program (median of {_steps_text(original)})"


def _steps_text(original: OriginalStep) -> str:
    """The number of steps, or of repetitions if they are not known to be steps."""
    return counted(original.steps, "step" if original.step_s else "repetition")


def operation_head() -> list[str]:
    """The heads of the table of operations."""
    return [
        *("group", "operation", "type", "size", "calls", "program ms", "replay ms", "ratio"),
        "of single calls",
    ]


def operation_rows(one: ReplaySummary) -> list[list[str]]:
    """A row for each operation of the step with the default."""
    rows = []
    for part in one.operations:
        own = part.operation
        known = part.program_s > 0
        rows.append(
            [
                str(own.group),
                own.operation,
                own.dtype,
                format_size(own.size_bytes),
                str(part.calls),
                ms(part.program_s) if known else "-",
                ms(part.time_s),
                ratio_text(part.time_s / part.program_s) if known else "-",
                " to ".join(map(ratio_text, part.ratios)) if part.ratios else "-",
            ]
        )
    return rows


def error_lines(summaries: Sequence[ReplaySummary]) -> list[str]:
    """How far the replay is from the program."""
    if not summaries:
        return []
    one = summaries[0]
    if one.replay.gaps == DROP:
        return ["the time between calls is left out: the step consists of communication alone"]
    if one.communication_error is None:
        if one.span_s is None:
            return []
        return [
            "the profile has no times of kernels: the replay cannot be compared with the program"
        ]
    found = []
    if one.traffic:
        busy = [blocks for blocks in one.traffic if blocks]
        found.append(
            f"memory traffic on {min(busy)} to {max(busy)} multiprocessors runs beside "
            f"{len(busy)} of {counted(len(one.traffic), 'call')} of all ranks, which takes longer "
            "in the program than alone"
            if busy
            else "no call takes longer in the program than alone: nothing runs beside them"
        )
    text = f"replay against program: communication {change_text(one.communication_error)}"
    if one.step_error is not None:
        text += f", step {change_text(one.step_error)}"
    found.append(text + _spread_text(one.replay.original))
    if abs(one.communication_error) > LARGE_ERROR:
        beside = (
            "compute beside communication, which it leaves out"
            if one.replay.compute is None and not one.replay.traffic
            else "a compute that differs from the program's"
        )
        found.append(
            f"the replay differs by more than 5 % from the program: {beside}, or another machine, "
            "library or setting changes the time"
        )
    return found


def _spread_text(original: OriginalStep) -> str:
    """How much the steps of the program differ, which the error cannot show."""
    if original.steps < _LEAST_OF_MEDIAN:
        return ""
    text = f" (medians of {_steps_text(original)} of the program"
    if original.quartiles_s:
        low_s, high_s = original.quartiles_s
        text += f"; half of them have {ms(low_s)} to {ms(high_s)} ms of communication"
    return f"{text})"


def remarks_of_replays(summaries: Sequence[ReplaySummary]) -> list[str]:
    """What limits the figures."""
    found = []
    for one in summaries:
        if one.status != "ok":
            found.append(f"{name_of_replay(one)}: {one.status}: {plain(one.reason)}")
        elif one.is_host_bound:
            found.append(
                f"{name_of_replay(one)}: the host needs more than half of a step to enqueue its "
                "calls, which makes the times of calls longer"
            )
        elif not one.converged:
            found.append(
                f"{name_of_replay(one)}: the median did not reach the requested precision; raise "
                "--max-time or --rounds"
            )
    if any(one.rounds == LEAST_RUNS - 1 for one in summaries):
        found.append(TWO_ROUNDS)
    return found


def wrong_replay_lines(results: Sequence[ReplayResult]) -> list[str]:
    """The wrong elements of every result."""
    found = []
    for result in results:
        findings = result.verification.findings if result.verification is not None else []
        for one in findings:
            found.append(
                f"WRONG DATA on rank {one.rank} with {plain(result.replay.variant.describe())}: "
                f"{counted(one.wrong, 'element')} of the step, the first is element "
                f"{one.first_element} of {plain(one.actual)}"
            )
    return found


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
