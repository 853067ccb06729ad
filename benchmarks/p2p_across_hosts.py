"""Compares pairs in a matrix of several hosts with the same pairs measured alone.

Runs of ``cclmark p2p`` over all processes and of ``cclmark pairs`` over two, one on each host,
alternate. Launchers are given as they are typed, with ``{}`` for the command:

    python benchmarks/p2p_across_hosts.py -O results \\
        --all 'mpirun --host a:2,b:2 -np 4 {}' --two 'mpirun --host a:1,b:1 -np 2 {}'

Prints for each figure the median of the matrix, alone, and of their ratios over the rounds.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

from cclmark.results.journal import read_journal

OPERATIONS = {"unidirectional": "send", "bidirectional": "sendrecv", "latency": "ping_pong"}
TIMEOUT_S = 600.0


def run(launcher: str, arguments: list[str], journal: Path) -> None:
    """Runs one command below the launcher. Raises CalledProcessError, TimeoutExpired."""
    journal.unlink(missing_ok=True)
    command = shlex.join([sys.executable, "-m", "cclmark", *arguments, "--journal", str(journal)])
    words = shlex.split(launcher.replace("{}", command))
    subprocess.run(words, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)


def of_matrix(journal: Path) -> dict[str, float]:
    """Returns the time of a message between the first devices of both hosts, in seconds."""
    found = read_journal(journal)
    names = [device.host for device in found.header.devices]
    other = next(number for number, name in enumerate(names) if name != names[0])
    return {
        one.transfer.measure: one.summary.time_s
        for one in found.transfers
        if one.transfer.ccl and one.transfer.flows[0] == (0, other) and one.summary is not None
    }


def alone(journal: Path) -> dict[str, float]:
    """Returns the times that a run of two processes has for these measures."""
    return {
        measure: one.summary.time_s
        for measure, operation in OPERATIONS.items()
        for one in read_journal(journal).cases
        if one.case.operation == operation
        and one.case.root in (None, 0)
        and one.summary is not None
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", required=True, help="launcher of all processes, with {}")
    parser.add_argument(
        "--two", required=True, help="launcher of one process on each host, with {}"
    )
    parser.add_argument("--ccl", default="mpi")
    parser.add_argument("--devices", default="host")
    parser.add_argument("--size", default="16M")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "-O", "--output", type=Path, required=True, help="directory of the journals"
    )
    flags = parser.parse_args()
    flags.output.mkdir(parents=True, exist_ok=True)
    common = ["--devices", flags.devices, "--ccl", flags.ccl, "--max-time", "1", "--precision", "1"]
    matrix, two = flags.output / "matrix.jsonl", flags.output / "alone.jsonl"
    rounds: list[tuple[dict[str, float], dict[str, float]]] = []
    for _ in range(flags.rounds):
        run(flags.all, ["p2p", "-t", "CE", "-b", flags.size, *common], matrix)
        of_pair: dict[str, float] = {}
        for size, names in ((flags.size, ("send", "sendrecv")), ("16", ("ping_pong",))):
            sizes = ["-b", size, "-e", size, "--only", ",".join(names)]
            run(flags.two, ["pairs", *sizes, "--dtype", "int32", *common], two)
            of_pair |= alone(two)
        rounds.append((of_matrix(matrix), of_pair))
    table = {}
    for measure in OPERATIONS:
        pairs = [(whole[measure], single[measure]) for whole, single in rounds]
        table[measure] = {
            "matrix_us": statistics.median(one for one, _ in pairs) * 1e6,
            "alone_us": statistics.median(one for _, one in pairs) * 1e6,
            "ratio": statistics.median(one / other for one, other in pairs),
            "ratios": [round(one / other, 4) for one, other in pairs],
        }
        row = table[measure]
        print(
            f"{measure:15} matrix {row['matrix_us']:10.2f} us, alone {row['alone_us']:10.2f} us, "
            f"median of {len(pairs)} ratios {row['ratio']:.3f}"
        )
    (flags.output / "p2p_across_hosts.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
