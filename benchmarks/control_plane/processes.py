#!/usr/bin/env python3
"""How long do real ranks take to their table, by their number, on this machine?

    python benchmarks/control_plane/processes.py [--ranks 16 32 64] [--rounds 3] [--out FILE]

Starts so many processes of `cclmark all_reduce --devices host -b 8 -e 8 -n 2 -w 1` at once, with
RANK and WORLD_SIZE as pods have them. Each starts its rank as a second Python. Prints medians: time
until the first process has printed its table, and the processor time of all processes together;
beside them that of the same command with one rank and no others to meet, and of what starting
takes: a bare Python, and the imports of a process and of a rank.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from measure import wait_until_quiet

SWEEP = ("all_reduce", "--devices", "host", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "-T", "300")
TIMEOUT_S = 400
PROGRAM = (sys.executable, "-m", "cclmark")
STARTS = {
    "one_rank_s": (*PROGRAM, *SWEEP, "-g", "1"),
    "python_start_s": (sys.executable, "-c", ""),
    "process_import_s": (sys.executable, "-c", "import cclmark.kinds.collective.request"),
    "rank_import_s": (sys.executable, "-c", "import cclmark.rank.worker"),
}


def children_s() -> float:
    """Processor time of all children that have ended, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_run(ranks: int) -> dict[str, float]:
    """All processes started at once, and waited for."""
    before_s = children_s()
    with tempfile.TemporaryDirectory() as directory:
        begin_s = time.monotonic()
        processes = []
        for rank in range(ranks):
            own = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "CCLMARK_SHARED_DIR": directory}
            processes.append(
                subprocess.Popen(
                    [*PROGRAM, *SWEEP],
                    cwd=directory,
                    env={**os.environ, **own},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        started_s = time.monotonic() - begin_s
        out, err = processes[0].communicate(timeout=TIMEOUT_S)
        table_s = time.monotonic() - begin_s
        others = [process.communicate(timeout=TIMEOUT_S)[1] for process in processes[1:]]
        codes = [process.returncode for process in processes]
        if any(codes) or f"{ranks} ranks" not in out:
            sys.exit(f"exit codes {codes}:\n{out}{err}{''.join(others)}")
    used_s = children_s() - before_s
    return {"forked_s": started_s, "table_s": table_s, "processor_s": used_s}


def start_s(command: tuple[str, ...]) -> float:
    """Processor time of a command alone."""
    before_s = children_s()
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(command, check=True, capture_output=True, cwd=directory)
    return children_s() - before_s


def main() -> None:
    """Runs all sizes in turn, several rounds, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=30.0, help="seconds, for others' work")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    starts = {name: median(start_s(command) for _ in range(5)) for name, command in STARTS.items()}
    runs: dict[int, list[dict[str, float]]] = {ranks: [] for ranks in args.ranks}
    for ranks, of_size in runs.items():
        for _ in range(args.rounds):
            busy = wait_until_quiet(args.patience)
            of_size.append({**one_run(ranks), "busy_before_percent": busy})
    print(*(f"{name[:-2]} {1e3 * used_s:.0f} ms" for name, used_s in starts.items()), sep=", ")
    print("| ranks | table | processor time | per rank |\n|---:|---:|---:|---:|")
    for ranks, of_size in runs.items():
        table_s, used_s = (
            median(run[name] for run in of_size) for name in ("table_s", "processor_s")
        )
        per_rank_s = used_s / ranks
        print(f"| {ranks} | {table_s:.1f} s | {used_s:.1f} s | {1e3 * per_rank_s:.0f} ms |")
    if args.out:
        machine = {"host": f"{os.cpu_count()}-core host", "load_before": load}
        args.out.write_text(json.dumps({**machine, **starts, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
