"""Medians, intervals and spreads, when sampling ends, summaries of cases, and kinks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.analysis.irregularities import alternatives, kinks
from cclmark.analysis.links import link_limit
from cclmark.analysis.stopping import Precision, WarmUp, operations_per_batch, operations_per_graph
from cclmark.base import statistics
from cclmark.base.statistics import interquartile_share, median, median_half_width, outlier_limit
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import HostDescription, Link, Machine, Samples
from cclmark.journal.summaries import bus_factor, spread_figures, summarise
from cclmark.kinds.registry import read_journal
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size
from places import RESULTS
from samples import usual_settings


def test_quantiles_against_known_values():
    quantile = statistics.quantile
    assert quantile([1, 2, 3, 4], 0.5) == 2.5
    assert quantile([1, 2, 3, 4, 5], 0.95) == pytest.approx(4.8)
    assert quantile([7], 0.99) == 7
    with pytest.raises(ValueError, match="no samples"):
        quantile([], 0.5)


@pytest.mark.parametrize(
    ("count", "outside"), [(6, 0), (8, 0), (9, 1), (15, 3), (20, 5), (30, 9), (100, 39)]
)
def test_the_interval_is_the_binomial_one(count, outside):
    # Le Boudec, Performance Evaluation of Computer and Communication Systems, table A.1
    values = [100.0 + i for i in range(count)]
    expected = (values[-1 - outside] - values[outside]) / 2 / median(values)
    assert median_half_width(values) == pytest.approx(expected)
    assert median_half_width([1.0] * 5) is None


def test_the_spread_is_of_the_bulk_and_outliers_are_apart():
    quiet = [*range(100, 104)] * 5
    with_tail = sorted([*quiet, 1000, 1000])
    assert interquartile_share(sorted(quiet)) == pytest.approx(1.5 / 101.5)
    assert interquartile_share(with_tail) == pytest.approx(2 / 102)
    # The third quartile is 103; the fence of 109 is below 10 % above the median.
    assert outlier_limit(with_tail) == pytest.approx(1.1 * 102)
    wide = [100.0, 120.0, 140.0, 160.0, 180.0]
    assert outlier_limit(wide) == pytest.approx(160 + 3 * 40)
    in_order = [*[1.0] * 9, 2.0, 1.0, 2.0, *[1.0] * 8]
    assert spread_figures(in_order) == {"spread": 0, "outliers": 2, "outlier_span": (0.45, 0.55)}
    assert spread_figures([1.0, 1.0])["outlier_span"] is None
    assert interquartile_share([1.0, 2.0, 3.0]) is None
    assert interquartile_share([0.0] * 4) is None


@given(st.floats(1e-9, 100))
def test_batches_are_neither_short_nor_long(time_s):
    operations = operations_per_batch(time_s)
    assert 1 <= operations <= 1000
    assert (operations - 1) * time_s <= 10e-3
    if time_s >= 100e-9:
        assert operations * time_s >= min(time_s * 20, 100e-6) * 0.999


@pytest.mark.parametrize("time_s", [8e-6, 400e-6])
def test_as_many_operations_as_nccl_tests_times_by_default(time_s):
    assert operations_per_batch(time_s) == 20


@pytest.mark.parametrize(
    ("given_s", "operations"),
    [
        ((20, 8e-6, 20), 20),  # as nccl-tests -n 20 -G 20
        ((20, 100e-6, 20), 5),
        ((20, 3e-3, 20), 1),
        ((20, 0.0, 20), 20),
    ],
)
def test_graphs_hold_as_many_operations_as_without_launches(given_s, operations):
    """Unless batches become long."""
    assert operations_per_graph(*given_s) == operations


def test_warm_up_ends_when_batches_agree_or_at_some_point():
    rule = WarmUp()
    assert not any(rule.done(times, 0) for times in ([], [1.0], [2.0, 1.0]))
    assert rule.done([2.0, 1.0, 1.01], 0)
    assert rule.done([2.0**-i for i in range(rule.most_batches)], 0)
    assert rule.done([4.0, 1.0], rule.most_time_s)


def test_sampling_stops_by_confidence_or_by_time():
    rule = Precision(half_width=0.02, most_time_s=1)
    steady = [1.0, 1.01, 0.99, 1.0, 1.0, 1.01]
    noisy = [1.0, 2.0, 0.5, 1.5, 3.0, 0.7]
    assert not rule.done(steady[:5], 0)
    assert rule.done(steady, 0)
    assert not rule.done(noisy, 0.9)
    assert rule.done(noisy, 1.0)
    assert not rule.reached(noisy)


@pytest.mark.parametrize(
    ("operation", "ranks", "matrix", "factor"),
    [
        ("all_reduce", 4, (), 1.5),
        ("alltoall", 8, (), 0.875),
        ("sendrecv", 2, (), 1),
        ("all_reduce", 1, (), 0),
        # That of the busiest rank.
        ("alltoallv", 2, (5, 5, 5, 5), 0.5),
        ("alltoallv", 2, (1, 3, 4, 0), 1.0),
        ("alltoallv", 2, (4, 0, 0, 4), 0.0),
    ],
)
def test_bus_bandwidth_factors(operation, ranks, matrix, factor):
    more = {"matrix": matrix} if matrix else {}
    case = Case(operation, "shm", ranks, "float32", 1 << 20, 1, False, **more)
    assert bus_factor(case) == pytest.approx(factor)


CASE = Case("all_reduce", "shm", 3, "float32", 1 << 20, 1 << 18, False, reduction="sum")


def summary(rows, device=None, **settings):
    measured = Samples(rows, device or rows, rows, operations_per_sample=20)
    return summarise(CASE, measured, usual_settings(**settings))


@pytest.mark.parametrize(
    ("across", "time_s"), [("max", 3.1), ("min", 1.0), ("mean", 6.1 / 3), ("rank0", 1.0)]
)
def test_the_slowest_rank_decides_unless_told_otherwise(across, time_s):
    rows = [[1.0, 3.0, 2.0], [1.0, 3.2, 2.0], [1.0, 3.1, 2.0]]
    assert summary(rows, across_ranks=across).time_s == pytest.approx(time_s)


LATE = [[50e-3, 50e-3, 1e-3]] * 6
MET = {"timing": "blocking", "barrier": "library", "clock": "device"}


@pytest.mark.parametrize(
    ("rows", "device", "settings", "slowest", "late"),
    [
        ([[1.0, 1.0, 1.3]] * 6, None, {}, 2, None),
        ([[1.0, 1.01, 1.02]] * 6, None, {}, None, None),
        # By its short device time, unless ranks leave the library's barrier.
        ([[50e-3] * 3] * 6, LATE, {}, None, 2),
        ([[50e-3] * 3] * 6, LATE, MET, None, None),
    ],
)
def test_a_rank_that_stands_out_or_comes_late_is_named(rows, device, settings, slowest, late):
    found = summary(rows, device, **settings)
    assert found.late_rank == late
    assert found.slowest_rank == slowest


HOST_S, DEVICE_S, SOME_S = [[2.0, 3.0, 4.0]], [[1.0, 1.5, 1.25]], [[1.0, None, 1.0]]


@pytest.mark.parametrize("timing", ["throughput", "blocking", "per-op"])
def test_the_clock_is_the_one_asked_for_where_there_is_one(timing):
    """By default the device's, but the host's without events and when blocking."""
    usual = ("host", 4.0) if timing == "blocking" else ("device", 1.5)
    for clock, device, expected in (
        ("auto", DEVICE_S, usual),
        ("auto", [[None] * 3], ("host", 4.0)),
        ("device", DEVICE_S, ("device", 1.5)),
        ("device", SOME_S, ("host", 4.0)),
        ("host", DEVICE_S, ("host", 4.0)),
    ):
        found = summary(HOST_S, device, timing=timing, clock=clock)
        assert (found.clock, found.time_s) == expected


def test_the_link_limit_is_that_of_the_weakest_device():
    links = [Link(0, "NVLink", 18, 25e9), Link(0, "PCIe", 16, 4e9), Link(1, "NVLink", 17, 25e9)]
    machine = Machine("a", "Debian", "6.1", "EPYC", 8, 1 << 30)
    hosts = [HostDescription(machine, name, {}) for name in ("one", "other")]
    assert link_limit(links) == link_limit(links, hosts[:1]) == 17 * 25e9
    assert link_limit([Link(0, "PCIe", 16, 4e9)]) == 64e9
    assert link_limit([]) is None
    assert link_limit([Link(0, "NVLink", 18, 0.0)]) is None
    assert link_limit(links, hosts) is None


# Messages that take longer than their neighbours suggest, and what would have been faster.


MIB = 1 << 20
# Journals with a kink, and where it is; all others have none.
KNOWN = {
    "h200x2/all_reduce.jsonl": ["all_reduce 2 MiB"],
    "h200x4/collectives.jsonl": ["sendrecv 128 MiB"],
    "h200x4/report/collectives.jsonl": ["sendrecv 128 MiB"],
    "h200x4/runs/ctas8.jsonl": ["all_reduce 2 MiB"],
}


def curve(times_s):
    """Results of one operation by size in bytes."""
    results = []
    for size, time_s in times_s.items():
        case = Case("sendrecv", "nccl", 4, "float32", size, size // 4, False)
        host_s = [[time_s] * 4] * 6
        samples = Samples(host_s=host_s, device_s=host_s, enqueue_s=host_s, operations_per_sample=1)
        summary = summarise(case, samples, usual_settings())
        results.append(CaseResult(len(results), case, "ok", summary=summary))
    return results


def test_a_message_that_takes_too_long_is_found_with_the_better_choices():
    results = curve({32 * MIB: 224e-6, 128 * MIB: 826e-6, 512 * MIB: 1517e-6})
    (kink,) = kinks(results)
    assert (kink.at, kink.below, kink.above) == (results[1], results[0], results[2])
    assert kink.expected_s == pytest.approx(224e-6 + (1517e-6 - 224e-6) * 96 / 480)
    assert kink.share == pytest.approx(1 - kink.expected_s / 826e-6)
    (larger,) = alternatives(kink.at, results)
    assert (larger.result, larger.number) == (results[2], 0.25)
    assert larger.time_s == pytest.approx(1517e-6 / 4)


@given(
    latency_s=st.floats(1e-6, 1e-4),
    rate=st.floats(1e8, 1e12),
    jitter=st.lists(st.floats(0.85, 1.15), min_size=10, max_size=10),
)
def test_a_latency_and_a_bandwidth_have_no_kink_with_any_ordinary_jitter(latency_s, rate, jitter):
    sizes = [8 << 2 * step for step in range(14)][-10:]
    times_s = {
        size: (latency_s + size / rate) * part for size, part in zip(sizes, jitter, strict=True)
    }
    assert kinks(curve(times_s)) == []


@pytest.mark.parametrize(
    "path", sorted(RESULTS.rglob("*.jsonl")), ids=lambda path: str(path.relative_to(RESULTS))
)
def test_of_all_stored_journals_few_have_a_kink(path):
    results = [one for one in read_journal(path).cases if one.case.pair is None]
    found = [f"{one.at.case.operation} {format_size(one.at.case.size_bytes)}"
             for one in kinks(results)]  # fmt: skip
    assert found == KNOWN.get(str(path.relative_to(RESULTS)), [])
