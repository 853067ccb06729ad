"""Why a trace is incomplete, in words: the reasons of its exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cclmark.explain.calls import CommunicatorCalls, operations_of
from cclmark.explain.operation import Operation
from cclmark.document.text import counted
from cclmark.trace.slot_events import EVENTS_VARIABLE
from cclmark.trace.timeline_assembly import CaseTimeline, RankFindings


def trace_problems(found: CaseTimeline) -> list[str]:
    """Returns what ranks did not report, what did not fit, and how ranks differ."""
    problems = [
        f"rank {rank.rank}: {text}" for rank in found.ranks for text in _of_rank(rank, found.ranks)
    ]
    return problems + _differences(found.ranks)


def operations_by_rank(ranks: Sequence[RankFindings]) -> dict[int, list[Operation]]:
    """The operations that the library reported on each rank with a log, in their order."""
    return {
        found.rank: operations_of(
            sorted((task.event for task in found.events.tasks), key=lambda event: event.number)
        )
        for found in ranks
        if found.log is not None
    }


def _of_rank(found: RankFindings, ranks: Sequence[RankFindings]) -> Iterator[str]:
    log, events, slots = found.log, found.events, found.slots
    if log is None and any(other.log is not None for other in ranks):
        yield f"no event of the library: {found.log_reason}"
    # With one rank, libraries copy without a kernel that they report.
    if log is not None and not events.kinds and len(ranks) > 1:
        yield "the library loaded the plug-in and reported no event"
    elif log is not None and _lacks_operations(found, ranks):
        yield (
            f"the library reported {counted(len(events.tasks), 'operation')} for "
            f"{counted(found.calls, 'call')}"
        )
    if log is not None and log.dropped:
        yield f"{counted(log.dropped, 'event')} did not fit into the log: lower -n"
    if log is not None and log.incomplete:
        yield f"{counted(log.incomplete, 'record')} of the log incomplete"
    if slots is not None and slots.dropped:
        yield (
            f"{counted(slots.dropped, 'event')} of slots did not fit: lower -n, or set "
            f"{EVENTS_VARIABLE}={slots.events + slots.dropped}"
        )
    if events.unreported:
        awaited = f" within {found.awaited_s:.1f} s" if found.awaited_s else ""
        yield f"the library did not report {counted(events.unreported, 'kernel')}{awaited}"
    if events.unfinished:
        yield f"{counted(events.unfinished, 'event')} without an end, not in the trace"
    if events.impossible:
        yield f"{counted(events.impossible, 'kernel')} with impossible times, not in the trace"
    if events.overwritten:
        number = counted(events.overwritten, "kernel")
        yield f"{number} with the times of a later one, not in the trace"


def _lacks_operations(found: RankFindings, ranks: Sequence[RankFindings]) -> bool:
    """Whether the operations are not equally many for each call, or only other ranks have some."""
    number = len(found.events.tasks)
    if not number:
        return any(other.events.tasks for other in ranks)
    return bool(found.calls) and number % found.calls != 0


def _differences(ranks: Sequence[RankFindings]) -> list[str]:
    """How the collectives of ranks differ that reported all of them."""
    complete = [found for found in ranks if not _lacks_operations(found, ranks)]
    return CommunicatorCalls(0, len(ranks), operations_by_rank(complete)).differences()
