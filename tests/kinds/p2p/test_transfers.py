"""Plans of transfers, what their figures say, and the matrices made of them."""

from pathlib import Path

import pytest

from cclmark.analysis.outliers import TIMES_MEAN_LITTLE
from cclmark.base.errors import UsageError
from cclmark.journal import schema
from cclmark.journal.item_results import TransferResult
from cclmark.kinds.p2p.figures import (
    LinkLimits,
    deviations,
    figures,
    note_of_flow,
    outliers_of,
    summarise_copies,
    utilisation,
)
from cclmark.work.inject import Injection
from cclmark.work.transfers import Transfer, TransferPlan
from goldens import refusal, require_outcomes
from samples import header_of, usual_settings


def transfer(**changes):
    values = {
        **{"measure": "unidirectional", "scope": "pairs", "engine": "CE", "direction": "write"},
        **{"flows": ((0, 1),), "size_bytes": 1000},
    }
    return Transfer(**{**values, **changes})


def result(pair, bytes_per_s, **changes):
    one = transfer(**{"flows": (pair,), **changes})
    summary = schema.TransferSummary(1.0, 1.0, 1.0, 1, 0.0, bytes_per_s, [bytes_per_s])
    return TransferResult(0, one, "ok", summary=summary)


def planned(line):
    """The transfers of a plan, each once as in a run, and those that differ in their flows only in
    one line. A flow ends at the device in brackets if that one runs it.
    """
    fields = {}
    for word in line.split():
        name, _, text = word.partition("=")
        values = [int(one) if one.isdigit() else one for one in text.split(",")]
        is_one = name in ("devices", "triangle", "local_too", "latency_method", "ccl", "fabric")
        fields[name] = values[0] if is_one else values
    found = {}
    of_three = {"devices": 3, "sizes": [4096]}
    for one in dict.fromkeys(TransferPlan(**of_three | fields).transfers()):
        at_once = []
        for begin, end in one.flows:
            assert one.row_and_column((begin, end))[0] == one.runner((begin, end))
            at_once.append(
                f"{begin}>{end}" if one.runner((begin, end)) == begin else f"{begin}>[{end}]"
            )
        way = f"{one.numa} {one.host_memory} {'to' if one.to_host else 'from'} the host"
        words = [one.measure, one.scope, one.means, one.direction, one.method]
        words += [f"{one.size_bytes} B", way if one.host_memory else ""]
        found.setdefault(" ".join(filter(None, words)), []).append(" ".join(at_once))
    return "\n".join(f"{words}: {', '.join(flows)}" for words, flows in found.items())


def test_plans():
    require_outcomes(Path(__file__).with_name("plans.txt"), planned)


def test_bandwidth_is_all_bytes_over_the_slowest_flow():
    both = transfer(measure="bidirectional", flows=((0, 1), (1, 0)))
    samples = schema.TransferSamples([[1e-6, 2e-6], [1e-6, 2e-6]], [[0.0, 0.0], [0.0, 0.0]], 3)
    summary = summarise_copies(both, samples)
    assert summary.time_s == 2e-6
    assert summary.bytes_per_s == pytest.approx(2000 / 2e-6)
    assert summary.flow_bytes_per_s == pytest.approx([1e9, 5e8])


def links(kind, limit_bytes_per_s):
    return LinkLimits(
        [schema.Relation(*pair, kind, 1, limit_bytes_per_s) for pair in ((0, 1), (1, 0))]
    )


BOTH_WAYS = {"measure": "bidirectional", "flows": ((0, 1), (1, 0))}


@pytest.mark.parametrize(
    ("changes", "bytes_per_s", "limits", "share"),
    [
        ({}, 50.0, links("NV18", 100.0), 0.5),
        (BOTH_WAYS, 150.0, links("NV18", 100.0), 0.75),
        (BOTH_WAYS, 150.0, links("MEM", 300.0), 0.5),  # one memory for both directions
        ({}, 50.0, LinkLimits([]), None),
        # Flows that share links have no share of their own.
        ({"scope": "all-to-one"}, 50.0, links("NV18", 100.0), None),
    ],
)
def test_utilisation_counts_the_directions_used(changes, bytes_per_s, limits, share):
    assert utilisation(result((0, 1), bytes_per_s, **changes), limits) == share


def relations(kinds):
    return [schema.Relation(a, b, kind, 1) for (a, b), kind in kinds.items()]


def test_a_slow_pair_is_named_among_its_own_kind_of_link():
    fast = {(0, n): "NV18" for n in range(1, 7)}
    slow = {(1, n): "SYS" for n in range(2, 8)}
    results = [result(pair, 400e9 + n * 1e8) for n, pair in enumerate(fast)]
    results += [result(pair, 20e9) for pair in slow]
    assert deviations(results, relations({**fast, **slow})) == []
    results[2] = result((0, 3), 200e9)
    (found,) = deviations(results, relations({**fast, **slow}))
    assert (found.pair, found.kind, found.worse) == ((0, 3), "NV18", True)


@pytest.mark.parametrize(
    ("rate", "half_width", "crowded", "is_named"),
    [
        (200e9, 0.01, False, True),
        (200e9, 0.4, False, False),  # the median is less certain than the difference
        (250e9, None, True, False),  # beside a fault that was injected on purpose
        (20e9, None, True, True),
    ],
)
def test_a_pair_stands_out_by_more_than_its_uncertainty(rate, half_width, crowded, is_named):
    kinds = {(0, n): "NV18" for n in range(1, 8)}
    results = [result(pair, 400e9 + n * 1e8) for n, pair in enumerate(kinds)]
    results[2] = result((0, 3), rate)
    results[2].converged, results[2].summary.half_width = half_width is None, half_width
    header = header_of(usual_settings(inject=["delay:pair=0-3,ms=5"]), relations=relations(kinds))
    header.notices = [f"8 ranks share 2 processors: {TIMES_MEAN_LITTLE}"] * crowded
    assert [one.pair for one in outliers_of(results, header).far] == [(0, 3)] * is_named


def test_a_long_latency_is_worse_and_a_short_one_is_not():
    times_s = {(0, n): 1e-6 for n in range(1, 6)} | {(0, 6): 5e-6, (0, 7): 0.2e-6}
    results = [result(pair, 0.0, measure="latency", method="copy") for pair in times_s]
    for one, time_s in zip(results, times_s.values(), strict=True):
        one.summary.time_s = time_s
    linked = relations(dict.fromkeys(times_s, "NV18"))
    found = {one.pair: one.worse for one in deviations(results, linked)}
    assert found == {(0, 6): True, (0, 7): False}


@pytest.mark.parametrize(
    ("rates", "changes"),
    [
        ([1e9, 1e9, 5e9], {}),  # few pairs
        ([1e9, *[0.0] * 6], {}),  # no time at all
        # Flows that begin together on a device.
        ([*[1e9] * 3, 1e6, *[1e9] * 3], {"scope": "one-to-all"}),
    ],
)
def test_what_is_not_compared_names_nobody(rates, changes):
    pairs = {(0, n): "NV18" for n in range(1, 1 + len(rates))}
    results = [result(pair, rate, **changes) for pair, rate in zip(pairs, rates, strict=True)]
    assert deviations(results, relations(pairs)) == []


def test_faults_of_pairs():
    def read(line):
        return refusal(Injection.parse_for_pairs, line, 4)

    require_outcomes(Path(__file__).with_name("faults.txt"), read)
    with pytest.raises(UsageError):
        Injection.parse_for_pairs("", 4)


WRONG = schema.Verification(1, [schema.WrongOutput(0, 1, 5, "1", "2")])


@pytest.mark.parametrize(
    ("changes", "shown", "notes"),
    [
        ({"status": "ok"}, [((0, 1), 10.0), ((2, 3), 20.0)], ["", ""]),
        # Wrong data of one takes only its own figure.
        ({"status": "wrong", "verification": WRONG}, [((2, 3), 20.0)], ["WRONG", ""]),
        # One that hangs leaves the others unmeasured.
        ({"status": "timeout", "summary": None, "hung": [1]}, [], ["-", "hung"]),
        ({"status": "skipped", "summary": None}, [], ["n/a", "n/a"]),
    ],
)
def test_flows_of_a_round_of_all_pairs(changes, shown, notes):
    one = transfer(scope="all-pairs", flows=((0, 1), (2, 3)))
    summary = schema.TransferSummary(1.0, 1.0, 1.0, 1, 0.0, 30.0, [10.0, 20.0])
    found = TransferResult(0, one, **{"summary": summary, **changes})
    assert figures(found) == shown
    assert [note_of_flow(found, flow) for flow in one.flows] == notes
