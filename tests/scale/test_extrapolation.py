"""Predictions from measured curves: what is known exactly comes out, and intervals hold."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark_planning.scale.algorithms import Shape

np = pytest.importorskip("numpy")
pytest.importorskip("scipy")

from cclmark_planning.scale.collective_times import (  # noqa: E402
    AlgorithmModel,
    CrossedLevel,
    Parameters,
)
from cclmark_planning.scale.extrapolation import (  # noqa: E402
    RunFacts,
    TimeCurve,
    algorithm_times,
    architecture_of,
    forecast,
    models_of,
)

SIZES = [float(8 << shift) for shift in range(0, 31, 3)]


def curve(nodes, times, sizes=SIZES, noise=0.005, per_node=8):
    return TimeCurve(Shape(nodes, per_node), tuple(sizes), tuple(times), (noise,) * len(sizes))


def ring_s(size, nodes, hop_s=9e-6, node_hop_s=0.9e-6, bps=370e9, per_node=8):
    ranks = nodes * per_node
    hops = 2 * (nodes - 1) * hop_s + 2 * nodes * (per_node - 1) * node_hop_s
    return 12e-6 + hops + 2 * (ranks - 1) / ranks * size / bps


def rings(*nodes, sizes=SIZES, **machine):
    return [curve(one, [ring_s(size, one, **machine) for size in sizes], sizes) for one in nodes]


@settings(max_examples=12, deadline=None)
@given(hop_us=st.floats(3, 30), node_hop_us=st.floats(0.4, 2))
def test_latency_of_a_ring_follows_from_two_and_four_nodes(hop_us, node_hop_us):
    small = [8.0, 64.0, 512.0, 4096.0]
    machine = {"hop_s": hop_us * 1e-6, "node_hop_s": node_hop_us * 1e-6}
    found = forecast(
        *("all_reduce", rings(2, 4, sizes=small, **machine), small, Shape(8, 8)),
        RunFacts(device="H100", algorithm="ring", run_noise=0.005),
    )
    true = np.array([ring_s(size, 8, **machine) for size in small])
    assert found.quantiles[1] == pytest.approx(true, rel=0.02)
    assert (found.quantiles[0] <= true).all() and (true <= found.quantiles[2]).all()


def test_a_prediction_is_reproducible():
    arguments = ("all_reduce", rings(2, 4), SIZES, Shape(64, 8), RunFacts(device="H100"))
    assert (forecast(*arguments).quantiles == forecast(*arguments).quantiles).all()


@pytest.mark.simulated
def test_intervals_hold_the_times_of_other_machines_of_the_same_model():
    """Machines drawn from the models; each run differs by 3 %, each size by 1 %."""
    chance = np.random.default_rng(7)
    model = AlgorithmModel("all_reduce", ("ring", "tree"), "Hopper")
    inside = number = 0
    widths = []
    for _ in range(8):
        machine = Parameters.of_logs(
            np.log([7e-6, 0.7e-6, 4.5e-6, 360e9, 430e9, 0.95, 0.7, 1.4])
            + chance.normal(0, [0.3, 0.2, 0.4, 0.1, 0.1, 0.05, 0.2, 0.1])
        )
        sizes = np.array(SIZES)

        def measured(nodes, machine=machine, sizes=sizes):
            exact = model.time_s(machine, sizes, Shape(nodes, 8))
            run = chance.normal(0, 0.03) + chance.normal(0, 0.01, len(sizes))
            return exact * np.exp(run)

        curves = [curve(nodes, measured(nodes), noise=0.01) for nodes in (2, 4)]
        known = RunFacts(device="H100", bps=400e9, run_noise=0.03)
        found = forecast("all_reduce", curves, SIZES, Shape(16, 8), known)
        widths += [*np.log(found.quantiles[2] / found.quantiles[0])]
        true = measured(16)
        inside += int(((found.quantiles[0] <= true) & (true <= found.quantiles[2])).sum())
        number += len(SIZES)
    assert inside / number >= 0.8
    assert np.median(widths) < math.log(2)


def test_doubt_widens_intervals():
    def width(nodes=32, noise=0.005, **known):
        curves = [replace(one, noise=(noise,) * len(SIZES)) for one in rings(2, 4)]
        known = RunFacts(device="H100", algorithm="ring", **known)
        found = forecast("all_reduce", curves, SIZES, Shape(nodes, 8), known)
        return float(np.log(found.quantiles[2] / found.quantiles[0]).mean())

    usual = width()
    assert width(nodes=512) > usual
    assert width(noise=0.1) > usual
    assert width(is_shared=True) > usual
    assert width(run_noise=0.2) > usual
    assert width(has_version=False) > usual


def test_a_level_limits_what_crosses_it():
    """A ring leaves a group once, an alltoall with all of its devices."""

    def slower(operation, algorithm, group_nodes, share):
        curves = [curve(nodes, [20e-6 * nodes + size / 40e9 for size in SIZES]) for nodes in (2, 4)]
        level = CrossedLevel(8 * group_nodes, 50e9 * share)
        middle = [
            forecast(
                *(operation, curves, SIZES, Shape(16, 8)),
                RunFacts(device="H100", algorithm=algorithm, levels=levels),
            ).quantiles[1][-1]
            for levels in ((), (level,))
        ]
        return middle[1] / middle[0]

    # Eight nodes of a group that share an eighth of their rates have as much as one of them.
    assert slower("all_reduce", "ring", 8, 1 / 8) == pytest.approx(1.0, rel=0.02)
    alone = slower("all_reduce", "ring", 1, 1 / 80)
    assert slower("all_reduce", "ring", 8, 1 / 640) == pytest.approx(alone, rel=0.02)
    assert alone > 1.5
    # (n - g) / n of the bytes cross: 96 and 64 of 128 devices.
    four, eight = (slower("alltoall", "", group, 1 / 800) for group in (4, 8))
    assert four / eight == pytest.approx(96 / 64, rel=0.02)


def test_the_latency_of_a_level_counts():
    known = RunFacts(device="H100", algorithm="tree")
    far = (CrossedLevel(64, 400e9, 500e-6),)
    near, beyond = (
        forecast("all_reduce", rings(2, 4), SIZES, Shape(16, 8), replace(known, levels=levels))
        for levels in ((), far)
    )
    assert beyond.quantiles[1][0] > near.quantiles[1][0] + 500e-6


def test_the_network_is_sought_by_size_alone_where_no_run_crossed_it():
    one = curve(1, [20e-6 + 1.75 * size / 360e9 for size in SIZES])
    found = forecast("all_reduce", [one], SIZES, Shape(4, 8), RunFacts(device="H100", bps=400e9))
    bus = SIZES[-1] * 2 * 31 / 32 / found.quantiles[:, -1]
    assert bus[2] < 400e9 * 0.92 < bus[0]


def test_observed_algorithms_leave_hypotheses_out():
    def names(operation="all_reduce", per_node=8, **known):
        return [model.name for model, _ in models_of(operation, RunFacts(**known), per_node)]

    assert "fastest of ring and NVLSTree" in names(device="H100")
    assert "fastest of ring and NVLSTree" not in names(device="A100")
    assert "fastest of ring and NVLSTree" not in names(device="H100", has_multicast=False)
    assert names(device="A100", seen=frozenset({"ring", "tree"})) == ["fastest of ring and tree"]
    assert names(algorithm="tree") == ["tree"]
    assert names("all_gather") == ["ring"]
    assert names("all_gather", per_node=1) == ["ring", "PAT"]
    assert "hierarchical" in names(is_nccl=False)


def test_another_algorithm_may_win_on_many_nodes():
    times = algorithm_times(
        "all_gather", rings(2, 4), SIZES, Shape(256, 8), RunFacts(device="H100", is_nccl=False)
    )
    assert times["hierarchical"][0] < times["ring"][0] / 10
    assert math.isfinite(times["hierarchical"][-1])


@pytest.mark.parametrize(
    ("device", "name"),
    [("NVIDIA H200", "Hopper"), ("A100-SXM4-80GB", "Ampere"), ("MI300X", ""), ("", "")],
)
def test_architectures(device, name):
    assert architecture_of(device) == name


def test_sizes_between_measured_ones_are_interpolated_in_narrow_gaps_alone():
    one = curve(2, [1e-5, 2e-5, 4e-5], sizes=[1024.0, 4096.0, 1048576.0])
    logs, noise = one.at(np.array([512.0, 1024.0, 2048.0, 65536.0, 1048576.0]))
    assert np.isnan(logs[[0, 3]]).all()
    assert np.exp(logs[[1, 2, 4]]) == pytest.approx([1e-5, math.sqrt(2) * 1e-5, 4e-5])
    assert noise[2] > noise[1]
