"""Profiles on a page: operations, ranks, their time, one step, and what stands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.profiles import completed
from cclmark.analysis.steps import steps_of_profile
from cclmark.plan.sizes import format_size
from cclmark.document.naming import Run
from cclmark.document.columns import Cell
from cclmark.document.insight_words import Insight
from cclmark.document.page.page import PageTable, Section
from cclmark.document.page.stage_bars import StageBars, stage_bars
from cclmark.report.wording.profile_words import (
    OPERATION_HEAD,
    OPERATION_SIDES,
    PROCESS_HEAD,
    PROCESS_SIDES,
    choices_text,
    group_lines,
    operation_rows,
    process_rows,
    remarks_of,
    share_text,
    used_columns,
)
from cclmark.document.remarks import left_out
from cclmark.document.step_words import PROGRAM_HEAD, STEPS_TITLE, program_row, step_notes
from cclmark.document.text import US_PER_S
from cclmark.results.item_results import ProfileResult
from cclmark.results.schema import Profile, ProfileProcess, TracedStage

_MOST_TITLED = 4
_MOST_DRAWN, _MOST_RANKS = 256, 16  # calls of a rank, and ranks, of a drawing


def title_of_profiles(runs: Sequence[Run]) -> str:
    """Returns the operations."""
    names = dict.fromkeys(one.profiled.operation for run in runs for one in run.journal.profiled)
    more = "…" if len(names) > _MOST_TITLED else ""
    return f"Profile: {', '.join([*names][:_MOST_TITLED])}{more}"


def headline_of_profile(run: Run) -> str:
    """Returns the share of communication of the rank that has most; empty if it is unknown."""
    profile = run.journal.profile
    known = [
        one
        for one in (profile.processes if profile is not None else [])
        if one.communication_s is not None and one.span_s
    ]
    if not known:
        return ""
    most = max(known, key=lambda one: (one.communication_s or 0.0) / one.span_s)
    text = (
        f"Operations run for {share_text(most.communication_s, most.span_s)} of the time of rank "
        f"{most.rank}"
    )
    if most.exposed_s is not None:
        text += (
            f", and without other work of its device for {share_text(most.exposed_s, most.span_s)}"
        )
    return f"{text}."


def insights_on_profile(run: Run) -> list[Insight]:
    """Returns the program's failure, missing calls, and remarks."""
    journal = run.journal
    footer = journal.footer
    found = []
    if footer is None:
        found.append(Insight("look", "The journal has no end: its profile may be incomplete."))
    else:
        found += [Insight("bad", f"{_sentence(footer.message)}.")] * bool(footer.message)
        found += [Insight("bad", f"{_sentence(text)}.") for text in footer.problems]
    found += [
        Insight("look", f"{_sentence(text)}.")
        for text in remarks_of(journal.profiled, completed(journal.profile, journal.profiled))
    ]
    found += [Insight("note", f"{_sentence(text)}.") for text in journal.header.notices]
    found += [Insight("look", f"{_sentence(text)}.") for text in left_out(journal)]
    return found


def _sentence(text: str) -> str:
    is_name = "_" in text.partition(" ")[0]  # an operation keeps its spelling
    return (text if is_name else f"{text[:1].upper()}{text[1:]}").rstrip(".")


def profile_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the tables and drawings of every run."""
    sections = []
    for number, run in enumerate(runs):
        results = run.journal.profiled
        profile = completed(run.journal.profile, results)
        if not results:
            continue
        operations = _table(
            "Operations of a rank",
            OPERATION_HEAD,
            operation_rows(results, profile),
            OPERATION_SIDES,
        )
        ranks = _table("Ranks", PROCESS_HEAD, process_rows(results, profile), PROCESS_SIDES)
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        sections.append(
            Section(
                f"profile{mark}",
                f"Operations of the program{name}",
                [f"Group {line}." for line in group_lines(profile)],
                tables=[_steps(profile), operations, ranks],
                bars=[*_time_bars(profile), *_step_bars(profile, results)],
            )
        )
    return sections


def _steps(profile: Profile) -> PageTable:
    figures = steps_of_profile(profile)
    notes = [f"{_sentence(note)}." for note in step_notes(figures)]
    rows = [program_row(figures)]
    return PageTable(STEPS_TITLE.capitalize(), PROGRAM_HEAD, rows, len(PROGRAM_HEAD), notes)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> PageTable:
    used, used_sides = used_columns(head, rows, sides)
    numeric = len(used_sides) - (used_sides.rfind("<") + 1)
    return PageTable(title, used[0], used[1:], numeric)


def _time_bars(profile: Profile) -> list[StageBars]:
    """The parts of the time of each rank, one after another."""
    unit, numbers = drawn_numbers(profile)
    stages = {
        number: _parts(one)
        for number, one in zip(numbers, profile.processes, strict=True)
        if one.communication_s is not None
    }
    if not stages:
        return []
    return [stage_bars("Time of the ranks by its use", unit, stages)]


def drawn_numbers(profile: Profile) -> tuple[str, Sequence[int]]:
    """Returns what drawings name processes by: ranks, or their numbers where ranks are equal."""
    ranks = [one.rank for one in profile.processes]
    return ("rank", ranks) if len({*ranks}) == len(ranks) else ("process", range(len(ranks)))


def _parts(one: ProfileProcess) -> list[TracedStage]:
    communication_s = one.communication_s or 0.0
    if one.compute_s is None or one.exposed_s is None:
        parts = [("communication", communication_s), ("other", one.span_s - communication_s)]
    else:
        overlapped_s = communication_s - one.exposed_s
        parts = [
            ("compute alone", one.compute_s - overlapped_s),
            ("overlapped communication", overlapped_s),
            ("exposed communication", one.exposed_s),
            ("no work of the device", one.span_s - one.compute_s - one.exposed_s),
        ]
    found: list[TracedStage] = []
    for name, time_s in parts:
        begin_s = found[-1].begin_s + found[-1].time_s if found else 0.0
        found.append(TracedStage(name, begin_s, max(0.0, time_s)))
    return found


def _step_bars(profile: Profile, results: Sequence[ProfileResult]) -> list[StageBars]:
    """The calls of one step of each rank."""
    names = {
        one.index: f"{one.profiled.operation} {format_size(one.profiled.size_bytes)}"
        for one in results
    }
    unit, numbers = drawn_numbers(profile)
    stages = {
        number: [
            TracedStage(names.get(one.index, "?"), one.begin_s, one.time_s)
            for one in calls[:_MOST_DRAWN]
            if one.time_s
        ]
        for number, calls in zip(numbers, profile.window[:_MOST_RANKS], strict=False)
    }
    known = {rank: calls for rank, calls in stages.items() if calls}
    if not known:
        return []
    has_steps = any(one.steps for one in profile.processes)
    title = "Operations of one step" if has_steps else "Operations from the middle of the program"
    if any(len(calls) > _MOST_DRAWN for calls in profile.window[:_MOST_RANKS]):
        title = f"The first {_MOST_DRAWN} o{title[1:]}"
    return [stage_bars(title, unit, known)]


def cells_of_profile(run: Run, result: ProfileResult) -> Mapping[str, Cell]:
    """Returns the cells of an operation, over all processes."""
    operation = result.profiled
    times = [one.total_s for one in result.figures if one.total_s is not None]
    medians = [one.median_s for one in result.figures if one.median_s is not None]
    waits = [one.wait_s for one in result.figures if one.wait_s is not None]
    exposed = [one.exposed_s for one in result.figures if one.exposed_s is not None]
    return {
        "operation": operation.operation,
        "ccl": operation.ccl,
        "group": operation.group,
        "ranks": operation.group_ranks,
        "dtype": operation.dtype,
        "count": operation.count,
        "size_bytes": operation.size_bytes,
        "calls": sum(one.calls for one in result.figures),
        "bytes": sum(one.bytes for one in result.figures),
        "total_us": sum(times) * US_PER_S if times else None,
        "median_us": sum(medians) / len(medians) * US_PER_S if medians else None,
        "wait_us": sum(waits) * US_PER_S if waits else None,
        "exposed_us": sum(exposed) * US_PER_S if exposed else None,
        "ran": choices_text(result.choices),
    }
