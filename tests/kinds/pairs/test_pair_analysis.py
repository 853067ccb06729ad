"""Collectives of pairs: the plan, what the figures say, the heat maps and the chart."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.analysis.outliers import looked_at, outliers, sigmas_allowed
from cclmark.document.explained import tables_of_pairs
from cclmark.document.exporters import exporter_of
from cclmark.document.paint import unpainted
from cclmark.document.report_kind import View
from cclmark.journal import schema
from cclmark.journal.item_results import CaseResult
from cclmark.journal.summaries import summarise
from cclmark.kinds.pairs import figures
from cclmark.kinds.pairs.plan import PairCases, probe_of
from cclmark.kinds.registry import KINDS
from cclmark.work.cases import Case, Sweep, UnevenPattern
from cclmark.work.items import PAIRS
from cclmark.work.operations import PAIR_OPERATIONS
from cclmark.work.pair_cases import pair_rounds
from cclmark.work.transfers import disjoint_rounds
from goldens import outline, require_golden
from samples import header_of, usual_settings

KIB, MIB = 1 << 10, 1 << 20


def pairs_of(devices):
    return [*itertools.combinations(range(devices), 2)]


def case(pair=(0, 1), **changes):
    values = {
        **{"operation": "all_reduce", "ccl": "nccl", "ranks": 2, "dtype": "float32"},
        **{"size_bytes": MIB, "count": MIB // 4, "in_place": False, "pair": pair},
    }
    return Case(**{**values, **changes})


def result(one, time_s=1e-3, **changes):
    rate = one.size_bytes / time_s
    summary = schema.Summary("device", time_s, time_s, time_s, time_s, time_s, 6, rate, rate, 0.01)
    values = {"status": "ok", "summary": summary, "verification": schema.Verification(0)}
    return CaseResult(0, one, **{**values, **changes})


def table(results, *, devices=4, width=100, paint=unpainted, format="table", **options):
    settings = usual_settings(end_bytes=MIB, factor=4.0, max_time_s=0.1)
    library = schema.LibraryDescription("nccl", "2.28.9", "/lib/libnccl.so")
    common = {"devices": devices, "name": "Device <b>\\x1b[31m", "relations": linked(devices)}
    exporter = exporter_of(KINDS[PAIRS], format, View(columns=width, paint=paint, **options))
    text = exporter.begin(header_of(settings, library, **common))
    return text + "".join(map(exporter.add, results)) + exporter.end(None)


def linked(devices, kind_of=lambda a, b: "NV18"):
    every = itertools.product(range(devices), repeat=2)
    return [schema.Relation(a, b, kind_of(a, b), 1) for a, b in every]


def far(results, relations=None):
    """The pairs and sizes that stand out."""
    found = figures.pair_deviations(figures.sweeps(results), relations or linked(4))
    return [(one.pair, one.size_bytes) for one in found]


@given(st.integers(2, 40))
def test_every_two_devices_meet_once_and_no_device_twice_in_a_round(devices):
    """As pairs, and for copies in both directions."""
    for rounds, pairs, ways in (
        (pair_rounds(devices), itertools.combinations, 1),
        (disjoint_rounds(devices), itertools.permutations, 2),
    ):
        assert sorted(itertools.chain(*rounds)) == [*pairs(range(devices), 2)]
        for at_once in rounds:
            assert len({device for pair in at_once for device in pair}) == 2 * len(at_once)
        assert len(rounds) == ways * (devices - 1 + devices % 2)


def test_cases_of_all_pairs_are_alike_and_roots_are_both():
    sweep = Sweep(
        **{"operations": PAIR_OPERATIONS, "ccls": ["nccl"], "ranks": 2, "sizes": [64, KIB]},
        **{"dtypes": ["float32"], "reductions": ["sum"], "roots": [0, 1], "placements": [False]},
        uneven=UnevenPattern(),
    )
    of_two = list(sweep.cases())
    cases = PairCases(of_two, 4)
    expected = [replace(one, pair=pair) for pair in pairs_of(4) for one in of_two]
    # Those of a pair follow each other: its communicator is made once.
    assert sorted(cases, key=lambda one: one.pair) == expected
    assert len([1 for a, b in itertools.pairwise(cases) if a.pair != b.pair]) == 5
    for operation, roots in (("broadcast", {0, 1}), ("all_gather", {None})):
        assert {one.root for one in of_two if one.operation == operation} == roots
    for pair, place in itertools.product(pairs_of(4), range(len(of_two))):
        assert cases[cases.index_of(pair, place)] == replace(of_two[place], pair=pair)
    assert len(cases) == len(expected)
    with pytest.raises(IndexError):
        cases[len(cases)]


def test_a_ping_pong_is_half_of_its_round_trip():
    one = case(operation="ping_pong", size_bytes=1000)
    samples = schema.Samples([[2e-6, 2e-6]] * 6, [[2e-6, 2e-6]] * 6, [[0.0, 0.0]] * 6, 20)
    summary = summarise(one, samples, usual_settings())
    assert (summary.time_s, summary.max_s) == pytest.approx((1e-6, 1e-6))
    assert summary.algbw_bytes_per_s == pytest.approx(1e9)


# Between them lie 2 %.
NEAR = [1.0, 1.02, 0.98, 1.01, 0.99, 1.015, 0.985, 1.0, 1.02, 0.98, 1.005]


@pytest.mark.parametrize(
    ("values", "of", "places"),
    [
        ([], None, []),
        ([1.0, 5.0, 1.0], None, []),
        ([1.0, 1.02, 1.0, 1.01, 0.99], None, []),
        # What spreads like chance is none, the more so of few values, and where much is seen.
        ([*NEAR, 0.7], 96, [11]),
        ([1.0, 1.02, 0.98, 0.85], 96, []),
        ([1.0, 1.0002, 0.9998, 0.85], 96, [3]),
    ],
)
def test_the_fewer_values_the_further_away_is_far(values, of, places):
    assert outliers(values, *([] if of is None else [of]))[1] == places
    allowed = [sigmas_allowed(count, 96) for count in (56, 12, 8, 6, 4)]
    assert allowed == sorted(allowed)
    assert sigmas_allowed(56, 56) == 5
    assert sigmas_allowed(12, 960) > sigmas_allowed(12, 96) == pytest.approx(9.0, abs=0.1)


@pytest.mark.parametrize("devices", [3, 4, 8])
def test_healthy_machines_are_rarely_told_to_look_at_a_link(devices):
    """Of eight matrices with normal noise of 2 %: 20 % and 11 % of runs with 5 deviations."""
    chance, pairs = random.Random(7), devices * (devices - 1)
    alarms, runs = 0, 200
    for _ in range(runs):
        matrices = [[math.exp(chance.gauss(0, 0.02)) for _ in range(pairs)] for _ in range(8)]
        of = looked_at(matrices)
        alarms += any(outliers(values, of)[1] for values in matrices)
    assert alarms / runs <= 0.035


def test_all_matrices_of_a_page_are_judged_together():
    """Six pairs with one that is far in two matrices, and is not among a hundred."""
    times_s = dict(zip(pairs_of(4), [1.00, 1.002, 0.998, 1.001, 0.999, 1.05], strict=True))
    sized = [result(case(pair, size_bytes=KIB), time_s) for pair, time_s in times_s.items()]
    results = [*sized, *(result(case(pair), time_s) for pair, time_s in times_s.items())]
    assert far(results) == [((2, 3), KIB), ((2, 3), MIB)]
    assert far([replace(one, case=replace(one.case, dtype=f"t{n}"))
                for n in range(50) for one in results]) == []  # fmt: skip


def test_pairs_are_compared_with_those_of_their_own_kind_of_link():
    def same_socket(a, b):
        return (a < 4) == (b < 4)

    relations = linked(8, lambda a, b: "PIX" if same_socket(a, b) else "SYS")
    results = [result(case(pair), 1e-3 if same_socket(*pair) else 4e-3) for pair in pairs_of(8)]
    assert far(results, relations) == []
    results[-1] = result(case((6, 7)), 4e-3)
    assert far(results, relations) == [((6, 7), MIB)]


UNCERTAIN = replace(result(case(), 1.0).summary, half_width=None)


@pytest.mark.parametrize(
    ("alone", "beside", "ratio"),
    [
        # What takes as long beside others is undisturbed.
        ({}, {}, 1.0),
        ({}, {"time_s": 1.019}, 1.019),
        ({}, {"time_s": 0.5}, 0.5),
        # What is slower or not well known counts as disturbed.
        ({}, {"time_s": 1.021}, None),
        ({}, {"converged": False}, None),
        ({}, {"status": "wrong"}, None),
        ({"status": "skipped", "summary": None}, {}, None),
        ({}, {"summary": UNCERTAIN}, None),
    ],
)
def test_disturbance(alone, beside, ratio):
    found = figures.disturbance(
        *(result(case(), **{"time_s": 1.0, **it}) for it in (alone, beside))
    )
    assert found == (None if ratio is None else pytest.approx(ratio))


@given(st.integers(1, 60), st.integers(2, 8))
def test_sizes_go_by_a_large_one_that_is_not_much_larger(number, factor):
    sizes = [8 * factor**k for k in range(number)]
    found = probe_of(sizes)
    if found is None:
        assert number < 3 or factor > 16
        return
    probe, followers = found
    assert probe == number - 2
    assert probe not in followers
    assert number - 1 in followers
    assert all(sizes[one] * 16 >= sizes[probe] for one in followers)
    assert all(sizes[one] * 16 < sizes[probe] for one in range(probe) if one not in followers)


def measured():
    """All pairs of four devices; larger messages take longer between devices of higher numbers."""
    return [
        result(
            case(pair, operation=operation, root=root, size_bytes=size),
            time_s * (1 + (sum(pair) / 1000 if size == MIB else 0)),
        )
        for pair in pairs_of(4)
        for operation, root in (("all_reduce", None), ("broadcast", 0), ("broadcast", 1))
        for size, time_s in ((KIB, 2e-6), (MIB, 1e-3))
    ]


def failed():
    results = measured()
    reason = {"status": "skipped", "reason": "too large \x1b[2J", "summary": None}
    results[0] = result(results[0].case, **reason)
    wrong = schema.Verification(3, [schema.WrongOutput(2, 3, 7, "1", "2")])
    results[7] = result(results[7].case, status="wrong", verification=wrong, beside=1)
    return results


DIRECTIONS = itertools.product(pairs_of(4), ("broadcast", "reduce"), (0, 1))
UNMEASURED = {"status": "died", "summary": None, "verification": None}
ALL_WRONG = {
    "status": "wrong",
    "verification": schema.Verification(3, [schema.WrongOutput(1, 3, 7, "1", "2")]),
}
MANY_REASONS = [result(case(pair), **UNMEASURED, reason=f"{pair}") for pair in pairs_of(8)]
MANY_SERIES = itertools.product(range(60), (KIB, MIB))
#: The results, the number of devices, and the options of the table.
TEXTS = {
    "usual": (measured(), 4, {}),
    "60-columns": (measured(), 4, {"width": 60}),
    "csv": (measured(), 4, {"format": "csv"}),
    "markdown": (measured(), 4, {"format": "markdown"}),
    "two-devices-shown": (measured(), 4, {"most_devices": 2}),
    "failed": (failed(), 4, {}),
    "many-reasons": (MANY_REASONS, 8, {}),
    "not-converged": ([result(case(), converged=False), result(case((1, 2)))], 3, {}),
    "one-size": ([result(case(pair)) for pair in pairs_of(3)], 3, {}),
    "one-pair": ([result(case())], 2, {}),
    "all-wrong": ([result(case(), **ALL_WRONG)], 2, {}),
    "not-reached": (measured()[:6], 4, {}),
    # The summary points the way that data goes.
    "directions": (
        [
            result(case(pair, operation=operation, root=root), 1e-3 + (pair == (1, 2)) * root)
            for pair, operation, root in DIRECTIONS
        ],
        *(4, {}),
    ),
    # Many series have figures but no drawing.
    "many-series": (
        [result(case(dtype=f"type{number}", size_bytes=size)) for number, size in MANY_SERIES],
        *(2, {}),
    ),
    "nothing": ([], 4, {}),
    "nothing-measured": ([result(case(), **UNMEASURED, reason="no")], 4, {}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    results, devices, options = TEXTS[name]
    text = table(results, devices=devices, **options)
    below = text if name == "csv" else text.partition("\n\n")[2]
    require_golden(f"texts/pairs-{name}.txt", below.replace("\x1b", "␛"))


def explained(pair, size, *, channels=4, reason="", **changes):
    found = schema.Explanation(0, "plug-in", "ring", "RING", "LL", channels, reason)
    return CaseResult(0, case(pair, size_bytes=size, **changes), "ok", explanation=found)


def way(case):
    first, second = case.pair if case.root != 1 else case.pair[::-1]
    return f"D{first}–D{second}" if case.root is None else f"D{first} → D{second}"


THREE = [(0, 1), (0, 2), (1, 2)]
DIFFERS = "rank 2 ran AllReduce by tree LL, rank 0 by ring LL"
ROOTS = [{"operation": "broadcast", "root": root, "channels": 1 + root} for root in (0, 1)]
EXPLAINED = {
    "agree": [explained(pair, size) for pair in THREE for size in (64, 128)],
    # The usual choice is the first one.
    "differ": [
        explained(pair, size, channels=2 if pair == (0, 1) and size == 128 else 4)
        for pair in ((1, 2), (0, 1), (0, 2))
        for size in (64, 128)
    ],
    "directions": [*(explained((0, 1), 64, **one) for one in ROOTS), explained((0, 1), 64)],
    "unlike-ranks": [
        *(explained((0, 1), size) for size in (64, 128)),
        *(explained((0, 2), size, reason=DIFFERS * (size == 64)) for size in (64, 128)),
    ],
    "many-pairs": [explained(pair, 64, channels=1 + (pair == (0, 1))) for pair in pairs_of(6)],
    "many-choices": [
        explained(pair, 64, channels=1 + number) for number, pair in enumerate(pairs_of(6))
    ],
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_ran_on_pairs(name):
    require_golden(f"texts/pairs-ran-{name}.txt", outline(tables_of_pairs(EXPLAINED[name], way)))
    assert tables_of_pairs([result(case())], way) == []
