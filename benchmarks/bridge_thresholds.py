#!/usr/bin/env python3
"""Does `cclmark tune` find the thresholds of bridge again, beginning with wrong ones?

    python benchmarks/bridge_thresholds.py --devices cuda:0-3 --islands 0-1,2-3 [--through-host]
        [--operations all_reduce,broadcast] [--factor 4] [--budget 4m] [--start 0]
        [--variables CCLMARK_BRIDGE_WHOLE_BYTES] [--out DIR]

Sets variables of bridge to values far from the built-in ones, as a user would, and lets
`cclmark tune --settings` search from there and prove the result. For each variable it prints the
built-in value, the one at the beginning and the one found, in steps of a factor of two from the
built-in one. CCLMARK_BRIDGE_WHOLE_BYTES has an effect with two ranks or more in an island, on
all_reduce and broadcast, so that both are measured. The built-in values are those of islands of two
devices with NVLink, of host ranks (--devices host:4), or through the host. With --factor 4 values
of 4 and 8 MiB do the same.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cclmark.options.environment_file import read_shell

KIB, MIB = 1 << 10, 1 << 20
WHOLE = "CCLMARK_BRIDGE_WHOLE_BYTES"
HOST_SLOT, DIRECT_SLOT = "CCLMARK_BRIDGE_HOST_SLOT_BYTES", "CCLMARK_BRIDGE_DIRECT_SLOT_BYTES"
# Of a group in host memory on one host: 48 MiB for the four slots of all ranks.
HOST_SLOTS = {2: 6 * MIB, 3: 4 * MIB}
LEAST_HOST_SLOT = 3 * MIB


def ranks_of(islands: str) -> list[int]:
    """The number of ranks of each island, such as 0-1,2-3."""
    spans = [part.partition("=")[0].partition("-") for part in islands.split(",")]
    return [int(last or first) - int(first) + 1 for first, _, last in spans]


def values_of(args: argparse.Namespace, ranks: int) -> dict[str, tuple[int, Sequence[int]]]:
    """By variable: the built-in value, and those of a user, far below and above it."""
    if not (args.through_host or args.devices.startswith("host")):
        return {WHOLE: (8 * MIB, (256 * KIB, 256 * MIB)), DIRECT_SLOT: (64 * MIB, (2 * MIB,))}
    slot = HOST_SLOTS.get(ranks, LEAST_HOST_SLOT)
    whole = (256 * KIB, (16 * KIB, 8 * MIB)) if args.through_host else (4 * KIB, (256, 8 * MIB))
    return {WHOLE: whole, HOST_SLOT: (slot, (256 * KIB, 64 * MIB))}


def steps(value: int, built_in: int) -> float:
    """How many factors of two a value is away."""
    return math.log2(value / built_in) if value else -math.inf


def found_values(args: argparse.Namespace, wrong: dict[str, int], number: int) -> dict[str, str]:
    """The variables that tune writes, none if nothing beats the wrong ones."""
    directory = args.out / f"tuned-{number}"
    command = [
        *(sys.executable, "-m", "cclmark", "tune", args.operations, "--ccl", "bridge"),
        *("--devices", args.devices, "--islands", args.islands),
        *("-b", args.begin, "-e", args.end, "-f", str(args.factor)),
        *("--settings", ",".join(wrong), "--budget", args.budget, "-O", str(directory)),
        *("--journal", str(args.out / f"tune-{number}.jsonl")),
    ]
    if args.through_host:
        command.append("--through-host")
    variables = {name: str(value) for name, value in wrong.items()}
    print(" ".join(f"{name}={value}" for name, value in variables.items()), *command[2:])
    subprocess.run(command, env={**os.environ, **variables}, check=True)
    file = directory / "environment.sh"
    return read_shell(file.read_text(), str(file)) if file.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", required=True)
    parser.add_argument("--islands", required=True)
    parser.add_argument("--through-host", action="store_true")
    parser.add_argument("--operations", default="all_reduce,broadcast")
    parser.add_argument("--begin", default="64K")
    parser.add_argument("--end", default="256M")
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--budget", default="4m")
    parser.add_argument("--start", type=int, choices=(0, 1), help="one of the two beginnings alone")
    parser.add_argument("--variables", help="with these alone wrong and tuned")
    parser.add_argument("--out", type=Path, default=Path("bridge_thresholds"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    islands = ranks_of(args.islands)
    values = values_of(args, sum(islands))
    if max(islands) == 1:
        del values[WHOLE]
    if args.variables:
        values = {name: values[name] for name in args.variables.split(",")}
    rows = []
    starts = range(max(len(begin) for _, begin in values.values()))
    for number in starts if args.start is None else [args.start]:
        wrong = {name: begin[number % len(begin)] for name, (_, begin) in values.items()}
        found = found_values(args, wrong, number)
        for name, value_wrong in wrong.items():
            value = int(found.get(name, value_wrong))
            built_in, _ = values[name]
            rows.append((name, built_in, value_wrong, value, steps(value, built_in)))
    print("| variable | built-in | beginning | found | steps |")
    print("| :--- | ---: | ---: | ---: | ---: |")
    for name, usual, value_wrong, value, distance in rows:
        print(f"| `{name}` | {usual} | {value_wrong} | {value} | {distance:+.1f} |")


if __name__ == "__main__":
    main()
