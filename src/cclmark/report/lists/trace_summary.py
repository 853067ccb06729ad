"""The summary of a trace: stages, skew between ranks, the slowest channel, the longest wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cclmark.plan.cases import Case
from cclmark.report.lists.stage_lines import stage_lines
from cclmark.report.wording.text import counted, format_time_us
from cclmark.trace.assembly import (
    CaseTimeline,
    RankFindings,
    alignment_error_ns,
    batch_time_s,
    operation_time_s,
    skew_of,
    slowest_channel,
)

_SOURCES = {
    "kernels": "the begin and end of kernels by the devices' clocks",
    "events": "events on the devices' clocks",
    "calls": "calls of the host",
}


def trace_summary(
    found: CaseTimeline, case: Case, operations: int, untraced_s: float | None
) -> list[str]:
    """Returns the lines. ``untraced_s``: the time of an operation that is not traced."""
    ranks = found.ranks
    lines = [f"{case.describe()}, {counted(operations, 'operation')} traced", ""]
    lines += stage_lines({one.rank: one.stages for one in ranks}, "rank", "bytes of a rank")
    lines.append("")
    if (operation_s := operation_time_s(found)) is not None:
        lines.append(
            f"  an operation takes {format_time_us(operation_s)} µs on the slowest rank (median, "
            f"{_SOURCES[found.source]})"
        )
    batch_s = batch_time_s(ranks)
    if batch_s is not None:
        number = max(batch.operations for one in ranks for batch in one.batches)
        text = f"  in batches of {number}, {format_time_us(batch_s)} µs each while traced"
        if untraced_s:
            text += f"; untraced {format_time_us(untraced_s)} µs ({batch_s / untraced_s - 1:+.1%})"
        lines.append(text)
    error_ns = alignment_error_ns(found)
    if (skew := skew_of(found)) is not None:
        within = skew.median_ns <= error_ns
        last = f"rank {skew.late_rank} is last in {skew.late_times} of {skew.operations}"
        begin = "ranks begin an operation"
        if skew.published:
            begin = "the first publications of an operation are"
        lines.append(
            f"  {begin} {_us(skew.median_ns)} µs apart (median; at most "
            f"{_us(skew.largest_ns)}); {'within the error of the clocks' if within else last}"
        )
    if (slow := slowest_channel(ranks)) is not None:
        lines.append(
            f"  slowest channel: {slow.channel} of rank {slow.rank}, {_us(slow.median_ns)} µs "
            f"(median; of all channels {_us(slow.median_of_all_ns)})"
        )
    lines += _wait_lines(ranks)
    lines += _slot_wait_lines(ranks)
    if error_ns:
        lines.append(f"  the clocks agree within {_us(error_ns)} µs")
    lines += _event_lines(ranks)
    if any(one.wrong is not None for one in ranks):
        wrong = sum(one.wrong or 0 for one in ranks)
        lines.append(f"  outputs checked: {counted(wrong, 'wrong element')}")
    return lines


def _wait_lines(ranks: Sequence[RankFindings]) -> list[str]:
    waits = [
        (time_ns, cause, found.rank)
        for found in ranks
        for cause, time_ns in found.events.waits.items()
    ]
    if not waits:
        return []
    time_ns, cause, rank = max(waits)
    return [f"  longest wait of a network step: {_us(time_ns)} µs on rank {rank} ({cause})"]


def _slot_wait_lines(ranks: Sequence[RankFindings]) -> list[str]:
    """The longest wait for a slot, and the rank that waits the largest part of its calls."""
    longest = [
        (wait.length_ns, wait.cause, found.rank)
        for found in ranks
        if found.slots is not None
        for wait in found.slots.waits
    ]
    if not longest:
        return []
    time_ns, cause, rank = max(longest)
    lines = [f"  longest wait: {_us(time_ns)} µs on rank {rank} ({cause})"]
    shares = []
    for found in ranks:
        in_calls_ns = sum(one.end_ns - one.begin_ns for one in found.by_source["calls"].of_each)
        slots = found.slots
        if slots is None or slots.enqueued or slots.dropped or not in_calls_ns:
            continue
        by_peer: Counter[int] = Counter()
        for wait in slots.waits:
            by_peer[wait.peer] += wait.length_ns
        if by_peer:
            peer, _ = by_peer.most_common(1)[0]
            shares.append((by_peer.total() / in_calls_ns, found.rank, peer))
    if shares:
        share, rank, peer = max(shares)
        most = f"rank {peer}" if peer >= 0 else "its device"
        lines.append(f"  rank {rank} waits {share:.1%} of the time of its calls, most for {most}")
    return lines


def _event_lines(ranks: Sequence[RankFindings]) -> list[str]:
    """The numbers of events, and what is missing."""
    lines = []
    logs = [found.log for found in ranks if found.log is not None]
    if logs:
        kinds: Counter[str] = Counter()
        for found in ranks:
            kinds.update(found.events.kinds)
        channels, steps = kinds["kernel channel"], kinds["proxy step"]
        lost = sum(log.dropped for log in logs)
        text = f"  {kinds.total()} events of the library: {channels} channels of kernels"
        text += f", {steps} network steps" if steps else ""
        lines.append(f"{text}, {lost} lost")
    slots = [found.slots for found in ranks if found.slots is not None]
    if slots:
        dropped = sum(one.dropped for one in slots)
        number = counted(sum(one.events for one in slots), "event")
        lines.append(f"  {number} of slots, {dropped} lost")
    if any(one.enqueued for one in slots):
        lines.append(
            "  the host enqueues the work on slots: its waits on the devices' streams have no times"
        )
    lines += [f"  {text}" for text in missing_events(ranks)]
    for reason in dict.fromkeys(found.clock_reason for found in ranks if found.clock_reason):
        lines.append(f"  the kernels have no times: {reason}")
    for reason in dict.fromkeys(found.log_reason for found in ranks if found.log_reason):
        lines.append(f"  the trace has no events of the library: {reason}")
    return lines


def missing_events(ranks: Sequence[RankFindings]) -> list[str]:
    """What the library reported incompletely, or what did not fit, in words; empty if nothing."""
    lines = []
    for found in ranks:
        where = f"rank {found.rank}: "
        if found.log is not None and found.log.dropped:
            lines.append(f"{where}{found.log.dropped} events did not fit into the log: lower -n")
        if found.log is not None and found.log.incomplete:
            lines.append(f"{where}{counted(found.log.incomplete, 'record')} of the log incomplete")
        if found.slots is not None and found.slots.dropped:
            lines.append(
                f"{where}{counted(found.slots.dropped, 'event')} of slots did not fit: lower -n, "
                "or set CCLMARK_TRACE_EVENTS"
            )
        if found.events.unfinished:
            number = counted(found.events.unfinished, "event")
            lines.append(f"{where}{number} without an end, not in the trace")
        if found.events.overwritten:
            number = counted(found.events.overwritten, "kernel")
            lines.append(f"{where}{number} with the times of a later one, not in the trace")
    return lines


def _us(time_ns: float) -> str:
    return format_time_us(time_ns * 1e-9)
