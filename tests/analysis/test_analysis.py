import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.analysis.findings import comparisons, findings
from cclmark.analysis.links import link_limit
from cclmark.analysis.stopping import Precision, WarmUp, operations_per_batch, operations_per_graph
from cclmark.base.statistics import (
    interquartile_share,
    median,
    median_half_width,
    outlier_limit,
    quantile,
)
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import HostDescription, Link, Machine, Samples
from cclmark.journal.summaries import algorithm_bandwidth, bus_factor, spread_figures, summarise
from cclmark.work.cases import Case
from samples import usual_settings

TIMES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60)


def test_quantiles_against_known_values():
    assert quantile([1, 2, 3, 4], 0.5) == 2.5
    assert quantile([1, 2, 3, 4, 5], 0.95) == pytest.approx(4.8)
    assert quantile([7], 0.99) == 7
    with pytest.raises(ValueError, match="no samples"):
        quantile([], 0.5)


@given(TIMES)
def test_the_median_lies_between_the_extremes(times):
    assert min(times) <= median(times) <= max(times)


def test_no_interval_from_fewer_than_six_samples():
    assert median_half_width([1.0] * 5) is None
    assert median_half_width([1.0] * 6) == 0


@pytest.mark.parametrize(
    ("count", "outside"), [(6, 0), (8, 0), (9, 1), (15, 3), (20, 5), (30, 9), (100, 39)]
)
def test_the_interval_is_the_binomial_one(count, outside):
    # Le Boudec, Performance Evaluation of Computer and Communication Systems, table A.1
    values = [100.0 + i for i in range(count)]
    expected = (values[-1 - outside] - values[outside]) / 2 / median(values)
    assert median_half_width(values) == pytest.approx(expected)


def test_the_interval_holds_the_true_median_as_often_as_it_says():
    generator = random.Random(1)
    held = 0
    for _ in range(1000):
        sample = sorted(generator.lognormvariate(0, 0.5) for _ in range(15))
        held += sample[3] <= 1.0 <= sample[-4]
    assert 0.94 < held / 1000 < 0.99


@given(TIMES, st.floats(1e-3, 1e3))
def test_the_spread_does_not_depend_on_the_unit(times, factor):
    scaled = [time * factor for time in times]
    spread, expected = interquartile_share(sorted(scaled)), interquartile_share(sorted(times))
    assert (spread is None) == (expected is None) == (len(times) < 4)
    assert (spread or 0) == pytest.approx(expected or 0, rel=1e-6, abs=1e-9)


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


def test_as_many_operations_as_nccl_tests_times_by_default():
    assert operations_per_batch(8e-6) == 20
    assert operations_per_batch(400e-6) == 20


def test_graphs_hold_as_many_operations_as_without_launches_unless_batches_become_long():
    assert operations_per_graph(20, 8e-6, 1) == 20
    assert operations_per_graph(20, 8e-6, 20) == 20  # as nccl-tests -n 20 -G 20
    assert operations_per_graph(20, 100e-6, 20) == 5
    assert operations_per_graph(20, 3e-3, 20) == 1
    assert operations_per_graph(20, 0.0, 20) == 20


def test_warm_up_ends_when_batches_agree():
    rule = WarmUp()
    assert not rule.done([], 0)
    assert not rule.done([1.0], 0)
    assert not rule.done([2.0, 1.0], 0)
    assert rule.done([2.0, 1.0, 1.01], 0)


def test_warm_up_ends_at_some_point_whatever_happens():
    rule = WarmUp()
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
    ("operation", "ranks", "factor"),
    [("all_reduce", 4, 1.5), ("all_gather", 4, 0.75), ("alltoall", 8, 0.875), ("broadcast", 8, 1),
     ("sendrecv", 2, 1), ("all_reduce", 1, 0)],
)  # fmt: skip
def test_bus_bandwidth_factors(operation, ranks, factor):
    case = Case(operation, "shm", ranks, "float32", 1 << 20, 1 << 10, False)
    assert bus_factor(case) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("matrix", "factor"),
    [((5, 5, 5, 5), 0.5), ((0, 1, 3, 0), 1.0), ((1, 3, 4, 0), 1.0), ((4, 0, 0, 4), 0.0)],
)
def test_the_factor_of_uneven_parts_is_that_of_the_busiest_rank(matrix, factor):
    case = Case("alltoallv", "shm", 2, "int8", 1 << 20, 1, False, matrix=matrix)
    assert bus_factor(case) == factor


def test_no_time_gives_no_bandwidth():
    assert algorithm_bandwidth(8, 0.0) == 0.0


CASE = Case("all_reduce", "shm", 3, "float32", 1 << 20, 1 << 18, False, reduction="sum")


def samples(rows, device=None):
    return Samples(
        host_s=rows,
        device_s=device or rows,
        enqueue_s=rows,
        operations_per_sample=20,
    )


def test_the_slowest_rank_decides_unless_told_otherwise():
    rows = [[1.0, 3.0, 2.0], [1.0, 3.2, 2.0], [1.0, 3.1, 2.0]]
    assert summarise(CASE, samples(rows), usual_settings()).time_s == 3.1
    assert summarise(CASE, samples(rows), usual_settings(across_ranks="min")).time_s == 1.0
    assert summarise(
        CASE, samples(rows), usual_settings(across_ranks="mean")
    ).time_s == pytest.approx(6.1 / 3)
    assert summarise(CASE, samples(rows), usual_settings(across_ranks="rank0")).time_s == 1.0


def test_a_rank_that_stands_out_is_named():
    slow = [[1.0, 1.0, 1.3]] * 6
    assert summarise(CASE, samples(slow), usual_settings()).slowest_rank == 2
    even = [[1.0, 1.01, 1.02]] * 6
    assert summarise(CASE, samples(even), usual_settings()).slowest_rank is None


def test_a_rank_that_comes_late_is_named_by_its_short_device_time():
    device = [[50e-3, 50e-3, 1e-3]] * 6
    summary = summarise(CASE, samples([[50e-3] * 3] * 6, device), usual_settings())
    assert summary.late_rank == 2
    assert summary.slowest_rank is None


def test_of_ranks_that_leave_the_librarys_barrier_none_is_late():
    device = [[50e-3, 50e-3, 1e-3]] * 6
    met = usual_settings(timing="blocking", barrier="library", clock="device")
    assert summarise(CASE, samples([[50e-3] * 3] * 6, device), met).late_rank is None


def test_the_clock_is_the_hosts_without_events_and_when_blocking():
    rows = [[1.0, 1.0, 1.0]] * 6
    none = [[None, None, None]] * 6
    assert summarise(CASE, samples(rows, none), usual_settings()).clock == "host"
    assert summarise(CASE, samples(rows), usual_settings(timing="blocking")).clock == "host"
    assert summarise(CASE, samples(rows), usual_settings()).clock == "device"


@pytest.mark.parametrize("timing", ["throughput", "blocking", "per-op"])
def test_a_clock_that_was_asked_for_is_reported_where_there_is_one(timing):
    host_s, device_s, none = [[2.0, 3.0, 4.0]], [[1.0, 1.5, 1.25]], [[1.0, None, 1.0]]
    asked = usual_settings(timing=timing, clock="device")
    summary = summarise(CASE, samples(host_s, device_s), asked)
    assert (summary.clock, summary.time_s) == ("device", 1.5)
    summary = summarise(CASE, samples(host_s, none), asked)
    assert (summary.clock, summary.time_s) == ("host", 4.0)
    asked = usual_settings(timing=timing, clock="host")
    summary = summarise(CASE, samples(host_s, device_s), asked)
    assert (summary.clock, summary.time_s) == ("host", 4.0)


def result(size, time_s, operation="all_reduce"):
    case = Case(operation, "shm", 3, "float32", size, size // 4, False, reduction="sum")
    summary = summarise(case, samples([[time_s] * 3] * 6), usual_settings())
    return CaseResult(0, case, "ok", summary=summary)


def test_findings_are_the_peak_and_the_smallest_size():
    found = findings([result(8, 1e-6), result(1 << 20, 1e-5), result(1 << 21, 1e-3)])
    assert len(found) == 1
    assert found[0].peak.case.size_bytes == 1 << 20
    assert found[0].latency.case.size_bytes == 8
    skipped = CaseResult(0, CASE, "skipped", "no room")
    assert findings([skipped]) == []


def test_the_link_limit_is_that_of_the_weakest_device():
    links = [Link(0, "NVLink", 18, 25e9), Link(0, "PCIe", 16, 4e9), Link(1, "NVLink", 17, 25e9)]
    assert link_limit(links) == 17 * 25e9
    assert link_limit([Link(0, "PCIe", 16, 4e9)]) == 64e9
    assert link_limit([]) is None
    assert link_limit([Link(0, "NVLink", 18, 0.0)]) is None
    machine = Machine("a", "Debian", "6.1", "EPYC", 8, 1 << 30)
    hosts = [HostDescription(machine, name, {}) for name in ("one", "other")]
    assert link_limit(links, hosts[:1]) == 17 * 25e9
    assert link_limit(links, hosts) is None


def test_libraries_are_compared_sweep_by_sweep():
    def of(ccl, size, time_s, status="ok"):
        one = result(size, time_s)
        case = replace(one.case, ccl=ccl)
        return replace(one, case=case, status=status)

    assert comparisons([of("a", 8, 1e-6), of("a", 16, 1e-6)]) == []
    (found,) = comparisons(
        [of("a", 8, 1e-6), of("a", 16, 2e-6), of("b", 16, 6e-6), of("b", 32, 1e-6, "wrong")]
    )
    assert found.ccls == ["a", "b"]
    assert found.rows == [(8, [pytest.approx(1e-6), None]), (16, pytest.approx([2e-6, 6e-6]))]


def test_findings_of_several_libraries_name_them():
    other = result(8, 1e-6)
    other = replace(other, case=replace(other.case, ccl="b"))
    assert [one.name for one in findings([result(8, 1e-6), other])] == [
        "all_reduce · shm",
        "all_reduce · b",
    ]
