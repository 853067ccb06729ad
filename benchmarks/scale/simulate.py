"""``cclmark simulate`` on up to 16,384 devices, beside closed forms and beside measurements.

    python benchmarks/scale/simulate.py [--svg FILE] [JOURNAL...]

- Growth: whole commands on 1,024, 4,096 and 16,384 devices: seconds and memory, with all other work
  of a command. ``--svg``: drawn, with matplotlib.
- Closed forms: simulated times where nothing contends.
- Measurements: all_reduce of two ranks by ``shm`` on this host, measured now, and by NCCL on two
  H200 (``benchmarks/results/h200x4/report/pairs.jsonl``). The rate of the link is that of a
  sendrecv of the same size, less the time of one of 8 bytes: of shm the latency of each step, of
  NCCL the launch, which a call has once. So the interval of the simulation is that of the sendrecv,
  from the shortest sample to the 95th percentile, in all of several runs. ``JOURNAL...``: runs of
  sendrecv and all_reduce on two other devices, and nothing else is done.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Summary
from cclmark.kinds.registry import read_journal
from cclmark.work.accelerators import LATENCY_S, NODE_LATENCY_S
from cclmark.work.fabric_topology import parse_topology
from cclmark.work.sizes import format_size
from cclmark_planning.simulate.graph import fabric_of
from cclmark_planning.simulate.simulation import FabricJob, simulate

PAIRS = Path(__file__).parents[1] / "results" / "h200x4" / "report" / "pairs.jsonl"
NODES = (128, 512, 2048)
SIZE = 1 << 30
COMMANDS = {
    "all_reduce, hierarchical": ("all_reduce", "--algorithm", "hierarchical"),
    "all_reduce, four algorithms": ("all_reduce",),
    "all_reduce, four, slow link": ("all_reduce", "--slow-link", "gpu9-leaf=0.5"),
    "all_reduce, ring, hash": ("all_reduce", "--algorithm", "ring", "--routing", "hash"),
    "alltoall, two algorithms": ("alltoall",),
    "all_reduce, ring, beside a job": ("all_reduce", "--algorithm", "ring"),
}


class Cost(NamedTuple):
    """Of a command."""

    seconds: float
    gigabytes: float


def cost_of(arguments: list[str]) -> Cost:
    """Runs the command. The memory is the largest of the process."""
    with tempfile.TemporaryDirectory() as directory:
        began = time.monotonic()
        command = [sys.executable, "-m", "cclmark", "simulate", *arguments, "--quiet"]
        process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)}: exit status {status}")
        return Cost(time.monotonic() - began, usage.ru_maxrss * 1024 / 1e9)


def growth() -> dict[str, list[Cost]]:
    """The costs of all commands by the number of nodes, printed."""
    found: dict[str, list[Cost]] = {}
    print(f"{'seconds and GB, devices':42}" + "".join(f"{nodes * 8:>16,}" for nodes in NODES))
    for name, words in COMMANDS.items():
        for topology in ("rail", "fat-tree"):
            costs = []
            for nodes in NODES:
                own = [*words, "--topology", f"{topology}:{nodes}x8,oversub=2"]
                if "beside" in name:
                    half = nodes * 4
                    own += ["--ranks", str(half), "--placement", "spread"]
                    own += ["--job", f"all_reduce:1G:{half}:spread:tree"]
                costs.append(cost_of(own))
            found[f"{topology}: {name}"] = costs
            cells = "".join(f"{one.seconds:>10.2f}{one.gigabytes:>6.2f}" for one in costs)
            print(f"{topology + ': ' + name:42}" + cells, flush=True)
    return found


def draw(costs: dict[str, list[Cost]], path: str) -> None:
    """Seconds by the number of devices."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    for name, own in costs.items():
        style = "-" if name.startswith("rail") else "--"
        axes.loglog([nodes * 8 for nodes in NODES], [one.seconds for one in own], style, label=name)
    axes.set_xticks([nodes * 8 for nodes in NODES], [f"{nodes * 8:,}" for nodes in NODES])
    axes.axhline(60, color="grey", linewidth=0.8)
    axes.set_xlabel("devices")
    axes.set_ylabel("seconds of the command")
    axes.legend(fontsize=6)
    figure.savefig(path)


def closed_forms() -> Iterator[tuple[str, str, str, float]]:
    """Topology, operation, algorithm and the time by a formula."""
    link, nic, torus, size = 450e9, 50e9, 50e9, float(SIZE)
    node_s, net_s = NODE_LATENCY_S, LATENCY_S
    for n in (8, 72):
        share = (n - 1) / n * size / link
        yield f"nvlink:{n}", "all_reduce", "ring", 2 * share + 2 * (n - 1) * node_s
        yield f"nvlink:{n}", "alltoall", "direct", share + node_s
        yield f"nvlink:{n}", "all_reduce", "nvls", (n + 1) / n * size / link + 2 * node_s
    yield "fat-tree:32x1", "all_reduce", "ring", 62 / 32 * size / nic + 62 * net_s
    yield "fat-tree:32x1", "all_reduce", "tree", 2 * size / nic + 10 * net_s
    yield "fat-tree:32x1", "all_gather", "pat", 31 / 32 * size / nic + 5 * net_s
    in_nodes = 14 / 8 * size / link + 14 * node_s
    for n in (4, 32):
        between = 2 * (n - 1) / n * size / 8 / nic + 2 * (n - 1) * net_s
        yield f"rail:{n}x8", "all_reduce", "hierarchical", in_nodes + between
    # Beyond a leaf switch of 4 nodes, of 2,048 nodes 1 of 4 hops of rings takes 1 or 2 µs more.
    hops_s = 2 * 2047 * (net_s + (512 - 16) / 2048 * 1e-6 + 16 / 2048 * 2e-6)
    between = 2 * 2047 / 2048 * size / 8 / nic + hops_s
    yield "fat-tree:2048x8,pod=128", "all_reduce", "hierarchical", in_nodes + between
    yield "rail:2048x8", "alltoall", "direct", 16376 / 16384 * size / nic + net_s + 1e-6 + node_s
    yield (
        *("torus:16x16x16", "all_reduce", "hierarchical"),
        2
        * sum(15 / 16 * size / 16**done / 2 / torus + 15 * (node_s + 0.5e-6) for done in range(3)),
    )


def compare_closed_forms() -> None:
    """Prints both times, and the difference."""
    print("\nclosed forms, 1 GiB, without contention")
    for text, operation, algorithm, formula_s in closed_forms():
        fabric = fabric_of(parse_topology(text))
        job = FabricJob(operation, algorithm, SIZE, np.arange(fabric.devices))
        simulated_s = simulate(fabric, job).time_s
        error = simulated_s / formula_s - 1
        print(
            f"  {text:26}{operation:12}{algorithm:14}{simulated_s * 1e3:12.4f} ms"
            f"{formula_s * 1e3:12.4f} ms{error * 100:+10.4f} %"
        )
        assert abs(error) < 1e-3


def measured_here() -> list[CaseResult]:
    """all_reduce and sendrecv of two ranks of this host by shm."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for operation in ("sendrecv", "all_reduce"):
            path = Path(directory) / f"{operation}.jsonl"
            words = [operation, "--devices", "host:2", "-b", "8", "-e", "64M", "-f", "8"]
            command = [sys.executable, "-m", "cclmark", *words, "--placement", "out-of-place"]
            options = ["--max-time", "5", "--journal", str(path), "--quiet"]
            subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
            found += read_journal(path).cases
    return found


def measured_on_gpus() -> list[CaseResult]:
    """Those of the first pair of H200."""
    return [one for one in read_journal(PAIRS).cases if one.case.pair == (0, 1)]


class Times(NamedTuple):
    """Of a case, in seconds."""

    min_s: float
    time_s: float
    p95_s: float


def times_of(runs: list[Summary]) -> Times:
    """The median of the runs' medians, and the ends of all of them."""
    return Times(
        min(one.min_s for one in runs),
        statistics.median(one.time_s for one in runs),
        max(one.p95_s for one in runs),
    )


def compare(title: str, cases: list[CaseResult], *, is_launched: bool) -> None:
    """Prints measured all_reduces beside simulated ones.

    ``is_launched``: the time of the smallest message is the call's own, not that of a step.
    """
    runs = defaultdict(list)
    for one in cases:
        if one.summary is not None and not one.case.in_place:
            runs[one.case.operation, one.case.size_bytes].append(one.summary)
    by_key = {key: times_of(own) for key, own in runs.items()}
    smallest_s = by_key["sendrecv", 8].time_s
    step_us = 0.001 if is_launched else smallest_s * 1e6
    print(f"\n{title}: simulated from sendrecv, and measured; [shortest, p95]")
    for (operation, size), measured in sorted(by_key.items(), key=lambda one: one[0][1]):
        sent = by_key.get(("sendrecv", size))
        if operation != "all_reduce" or sent is None or size == 8:
            continue

        def simulated_s(sent_s: float, size: int = size) -> float:
            gbit = size / max(sent_s - smallest_s, 1e-9) * 8e-9
            spec = f"nvlink:2,nvlink={min(gbit, 1e8):.6f},node-latency={step_us:.6f}"
            job = FabricJob("all_reduce", "ring", size, np.arange(2))
            time_s = simulate(fabric_of(parse_topology(spec)), job).time_s
            return time_s + smallest_s * is_launched

        times = [simulated_s(one) for one in (sent.min_s, sent.time_s, sent.p95_s)]
        overlap = times[0] <= measured.p95_s and measured.min_s <= times[2]
        error = times[1] / measured.time_s - 1
        cells = [f"{one * 1e6:.1f}" for one in (*times, measured.min_s, measured.time_s)]
        print(
            f"  {format_size(size):>8}  {cells[1]:>9} [{cells[0]}, {cells[2]}]".ljust(46)
            + f"{cells[4]:>9} [{cells[3]}, {measured.p95_s * 1e6:.1f}] µs".ljust(36)
            + f"{error * 100:+7.1f} %  {'within' if overlap else 'outside'}"
        )


def main() -> None:
    """All of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--svg", default="")
    parser.add_argument("journals", nargs="*", type=Path, metavar="JOURNAL")
    arguments = parser.parse_args()
    path = arguments.svg
    if arguments.journals:
        cases = [one for path in arguments.journals for one in read_journal(path).cases]
        compare(f"{len(arguments.journals)} runs on two devices", cases, is_launched=True)
        return
    print(f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, numpy {np.__version__}")
    costs = growth()
    if path:
        draw(costs, path)
    compare_closed_forms()
    compare("two ranks of this host, shm", measured_here(), is_launched=False)
    compare("two H200, NCCL 2.28.9", measured_on_gpus(), is_launched=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
    print(f"\nlargest memory of a command: {peak:.2f} GB")


if __name__ == "__main__":
    main()
