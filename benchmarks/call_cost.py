#!/usr/bin/env python3
"""Does a call of a small message cost as much in cclmark as in nccl-tests?

    python benchmarks/call_cost.py --nccl-tests DIR [--rounds 8] [--out FILE.txt]

DIR holds nccl-tests' programs built with MPI=1. In each round, nccl-tests (-n 20 -w 5, a process
per device, its slowest rank) and cclmark run in turn for each operation, both once more, so that
each program is compared with itself too. On machines where the cost of a call has two levels from
process to process, medians compare how often each level was met. So the levels are separated:
values of a case that lie above the largest gap between sorted neighbours, if that gap is 10 % or
more and at least an eighth of the values lie on each side, are of the upper level. Printed are the
medians of both levels, the ratios within them, the share of runs on the lower level, and per
operation the geometric means of the ratios of medians. FILE.json beside FILE.txt gets every value.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean, median

from fidelity import OUT_OF_PLACE_ONLY, mpirun, run, times_in

OPERATIONS = "all_reduce,all_gather,reduce_scatter,broadcast,alltoall,sendrecv"
LEAST_GAP = 0.10
Key = tuple[str, int, bool]


def theirs(args: argparse.Namespace, operation: str) -> dict[Key, float]:
    """Microseconds by operation, size and placement, as nccl-tests prints them."""
    flags = ["-b", args.begin, "-e", args.end, "-f", args.factor, "-n", "20", "-w", "5", "-a", "3"]
    text, _ = run(mpirun(args.ranks, args.nccl_tests / f"{operation}_perf", flags))
    return {(operation, *place): time_us for place, time_us in times_in(text).items()}


def ours(args: argparse.Namespace, operation: str) -> dict[Key, float]:
    """The same as cclmark measures them by its own method."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "cclmark", operation, "-b", args.begin, "-e", args.end]
        command += ["-f", args.factor, "-g", str(args.ranks), "--format", "json"]
        text, _ = run([*command, *args.flags, "--journal", f"{directory}/run.jsonl"])
    return {
        (operation, entry["case"]["size_bytes"], entry["case"]["in_place"]): entry["summary"][
            "time_s"
        ]
        * 1e6
        for entry in json.loads(text)["cases"]
        if entry["summary"] is not None
    }


def border(values: list[float]) -> float:
    """The middle of the largest gap between sorted values, outliers aside; infinite if small."""
    ordered = sorted(values)
    fewest = max(1, len(ordered) // 8)
    inner = ordered[fewest - 1 : len(ordered) - fewest + 1]
    gap, low, high = max((high / low - 1, low, high) for low, high in pairwise(inner))
    return (low + high) / 2 if gap >= LEAST_GAP else float("inf")


def cell(values: list[float]) -> str:
    return f"{median(values):7.2f}" if values else f"{'-':>7}"


def ratio(own: list[float], peer: list[float]) -> str:
    return f"{median(own) / median(peer):6.3f}" if own and peer else f"{'-':>6}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nccl-tests", type=Path, required=True, help="directory of its programs")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--operations", default=OPERATIONS)
    parser.add_argument("--begin", default="512")
    parser.add_argument("--end", default="128K")
    parser.add_argument("--factor", default="4")
    parser.add_argument("--out", type=Path, help="file for the figures, besides the output")
    parser.add_argument("flags", nargs="*", help="more flags for cclmark, after --")
    args = parser.parse_args()
    peer: dict[Key, list[list[float]]] = {}
    own: dict[Key, list[list[float]]] = {}
    for _ in range(args.rounds):
        for operation in args.operations.split(","):
            for turn in range(2):
                for found, measure in ((peer, theirs), (own, ours)):
                    for key, time_us in measure(args, operation).items():
                        found.setdefault(key, [[], []])[turn].append(time_us)
    lines = [
        f"{'case':>30}    lower level: peer, ours, ratio    upper level: peer, ours, ratio   on "
        "the lower: peer, ours   medians: ours/peer, peer/peer, ours/ours"
    ]
    means: dict[str, tuple[list[float], list[float]]] = {}
    for key in sorted(own):
        operation, size, in_place = key
        if key not in peer or (in_place and operation in OUT_OF_PLACE_ONLY):
            continue
        theirs_us, ours_us = [*peer[key][0], *peer[key][1]], [*own[key][0], *own[key][1]]
        edge = border(theirs_us + ours_us)
        low = [[time_us for time_us in values if time_us < edge] for values in (theirs_us, ours_us)]
        high = [
            [time_us for time_us in values if time_us >= edge] for values in (theirs_us, ours_us)
        ]
        ratios = means.setdefault(operation, ([], []))
        ratios[0].append(median(ours_us) / median(theirs_us))
        ratios[1].append(median(peer[key][1]) / median(peer[key][0]))
        name = f"{operation} {size} B {'in' if in_place else 'out'}"
        lines.append(
            f"{name:>30}    {cell(low[0])} {cell(low[1])} {ratio(low[1], low[0])}           "
            f"{cell(high[0])} {cell(high[1])} {ratio(high[1], high[0])}          "
            f"{len(low[0]):2}/{len(theirs_us)} {len(low[1]):2}/{len(ours_us)}          "
            f"{ratio(ours_us, theirs_us)} {ratio(peer[key][1], peer[key][0])} "
            f"{ratio(own[key][1], own[key][0])}"
        )
    for operation, (ours_theirs, theirs_theirs) in means.items():
        lines.append(
            f"{operation:>30}    geometric mean {geometric_mean(ours_theirs):.3f}, "
            f"peer/peer {geometric_mean(theirs_theirs):.3f}"
        )
    print("\n".join(lines))
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")
        raw = [
            {"case": key, "nccl_tests_us": peer[key], "cclmark_us": own[key]}
            for key in sorted(own)
            if key in peer
        ]
        args.out.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
