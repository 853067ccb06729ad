"""The figures of a case from its raw samples, and which of them lines of journals have.

A line has the clock and the median alone where readers compute the other figures again from its
samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from cclmark.base.statistics import (
    interquartile_share,
    median,
    median_half_width,
    outlier_limit,
    quantile,
)
from cclmark.journal.sample_times import short
from cclmark.journal.schema import Samples, Settings, Summary
from cclmark.work.cases import Case
from cclmark.work.operations import OPERATIONS, info_of

ACROSS_RANKS: dict[str, Callable[[Sequence[float]], float]] = {
    "max": max,
    "mean": lambda times: math.fsum(times) / len(times),
    "min": min,
    "rank0": lambda times: times[0],
}

_SLOWER = 1.05
_LATE = 0.10
_LEAST_SAMPLES = 6  # before a rank is reported


def algorithm_bandwidth(size_bytes: int, time_s: float) -> float:
    """Bytes per second: the size over the time, 0 without a size or a time."""
    return size_bytes / time_s if time_s > 0 else 0.0


def bus_factor(case: Case) -> float:
    """Bus bandwidth over algorithm bandwidth.

    The factor is that of nccl-tests (doc/PERFORMANCE.md), so that the figure is comparable with the
    hardware's for any number of ranks. For alltoallv it is the amount that the busiest rank sends
    to or receives from others, over the size; with even parts that is (n - 1) / n as well.
    """
    n = case.ranks
    if not case.matrix:
        return OPERATIONS[case.operation].bus_factor(n)
    rows = [case.matrix[i * n : (i + 1) * n] for i in range(n)]
    sent = max(sum(row) - row[i] for i, row in enumerate(rows))
    received = max(sum(row[i] for row in rows) - rows[i][i] for i in range(n))
    heaviest = max(sum(row) for row in rows)
    return max(sent, received) / heaviest if heaviest else 0.0


def usual_clock(timing: str) -> str:
    """The default clock: the device's, or the host's if its wait is part of the time."""
    return "host" if timing == "blocking" else "device"


def wanted_clock(settings: Settings) -> str:
    """The requested clock."""
    return usual_clock(settings.timing) if settings.clock == "auto" else settings.clock


def clock_of(samples: Samples, settings: Settings) -> str:
    """The clock of the figures: the requested one, or the host's if device times are missing."""
    if wanted_clock(settings) == "host":
        return "host"
    measured = all(time is not None for row in samples.device_s for time in row)
    return "device" if measured else "host"


def combine(rows: Sequence[Sequence[float]], across_ranks: str) -> list[float]:
    """One time per sample, from the times of all ranks."""
    return [ACROSS_RANKS[across_ranks](row) for row in rows]


def chosen_times(samples: Samples, clock: str) -> list[list[float]]:
    """The times of ``clock`` as [sample][rank]."""
    if clock == "host":
        return samples.host_s
    return [[time for time in row if time is not None] for row in samples.device_s]


def summarise(case: Case, samples: Samples, settings: Settings) -> Summary:
    """The figures of one case. Raises ValueError without samples."""
    clock = clock_of(samples, settings)
    rows = _rows(case, samples, clock)
    in_order_s = combine(rows, settings.across_ranks)
    times_s = sorted(in_order_s)
    time_s = quantile(times_s, 0.5)
    algorithm = algorithm_bandwidth(case.size_bytes, time_s)
    return Summary(
        clock=clock,
        time_s=time_s,
        min_s=times_s[0],
        p95_s=quantile(times_s, 0.95),
        p99_s=quantile(times_s, 0.99),
        max_s=times_s[-1],
        samples=len(times_s),
        algbw_bytes_per_s=algorithm,
        busbw_bytes_per_s=algorithm * bus_factor(case),
        half_width=median_half_width(times_s),
        **spread_figures(in_order_s),
        slowest_rank=_slowest_rank(case, rows),
        # After the library's barrier one rank is always the last.
        late_rank=_late_rank(case, samples) if settings.barrier != "library" else None,
    )


def spread_figures(times_s: Sequence[float]) -> dict[str, Any]:
    """The fields of a summary on the spread of its samples, in the order of their measurement."""
    ordered = sorted(times_s)
    limit_s = outlier_limit(ordered)
    places = [place for place, time_s in enumerate(times_s) if time_s > limit_s]
    span = (places[0] / len(times_s), places[-1] / len(times_s)) if places else None
    return {
        "spread": interquartile_share(ordered),
        "outliers": len(places),
        "outlier_span": span,
    }


def _rows(case: Case, samples: Samples, clock: str) -> list[list[float]]:
    rows = chosen_times(samples, clock)
    if info_of(case.operation).round_trip:
        rows = [[time / 2 for time in row] for row in rows]
    return rows


def _medians_by_rank(rows: Sequence[Sequence[float]]) -> list[float]:
    return [median(times) for times in zip(*rows, strict=True)]


def _slowest_rank(case: Case, rows: Sequence[Sequence[float]]) -> int | None:
    """The rank that takes over 5 % longer than every other; None if there is none."""
    if not info_of(case.operation).symmetric or case.ranks < 3 or len(rows) < _LEAST_SAMPLES:
        return None
    by_rank = _medians_by_rank(rows)
    slowest = max(range(len(by_rank)), key=by_rank.__getitem__)
    second = max(time for rank, time in enumerate(by_rank) if rank != slowest)
    return slowest if by_rank[slowest] > _SLOWER * second else None


def _late_rank(case: Case, samples: Samples) -> int | None:
    """The rank that the others wait for; None if there is none.

    It starts last, so its device is busy for less time. Without device times it is the rank whose
    calls return last.
    """
    if (
        not info_of(case.operation).symmetric
        or len(samples.host_s) < _LEAST_SAMPLES
        or case.ranks < 2
    ):
        return None
    if any(time is None for row in samples.device_s for time in row):
        advance = [-time for time in _medians_by_rank(samples.enqueue_s)]
        longest = max(_medians_by_rank(samples.host_s))
    else:
        advance = _medians_by_rank(chosen_times(samples, "device"))
        longest = max(advance)
    late = min(range(len(advance)), key=advance.__getitem__)
    second = min(time for rank, time in enumerate(advance) if rank != late)
    return late if second - advance[late] > _LATE * longest else None


def with_short_summaries(result: Any, settings: Settings) -> Any:
    """A result as in a line: with the median alone where ``complete`` computes the rest."""
    changes: dict[str, Any] = {}
    for name, own, of_own in _summarised(result, settings):
        if _computed(result, own.samples, of_own) == own.summary:
            summary = Summary(own.summary.clock, own.summary.time_s)
            is_device = name == "device"
            changes[name] = msgspec.structs.replace(own, summary=summary) if is_device else summary
    return msgspec.structs.replace(result, **changes) if changes else result


def complete(result: Any, settings: Settings) -> bool:
    """Computes the figures that a line left out; False if its median contradicts its samples.

    Journals from before summaries had the spread of samples get it too.
    """
    for _, own, of_own in _summarised(result, settings):
        summary: Summary = own.summary
        if not summary.samples:
            found = _computed(result, own.samples, of_own)
            if found is None or Summary(found.clock, found.time_s) != summary:
                return False
            own.summary = found
        elif summary.spread is None and _are_usable(own.samples, settings):
            rows = _rows(result.summarised, own.samples, summary.clock)
            spread = spread_figures(combine(rows, settings.across_ranks))
            own.summary = msgspec.structs.replace(summary, **spread)
    return True


def _summarised(result: Any, settings: Settings) -> Iterator[tuple[str, Any, Settings]]:
    """Yields the field with each summary of a result, its owner, and its settings."""
    if result.summarised is None or result.summary is None:
        return
    if not result.summarised.ranks or not result.is_consistent:  # readers leave it out
        return
    yield "summary", result, settings
    if result.device is not None:
        yield "device", result.device, msgspec.structs.replace(settings, clock="device")


def _computed(result: Any, samples: Samples | None, settings: Settings) -> Summary | None:
    """The figures as results have them; None without samples, or for an unknown operation."""
    case: Case = result.summarised
    if samples is None or not _are_usable(samples, settings) or case.operation not in OPERATIONS:
        return None
    found: Summary = short(summarise(case, samples, settings))
    return found


def _are_usable(samples: Samples | None, settings: Settings) -> bool:
    """Whether there are samples, and the way to combine ranks is known."""
    is_known = settings.across_ranks in ACROSS_RANKS
    return is_known and samples is not None and bool(samples.host_s)
