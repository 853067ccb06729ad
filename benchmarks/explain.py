#!/usr/bin/env python3
"""Does --explain agree with NCCL's own log, and does it leave the timed rows alone?

    python benchmarks/explain.py [--ranks 2] [--rounds 5] [--operations A,B]
        [--algorithms Ring,Tree] [--ccl flagcx] [--out FILE.json]

For every setting, one run with --explain is compared with NCCL's TUNING lines from a second run
without it: algorithm, protocol and channels of each size. Settings that NCCL refuses are listed.
Then runs with and without --explain alternate, and the ratio of their times is printed per size.
With --ccl flagcx the operations are FlagCX's, and the NCCL below it is explained and logs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

from cclmark.explain.nccl_log import operations_in
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
ALGORITHMS = ("Ring", "Tree", "PAT", "CollnetDirect", "CollnetChain")
PROTOCOLS = ("LL", "LL128", "Simple")
SWEEP = ("-b", "1K", "-e", "64M", "-f", "8", "--placement", "out-of-place")
ONCE = ("-n", "1", "-w", "0", "-c", "0", "--timing", "throughput")


def measured(operation: str, flags: list[str], more: dict[str, str], directory: Path) -> Journal:
    """The journal of one run. Raises CalledProcessError."""
    journal = directory / "run.jsonl"
    journal.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "cclmark",
        operation,
        *SWEEP,
        *flags,
        "--journal",
        str(journal),
    ]
    subprocess.run(
        command, env={**os.environ, **more}, check=True, capture_output=True, text=True, timeout=300
    )
    return read_journal(journal)


def logged(operation: str, flags: list[str], more: dict[str, str], directory: Path) -> list[str]:
    """What NCCL's log says in a run without --explain: a text for each size, in its order."""
    for old in directory.glob("log.*"):
        old.unlink()
    debug = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "TUNING",
        "NCCL_DEBUG_FILE": str(directory / "log.%p"),
    }
    measured(operation, flags, {**more, **debug}, directory)
    text = "".join(one.read_text(errors="replace") for one in directory.glob("log.*"))
    by_size = {
        one.count: f"{one.algorithm} {one.protocol} {one.channels}" for one in operations_in(text)
    }
    return [by_size[size] for size in sorted(by_size)]


def compared(operation: str, flags: list[str], more: dict[str, str]) -> dict[str, object]:
    """How many rows agree, and those that do not."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        try:
            journal = measured(operation, [*ONCE, *flags, "--explain"], more, directory)
        except subprocess.CalledProcessError as error:
            return {"refused": error.stderr.splitlines()[:2]}
        explained = [result.explanation for result in journal.cases]
        own = [
            f"{one.algorithm} {one.protocol} {one.channels}" if one is not None else ""
            for one in explained
        ]
        theirs = logged(operation, [*ONCE, *flags], more, directory)
    different = [pair for pair in zip(own, theirs, strict=False) if pair[0] != pair[1]]
    return {
        "rows": len(own),
        "logged": len(theirs),
        "agree": min(len(own), len(theirs)) - len(different),
        "different": different,
        "sources": Counter(one.source for one in explained if one is not None),
    }


def ratios(rounds: int, ranks: list[str]) -> dict[int, list[float]]:
    """The time with --explain over the time without, by size in bytes, a value for each round."""
    found: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        for _ in range(rounds):
            times = [
                {
                    one.case.size_bytes: one.summary.time_s
                    for one in measured("all_reduce", flags, {}, Path(name)).cases
                    if one.summary is not None
                }
                for flags in (ranks, [*ranks, "--explain"])
            ]
            for size, time_s in times[0].items():
                found.setdefault(size, []).append(times[1][size] / time_s)
    return found


def main() -> None:
    """Prints what agrees, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="to be forced")
    parser.add_argument("--ccl", default="nccl")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    ranks = ["-g", str(args.ranks), "--ccl", args.ccl]
    rows: dict[str, object] = {}

    def compare(name: str, operation: str, flags: list[str], more: dict[str, str]) -> None:
        rows[name] = compared(operation, flags, more)
        print(f"{name:32} {rows[name]}", flush=True)

    for operation in args.operations.split(","):
        compare(operation, operation, ranks, {})
        if args.ccl == "nccl":
            compare(f"{operation} -R 2", operation, [*ranks, "-R", "2"], {})
        for algorithm in args.algorithms.split(","):
            for protocol in PROTOCOLS:
                forced = {"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol}
                compare(f"{operation} {algorithm} {protocol}", operation, ranks, forced)
    times = ratios(args.rounds, ranks)
    for size, values in times.items():
        print(f"{size:12} {median(values):.4f}  {' '.join(f'{one:.3f}' for one in values)}")
    if args.out is not None:
        args.out.write_text(json.dumps({"rows": rows, "ratios": times}, indent=1) + "\n")


if __name__ == "__main__":
    main()
