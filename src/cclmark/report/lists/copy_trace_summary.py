"""The summary of a traced transfer: stages, copies, gaps between them, overlap of the flows."""

from __future__ import annotations

from statistics import median

from cclmark.report.lists.batch_text import batch_text
from cclmark.report.lists.stage_lines import stage_lines
from cclmark.document.text import BYTES_PER_GB, aligned, counted, format_time_us
from cclmark.trace.copy_timeline import (
    FlowFindings,
    TransferTimeline,
    batch_copy_time,
    clock_error_ns,
    overlap_of,
)

_HEADS = ("copies", "µs", "longest", "GB/s", "gap µs", "longest")


def copy_trace_summary(found: TransferTimeline, copies: int, untraced_s: float | None) -> list[str]:
    """Returns the lines. ``untraced_s``: the time of a copy in a batch that is not traced."""
    transfer = found.transfer
    each = " of each flow" if len(found.flows) > 1 else ""
    lines = [f"{transfer.describe()}, {counted_copies(copies)}{each} traced", ""]
    lines += stage_lines(found.stages, "device", "bytes of a device")
    lines.append("")
    rows = [_HEADS, *(_row(flow, transfer.size_bytes) for flow in found.flows)]
    lines += aligned(rows, "<>>>>>")
    sources = {flow.by_events for flow in found.flows}
    lines += [f"  {_source_words(by_events)}" for by_events in sorted(sources)]
    lines += _batch_lines(found, untraced_s)
    lines += _overlap_lines(found)
    if error_ns := clock_error_ns(found):
        lines.append(f"  the clocks agree within {format_time_us(error_ns * 1e-9)} µs")
    lines += [
        f"  the rate of a device's clock is unknown, which is part of this error: {reason}"
        for reason in found.clock_reasons
    ]
    if found.wrong is not None:
        lines.append(f"  destinations checked: {counted(found.wrong, 'wrong element')}")
    return lines


def counted_copies(number: int) -> str:
    """Returns ``1 copy``, ``2 copies``."""
    return f"{number} {'copy' if number == 1 else 'copies'}"


def _row(flow: FlowFindings, size_bytes: int) -> tuple[str, ...]:
    name = f"{flow.source} to {flow.destination}"
    lengths_ns = [copy.length_ns for copy in flow.copies]
    if not lengths_ns:
        return (name, *[""] * 5)
    middle_s = median(lengths_ns) * 1e-9
    rate = f"{size_bytes / middle_s / BYTES_PER_GB:.2f}" if middle_s > 0 else ""
    gaps_ns = flow.gaps_ns
    gaps = ("", "")
    if gaps_ns:
        gaps = (format_time_us(median(gaps_ns) * 1e-9), format_time_us(max(gaps_ns) * 1e-9))
    return (name, format_time_us(middle_s), format_time_us(max(lengths_ns) * 1e-9), rate, *gaps)


def _source_words(by_events: bool) -> str:
    if by_events:
        return "by events on the devices' clocks; µs and GB/s of the median, gaps to the next copy"
    return "by the host's calls, which copy; µs and GB/s of the median, gaps to the next copy"


def _batch_lines(found: TransferTimeline, untraced_s: float | None) -> list[str]:
    batch = batch_copy_time(found)
    if batch is None or batch.time_s <= 0:
        return []
    size_bytes = found.transfer.size_bytes * len(found.flows)

    def text(time_s: float) -> str:
        rate = f"{size_bytes / time_s / BYTES_PER_GB:.2f} GB/s"
        return f"{format_time_us(time_s)} µs ({rate})"

    return [f"  {batch_text(batch, untraced_s, text)}"]


def _overlap_lines(found: TransferTimeline) -> list[str]:
    overlap = overlap_of(found)
    if overlap is None:
        return []
    number = len(found.flows)
    if number == 2:
        which = "both directions" if found.transfer.measure == "bidirectional" else "both flows"
        return [f"  {which} at once for {overlap.share_of_all:.1%} of the time in which data moves"]
    return [
        f"  {overlap.mean_flows:.2f} of {number} flows at once (mean over the time in which data "
        f"moves); all for {overlap.share_of_all:.1%} of it"
    ]
