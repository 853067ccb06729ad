"""One clock for all ranks and devices of a trace: the first process's CLOCK_MONOTONIC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cclmark.trace.rank_trace import ClockPair, RankTrace, Stage, TracedFlow
from cclmark.trace.timeline import RankTracks, Slice, Span

_MOST_DRIFT = 1e-4  # between two clocks; 1.8e-5 was measured between a GPU and its host
_EVENT_STEP_NS = 500.0  # the resolution of events, as CUDA documents it
_FLOAT_STEP = 2.0**-23


@dataclass(frozen=True)
class Clock:
    """Converts times to nanoseconds of the common clock.

    ``to_common_ns`` takes nanoseconds of the source. ``error_ns``: the largest error of the
    conversion.
    """

    to_common_ns: Callable[[float], float]
    error_ns: float

    def spans(
        self, begins: Iterable[float], ends: Iterable[float], unit_ns: float = 1
    ) -> list[Span]:
        """Periods of the source, in units of ``unit_ns``, on the common clock."""
        return [
            Span(int(self.to_common_ns(begin * unit_ns)), int(self.to_common_ns(end * unit_ns)))
            for begin, end in zip(begins, ends, strict=True)
        ]


def host_clock(trace: RankTrace) -> Clock:
    """The clock of the rank's host. Ranks of the first process's host share its clock.

    That of another host is linear through the readings before and after the operations, and has the
    offset of the nearest reading outside of them: the errors of readings that are close together
    would make a line far from them wrong by any time. The error is that between the readings.
    """
    if not trace.ahead:
        return Clock(float, 0.0)
    first, last = trace.ahead[0], trace.ahead[-1]
    passed_ns = last.at_ns - first.at_ns
    rate = (last.ahead_ns - first.ahead_ns) / passed_ns if passed_ns > 0 else 0.0

    def to_common_ns(time_ns: float) -> float:
        since_ns = min(max(time_ns - first.at_ns, 0.0), max(passed_ns, 0))
        return time_ns + first.ahead_ns + since_ns * rate

    return Clock(to_common_ns, max(first.error_ns, last.error_ns))


def add_stages(group: RankTracks, trace: RankTrace, host: Clock) -> list[Stage]:
    """Adds the stages of a rank to its tracks, and returns them on the common clock."""
    spans = host.spans((one.begin_ns for one in trace.stages), (one.end_ns for one in trace.stages))
    track = group.track("stages")
    stages = []
    for stage, span in zip(trace.stages, spans, strict=True):
        size = {"bytes": stage.size_bytes} if stage.size_bytes else {}
        track.slices.append(Slice(stage.name, span.begin_ns, span.end_ns, "stage", size))
        stages.append(Stage(stage.name, span.begin_ns, span.end_ns, stage.size_bytes))
    return stages


def device_clock(trace: RankTrace) -> Clock | None:
    """The clock of the rank's device, None if it could not be read.

    Linear between the readings before and those after the operations. Each is wrong by at most the
    half of the host's time that it leaves possible, and by the clock's resolution.
    """
    if not trace.clock_begin or not trace.clock_end:
        return None
    first, last = _shortest(trace.clock_begin), _shortest(trace.clock_end)
    if last.device_ns <= first.device_ns:
        return None
    rate = (_middle(last) - _middle(first)) / (last.device_ns - first.device_ns)
    step_ns = resolution_ns(trace)
    first, last = (
        _narrowed(first, trace.clock_begin, rate, step_ns),
        _narrowed(last, trace.clock_end, rate, step_ns),
    )
    rate = (_middle(last) - _middle(first)) / (last.device_ns - first.device_ns)
    host = host_clock(trace)
    error_ns = max(_half(first), _half(last)) + step_ns + host.error_ns

    def to_common_ns(device_ns: float) -> float:
        return host.to_common_ns(_middle(first) + (device_ns - first.device_ns) * rate)

    return Clock(to_common_ns, error_ns)


def event_clock(trace: RankTrace, events: TracedFlow | None = None) -> Clock | None:
    """The clock of events: nanoseconds since the reference event. None without events.

    ``events``: those of a flow, which ``trace``'s device executes, instead of ``trace``'s own. The
    rate is that of the device's clock. If that could not be read, rates may differ by
    ``_MOST_DRIFT``, which adds to the error; so do the steps of events, and of their times as
    32-bit numbers.
    """
    timed = events or trace
    if not timed.device_end_s:
        return None
    half_ns = (timed.reference_after_ns - timed.reference_before_ns) / 2
    middle_ns = timed.reference_before_ns + half_ns
    longest_ns = max(timed.device_end_s) * 1e9
    rate, drift_ns = 1.0, longest_ns * _MOST_DRIFT
    if trace.clock_begin and trace.clock_end:
        first, last = _shortest(trace.clock_begin), _shortest(trace.clock_end)
        if last.device_ns > first.device_ns:
            rate = (_middle(last) - _middle(first)) / (last.device_ns - first.device_ns)
            drift_ns = 0.0
    host = host_clock(trace)
    steps_ns = _EVENT_STEP_NS + longest_ns * _FLOAT_STEP
    return Clock(
        lambda since_ns: host.to_common_ns(middle_ns + since_ns * rate),
        half_ns + steps_ns + drift_ns + host.error_ns,
    )


def resolution_ns(trace: RankTrace) -> float:
    """The smallest step between readings of the device's clock."""
    readings = sorted({one.device_ns for one in (*trace.clock_begin, *trace.clock_end)})
    # What all steps are multiples of is what the clock counts in.
    return float(math.gcd(*(after - before for before, after in pairwise(readings))))


def _shortest(pairs: Sequence[ClockPair]) -> ClockPair:
    return min(pairs, key=lambda pair: pair.after_ns - pair.before_ns)


def _narrowed(
    shortest: ClockPair, pairs: Sequence[ClockPair], rate: float, step_ns: float
) -> ClockPair:
    """The shortest reading, with the interval of the host's time that all readings permit.

    The device's time was read between the two times of the host. With a known rate, every reading
    limits the host's time at the device's time of the shortest one (K. Marzullo, "Maintaining the
    Time in a Distributed System", 1984: the intersection of intervals). A device's time may be
    early by the clock's step. If the intervals have no common part, the shortest is returned.
    """

    def at_shortest(time_ns: float, pair: ClockPair) -> float:
        return time_ns + (shortest.device_ns - pair.device_ns) * rate

    lowest_ns = max(at_shortest(pair.before_ns, pair) for pair in pairs) - step_ns
    highest_ns = min(at_shortest(pair.after_ns, pair) for pair in pairs)
    before_ns = max(math.floor(lowest_ns), shortest.before_ns)
    after_ns = min(math.ceil(highest_ns), shortest.after_ns)
    if before_ns > after_ns:
        return shortest
    return ClockPair(before_ns, shortest.device_ns, after_ns)


def _middle(pair: ClockPair) -> float:
    return (pair.before_ns + pair.after_ns) / 2


def _half(pair: ClockPair) -> float:
    return (pair.after_ns - pair.before_ns) / 2
