"""Profiles in words: the cells of their tables and their remarks."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.document.text import US_PER_S, counted, format_time_us
from cclmark.kinds.profile.figures import OperationSum, ProcessWait, sums_of, waits_of_processes
from cclmark.plan.ranges import in_ranges
from cclmark.plan.sizes import format_size
from cclmark.results.item_results import ProfileResult
from cclmark.results.schema import Header, Profile, ProfiledChoice, ProfileProcess

OPERATION_HEAD = (
    *("group", "ranks", "operation", "type", "ran with", "size", "calls", "bytes", "total ms"),
    *("of span", "median µs", "waiting", "exposed"),
)
OPERATION_SIDES = ">><<<>>>>>>>>"
PROCESS_HEAD = (
    *("rank", "host", "calls", "span s", "communication", "exposed", "compute", "waiting"),
    *("last in", "steps", "step ms", "of step"),
)
PROCESS_SIDES = "><" + ">" * 10
_COMMAND, _FLAGS = "profile", ("--no-kernel-times",)
_LONGEST_PROGRAM = 60
_MOST_GROUPS = 8
_MOST_CHOICES = 3
_MOST_PROCESSES = 32
_MOST_OPERATIONS = 48
_CLEAR_WAIT = 0.02  # of the span: less is not worth a remark
_CLEAR_LAST = 0.5  # of the compared calls


def method_of_profile(header: Header) -> str:
    """Describes in a line how the figures were obtained."""
    if header.imported is not None:
        return f"operations of a program, as {header.imported.source} recorded them"
    return (
        "operations as the library reports them; time: from the start of a kernel's "
        "first channel to the end of its last"
    )


def program_lines(profile: Profile) -> list[str]:
    """Returns how long the program ran and how it ended."""
    if profile.program_exit_code is None:
        return []
    code = profile.program_exit_code
    end = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
    return [f"{profile.wall_s:.2f} s, {end}"]


def program_of(header: Header) -> str:
    """Returns the profiled program: its command, or the name of the imported file."""
    if header.imported is not None:
        more = len(header.devices) - 1
        return f"{header.imported.file}{f' and {more} more' * (more > 0)}"
    text = " ".join(_program_words(header.command))
    return text if len(text) <= _LONGEST_PROGRAM else f"{text[:_LONGEST_PROGRAM]}…"


def _program_words(command: Sequence[str]) -> Sequence[str]:
    """The words after those of ``cclmark profile``, or the directory of ``--read``."""
    words = iter(command[1:])
    read = ""
    for word in words:
        if word == "--":
            return [*words]
        name, _, value = word.partition("=")
        if not word.startswith("-"):
            if word != _COMMAND:
                return [word, *words]
        elif name not in _FLAGS:
            value = value or next(words, "")
            read = value if name == "--read" else read
    return [read] if read else []


def group_lines(profile: Profile) -> list[str]:
    """Returns a line for each group."""
    lines = []
    for number, group in enumerate(profile.groups[:_MOST_GROUPS]):
        processes = [one for one in group.ranks if one is not None]
        known = sorted(
            profile.processes[one].rank for one in processes if one < len(profile.processes)
        )
        name = f"{group.name}, " if group.name else ""
        of = f" ({in_ranges(known)})" if known else ""
        size = counted(len(group.ranks), "rank") if group.ranks else "size unknown"
        lines.append(f"{number}: {name}{size}{of}")
    more = len(profile.groups) - _MOST_GROUPS
    if more > 0:
        lines.append(f"… and {more} more groups")
    return lines


def operation_rows(results: Sequence[ProfileResult], profile: Profile | None) -> list[list[str]]:
    """Returns the cells of the first operations, by OPERATION_HEAD."""
    spans = [one.span_s for one in profile.processes if one.span_s] if profile is not None else []
    span_s = sum(spans) / len(spans) if spans else 0.0
    return [_operation_row(one, span_s) for one in sums_of(results, profile)[:_MOST_OPERATIONS]]


def _operation_row(one: OperationSum, span_s: float) -> list[str]:
    operation = one.operation
    least, most = one.calls
    total_s = one.total_s
    return [
        str(operation.group) if len(one.groups) == 1 else in_ranges(sorted(one.groups)),
        str(operation.group_ranks or ""),
        operation.operation,
        operation.dtype,
        choices_text(one.choices) or ("not reported" if one.unreported else ""),
        f"{'≥ ' if operation.is_range else ''}{format_size(operation.size_bytes)}",
        str(most) if least == most else f"{least}–{most}",
        format_bytes(one.bytes),
        "" if total_s is None else f"{total_s * 1e3:.2f}",
        share_text(total_s, span_s),
        "" if one.median_s is None else format_time_us(one.median_s),
        "" if one.wait_share is None else f"{one.wait_share:.0%}",
        share_text(one.exposed_s, total_s or 0.0),
    ]


def format_bytes(number: int) -> str:
    """Returns an amount of data with three digits: 1.23 GB."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return ""


def seconds_text(time_s: float) -> str:
    """Returns a time with three digits in a suitable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if time_s * scale >= 1:
            return f"{time_s * scale:.3g} {unit}"
    return f"{time_s * US_PER_S:.3g} µs"


def share_text(part_s: float | None, whole_s: float) -> str:
    """Returns a share in percent; empty if it is unknown."""
    return f"{part_s / whole_s:.1%}" if part_s is not None and whole_s else ""


def choices_text(choices: Sequence[ProfiledChoice]) -> str:
    """Returns what the library chose, the most frequent first: ``ring LL × 16``."""
    texts = []
    for one in choices[:_MOST_CHOICES]:
        channels = f" × {one.channels}" if one.channels else ""
        texts.append(f"{one.kernel} {one.protocol}".strip() + channels)
    if len(choices) > _MOST_CHOICES:
        texts.append("…")
    return ", ".join(texts)


def process_rows(results: Sequence[ProfileResult], profile: Profile) -> list[list[str]]:
    """Returns the cells of each process, by PROCESS_HEAD."""
    waits = waits_of_processes(results)
    return [
        _process_row(one, waits.get(number))
        for number, one in enumerate(profile.processes[:_MOST_PROCESSES])
    ]


def _process_row(one: ProfileProcess, wait: ProcessWait | None) -> list[str]:
    return [
        str(one.rank),
        one.host,
        str(one.calls),
        f"{one.span_s:.4g}",
        share_text(one.communication_s, one.span_s),
        share_text(one.exposed_s, one.span_s),
        share_text(one.compute_s, one.span_s),
        share_text(None if wait is None else wait.wait_s, one.span_s),
        "" if wait is None else f"{wait.last} of {wait.compared}",
        str(one.steps or ""),
        "" if one.step_s is None else f"{one.step_s * 1e3:.3f}",
        share_text(one.step_communication_s, one.step_s or 0.0),
    ]


def used_columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], sides: str
) -> tuple[list[list[str]], str]:
    """Returns head and rows without the columns that are empty in all rows, and their sides."""
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return (
        [[row[place] for place in kept] for row in (head, *rows)],
        "".join(sides[place] for place in kept),
    )


def remarks_of(results: Sequence[ProfileResult], profile: Profile) -> list[str]:
    """Returns sentences on ranks that wait, on steps, and on what is missing."""
    found = [*_waiting(results, profile), *_unreported(results)]
    if len(sums := sums_of(results, profile)) > _MOST_OPERATIONS:
        rest = sums[_MOST_OPERATIONS:]
        calls = sum(one.calls for own in rest for one in own.figures)
        found.append(
            f"{len(rest)} more operations, {counted(calls, 'call')} of all ranks: cclmark export "
            "--format csv lists them"
        )
    more = len(profile.processes) - _MOST_PROCESSES
    if more > 0:
        found.append(f"{more} more processes: see the journal")
    found += profile.notes
    found += [f"rank {one.rank}: {one.note}" for one in profile.processes if one.note]
    return found


def _waiting(results: Sequence[ProfileResult], profile: Profile) -> list[str]:
    number_of_processes = len(profile.processes)
    waits = {
        number: wait
        for number, wait in waits_of_processes(results).items()
        if number < number_of_processes
    }
    found = []
    waiting = {
        number: wait
        for number, wait in waits.items()
        if wait.wait_s > _CLEAR_WAIT * profile.processes[number].span_s > 0
    }
    if waiting:
        most = max(waiting, key=lambda number: waiting[number].wait_s)
        span_s = profile.processes[most].span_s
        ranks = in_ranges(sorted(profile.processes[number].rank for number in waiting))
        found.append(
            f"rank{'s' * (len(waiting) > 1)} {ranks} wait{'s' * (len(waiting) == 1)} for others: "
            f"rank {profile.processes[most].rank} for {seconds_text(waiting[most].wait_s)}, "
            f"{waiting[most].wait_s / span_s:.1%} of its span"
        )
    late = [number for number, wait in waits.items() if wait.last > _CLEAR_LAST * wait.compared > 0]
    found += [
        f"rank {profile.processes[number].rank} arrives last in {waits[number].last} of "
        f"{waits[number].compared} calls: the others wait for it"
        for number in late
        if waiting
    ]
    return found


def _unreported(results: Sequence[ProfileResult]) -> list[str]:
    number = sum(one.unreported for result in results for one in result.figures)
    if not number:
        return []
    return [
        f"{counted(number, 'call')} of all ranks without a report of what was executed: NCCL "
        "reports symmetric kernels and copies from 2.31 on"
    ]
