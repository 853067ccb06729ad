"""Does the engine add anything to MPI's times? The same library, called by a loop in plain C.

    python benchmarks/mpi/compare.py --prefix DIR [--rounds 5] [--cache cold|warm] [--out FILE.json]

DIR holds an MPI as a wheel installs it: bin/mpirun, include/mpi.h, lib/libmpi.so.*. Each round
runs, for each operation, the C program and cclmark with two ranks on the same sizes. What counts is
the ratio of the medians over the rounds, ours over the loop's, per size, with its interval; beside
it that of the fastest batches, which a busy machine disturbs less. With ``--cache warm`` both reuse
one pair of buffers, as MPI's own benchmarks do; else both walk through as much memory.
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
from statistics import median

from cclmark import _engine as engine
from cclmark.analysis.compare import LEAST_RUNS, ratio_interval
from cclmark.results.machine import spread_over_cores

OPERATIONS = ("all_reduce", "all_gather", "alltoall", "broadcast")
SIZES = [64 << (2 * i) for i in range(9)]
HERE = Path(__file__).parent


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


def of_loop(
    program: Path, prefix: Path, operation: str, cache: str
) -> dict[int, tuple[float, float]]:
    """Microseconds of the median and of the fastest batch by size in bytes.

    Each rank on the processor that cclmark takes for it: which caches two ranks share decides more
    than anything else here.
    """
    command = [str(prefix / "bin" / "mpirun"), "--bind-to", "none"]
    for rank, processor in enumerate(spread_over_cores(os.sched_getaffinity(0))[:2]):
        command += [":"] if rank else []
        command += ["-n", "1", "taskset", "-c", str(processor), str(program)]
        command += [operation, str(spare_bytes(cache)), *map(str, SIZES)]
    text = run(command, prefix)
    rows = [line.split() for line in text.splitlines()]
    return {int(size): (float(middle), float(least)) for size, middle, least in rows}


def of_cclmark(prefix: Path, operation: str, cache: str) -> dict[int, tuple[float, float]]:
    """The same of ours."""
    placement = "in-place" if operation == "broadcast" else "out-of-place"
    with tempfile.TemporaryDirectory() as directory:
        text = run(
            [
                *(
                    sys.executable,
                    "-m",
                    "cclmark",
                    operation,
                    "--ccl",
                    "mpi",
                    "--devices",
                    "host:2",
                ),
                *("-b", str(SIZES[0]), "-e", str(SIZES[-1]), "-f", "4", "--placement", placement),
                *("--cache", cache),
                *("-c", "0", "--format", "json", "--journal", f"{directory}/run.jsonl"),
            ],
            prefix,
        )
    return {
        one["case"]["size_bytes"]: (
            one["summary"]["time_s"] * 1e6,
            one["summary"]["min_s"] * 1e6,
        )
        for one in json.loads(text)["cases"]
    }


def interval(ours: Sequence[float], loop: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the ratio, by how much rounds differ: three of them at least."""
    sides = ([(time, None) for time in times] for times in (loop, ours))
    found = ratio_interval(*sides)
    assert found is not None
    return found[1], found[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5, help=f"at least {LEAST_RUNS} [5]")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--cache", choices=("cold", "warm"), default="cold")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    entries = []
    with tempfile.TemporaryDirectory() as directory:
        program = build(args.prefix, directory)
        for operation in args.operations.split(","):
            rounds = [
                (
                    of_cclmark(args.prefix, operation, args.cache),
                    of_loop(program, args.prefix, operation, args.cache),
                )
                for _ in range(args.rounds)
            ]
            for size in SIZES:
                ours, loop = zip(*[(one[size], other[size]) for one, other in rounds], strict=True)
                ratios = [
                    median(times[i] for times in ours) / median(times[i] for times in loop)
                    for i in (0, 1)
                ]
                low, high = interval([times[0] for times in ours], [times[0] for times in loop])
                print(
                    f"{operation:>12} {size:>9}  {median(t[0] for t in ours):10.3f} "
                    f"{median(t[0] for t in loop):10.3f} us  "
                    f"{ratios[0]:.3f} ({low:.3f} - {high:.3f})  fastest batches {ratios[1]:.3f}",
                    flush=True,
                )
                entries.append(
                    {
                        "operation": operation,
                        "size_bytes": size,
                        "cclmark_us": ours,
                        "loop_us": loop,
                        "ratio": ratios[0],
                        "interval": [low, high],
                        "ratio_of_fastest": ratios[1],
                    }
                )
    if args.out:
        args.out.write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
