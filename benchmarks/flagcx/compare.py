"""Our times beside those of FlagCX's own perf programs, in turns.

    python benchmarks/flagcx/compare.py --perf DIR --launch "mpirun -np 4" [--ccl flagcx] \\
        [--ranks 4] [--rounds 3] [--out FILE.json] [-- FLAGS OF CCLMARK...]

``DIR`` holds perf_allreduce and the others, built beforehand; ``--launch`` is what starts a program
on all ranks, with whatever it needs to find its libraries. With ``--ccl flagcx`` (the default) both
measure the same library, which CCLMARK_FLAGCX_LIBRARY names for ours. With ``--ccl bridge`` ours
joins two islands of half the ranks each, and ``--launch`` has to bring FLAGCX_CLUSTER_SPLIT_LIST=2;
each size then has a process of its own, since the perf programs make the plan for a size that they
have not seen inside the time.

The perf programs time 20 calls back to back on the host's clock and print the mean over ranks; they
check nothing, and they use the same buffers again and again. So does ours here (``--cache warm``).
It is the mean over ranks by its usual method, by the device's clock where there is one and by the
host's, and every output is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, median

PROGRAMS = {
    "all_reduce": "perf_allreduce",
    "all_gather": "perf_allgather",
    "alltoall": "perf_alltoall",
}
LINE = re.compile(r"Comm size: (\d+) bytes; Elapsed time: [\d.]+ sec; Algo bandwidth: ([\d.]+)")


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def of_perf(launch: list[str], program: Path, sizes: list[int], *, apart: bool) -> dict[int, float]:
    """Microseconds by size in bytes. From the bandwidth: the time has steps of 1 us."""
    spans = [(size, size) for size in sizes] if apart else [(sizes[0], sizes[-1])]
    times = {}
    for first, last in spans:
        factor = "2" if apart else str(sizes[1] // sizes[0])
        text = run([*launch, str(program), "-b", str(first), "-e", str(last), "-f", factor])
        for size, rate in LINE.findall(text):
            if float(rate) > 0:
                times[int(size)] = int(size) / 1e3 / float(rate)
    return times


def of_cclmark(
    operation: str, ccl: str, ranks: int, sizes: list[int], more: list[str]
) -> dict[int, tuple[float, float]]:
    """Microseconds by size in bytes, on the device's and on the host's clock."""
    half = ranks // 2
    islands = ["--islands", f"0-{half - 1},{half}-{ranks - 1}"] if ccl == "bridge" else []
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "run.jsonl"
        run(
            [
                *(sys.executable, "-m", "cclmark", operation, "--ccl", ccl, *islands),
                *("-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(sizes[1] // sizes[0])),
                *("-g", str(ranks), "--placement", "out-of-place", "--across-ranks", "mean"),
                *("--cache", "warm"),
                *("--journal", str(journal), *more),
            ]
        )
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return {
        one["case"]["size_bytes"]: (
            one["summary"]["time_s"] * 1e6,
            median(fmean(sample) for sample in one["samples"]["host_s"]) * 1e6,
        )
        for one in lines
        if one["type"] == "case"
    }


def main() -> None:
    own, _, more = (list(part) for part in split(sys.argv[1:]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--perf", type=Path, required=True)
    parser.add_argument("--launch", required=True)
    parser.add_argument("--ccl", default="flagcx", choices=["flagcx", "bridge"])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--operations", default=",".join(PROGRAMS))
    parser.add_argument("--sizes", default="4K:512M:8", help="first:last:factor [4K:512M:8]")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(own)
    first, last, factor = (amount(part) for part in args.sizes.split(":"))
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    entries = []
    for operation in args.operations.split(","):
        program = args.perf / PROGRAMS[operation]
        rounds = [
            (
                of_cclmark(operation, args.ccl, args.ranks, sizes, more),
                of_perf(shlex.split(args.launch), program, sizes, apart=args.ccl == "bridge"),
            )
            for _ in range(args.rounds)
        ]
        for size in sizes:
            ours, theirs = zip(*[(one[size], other[size]) for one, other in rounds], strict=True)
            device, host = (median(times[i] for times in ours) for i in (0, 1))
            entries.append(
                {
                    "operation": operation,
                    "size_bytes": size,
                    "cclmark_device_host_us": ours,
                    "perf_us": theirs,
                    "ratio": device / median(theirs),
                    "ratio_host": host / median(theirs),
                }
            )
            print(
                f"{operation:>12} {size:>10} B  {device:10.2f} {host:10.2f} {median(theirs):10.2f} "
                f"us  ratio {device / median(theirs):.3f}, host's clock "
                f"{host / median(theirs):.3f}",
                flush=True,
            )
    if args.out:
        args.out.write_text(json.dumps(entries, indent=1) + "\n")


def split(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """What is before, at and after a lone ``--``."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at : at + 1], words[at + 1 :]


def amount(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


if __name__ == "__main__":
    main()
