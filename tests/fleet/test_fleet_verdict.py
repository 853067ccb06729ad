"""Verdicts: what is planted is named, and nothing else; noise, faults and seeds are fixed."""

import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from cclmark_fleet.scan.fleet_model import PairTests, expectations, fit_effects
from cclmark_fleet.scan.fleet_rounds import CONFIRM, confirming_rounds, planned_rounds
from cclmark_fleet.scan.fleet_shape import shape_of_hosts
from cclmark_fleet.scan.fleet_verdict import (
    FABRIC_WIDE,
    HOST_STATE,
    LINK,
    NODE,
    SWITCH,
    THERMAL,
    TRANSIENT,
    CollectiveTest,
    FleetEvidence,
    HostState,
    judge,
    suspects,
)
from places import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "benchmarks" / "fleet"))
import detection

RATE = 40e9
NOTHING = FleetEvidence()


def names(count):
    return [f"n{chr(97 + one // 26)}{chr(97 + one % 26)}" for one in range(count)]


def scan(shape, rate_of, seed=1, sigma=0.01, spread_of=None, evidence=NOTHING):
    """A whole scan. ``rate_of``: the factor of a pair's rate, from its devices and its round."""
    draw = np.random.default_rng(seed)
    rows = []

    def measure(rounds):
        for one in rounds:
            number = len({row[2] for row in rows})
            for first, second in one.pairs:
                rate = RATE * rate_of(first, second, number) * np.exp(sigma * draw.normal())
                own = 0.05 if spread_of is None else spread_of(first, second)
                spread = own * np.exp(0.3 * draw.normal())
                rows.append((first, second, number, rate, spread, one.purpose == CONFIRM))

    measure(planned_rounds(shape, seed))
    devices, links = suspects(shape, PairTests.of(rows))
    if devices or links:
        measure(confirming_rounds(shape, devices, links, seed))
    return judge(shape, PairTests.of(rows), evidence)


def healthy(first, second, number):
    return 1.0


def slow(*nodes, factor=0.8):
    return lambda first, second, number: factor if {first, second} & {*nodes} else 1.0


@settings(max_examples=60, deadline=None)
@given(some.integers(2, 40), some.integers(0, 10**6), some.floats(0.0, 0.03))
def test_healthy_fleets_blame_nobody(count, seed, sigma):
    shape = shape_of_hosts(range(count), names(count))
    assert not scan(shape, healthy, seed, sigma).faults


@settings(max_examples=40, deadline=None)
@given(some.integers(4, 40), some.data())
def test_a_slow_node_is_named_alone_in_any_number_of_nodes(count, data):
    node = data.draw(some.integers(0, count - 1))
    shape = shape_of_hosts(range(count), names(count))
    (fault,) = scan(shape, slow(node), data.draw(some.integers(0, 10**6))).faults
    assert (fault.kind, fault.where) == (NODE, (names(count)[node],))
    assert fault.effect == pytest.approx(-0.2, abs=0.03)
    assert fault.confidence > 0.95


def test_two_devices_are_one_link_and_blame_nobody():
    shape = shape_of_hosts([0, 1], ["a", "b"])
    assert not scan(shape, slow(0, factor=0.1)).faults


def test_a_slow_pair_is_a_link_and_acquits_its_ends():
    shape = shape_of_hosts(range(6), names(6))
    found = scan(shape, lambda one, other, _: 0.8 if {one, other} == {1, 4} else 1.0)
    (fault,) = found.faults
    assert (fault.kind, {*fault.where}) == (LINK, {"nab", "nae"})


def test_a_rack_of_slow_nodes_is_one_switch():
    hosts = [f"rack{rack}-node{node}" for rack in range(6) for node in range(4)]
    shape = shape_of_hosts(range(24), hosts)
    (fault,) = scan(shape, slow(8, 9, 10, 11)).faults
    assert (fault.kind, fault.where) == (SWITCH, ("rack2-node",))


def test_what_was_slow_once_is_transient_or_no_verdict():
    shape = shape_of_hosts(range(12), names(12))
    count = len(planned_rounds(shape, 1))
    found = scan(
        shape, lambda one, other, number: 0.7 if 5 in (one, other) and number < count else 1
    )
    assert [(one.kind, one.where) for one in found.faults] == [(TRANSIENT, ("naf",))]
    once = scan(shape, lambda one, other, number: 0.5 if number == 2 and 5 in (one, other) else 1)
    assert not once.faults


def test_a_state_of_the_host_is_the_cause_only_where_others_do_not_have_it():
    shape = shape_of_hosts(range(12), names(12))
    quota, heat = HostState(3, "waited for its quota"), HostState(3, "slowed down", is_thermal=True)
    for state, kind in ((quota, HOST_STATE), (heat, THERMAL)):
        (fault,) = scan(shape, slow(3), evidence=FleetEvidence(states=[state])).faults
        assert fault.kind == kind
        assert state.text in fault.evidence
    everywhere = FleetEvidence(states=[HostState(node, "waited") for node in range(12)])
    assert scan(shape, slow(3), evidence=everywhere).faults[0].kind == NODE
    assert not scan(shape, healthy, evidence=FleetEvidence(states=[heat])).faults


def test_a_node_whose_times_vary_is_named():
    shape = shape_of_hosts(range(16), names(16))
    found = scan(shape, healthy, spread_of=lambda one, other: 0.8 if 7 in (one, other) else 0.05)
    (fault,) = found.faults
    assert (fault.kind, fault.where) == (NODE, ("nah",))
    assert "times vary" in fault.evidence


def test_floors_name_the_fabric_and_nobody():
    shape = shape_of_hosts(range(8), names(8))
    floors = FleetEvidence({"fabric": RATE}, "own")
    (fault,) = scan(shape, lambda *_: 0.6, evidence=floors).faults
    assert (fault.kind, fault.blames) == (FABRIC_WIDE, False)
    assert not scan(shape, lambda *_: 0.95, evidence=floors).faults
    once = PairTests.of([(0, 1, 0, RATE / 2, 0.1, False)])
    assert not judge(shape, once, floors).faults


def test_the_public_case_of_64_nodes():
    """482 to 235 GB/s, halves are normal, nine nodes a little below, 130 to 358 GB/s in a run.

    The figures are those that its authors published; the pairs follow from their words: nine nodes
    that pass every check are drawn 4 % below the others.
    """
    shape = shape_of_hosts(range(64), [f"gpu-{name}" for name in names(64)])
    weak = {*range(5, 59, 6)}
    assert len(weak) == 9
    rates = [130e9, 190e9, 235e9, 290e9, 358e9]
    evidence = FleetEvidence(collective=CollectiveTest(rates, [478e9, 481e9], 482e9))
    found = scan(
        shape,
        lambda one, other, _: 0.96 if {one, other} & weak else 1.0,
        sigma=0.003,
        evidence=evidence,
    )
    (fault,) = found.faults
    assert fault.kind == FABRIC_WIDE
    assert "130 GB/s to 358 GB/s" in fault.evidence and "both halves" in fault.evidence
    assert {*found.marginal} == {shape.node_names[node] for node in weak}


def test_a_host_that_stopped_is_a_result():
    shape = shape_of_hosts(range(4), names(4))
    found = judge(shape, PairTests.of([]), FleetEvidence(absent={"nab": "no answer"}))
    (fault,) = found.faults
    assert (fault.kind, fault.where, fault.effect) == (NODE, ("nab",), -1.0)
    assert not judge(shape, PairTests.of([])).faults


def test_effects_are_those_that_made_the_tests():
    draw = np.random.default_rng(3)
    true = 0.02 * draw.normal(size=40)
    true[7] = -0.3
    first, second = np.triu_indices(40, 1)
    residual = true[first] + true[second]
    fit = fit_effects(first, second, residual - np.median(residual), 40)
    assert fit.own - np.median(fit.own) == pytest.approx(true - np.median(true), abs=0.01)
    assert fit.sigma < 0.01


def test_drift_is_part_of_the_expectation():
    level, rounds = np.zeros(400, int), np.repeat(np.arange(4), 100)
    values = 3.0 - 0.1 * rounds
    assert expectations(values, level, rounds, [0.5]) == pytest.approx(values)


TWO_NODES = detection.FLEETS[16]
#: The fault, the fleet, the seeds, the noise, and in how many scans all of it and nothing else is
#: named. benchmarks/fleet/detection.py has 200 seeds, and larger fleets.
SCANS = [
    *(
        (
            detection.FAULTS[name][0],
            detection.SMALL.get(name, detection.FLEETS[256]),
            range(10),
            1,
            9,
        )
        for name in ("link -10 %", "NIC of eight lost", "thermal node", "switch", "fabric -40 %")
    ),
    (detection.healthy, TWO_NODES, range(10), 1, 10),
    (detection.healthy, detection.FLEETS[256], range(10), 3, 10),
    # These had a NIC blamed, when what is normal was the 90th percentile of all tests.
    (detection.healthy, TWO_NODES, (2, 6, 25, 47, 95), 3, 5),
    # Noise hides faults rather than inventing them.
    (partial(detection.link, percent=10), detection.FLEETS[256], range(10), 4, 0),
    # Of two nodes, every test between them has the unsteady one.
    (detection.FAULTS["two faults"][0], TWO_NODES, (11, 13, 16), 1, 3),
]


@pytest.mark.parametrize(("make", "fleet", "seeds", "noise", "least"), SCANS)
def test_faults_of_simulated_fleets_are_named(make, fleet, seeds, noise, least):
    found = [detection.outcome_of((make, fleet, seed, noise)) for seed in seeds]
    assert sum(one.whole for one in found) >= least
    assert sum(one.blamed - one.right for one in found) <= (least < len(seeds))
