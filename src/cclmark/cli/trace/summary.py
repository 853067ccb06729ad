"""What a trace says: its summary (stages, skew, slowest channel, waits), and the list of steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from statistics import median

from cclmark.base.grouping import abridged, by_key
from cclmark.document.columns import ColumnKind
from cclmark.document.connection_words import ring_lines, tree_lines
from cclmark.document.fields import Field, csv_lines
from cclmark.document.text import BYTES_PER_GB, aligned, counted, format_time_us, ranks_text
from cclmark.explain.algorithm_steps import Step
from cclmark.explain.calls import CommunicatorCalls, operations_of
from cclmark.explain.operation import MESSAGES, Operation
from cclmark.journal.schema import Ring, Tree
from cclmark.journal.topology import UNKNOWN_LINK
from cclmark.trace.case_steps import (
    DERIVED,
    DOCUMENTED,
    OBSERVED,
    PLANNED,
    SELECTED,
    UNKNOWN,
    CaseSteps,
)
from cclmark.trace.copy_timeline import (
    FlowFindings,
    TransferTimeline,
    batch_copy_time,
    clock_error_ns,
    overlap_of,
)
from cclmark.trace.rank_trace import Stage
from cclmark.trace.slot_tracks import EVENTS_VARIABLE
from cclmark.trace.timeline import BatchTime
from cclmark.trace.timeline_assembly import (
    CaseTimeline,
    RankFindings,
    alignment_error_ns,
    batch_time,
    operation_time_s,
    skew_of,
    slowest_channel,
)
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size, in_ranges


def batch_text(batch: BatchTime, untraced_s: float | None, text: Callable[[float], str]) -> str:
    """Returns the times, and their difference if there are enough batches.

    ``untraced_s``: the median of the measurement. ``text``: formats a time in seconds.
    """
    several = "one batch"
    if len(batch.times_s) > 1:
        ends_s = (min(batch.times_s), max(batch.times_s))
        ends = " to ".join(map(format_time_us, ends_s))
        several = f"median of {len(batch.times_s)}, {ends}"
    traced = f"in batches of {batch.number}, {text(batch.time_s)} each while traced ({several})"
    if not untraced_s:
        return traced
    both = f"{traced}; untraced {text(untraced_s)}"
    change = batch.change_from(untraced_s)
    if change is None:
        return f"{both} (median); the cost of tracing requires more batches: lower -n"
    return f"{both} (median, {change:+.1%})"


def stage_lines(stages: Mapping[int, Sequence[Stage]], what: str, column: str) -> list[str]:
    """The stages in their order, each with the time of the slowest rank or device.

    ``stages``: by its number. ``what``: it in one word. ``column``: the heading of the bytes.
    """
    times: dict[str, dict[int, int]] = {}
    sizes: dict[str, dict[int, int]] = {}
    for number, of_one in stages.items():
        for stage in of_one:
            by_number = times.setdefault(stage.name, {})
            by_number[number] = by_number.get(number, 0) + stage.end_ns - stage.begin_ns
            moved = sizes.setdefault(stage.name, {})
            moved[number] = moved.get(number, 0) + stage.size_bytes
    rows = [("stage", "ms", "slowest", column)]
    for name, by_number in times.items():
        slowest = max(by_number, key=lambda number: by_number[number])
        most = max(sizes[name].values())
        size = format_size(most) if most else ""
        rows.append((name, f"{by_number[slowest] / 1e6:.2f}", f"{what} {slowest}", size))
    return aligned(rows, "<><>")


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
        lines.append(
            f"  {batch_text(batch, untraced_s, lambda time_s: f'{format_time_us(time_s)} µs')}"
        )
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


def outstanding_of(found: CaseTimeline) -> str:
    """Returns the part of the summary that explains most of the time, empty for none."""
    slow = slowest_channel(found.ranks)
    if slow is not None and slow.stands_out:
        return (
            f"channel {slow.channel} of rank {slow.rank} takes {_us(slow.median_ns)} µs, the "
            f"median of all channels is {_us(slow.median_of_all_ns)}"
        )
    waits = [*_wait_lines(found.ranks), *_slot_wait_lines(found.ranks)]
    return "; ".join(line.strip() for line in waits)


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


def _us(time_ns: float) -> str:
    return format_time_us(time_ns * 1e-9)


_MOST_LISTED = 24  # steps; more are summarised
_MOST_LINES = 24
_MOST_NOTES = 4
_MOST_LINKS = 3  # of a line
_ORIGINS = {
    DERIVED: "derived from the algorithm and the {carriers} that the library reports",
    SELECTED: "derived from the algorithm that is selected, which may not have run",
    DOCUMENTED: "derived from the algorithm in the library's documents, which may not have run",
    PLANNED: "planned by cclmark's engine",
    OBSERVED: "reported by the library",
}
#: How two devices are connected, by their ranks. See schema.Relation.
Relations = Mapping[tuple[int, int], str]


def step_lines(found: CaseSteps, relations: Relations) -> list[str]:
    """Returns the lines for the steps of one operation."""
    if found.origin == UNKNOWN:
        return [f"  steps of the algorithm: unknown: {found.reason}"]
    lines = [f"  steps of the algorithm, {_origin(found)}", f"    {_total(found)}"]
    lines += [f"    {line}" for line in _carriers(found)]
    lines += [f"    {text}" for text in found.notes[:_MOST_NOTES]]
    lines.append("")
    link_of = Links(found.transports, relations)
    rows = _listed(found, link_of) if len(found.steps) <= _MOST_LISTED else _merged(found, link_of)
    return lines + rows


class Links:
    """How the data of a step get to another rank, as far as it is known."""

    def __init__(self, transports: Mapping[tuple[int, int], str], relations: Relations) -> None:
        self._transports = transports
        self._relations = relations

    def transport(self, step: Step) -> str:
        """The library's name of the way; empty within a rank, and if it is unknown."""
        if step.is_local or step.source is None:
            return step.medium
        return step.medium or self._transports.get((step.source, step.destination), "")

    def relation(self, step: Step) -> str:
        """The symbol of the connection between the devices; empty if it is unknown."""
        if step.is_local or step.source is None:
            return ""
        kind = self._relations.get((step.source, step.destination), "")
        return "" if kind in (UNKNOWN_LINK, "MEM") else kind

    def words(self, step: Step) -> str:
        """Both, for a table."""
        if step.is_local:
            return step.medium or "within the rank"
        if step.source is None:
            return step.medium
        known = ", ".join(filter(None, (self.transport(step), self.relation(step))))
        return known or "unknown"


def _origin(found: CaseSteps) -> str:
    kind = "rings" if found.carriers and found.carriers[0].is_ring else "trees"
    text = _ORIGINS[found.origin].format(carriers=kind[:-1] if len(found.carriers) == 1 else kind)
    return f"{text} ({found.algorithm})" if found.algorithm else text


def _total(found: CaseSteps) -> str:
    stages = found.steps[-1].stage if found.steps else 0
    between = [step for step in found.steps if not step.is_local and step.source is not None]
    sent: dict[int, int] = {}
    for step in between:
        assert step.source is not None
        sent[step.source] = sent.get(step.source, 0) + step.size_bytes
    known = [step for step in found.steps if step.source is not None]
    text = f"{counted(stages, 'stage')}, {counted(len(known), 'step')}"
    if local := len(known) - len(between):
        text += f", {local} of them within a rank"
    if unknown := len(found.steps) - len(known):
        text += f"; {unknown} parts of operations within islands, whose steps are unknown"
    if not sent:
        return text
    least, most = format_size(min(sent.values())), format_size(max(sent.values()))
    who = "each rank" if len(sent) > 1 else f"rank {next(iter(sent))}"
    return f"{text}; {who} sends {most if least == most else f'{least} to {most}'}"


def _carriers(found: CaseSteps) -> list[str]:
    rings = [Ring(list(one.ranks), one.channels) for one in found.carriers if one.is_ring]
    trees = [Tree(list(one.ranks), one.channels) for one in found.carriers if not one.is_ring]
    return [
        *(f"ring {line}" for line in ring_lines(rings)),
        *(f"tree {line}" for line in tree_lines(trees)),
    ]


def _listed(found: CaseSteps, links: Links) -> list[str]:
    several = len(found.carriers) > 1
    rows = [["stage", "phase", "step", "action", "chunk", "bytes", "slices", "link"]]
    for step in found.steps:
        chunk = "" if step.chunk is None else str(step.chunk)
        if several:
            chunk = f"{chunk} of {'ring' if found.carriers[0].is_ring else 'tree'} {step.path}"
        rows.append(
            [
                str(step.stage),
                step.phase,
                _ends(step),
                step.action,
                chunk,
                format_size(step.size_bytes),
                found.slices,
                links.words(step),
            ]
        )
    return _aligned(rows, "><<<<>><")


def _merged(found: CaseSteps, links: Links) -> list[str]:
    """A row for each role in a stage: of the root and of others, within a rank and between."""
    roles = by_key(
        ((step.stage, step.phase, found.root not in (None, step.source), not step.is_local), step)
        for step in found.steps
    )
    alike = by_key(
        ((phase, *role, *_words(found, steps, links)), (stage, steps))
        for (stage, phase, *role), steps in sorted(roles.items(), key=itemgetter(0))
    )
    head = "stages, phase, src, dst, steps each, action, bytes each, slices, links"
    rows = [head.split(", ")]
    for (phase, _, _, *words), own in alike.items():
        steps = own[0][1]  # of the first stage: those of the others are alike
        sources = in_ranges(sorted({one.source for one in steps if one.source is not None})) or "…"
        stages = in_ranges([stage for stage, _ in own])
        rows.append([stages, str(phase), sources, _targets(steps, found.steps), *map(str, words)])
    hidden = len(rows) - 1 - _MOST_LINES
    lines = _aligned(rows[: _MOST_LINES + 1], "><<<><<><")
    return [*lines, f"    and {counted(hidden, 'more line')}"] if hidden > 0 else lines


def _words(found: CaseSteps, steps: Sequence[Step], links: Links) -> tuple[str, ...]:
    """The number of the steps, actions, sizes, slices and links."""
    least, most = (format_size(end(step.size_bytes for step in steps)) for end in (min, max))
    return (
        str(len(steps)),
        " and ".join(sorted({step.action for step in steps})),
        most if least == most else f"{least} – {most}",
        found.slices,
        abridged(sorted({links.words(step) for step in steps}), _MOST_LINKS, "; "),
    )


def _targets(steps: Sequence[Step], every: Sequence[Step]) -> str:
    """The destinations of steps of one role. ``every``: the steps of all ranks."""
    if steps[0].is_local:
        return "itself"
    ranks = {end for step in every for end in (step.source, step.destination)} - {None}
    targets = [{*own} for own in by_key((one.source, one.destination) for one in steps).values()]
    numbers = sorted({len(own) for own in targets})
    if numbers == [len(ranks) - 1]:
        return f"others ({numbers[0]})"
    same = all(own == targets[0] for own in targets)
    return in_ranges(sorted(targets[0])) if same else f"{in_ranges(numbers)} each"


def _ends(step: Step) -> str:
    if step.is_local:
        return f"{step.destination}"
    if step.source is None:
        return f"… → {step.destination}"
    return f"{step.source} → {step.destination}"


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    used = [place for place in range(len(sides)) if any(row[place] for row in rows[1:])]
    widths = {place: max(len(row[place]) for row in rows) for place in used}
    return [
        "    " + "  ".join(f"{row[place]:{sides[place]}{widths[place]}}" for place in used).rstrip()
        for row in rows
    ]


_BUFFER_FIELDS: Sequence[tuple[str, str, str, ColumnKind]] = (
    ("", "buffer", "Buffer", "text"),
    ("_offset_bytes", "offset_bytes", "Offset in the buffer", "int"),
)


def step_file(found: CaseSteps, relations: Relations) -> Iterator[str]:
    """Yields the lines of the file."""
    links = Links(found.transports, relations)
    fields = (
        Field("stage", "Number of the stage, from 0.", "stage", "int"),
        Field("phase", "Phase of the algorithm.", "phase", "text"),
        Field("source", "Rank that sends.", "source", "int"),
        Field("destination", "Rank that receives.", "destination", "int"),
        Field("size_bytes", "Bytes that move.", "size_bytes", "int"),
        Field("action", "What the destination does with them.", "action", "text"),
        Field("chunk", "Number of the chunk.", "chunk", "int"),
        Field("path", "Number of the ring or tree.", lambda step: step.path or None, "text"),
        Field("transport", "How the library connects the two.", links.transport, "text"),
        Field("relation", "Link between their devices.", links.relation, "text"),
        *(
            Field(f"{place}{end}", f"{what} that the step {place}.", f"{place}.{name}", kind)
            for place in ("reads", "writes", "combines")
            for end, name, what, kind in _BUFFER_FIELDS
        ),
        Field("origin", "Where the steps come from.", lambda step: found.origin, "text"),
    )
    return csv_lines(fields, found.steps)
