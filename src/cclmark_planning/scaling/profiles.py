"""Profiles of programs: what one of their steps communicated, and in which groups replicas do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from cclmark.analysis.steps import StepRun
from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.journal.item_results import ProfileResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Profile, ProfiledCall, ProfileProcess
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.work.items import PROFILE
from cclmark_planning.scale.layout import JobLayout
from cclmark_planning.scale.profiled_step import ProfiledMessages, ProfiledStep

_MESSAGES = ("send", "recv")  # to single ranks: no replicas communicate by them


def read_profiled_step(path: Path, tokens: int | None, layout: JobLayout | None) -> ProfiledStep:
    """The step of a profile, of the process that communicates least: it waits least for others.

    ``layout``: of the program; without one, see _growing. Raises UsageError.
    """
    where = f"--job {plain(str(path))}"
    journal = read_journal(path)
    if journal.kind != PROFILE or journal.profile is None:
        raise UsageError(f"{where}: the file is not a journal of cclmark profile")
    step_runs = report_kind(PROFILE).step_runs
    assert step_runs is not None
    (run,) = step_runs(journal)
    if run.figures.step_s is None or not journal.profile.window:
        reason = run.figures.reason or "the journal has no step of single calls"
        raise UsageError(f"{where}: {reason}")
    try:
        return _step(journal, journal.profile, run, tokens, layout)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _step(
    journal: Journal, profile: Profile, run: StepRun, tokens: int | None, layout: JobLayout | None
) -> ProfiledStep:
    results = journal.of(ProfileResult)
    known = [one for one in zip(profile.window, profile.processes, strict=False) if one[0]]
    window, process = min(known, key=lambda one: _communication_s(one[0]), default=([], None))
    if process is None or not _communication_s(window):
        raise UsageError("the times of calls are unknown, so that those on more GPUs are, too")
    calls: dict[int, list[ProfiledCall]] = {}
    for call in window:
        calls.setdefault(call.index, []).append(call)
    by_index = {one.index: one for one in results}
    strides = _strides(profile, run.ranks)
    messages = [
        _messages(by_index[index], own, strides, _steps_of(window, process))
        for index, own in calls.items()
        if by_index[index].profiled.operation != "recv" and by_index[index].profiled.group_ranks > 1
    ]
    growing = _growing(messages, run.ranks, layout)
    messages = [
        replace(one, grows=one.operation not in _MESSAGES and (one.ranks, one.stride) in growing)
        for one in messages
    ]
    if not any(one.grows for one in messages):
        seen = ", ".join(sorted({f"{one.ranks} ranks" for one in messages})) or "none"
        raise UsageError(
            "no group of replicas communicates, so that more of them cannot be predicted: profile "
            f"at least two replicas, or state the layout with --parallel (groups of a step: {seen})"
        )
    figures = run.figures
    return ProfiledStep(
        name=run.work,
        devices=run.ranks,
        per_node=_per_node(profile),
        step_s=figures.step_s or 0.0,
        knows_compute=figures.exposed_s is not None,
        messages=tuple(_exposed(messages, figures.exposed_s)),
        tokens=tokens or 0,
    )


def _communication_s(calls: Sequence[ProfiledCall]) -> float:
    return sum(one.time_s for one in calls)


def _messages(
    result: ProfileResult,
    calls: Sequence[ProfiledCall],
    strides: Mapping[int, int],
    steps: float,
) -> ProfiledMessages:
    item = result.profiled
    time_s = _communication_s(calls) / steps
    beside_s = sum(min(one.time_s, one.beside_s or 0.0) for one in calls) / steps
    return ProfiledMessages(
        operation=item.operation,
        ranks=item.group_ranks,
        stride=strides.get(item.group, 1),
        size_bytes=item.size_bytes,
        messages=len(calls) / steps,
        time_s=time_s,
        exposed_s=time_s - beside_s,
    )


def _steps_of(window: Sequence[ProfiledCall], process: ProfileProcess) -> float:
    """How many steps the calls of the window are: of programs whose sequence does not repeat, for
    example with one call in a step, the window has all calls."""
    of_step = process.step_calls or process.calls / max(1, process.steps)
    return len(window) / of_step if of_step else 1.0


def _strides(profile: Profile, ranks: int) -> dict[int, int]:
    """The distance of neighbouring ranks of each group.

    Where only one of them was profiled, the others are on other hosts: the groups are taken to be
    the outermost ones.
    """
    found = {}
    for number, group in enumerate(profile.groups):
        known = sorted(profile.processes[one].rank for one in group.ranks if one is not None)
        steps = [right - left for left, right in pairwise(known)]
        found[number] = max(1, min(steps, default=ranks // max(1, len(group.ranks))))
    return found


def _per_node(profile: Profile) -> int:
    hosts = [one.host for one in profile.processes]
    return max((hosts.count(host) for host in set(hosts)), default=1)


def _growing(
    messages: Sequence[ProfiledMessages], ranks: int, layout: JobLayout | None
) -> set[tuple[int, int]]:
    """Size and stride of the groups that have a rank of each replica.

    With a layout, those whose size depends on the number of replicas. Without one, those of all
    ranks, and of the others those with the largest stride: replicas are outermost, as in Megatron
    and torchtitan, except that stages are; groups of neighbours count only where no group of all
    ranks communicates.
    """
    if layout is not None:
        now, then = layout.on(ranks).groups(), replace(layout, dp=0).on(2 * ranks).groups()
        grows = {name for name in now if now[name].size != then[name].size}
        found = {(now[name].size, now[name].stride) for name in grows}
        fixed = {(one.size, one.stride) for name, one in now.items() if name not in grows}
        return found | ({(ranks, 1)} - fixed)
    seen = {(one.ranks, one.stride) for one in messages if one.operation not in _MESSAGES}
    found = {(ranks, 1)} & seen
    outer = max((stride for size, stride in seen - found), default=1)
    if outer > 1 or not found:
        found |= {one for one in seen if one[1] == outer}
    return found


def _exposed(
    messages: Sequence[ProfiledMessages], exposed_s: float | None
) -> list[ProfiledMessages]:
    """The messages with the exposed time of the step, which those of several streams share."""
    total_s = sum(one.exposed_s for one in messages)
    if exposed_s is None or not total_s:
        return [replace(one, exposed_s=0.0) for one in messages]
    factor = exposed_s / total_s
    return [replace(one, exposed_s=min(one.time_s, one.exposed_s * factor)) for one in messages]
