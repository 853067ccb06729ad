"""Gain of a step if the calls of a group ran at the bandwidth of references."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.text import counted
from cclmark.kinds.replay.figures import ReplaySummary
from cclmark.kinds.replay.result import ReplayedOperation
from cclmark.plan.cases import Case
from cclmark.plan.operations import OPERATIONS, info_of
from cclmark.references.match import Match
from cclmark.results.schema import Header, Summary

_MS_PER_S = 1e3
_MOST_NAMES = 2


def reference_lines(
    summaries: Sequence[ReplaySummary], header: Header | None, notes: ReferenceNotes
) -> list[str]:
    """A line for each group that has references.

    The ranks of a smaller group are not known, so it has references only if all devices are alike,
    on one host. The gain of an operation is its time less that of as many calls at the bandwidth of
    the nearest reference, nothing if it is faster. It is a gain of the step as far as the program
    waits for its communication, so at most.
    """
    if header is None or not summaries or summaries[0].span_s is None:
        return []
    one = summaries[0]
    groups: dict[int, list[ReplayedOperation]] = {}
    for part in one.operations:
        if (
            (info := OPERATIONS.get(part.operation.operation)) is not None
            and not info.of_two
            and 1 < part.operation.group_ranks <= one.replay.ranks
        ):
            groups.setdefault(part.operation.group, []).append(part)
    found = []
    by_ranks = {one.replay.ranks: (header, notes)}
    for group, parts in groups.items():
        ranks = parts[0].operation.group_ranks
        if ranks not in by_ranks:
            own = _header_of(header, ranks)
            if own is None:
                continue
            by_ranks[ranks] = own, notes.for_other_devices()
        if line := _line(one, group, parts, *by_ranks[ranks]):
            found.append(line)
    return found


def _header_of(header: Header, ranks: int) -> Header | None:
    """The header of a run on some of the devices, None if these are not alike or on one host."""
    alike = {(device.name, device.host) for device in header.devices}
    if len(alike) != 1 or len(header.hosts) > 1:
        return None
    return msgspec.structs.replace(header, devices=header.devices[:ranks])


def _line(
    one: ReplaySummary,
    group: int,
    parts: Sequence[ReplayedOperation],
    header: Header,
    notes: ReferenceNotes,
) -> str:
    matches = [(part, match) for part in parts if (match := _match(one, part, header, notes))]
    if not matches:
        return ""
    gain_s = sum(max(0.0, part.time_s - part.calls * match.time_s) for part, match in matches)
    step_s = one.step_s if one.step_s is not None else one.span_s
    assert step_s is not None
    names = list(dict.fromkeys(match.name_and_differences for _, match in matches))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    share = 100 * gain_s / step_s if step_s > 0 else 0.0
    ranks = parts[0].operation.group_ranks
    of = "" if ranks == one.replay.ranks else f" ({ranks} of {one.replay.ranks} ranks)"
    return (
        f"if {len(matches)} of {counted(len(parts), 'operation')} of group {group}{of} ran at "
        f"reference bandwidth, the step would take at most {share:.1f} % "
        f"({gain_s * _MS_PER_S:.3f} ms) less: "
        f"{'; '.join(names[:_MOST_NAMES])}{more}"
    )


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
        cv=0.0,
        samples=one.steps,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * info.bus_factor(own.group_ranks),
    )
    return notes.nearest(case, summary, header)
