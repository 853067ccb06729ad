"""Does measuring torch.distributed through the engine give what a torch program measures itself?

    python benchmarks/torch/compare.py --bench all_reduce_bench.py [--rounds 3] [--out FILE.json]

``--bench`` is ml-engineering's program (network/benchmarks of stas00/ml-engineering). It times each
all_reduce between two CUDA events after torch's barrier, and averages the bandwidth over ranks and
iterations; what counts here is the geometric mean over rounds, in which who comes first changes.
``--timing blocking --barrier library --clock device`` does the same in cclmark; its
samples are averaged alike. With ``--own`` cclmark measures as it does without the last two options:
by the host's clock, after a barrier in shared memory. With ``--bare`` the program does not average
each bandwidth over the ranks before it goes on (a copy to the device and a reduction, after which
what is timed next finds the processor's caches cold): the first rank's own are averaged. The
program always goes from 32 KiB to 16 GiB: a copy with other limits is run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, geometric_mean

from cclmark.analysis.ratio import ratio_estimate

ITERATIONS = 20  # its default, and 5 to warm up
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def changed(source: str, pattern: str, to: str) -> str:
    """``source`` with the one place that ``pattern`` matches replaced."""
    text, changes = re.subn(pattern, to, source, count=1)
    if changes != 1:
        sys.exit(f"--bench has no {pattern}: is it all_reduce_bench.py?")
    return text


def of_bench(program: Path, ranks: int) -> dict[int, float]:
    """GB/s (algorithm bandwidth) by size in bytes, as the program prints them."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    text = run([*launch, "--nproc_per_node", str(ranks), str(program)])
    rows = re.findall(r"\|\s*(\d+)(KiB|MiB|GiB) \|\s*[\d.]+GBps \|\s*([\d.]+)GBps \|", text)
    return {int(number) * UNITS[unit]: float(rate) for number, unit, rate in rows}


def of_cclmark(ranks: int, smallest: int, largest: int, *, own: bool) -> dict[int, float]:
    """The same of ours."""
    method = [] if own else ["--barrier", "library", "--clock", "device"]
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "run.jsonl"
        run(
            [
                *(sys.executable, "-m", "cclmark", "all_reduce", "--ccl", "torch:nccl"),
                *("--timing", "blocking", *method, "-n", str(ITERATIONS), "-w", "5", "-c", "0"),
                *("-b", str(1 << smallest), "-e", str(1 << largest), "-g", str(ranks)),
                *("--placement", "in-place", "--cache", "warm", "--journal", str(journal)),
            ]
        )
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return {
        one["case"]["size_bytes"]: fmean(
            one["case"]["size_bytes"] / 1e9 / time_s
            for sample in one["samples"]["host_s" if own else "device_s"]
            for time_s in sample
        )
        for one in lines
        if one["type"] == "case"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--smallest", type=int, default=15, help="power of two [15: 32 KiB]")
    parser.add_argument("--largest", type=int, default=30, help="power of two [30: 1 GiB]")
    parser.add_argument("--own", action="store_true", help="cclmark's own barrier, and host clock")
    parser.add_argument("--bare", action="store_true", help="no averaging in the program's loop")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    source = args.bench.read_text()
    for name, limit in (("lower_limit", args.smallest), ("upper_limit", args.largest)):
        source = changed(source, rf"{name} = \d+", f"{name} = {limit}")
    if args.bare:
        source = changed(source, r"duration\]\)\.cuda\(local_rank\)", "duration])")
        source = changed(source, r"dist\.reduce\(algbw, .*\)\n\s*algbw /= n\n", "")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / args.bench.name
        program.write_text(source)
        rounds = []
        for number in range(args.rounds):
            theirs = of_bench(program, args.ranks) if number % 2 else None
            ours = of_cclmark(args.ranks, args.smallest, args.largest, own=args.own)
            rounds.append((ours, theirs or of_bench(program, args.ranks)))
    entries = []
    for power in range(args.smallest, args.largest + 1):
        size = 1 << power
        own, bench = zip(*[(ours[size], theirs[size]) for ours, theirs in rounds], strict=True)
        found = ratio_estimate(*([(1 / rate, None) for rate in rates] for rates in (bench, own)))
        ratio = geometric_mean(bench) / geometric_mean(own) if found is None else found.ratio
        interval = None if found is None else (found.low, found.high)
        entries.append(
            {
                "size_bytes": size,
                "cclmark_GBps": own,
                "bench_GBps": bench,
                "time_ratio": ratio,
                "interval": interval,
            }
        )
        ends = "" if interval is None else f" ({interval[0]:.3f} - {interval[1]:.3f})"
        print(
            f"{size:>11} B  {geometric_mean(own):8.2f} {geometric_mean(bench):8.2f} GB/s  "
            f"time ratio {ratio:.3f}"
            f"{ends}",
            flush=True,
        )
    if args.out:
        args.out.write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
