#!/usr/bin/env python3
"""Is `shm` at least as fast as Open MPI and gloo on this machine? All three in turn, several times.

    python benchmarks/shm/compare.py --mpirun BIN/mpirun --gloo-python BIN/python --ranks 2

Each round runs every operation through cclmark, mpi_loop.c and gloo_loop.py on the same sizes, one
after the other. Two figures for each: the best round's median, and the best batch of all rounds,
which says more on a machine that others use too. The ratios are the peer's figure over ours: above
1 we are faster. Writes results-<ranks>ranks.json beside this file and prints the table as Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall")
FACTOR = 4
LARGER = [1024 * FACTOR**k for k in range(10)]
HERE = Path(__file__).parent
TIMEOUT_S = 600
BATCHES = 21
PEERS = ("mpi", "gloo")

Times = dict[int, tuple[float, float]]  # by size: the median batch and the best, in seconds


def cpu_seconds() -> tuple[float, float]:
    """Seconds that this machine's processors were busy and idle since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    ticks = os.sysconf("SC_CLK_TCK")
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / ticks, idle / ticks


def wait_until_quiet(patience_s: float) -> bool:
    """Waits until others leave the processors alone; says whether they do."""
    end_s = time.monotonic() + patience_s
    while True:
        busy, idle = cpu_seconds()
        time.sleep(0.5)
        busy_after, idle_after = cpu_seconds()
        if (busy_after - busy) <= 0.05 * (idle_after - idle):
            return True
        if time.monotonic() > end_s:
            return False


def run(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> str:
    """Standard output of a command. Ends the program when it fails."""
    text = [str(word) for word in command]
    done = subprocess.run(text, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(text)}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def build_mpi_loop(mpirun: Path, directory: str) -> Path:
    """Compiles mpi_loop.c with the mpicc beside ``mpirun``, or with cc and the headers there."""
    program = Path(directory) / "mpi_loop"
    flags = ["-O2", "-o", program, HERE / "mpi_loop.c"]
    mpicc = mpirun.parent / "mpicc"
    if mpicc.exists():
        run([mpicc, *flags, "-lm"])
    else:
        root = mpirun.parent.parent
        paths = [f"-I{root}/include", f"-L{root}/lib", f"-Wl,-rpath,{root}/lib"]
        run(["cc", *flags, *paths, "-lmpi", "-lm"])
    return program


def mpi_flags(ranks: int) -> list[str]:
    """How mpirun is called: its defaults where every rank has a core, sharing cores otherwise."""
    flags = ["-np", str(ranks)]
    if os.geteuid() == 0:
        flags.append("--allow-run-as-root")
    if ranks > len(os.sched_getaffinity(0)):
        flags += ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    return flags


def cache_bytes() -> int:
    """The last-level cache, as engine/device/host.cpp finds it."""
    text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text()
    return int(text.strip().removesuffix("K")) * 1024


def spare_bytes(ranks: int) -> int:
    """What a buffer has room for at least, as in MessageBuffers of engine/measure."""
    return min(3 * cache_bytes(), 1 << 28) // (2 * ranks)


def smallest(operation: str) -> int:
    """The size for the latency: parts of a message are multiples of 16 bytes in cclmark."""
    return 64 if operation in ("all_gather", "reduce_scatter", "alltoall") else 8


def ours(args: argparse.Namespace, operation: str) -> Times:
    """cclmark's figures: the medians of its own samples."""
    times: Times = {}
    small = smallest(operation)
    for begin, end in ((small, small), (LARGER[0], LARGER[-1])):
        with tempfile.TemporaryDirectory() as directory:
            text = run(
                [
                    args.cclmark, operation, "-b", str(begin), "-e", str(end), "-f", str(FACTOR),
                    "--devices", f"host:{args.ranks}", "--placement", "out-of-place", "-c", "0",
                    "--max-time", "0.3", "--format", "json", "--journal", f"{directory}/journal",
                ]
            )  # fmt: skip
        for result in json.loads(text)["cases"]:
            slowest = [max(row) for row in result["samples"]["host_s"]]
            times[result["case"]["size_bytes"]] = (median(slowest), min(slowest))
    return times


def loop(command: Sequence[str | Path], args: argparse.Namespace, operation: str) -> Times:
    """The figures of mpi_loop.c or gloo_loop.py."""
    tail = [operation, spare_bytes(args.ranks), BATCHES, smallest(operation), *LARGER]
    document = json.loads(run([*command, *(str(word) for word in tail)]))
    args.versions.add(document["library"])
    return {int(size): tuple(times_s) for size, times_s in document["times_s"].items()}


def measure(args: argparse.Namespace, program: Path) -> dict[str, dict[str, list[Times]]]:
    """Every round's figures, by operation and library."""
    gloo = [args.gloo_python, HERE / "gloo_loop.py", str(args.ranks)] if args.gloo_python else None
    mpi = [args.mpirun, *mpi_flags(args.ranks), program]
    rounds: dict[str, dict[str, list[Times]]] = {}
    for number in range(args.rounds):
        for operation in args.operations:
            found = rounds.setdefault(operation, {"shm": [], "mpi": [], "gloo": []})
            for name in ("shm", *PEERS):
                if name == "gloo" and (gloo is None or number >= args.gloo_rounds):
                    continue
                if not wait_until_quiet(args.patience):
                    args.disturbed += 1
                if name == "shm":
                    found[name].append(ours(args, operation))
                else:
                    found[name].append(loop(mpi if name == "mpi" else gloo, args, operation))
            print(f"round {number + 1}: {operation}", file=sys.stderr)
            write(args, rounds)
    return rounds


def best(rounds: list[Times], size: int, figure: int) -> float | None:
    """The least figure over the rounds: 0 for the medians, 1 for the best batches."""
    return min((times[size][figure] for times in rounds if size in times), default=None)


def table(rounds: dict[str, dict[str, list[Times]]]) -> str:
    """Best batches in microseconds and what the peers take in relation to us, as Markdown."""
    lines = [
        "| operation | size | shm µs | Open MPI µs | gloo µs | vs Open MPI | vs gloo |"
        " vs Open MPI (medians) | vs gloo (medians) |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for operation, found in rounds.items():
        for size in (smallest(operation), *LARGER):
            if best(found["shm"], size, 1) is None:
                continue
            times = {name: [best(found[name], size, k) for k in (0, 1)] for name in found}
            cells = [operation, readable(size)]
            cells += [written(times[name][1], 1e6) for name in ("shm", *PEERS)]
            for figure in (1, 0):
                own = times["shm"][figure]
                cells += [written(times[name][figure], 1 / own) for name in PEERS]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def written(value: float | None, factor: float) -> str:
    """A figure in the unit that ``factor`` makes, or a dash."""
    return "–" if value is None else f"{value * factor:.2f}"


def readable(size: int) -> str:
    """8 B, 64 KiB, 256 MiB."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def machine() -> dict[str, object]:
    """Where this was measured."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(": ")[2] for line in info if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "l3_bytes": cache_bytes(),
        "kernel": platform.release(),
    }


def write(args: argparse.Namespace, rounds: dict[str, dict[str, list[Times]]]) -> None:
    """Writes what was measured so far."""
    document = {
        "ranks": args.ranks,
        "machine": machine(),
        "peers": sorted(args.versions),
        "mpirun": mpi_flags(args.ranks),
        "runs_begun_while_others_worked": args.disturbed,
        "rounds": rounds,
    }
    out = args.out or HERE / f"results-{args.ranks}ranks.json"
    out.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Measures, prints the table and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpirun", type=Path, required=True, help="Open MPI's mpirun")
    parser.add_argument("--gloo-python", type=Path, help="a python that has torch")
    parser.add_argument("--cclmark", default="cclmark", help="our program")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gloo-rounds", type=int, default=2, help="gloo is slow to measure")
    parser.add_argument("--operations", nargs="+", default=OPERATIONS, choices=OPERATIONS)
    parser.add_argument("--patience", type=float, default=20, help="wait this long for quiet")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.versions, args.disturbed = set(), 0
    with tempfile.TemporaryDirectory() as directory:
        rounds = measure(args, build_mpi_loop(args.mpirun, directory))
    print(table(rounds))


if __name__ == "__main__":
    main()
