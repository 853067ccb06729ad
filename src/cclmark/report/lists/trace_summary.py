"""The summary of a trace: stages, skew between ranks, the slowest channel, the longest wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cclmark.explain.operation import MESSAGES
from cclmark.plan.cases import Case
from cclmark.report.lists.batch_text import batch_text
from cclmark.report.lists.stage_lines import stage_lines
from cclmark.report.lists.trace_problems import operations_by_rank
from cclmark.document.text import counted, format_time_us, ranks_text
from cclmark.trace.timeline_assembly import (
    CaseTimeline,
    RankFindings,
    alignment_error_ns,
    batch_time,
    operation_time_s,
    skew_of,
    slowest_channel,
)

_SOURCES = {
    "kernels": "the start and end of kernels by the devices' clocks",
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
    lines += _ran_lines(ranks)
    if (operation_s := operation_time_s(found)) is not None:
        source = _SOURCES[found.source]
        if found.without_kernels:
            source += f": the kernels of {ranks_text(found.without_kernels)} are incomplete"
        lines.append(
            f"  an operation takes {format_time_us(operation_s)} µs on the slowest rank (median, "
            f"{source})"
        )
    if (batch := batch_time(ranks)) is not None:
        lines.append(f"  {batch_text(batch, untraced_s, _time)}")
    error_ns = alignment_error_ns(found)
    if (skew := skew_of(found)) is not None:
        within = skew.median_ns <= error_ns
        last = f"rank {skew.late_rank} is last in {skew.late_times} of {skew.operations}"
        lines.append(
            f"  ranks begin an operation {_us(skew.median_ns)} µs apart (median; at most "
            f"{_us(skew.largest_ns)}); {'within the error of the clocks' if within else last}"
        )
    if (slow := slowest_channel(ranks)) is not None:
        of_all = f"the median of all channels is {_us(slow.median_of_all_ns)}"
        if slow.stands_out:
            lines.append(
                f"  slowest channel: {slow.channel} of rank {slow.rank}, {_us(slow.median_ns)} µs "
                f"(median; {of_all})"
            )
        else:
            lines.append(
                f"  no channel stands out: at most {_us(slow.median_ns)} µs (median; {of_all})"
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


def _ran_lines(ranks: Sequence[RankFindings]) -> list[str]:
    """What the library ran, on the first rank that reported it."""
    reported = operations_by_rank(ranks)
    operations = next(filter(None, reported.values()), [])
    collectives = [one for one in operations if one.kernel != MESSAGES] or operations
    texts = dict.fromkeys(one.choice_with_channels for one in collectives)
    if not texts:
        texts = dict.fromkeys(found.algorithm for found in ranks if found.algorithm)
    return [f"  ran: {'; '.join(texts)}"] if texts else []


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
    for reason in dict.fromkeys(found.clock_reason for found in ranks if found.clock_reason):
        lines.append(f"  the kernels have no times: {reason}")
    for reason in dict.fromkeys(found.log_reason for found in ranks if found.log_reason):
        lines.append(f"  the trace has no events of the library: {reason}")
    return lines


def _time(time_s: float) -> str:
    return f"{format_time_us(time_s)} µs"


def _us(time_ns: float) -> str:
    return format_time_us(time_ns * 1e-9)
