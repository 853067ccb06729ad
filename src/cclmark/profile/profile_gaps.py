"""Gaps in a profile, and differences between its processes, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.journal.item_results import ProfileResult
from cclmark.journal.schema import Profile
from cclmark.profile.observed import MESSAGES
from cclmark.profile.profile_log import ProfileLog
from cclmark.work.operations import OPERATIONS
from cclmark.work.sizes import format_size

_MOST_DIFFERENCES = 8
#: Operations that only some ranks of a group call, or that ranks call in different numbers or with
#: different counts.
_UNEQUAL = MESSAGES | {name for name, row in OPERATIONS.items() if row.uneven}


def losses_of(logs: Sequence[ProfileLog]) -> list[str]:
    """Why calls are missing in logs, in words."""
    found = []
    for one in logs:
        process = f"process {one.log.pid} on {one.log.host}"
        if lost := one.log.lost("raise --calls"):
            found.append(f"{process}: {lost}")
        if one.log.has_lost_parents:
            found.append(
                f"{process}: it reported more events to two profiler plug-ins than can be matched: "
                "calls that the library did not report as executed are missing, and times of "
                "kernels may be: raise CCLMARK_PLUGIN_PAIRS [16777216]"
            )
        if one.unmatched:
            found.append(
                f"{process}: {one.unmatched} calls are left out: it has several devices, and their "
                "communicators do not identify the calling device"
            )
    return found


def uncounted_of(logs: Sequence[ProfileLog]) -> list[str]:
    """Which calls are not counted by design, in words."""
    found = []
    if captured := sum(one.captured for one in logs):
        found.append(
            f"{captured} captured calls, whose launches are not counted without kernel times"
        )
    return found


def unlisted_of(logs: Sequence[ProfileLog]) -> list[str]:
    """Which processes have calls that are counted but not listed."""
    partial = [one for one in logs if one.listed - one.unread < one.calls]
    if not partial:
        return []
    listed = min(one.listed - one.unread for one in partial)
    calls = max(one.calls for one in partial)
    advice = ": raise --calls"
    if any(one.unread for one in partial):
        advice = f", because calls of {len(logs)} processes are more than this command reads"
    return [
        f"medians, waiting, steps and shares of time are of the first {listed} of up to {calls} "
        f"calls of a process{advice}. Counts, bytes and total times are of all calls"
    ]


def differences_of(profile: Profile, results: Sequence[ProfileResult]) -> list[str]:
    """Where ranks of a group called a collective in different numbers, in words."""
    found = list(_differences(profile, results))
    more = len(found) - _MOST_DIFFERENCES
    return found[:_MOST_DIFFERENCES] + ([f"and {more} more differences"] if more > 0 else [])


def _differences(profile: Profile, results: Sequence[ProfileResult]) -> Iterator[str]:
    for result in results:
        operation = result.profiled
        if operation.operation in _UNEQUAL:
            continue
        members = [one for one in profile.groups[operation.group].ranks if one is not None]
        calls = {one.process: one.calls for one in result.figures}
        counts = {number: calls.get(number, 0) for number in members}
        if len(set(counts.values())) < 2:
            continue
        least = min(counts, key=lambda number: counts[number])
        most = max(counts, key=lambda number: counts[number])
        yield (
            f"{operation.operation} of {format_size(operation.size_bytes)} {operation.dtype} in "
            f"group {operation.group}: rank {profile.processes[least].rank} called it "
            f"{counts[least]} times, rank {profile.processes[most].rank} {counts[most]} times"
        )


def absent_of(profile: Profile) -> list[str]:
    """Which ranks of groups were not profiled, in words."""
    groups = [one for one in profile.groups if None in one.ranks and set(one.ranks) != {None}]
    if not groups:
        return []
    largest = max(groups, key=lambda one: len(one.ranks))
    missing = sum(rank is None for rank in largest.ranks)
    return [
        f"{missing} of {len(largest.ranks)} ranks of a group are not part of this profile: waiting "
        "and differences are known among the others only"
    ]
