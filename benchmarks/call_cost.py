#!/usr/bin/env python3
"""Does a call of a small message cost as much in cclmark as in nccl-tests?

    python benchmarks/call_cost.py --nccl-tests DIR [--rounds 8] [--out FILE.txt]
    python benchmarks/call_cost.py --values FILE.json

DIR holds nccl-tests' programs built with MPI=1. In each round, nccl-tests (-n 20 -w 5, a process
per device, its slowest rank) and cclmark run in turn for each operation, both once more, so that
each program is compared with itself too. FILE.json beside FILE.txt gets every value.

On some machines the cost of a call has two levels, which differ from process to process: all cases
of a process are on one of them, in both programs. Medians over processes then compare how often
each level was met. So processes are separated: the level of a process is its median over the cases
below 128 KiB, and the border between levels is the one with the largest variance between them
(Otsu, IEEE Trans. Syst. Man Cybern. 9, 1979) if they are 15 % apart. Printed for each operation are
the processes of both programs on each level and the ratios of their medians, and for each case the
ratio of the medians over all processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import fmean, geometric_mean, median

from fidelity import OUT_OF_PLACE_ONLY, mpirun, run, times_in

OPERATIONS = "all_reduce,all_gather,reduce_scatter,broadcast,alltoall,sendrecv"
LEAST_APART = 1.15
LARGE_BYTES = 128 << 10  # from here on transfers count more than launches
Key = tuple[str, int, bool]
Values = dict[Key, list[list[float]]]


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


def border(levels: list[float]) -> float:
    """Separates the levels of processes, in microseconds; infinite if they have one level."""
    ordered = sorted(levels)
    best, found = 0.0, float("inf")
    for count in range(1, len(ordered)):
        low, high = ordered[:count], ordered[count:]
        between = len(low) * len(high) * (fmean(low) - fmean(high)) ** 2
        if between > best and median(high) >= LEAST_APART * median(low):
            best, found = between, (low[-1] + high[0]) / 2
    return found


def levels_of(values: Values, operation: str) -> list[float]:
    """The level of each process of a program, in microseconds: turns after each other."""
    small = [
        [*turns[0], *turns[1]]
        for (name, size, _), turns in values.items()
        if name == operation and size < LARGE_BYTES
    ]
    return [median(of_process) for of_process in zip(*small, strict=True)]


def level_lines(peer: Values, own: Values, operation: str) -> list[str]:
    """How many processes are on each level, and the ratios of their medians."""
    theirs_us, ours_us = levels_of(peer, operation), levels_of(own, operation)
    edge_us = border([*theirs_us, *ours_us])
    lines = []
    for name, is_on in (
        ("lower", lambda one: one < edge_us),
        ("upper", lambda one: one >= edge_us),
    ):
        theirs, ours = [*filter(is_on, theirs_us)], [*filter(is_on, ours_us)]
        if theirs or ours:
            lines.append(
                f"{operation:>16}, {name} level: {len(theirs):2} of {len(theirs_us)} peer, "
                f"{len(ours):2} of {len(ours_us)} ours; medians {cell(theirs)} {cell(ours)} us, "
                f"ratio {ratio(ours, theirs)}"
            )
    return lines


def table_of(peer: Values, own: Values) -> list[str]:
    lines = [f"{'case':>30}  medians us: peer, ours   ours/peer peer/peer ours/ours"]
    means: dict[str, tuple[list[float], list[float]]] = {}
    for key in sorted(own):
        operation, size, in_place = key
        if key not in peer or (in_place and operation in OUT_OF_PLACE_ONLY):
            continue
        theirs_us, ours_us = [*peer[key][0], *peer[key][1]], [*own[key][0], *own[key][1]]
        ratios = means.setdefault(operation, ([], []))
        ratios[0].append(median(ours_us) / median(theirs_us))
        ratios[1].append(median(peer[key][1]) / median(peer[key][0]))
        name = f"{operation} {size} B {'in' if in_place else 'out'}"
        lines.append(
            f"{name:>30}        {cell(theirs_us)} {cell(ours_us)}      "
            f"{ratio(ours_us, theirs_us)}   {ratio(peer[key][1], peer[key][0])}   "
            f"{ratio(own[key][1], own[key][0])}"
        )
    for operation, (ours_theirs, theirs_theirs) in means.items():
        lines.append(
            f"{operation:>16}, geometric means: ours/peer {geometric_mean(ours_theirs):.3f}, "
            f"peer/peer {geometric_mean(theirs_theirs):.3f}"
        )
        lines += level_lines(peer, own, operation)
    return lines


def cell(values: list[float]) -> str:
    return f"{median(values):7.2f}" if values else f"{'-':>7}"


def ratio(own: list[float], peer: list[float]) -> str:
    return f"{median(own) / median(peer):6.3f}" if own and peer else f"{'-':>6}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nccl-tests", type=Path, help="directory of its programs")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--operations", default=OPERATIONS)
    parser.add_argument("--begin", default="512")
    parser.add_argument("--end", default="128K")
    parser.add_argument("--factor", default="4")
    parser.add_argument("--out", type=Path, help="file for the figures, besides the output")
    parser.add_argument("--values", type=Path, help="stored values, in place of a measurement")
    parser.add_argument("flags", nargs="*", help="more flags for cclmark, after --")
    args = parser.parse_args()
    peer: Values = {}
    own: Values = {}
    if args.values is not None:
        for entry in json.loads(args.values.read_text()):
            operation, size, in_place = entry["case"]
            peer[operation, size, in_place] = entry["nccl_tests_us"]
            own[operation, size, in_place] = entry["cclmark_us"]
        print("\n".join(table_of(peer, own)))
        return
    if args.nccl_tests is None:
        parser.error("--nccl-tests or --values is required")
    for _ in range(args.rounds):
        for operation in args.operations.split(","):
            for turn in range(2):
                for found, measure in ((peer, theirs), (own, ours)):
                    for key, time_us in measure(args, operation).items():
                        found.setdefault(key, [[], []])[turn].append(time_us)
    lines = table_of(peer, own)
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
