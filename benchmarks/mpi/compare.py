"""Does the engine add anything to MPI's times? The same library, called by a loop in plain C.

    python benchmarks/mpi/compare.py --prefix DIR [--rounds 5] [--cache cold|warm] [--out FILE.json]

DIR holds an MPI as a wheel installs it: bin/mpirun, include/mpi.h, lib/libmpi.so.*. Each round
runs the C program and cclmark once, with two ranks on the same operations and sizes; who comes
first changes. What counts is the ratio of the geometric means over the rounds, ours over the
loop's, per size, with its interval: two starts of one program differ by more than the programs do.
With ``--cache warm`` both reuse one pair of buffers, as MPI's own benchmarks do; else both walk
through as much memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

from cclmark import _engine as engine
from cclmark.analysis.ratio import LEAST_RUNS, ratio_estimate
from cclmark.journal.host_processors import spread_over_cores

OPERATIONS = ("all_reduce", "all_gather", "alltoall", "broadcast")
SIZES = [64 << (2 * i) for i in range(9)]
HERE = Path(__file__).parent
Times = dict[tuple[str, int], float]


def environment(prefix: Path) -> dict[str, str]:
    allowed = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
    return {**os.environ, **allowed, "CCLMARK_MPIRUN": str(prefix / "bin" / "mpirun")}


def run(command: list[str], prefix: Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment(prefix)
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(prefix: Path, directory: str) -> Path:
    """The C program, linked with the MPI below ``prefix``."""
    program = Path(directory) / "loop"
    library = next(iter(sorted((prefix / "lib").glob("libmpi.so.*"))))
    run(
        [
            *("gcc", "-O2", "-o", str(program), str(HERE / "loop.c"), f"-I{prefix / 'include'}"),
            *(str(library), f"-Wl,-rpath,{prefix / 'lib'}", "-Wl,--allow-shlib-undefined"),
        ],
        prefix,
    )
    return program


def spare_bytes(cache: str) -> int:
    """How much memory cclmark walks through with two ranks of a host: see docs/methodology.md."""
    if cache == "warm":
        return 0
    cache_bytes = engine.open_device("host", 0).info.cache_bytes
    return min(3 * cache_bytes, 256 << 20) // 4 // 512 * 512


def of_loop(program: Path, prefix: Path, operations: str, cache: str) -> Times:
    """Microseconds of the middle batch by operation and size in bytes.

    Each rank on the processor that cclmark takes for it: which caches two ranks share decides more
    than anything else here.
    """
    command = [str(prefix / "bin" / "mpirun"), "--bind-to", "none"]
    for rank, processor in enumerate(spread_over_cores(os.sched_getaffinity(0))[:2]):
        command += [":"] if rank else []
        command += ["-n", "1", "taskset", "-c", str(processor), str(program)]
        command += [operations, str(spare_bytes(cache)), *map(str, SIZES)]
    text = run(command, prefix)
    rows = [line.split() for line in text.splitlines()]
    return {(operation, int(size)): float(time_us) for operation, size, time_us in rows}


def of_cclmark(prefix: Path, operations: str, cache: str) -> Times:
    """The same of ours."""
    with tempfile.TemporaryDirectory() as directory:
        text = run(
            [
                *(sys.executable, "-m", "cclmark", "collectives", "--only", operations),
                *("--ccl", "mpi", "--devices", "host:2", "--cache", cache),
                *("-b", str(SIZES[0]), "-e", str(SIZES[-1]), "-f", "4"),
                *("-c", "0", "--format", "json", "--journal", f"{directory}/run.jsonl"),
            ],
            prefix,
        )
    return {
        (case["operation"], case["size_bytes"]): one["summary"]["time_s"] * 1e6
        for one in json.loads(text)["cases"]
        if (case := one["case"])["in_place"] == (case["operation"] == "broadcast")
    }


def compared(ours: Sequence[float], loop: Sequence[float]) -> tuple[float, float, float]:
    """Their ratio and its 95 % interval, by how much rounds differ: three of them at least."""
    sides = ([(time, None) for time in times] for times in (loop, ours))
    found = ratio_estimate(*sides)
    assert found is not None
    return found.ratio, found.low, found.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5, help=f"at least {LEAST_RUNS} [5]")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--cache", choices=("cold", "warm"), default="cold")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        program = build(args.prefix, directory)
        rounds: list[tuple[Times, Times]] = []
        for number in range(args.rounds):
            if number % 2:
                loop = of_loop(program, args.prefix, args.operations, args.cache)
                rounds.append((of_cclmark(args.prefix, args.operations, args.cache), loop))
            else:
                ours = of_cclmark(args.prefix, args.operations, args.cache)
                rounds.append((ours, of_loop(program, args.prefix, args.operations, args.cache)))
    entries = []
    for operation in args.operations.split(","):
        for size in SIZES:
            own, other = zip(
                *[(one[operation, size], two[operation, size]) for one, two in rounds], strict=True
            )
            ratio, low, high = compared(own, other)
            print(
                f"{operation:>12} {size:>9}  {geometric_mean(own):10.3f} "
                f"{geometric_mean(other):10.3f} us  {ratio:.3f} ({low:.3f} - {high:.3f})",
                flush=True,
            )
            entries.append(
                {
                    "operation": operation,
                    "size_bytes": size,
                    "cclmark_us": own,
                    "loop_us": other,
                    "ratio": ratio,
                    "interval": [low, high],
                }
            )
    if args.out:
        args.out.write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
