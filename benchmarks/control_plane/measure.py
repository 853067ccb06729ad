#!/usr/bin/env python3
"""What does the control plane cost by the number of ranks? The first process of a run, and peers.

    python benchmarks/control_plane/measure.py [--ranks 64 1024] [--rounds 5] [--out FILE]

The first process is the product's own: gather_processes, Server, Coordinator. The ranks are
lightweight (see peers.py) and in two other processes, so that the program under test has an
interpreter to itself; they share its processors. Each round is a separate run in a new process.
Prints medians over the
rounds; the processor time is the first process's: `main` where it runs Python, `I/O` where ZeroMQ
encrypts, decrypts and moves bytes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

import psutil
from peers import Fleet, placement

from cclmark.journal.schema import Settings
from cclmark.launch.coordinator import Coordinator, gather_processes
from cclmark.launch.devices import DeviceChoice
from cclmark.rendezvous.messages import FromAny, Hello, Job, encoded_plan
from cclmark.work.cases import Case
from cclmark.work.items import COLLECTIVE

POLL_S = 0.02
TIMEOUT_S = 60.0
QUIET_PERCENT = 5.0
DOUBLES = 64
SIZES = 30
SETTINGS = Settings(
    begin_bytes=8,
    end_bytes=8 << (SIZES - 1),
    step_bytes=0,
    factor=2,
    timing="throughput",
    across_ranks="max",
    precision=0.02,
    max_time_s=1,
    timeout_s=TIMEOUT_S,
    iterations=None,
    warmup=None,
    group=1,
    graph_launches=1,
    check=1,
    cycles=1,
    registration="none",
    seed=1,
)
MEETINGS = 5
ID_BYTES = bytes(range(128))  # as long as an ncclUniqueId

Figures = dict[str, float]


class Watch:
    """Times of a part: wall clock, and processor time of this process by kind of thread."""

    def __init__(self, figures: Figures, name: str) -> None:
        self._figures = figures
        self._name = name
        self._main_s, self._all_s = time.thread_time(), time.process_time()

    def stop(self, wall_s: float) -> None:
        """Notes what the part took."""
        main_s = time.thread_time() - self._main_s
        self._figures[f"{self._name}_s"] = wall_s
        self._figures[f"{self._name}_main_s"] = main_s
        self._figures[f"{self._name}_io_s"] = time.process_time() - self._all_s - main_s


def one_run(ranks: int, identity: str) -> Figures:
    """A run with so many peers, from their coming to their leaving."""
    fleet = Fleet(ranks, identity)
    try:
        return _measure(ranks, identity, fleet)
    finally:
        fleet.close()


def _measure(ranks: int, identity: str, fleet: Fleet) -> Figures:
    figures: Figures = {}
    own = psutil.Process()
    before_bytes = own.memory_info().rss
    watch = Watch(figures, "join")
    begin_s = fleet.begin("join", sys.argv[1:])
    with gather_processes(
        placement(0, ranks + 1, identity), DeviceChoice("host", (0,)), TIMEOUT_S, sys.argv[1:]
    ) as coordinator:
        watch.stop(time.monotonic() - begin_s)
        fleet.ended_s()
        coordinator.meeting.server.ranks = ranks + 1
        _part(figures, coordinator, fleet, "connect", until_hellos=ranks)
        figures["memory_bytes"] = own.memory_info().rss - before_bytes
        _part(figures, coordinator, fleet, "await_start", then=lambda: _start(coordinator))
        _part(figures, coordinator, fleet, "learn", "id", ID_BYTES)
        for name, doubles in (("barrier", 0), ("samples", DOUBLES)):
            rounds: list[Figures] = [{} for _ in range(MEETINGS)]
            for one in rounds:
                _part(one, coordinator, fleet, "meet", doubles)
                _part(one, coordinator, fleet, "beat")  # else they were taken for gone
            for part in rounds[0]:
                figures[part.replace("meet", name)] = median(one[part] for one in rounds)
        _part(figures, coordinator, fleet, "await_abort", then=lambda: _abort(coordinator))
        fleet.begin("await_leave")
        coordinator.exit_code = 0
        figures["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    fleet.ended_s()
    return figures


def _part(
    figures: Figures,
    coordinator: Coordinator,
    fleet: Fleet,
    name: str,
    *arguments: object,
    then: Callable[[], None] | None = None,
    until_hellos: int = 0,
) -> None:
    """Has the peers do something and serves them meanwhile, as a launcher does that waits."""
    heard: list[FromAny] = []
    watch = Watch(figures, name)
    begin_s = fleet.begin(name, *arguments)
    if then is not None:
        then()
    while not fleet.is_done() or len(heard) < until_hellos:
        for message in coordinator.meeting.server.receive(POLL_S):
            coordinator.hear(message)
            heard += [message] if isinstance(message, Hello) else []
        if coordinator.lost():
            raise RuntimeError(coordinator.lost())
    end_s = max(fleet.ended_s(), time.monotonic() if until_hellos else 0.0)
    watch.stop(end_s - begin_s)


def _start(coordinator: Coordinator) -> None:
    """Sends each process the job of its rank: a sweep of SIZES, on hosts that are all named."""
    cases = [
        Case(
            "all_reduce",
            "nccl",
            len(coordinator.joins),
            "float",
            8 << size,
            2 << size,
            False,
            "sum",
        )
        for size in range(SIZES)
    ]
    server = coordinator.meeting.server
    for agent in coordinator.remote:
        job = Job(
            rank=agent.process,
            ranks=len(coordinator.joins),
            parent_pid=0,
            runtime="host",
            device_indices=[0],
            every_index=list(coordinator.devices.indices),
            processors=[0],
            oversubscribed=False,
            rank_group_fd=-1,
            board_fd=-1,
            access=server.keys.access(server.endpoint),
            token=server.token,
            kind=COLLECTIVE,
            plan=encoded_plan(cases),
            settings=SETTINGS,
            ccl_path="",
            ccl_wheels={},
            hosts=coordinator.host_of,
        )
        agent.start([job])


def _abort(coordinator: Coordinator) -> None:
    for agent in coordinator.agents:
        agent.abort()


PARTS = ("join", "connect", "await_start", "learn", "barrier", "samples", "beat", "await_abort")
HEAD = "| ranks | join | connect | start | id | barrier | samples | beat | abort |"


def wait_until_quiet(patience_s: float) -> float:
    """Waits until others leave the processors alone. Returns their share of them in percent."""
    end_s = time.monotonic() + patience_s
    while (busy := psutil.cpu_percent(0.5)) > QUIET_PERCENT and time.monotonic() < end_s:
        pass
    return busy


def medians(runs: list[Figures]) -> Figures:
    """The median of each figure over the runs."""
    return {name: median(run[name] for run in runs) for name in runs[0]}


def table(results: dict[int, Figures]) -> str:
    """The medians as Markdown."""
    lines = [
        HEAD + " memory per rank |",
        "|---:|" + "---:|" * 9,
    ]
    for ranks, figures in results.items():
        times = " | ".join(f"{figures[f'{part}_s'] * 1e3:.3g} ms" for part in PARTS)
        memory_bytes = figures["memory_bytes"] / ranks
        lines.append(f"| {ranks} | {times} | {memory_bytes / 1024:.0f} KiB |")
    lines += [
        "",
        "Processor time of the first process per rank, main + I/O:",
        "",
        HEAD,
        "|---:|" + "---:|" * 8,
    ]
    for ranks, figures in results.items():
        shares = (
            " + ".join(
                f"{figures[f'{part}_{kind}_s'] / ranks * 1e6:.0f}" for kind in ("main", "io")
            )
            for part in PARTS
        )
        lines.append(f"| {ranks} | " + " | ".join(f"{share} µs" for share in shares) + " |")
    return "\n".join(lines)


def main() -> None:
    """Runs all sizes in turn, several rounds, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64, 256, 512, 1024])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=30.0, help="seconds, for others' work")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    runs: dict[int, list[Figures]] = {ranks: [] for ranks in args.ranks}
    with tempfile.TemporaryDirectory() as directory:
        os.environ["CCLMARK_SHARED_DIR"] = directory
        for number in range(args.rounds):
            for ranks in args.ranks:
                busy = wait_until_quiet(args.patience)
                with ProcessPoolExecutor(1, mp_context=mp.get_context("spawn")) as fresh:
                    run = fresh.submit(one_run, ranks, f"{ranks}-{number}").result()
                runs[ranks].append({**run, "busy_before_percent": busy})
                print(f"round {number + 1}: {ranks} ranks, {busy:.0f} % busy", file=sys.stderr)
    results = {ranks: medians(of_size) for ranks, of_size in runs.items()}
    print(table(results))
    if args.out:
        machine = {"host": f"{os.cpu_count()}-core host", "load_before": load}
        text = json.dumps({**machine, "rounds": args.rounds, "runs": runs}, indent=1)
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
