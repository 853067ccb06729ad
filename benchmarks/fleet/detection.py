"""Faults planted in simulated fleets: how many a scan names, and how often it blames the healthy.

    python benchmarks/fleet/detection.py [--seeds 200] [--devices 16,256,1000,10000] [--noise 1]
        [--curves] [--svg FILE]

A row for each fault and size: scans in which everything planted is named and nothing else is,
precision, recall and F1 of the names, and the time to a verdict: that of the rounds, of
``ROUND_S`` each, and of the computation. Beside them what published detectors claim, which watch
training jobs and were measured on other faults. ``--curves``: by severity, noise and size.
"""

import argparse
import os
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from simulated_fleet import Planted, SimulatedFleet, shape_of

from cclmark_fleet.scan.fleet_rounds import planned_rounds
from cclmark_fleet.scan.fleet_verdict import (
    FABRIC_WIDE,
    LINK,
    NIC,
    NODE,
    SWITCH,
    THERMAL,
    HostState,
    judge,
)

FLEETS = {
    16: "fat-tree:2x8",
    256: "fat-tree:32x8",
    1000: "rail:125x8,leaf=25",
    10000: "rail:1250x8,leaf=25",
}
#: A fleet of 16 with two nodes has one leaf switch, and no third node to tell two faults apart.
SMALL = {"switch": "fat-tree:16x1,leaf=4", "two faults": "fat-tree:4x4"}
ROUND_S = 0.2  # 64 MiB at 40 GB/s, 20 times, with barriers: facts of the schedule, not measured
PUBLISHED = (
    ("Minder (NSDI'25)", "precision 0.904, F1 0.893, 3.6 s"),
    ("Holmes (NSDI'25)", "97.2 % located, 30.3 s"),
    ("Greyhound (FALCON)", "> 99 % accuracy"),
)
Target = tuple[tuple[str, ...], frozenset[str]]


class Case(NamedTuple):
    """A fault in a fleet, and what has to be named: one of the kinds, with all of the names."""

    topology: str
    planted: Planted
    targets: list[Target]
    floor: bool = False


def cable(text: str, draw: np.random.Generator, percent: int = 20) -> Case:
    """A cable between a device and its switch."""
    shape = shape_of(text)
    device = int(draw.integers(shape.devices))
    names = {shape.node_names[shape.node_of[device]]}
    if len(shape.node_names) < shape.devices:
        names.add(str(shape.place_of[device]))
    return Case(
        text,
        Planted(slow={f"gpu{device}-leaf": 1 - percent / 100}),
        [((NIC, NODE), frozenset(names))],
    )


def path(text: str, draw: np.random.Generator, percent: int = 20) -> Case:
    """The path between two devices of a node, or of two nodes with one device each."""
    shape = shape_of(text)
    own = shape.members[int(draw.integers(len(shape.members)))]
    one, other = sorted(map(int, draw.choice(own, 2, replace=False)))
    names = frozenset((shape.device_name(one), shape.device_name(other)))
    return Case(text, Planted(pairs={(one, other): 1 - percent / 100}), [((LINK,), names)])


def link(text: str, draw: np.random.Generator, percent: int = 20) -> Case:
    """One link: a cable of a device, or the path between two devices of a node."""
    return (cable if draw.random() < 0.5 else path)(text, draw, percent)


def lost_nic(text: str, draw: np.random.Generator) -> Case:
    """A NIC that is down: its device sends by that of the next one."""
    case = cable(text, draw)
    return case._replace(planted=Planted(slow=dict.fromkeys(case.planted.slow, 0.0)))


def thermal(text: str, draw: np.random.Generator, *, known: bool = True) -> Case:
    """A node whose clocks fall for 40 % of the samples. ``known``: the host reports it."""
    shape = shape_of(text)
    node = int(draw.integers(len(shape.members)))
    states = (HostState(node, "clocks fell from 1980 to 1410 MHz", is_thermal=True),)
    planted = Planted(thermal=node, states=states if known else ())
    kinds = (THERMAL,) if known else (NODE,)
    return Case(text, planted, [(kinds, frozenset({shape.node_names[node]}))])


def switch(text: str, draw: np.random.Generator) -> Case:
    """A leaf switch: all its ports, or its links upwards, at 70 %."""
    shape = shape_of(text)
    grouping = shape.groupings[0]
    chosen = int(draw.integers(len(grouping.names)))
    slow = {f"gpu{one}-leaf": 0.7 for one in np.flatnonzero(np.array(grouping.of) == chosen)}
    if draw.random() < 0.5:
        slow = {f"leaf{chosen}-spine": 0.7}
    return Case(text, Planted(slow=slow), [((SWITCH,), frozenset({f"leaf{chosen}"}))])


def two(text: str, draw: np.random.Generator) -> Case:
    """Two of them, on different nodes: a link at -20 % and another, or a thermal node."""
    while True:
        one = link(text, draw)
        other = (link if draw.random() < 0.5 else thermal)(text, draw)
        nodes = [
            {name.partition(":")[0] for _, names in case.targets for name in names}
            for case in (one, other)
        ]
        if not any(name.startswith("node") for name in nodes[0] & nodes[1]):
            break
    return Case(text, one.planted.beside(other.planted), [*one.targets, *other.targets])


def everything(text: str, draw: np.random.Generator) -> Case:
    """The whole fabric at -40 %."""
    return Case(text, Planted(all=0.6), [((FABRIC_WIDE,), frozenset())], floor=True)


def healthy(text: str, draw: np.random.Generator) -> Case:
    """Nothing."""
    return Case(text, Planted(), [], floor=True)


FAULTS: dict[str, tuple[Callable[[str, np.random.Generator], Case], float]] = {
    "link -20 %": (link, 0.99),
    "link -10 %": (partial(link, percent=10), 0.95),
    "NIC of eight lost": (lost_nic, 0.99),
    "thermal node": (thermal, 0.95),
    "thermal, without clocks": (partial(thermal, known=False), 0.0),
    "two faults": (two, 0.95),
    "two faults, two nodes": (two, 0.95),
    "switch": (switch, 0.95),
    "fabric -40 %": (everything, 0.99),
    "healthy": (healthy, 0.99),
}


class Outcome(NamedTuple):
    """Of a scan. ``named`` of ``planted``, ``blamed`` of which are ``right``."""

    whole: bool
    named: int
    planted: int
    right: int
    blamed: int
    rounds: int
    judge_s: float
    confidence: float


def outcome_of(made: tuple[Callable[[str, np.random.Generator], Case], str, int, float]) -> Outcome:
    """Plants a fault, and scans."""
    make, text, seed, noise = made
    case = make(text, np.random.default_rng([seed, 77]))
    fleet = SimulatedFleet(case.topology, seed, case.planted, noise)
    floors = None
    if case.floor:  # what healthy pairs have, from the capacities
        section = {one.level: float(one.bps.min()) for one in fleet.fabric.sections}
        nic = section.get("leaf", min(section.values()))
        names = fleet.shape.level_names
        floors = {
            name: section["node"] if name == "node" and "node" in section else nic for name in names
        }
    found, tests, rounds = fleet.scan(floors)
    began_s = time.perf_counter()
    judge(fleet.shape, tests)
    judge_s = time.perf_counter() - began_s
    blames = [one for one in found.faults if one.blames or one.kind == FABRIC_WIDE]

    def fits(target: Target) -> list[int]:
        kinds, names = target
        return [
            at for at, one in enumerate(blames) if one.kind in kinds and names <= set(one.where)
        ]

    matched = [fits(target) for target in case.targets]
    right = {at for one in matched for at in one}
    named = sum(bool(one) for one in matched)
    whole = named == len(case.targets) and len(right) == len(blames)
    sure = float(np.mean([one.confidence for one in blames])) if blames else np.nan
    return Outcome(whole, named, len(case.targets), len(right), len(blames), rounds, judge_s, sure)


def row_of(
    name: str, devices: int, seeds: int, noise: float, pool: ProcessPoolExecutor
) -> list[Outcome]:
    """The outcomes of a fault in fleets of a size."""
    make, _ = FAULTS[name]
    text = SMALL.get(name, FLEETS[16]) if devices == 16 else FLEETS[devices]
    work = [(make, text, seed, noise) for seed in range(seeds)]
    return [*pool.map(outcome_of, work, chunksize=2)]


def words(name: str, devices: int, found: Sequence[Outcome]) -> str:
    """A line of the table."""
    total = len(found)
    right, blamed = sum(one.right for one in found), sum(one.blamed for one in found)
    named, planted = sum(one.named for one in found), sum(one.planted for one in found)
    precision = right / blamed if blamed else float("nan")
    recall = named / planted if planted else float("nan")
    both = 2 * precision * recall / (precision + recall) if right else float("nan")
    whole = sum(one.whole for one in found)
    rounds = np.mean([one.rounds for one in found])
    seconds = rounds * ROUND_S + np.mean([one.judge_s for one in found])
    target = FAULTS[name][1]
    verdict = "" if not target else "met" if whole / total >= target else f"missed ({target:.0%})"
    rates = f"{precision:>6.3f} {recall:>6.3f} {both:>6.3f}"
    cost = f"{rounds:>5.0f} {seconds:>6.1f} s"
    return f"{name:25} {devices:>7,} {whole:>4} of {total} {rates} {cost}  {verdict}"


def cost(devices: int) -> str:
    """Rounds, and the time to schedule and to judge."""
    shape = shape_of(FLEETS[devices])
    fleet = SimulatedFleet(FLEETS[devices], 1, Planted())
    began_s = time.perf_counter()
    rounds = planned_rounds(shape, 1)
    scheduled_s = time.perf_counter() - began_s
    _, tests, _ = fleet.scan()
    began_s = time.perf_counter()
    judge(shape, tests)
    judged_s = time.perf_counter() - began_s
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times = f"{scheduled_s:>8.2f} s {judged_s:>7.2f} s"
    return f"{devices:>7,} {len(rounds):>6} {times} {memory:>7.0f} MiB"


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--devices", default=",".join(map(str, FLEETS)))
    parser.add_argument("--noise", type=float, default=1.0, help="factor of all noise [1]")
    parser.add_argument("--faults", default=";".join(FAULTS), help="with ;")
    parser.add_argument("--curves", action="store_true")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    sizes = [int(one) for one in options.devices.split(",")]
    print("devices rounds scheduled    judged   memory")
    for devices in sizes:
        print(cost(devices), flush=True)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        print(f"\nnoise × {options.noise:g}: each test is the median of samples of a run on H200")
        print("fault                     devices  all named  prec. recall     F1 rounds   time")
        for name in options.faults.split(";"):
            for devices in sizes[:1] if name == "two faults, two nodes" else sizes:
                print(
                    words(name, devices, row_of(name, devices, options.seeds, options.noise, pool)),
                    flush=True,
                )
        for name, claim in PUBLISHED:
            print(f"{name:25} {claim}, on its own faults")
        if options.curves:
            curves(sizes, options.seeds, pool, options.svg)


def curves(sizes: Sequence[int], seeds: int, pool: ProcessPoolExecutor, svg: Path | None) -> None:
    """The share of links named, by severity and noise, and false alarms of healthy fleets."""
    percents, noises = (3, 5, 6, 7, 8, 10, 15, 20, 40), (1.0, 2.0, 3.0, 5.0)
    print("\nlinks named, by severity (rows: devices, noise)")
    print(" " * 16 + "".join(f"{-percent:>6} %" for percent in percents) + "  false alarms")
    lines = {}
    for devices in sizes:
        for noise in noises:
            shares = []
            for percent in percents:
                work = [
                    (partial(link, percent=percent), FLEETS[devices], s, noise)
                    for s in range(seeds)
                ]
                shares.append(
                    np.mean([one.whole for one in pool.map(outcome_of, work, chunksize=2)])
                )
            work = [(healthy, FLEETS[devices], seed, noise) for seed in range(seeds)]
            alarms = 1 - np.mean([one.whole for one in pool.map(outcome_of, work, chunksize=2)])
            lines[devices, noise] = shares
            cells = "".join(f"{share:>8.2f}" for share in shares)
            print(f"{devices:>8,}  × {noise:<4g}{cells}  {alarms:.3f}", flush=True)
    if svg is not None:
        figure = Figure(figsize=(7, 4))
        axes = figure.subplots()
        for (devices, noise), shares in lines.items():
            if noise in (1.0, 3.0):
                style = "-" if noise == 1.0 else "--"
                axes.plot(percents, shares, style, label=f"{devices:,} devices, noise × {noise:g}")
        axes.set_xlabel("slower by, %")
        axes.set_ylabel("links named, nothing else blamed")
        axes.legend(fontsize=7)
        figure.savefig(svg)


if __name__ == "__main__":
    main()
