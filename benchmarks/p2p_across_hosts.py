"""Compares pairs in a matrix of several hosts with the same pairs measured by other means.

Launchers are given as they are typed, with ``{}`` for the command:

    python benchmarks/p2p_across_hosts.py -O results \\
        --all 'mpirun --host a:2,b:2 -np 4 {}' --two 'mpirun --host a:1,b:1 -np 2 {}' --osu DIR

With ``--all``, runs of ``cclmark p2p`` over all processes and over two, one on each host,
alternate: does a matrix say the same of a pair as a run of the pair alone? With ``--osu``, runs of
``cclmark p2p`` and of the OSU micro-benchmarks, both over these two processes, alternate: DIR holds
osu_latency, osu_bw and osu_bibw, built with the MPI of the launcher. Prints for each figure the
medians of both, and of their ratios over the rounds with the 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

from cclmark.base.statistics import median_interval
from cclmark.kinds.registry import read_journal

MEASURES = ("unidirectional", "bidirectional", "latency")
#: The OSU program of each measure, and the directions in which its bandwidth counts bytes.
PEERS = {
    "latency": ("osu_latency", 1),
    "unidirectional": ("osu_bw", 1),
    "bidirectional": ("osu_bibw", 2),
}
PEER_SIZES = (1 << 10, 32 << 10, 1 << 20)  # bytes of messages in one direction and in both
TIMEOUT_S = 600.0

Times = dict[tuple[str, int], float]  # seconds by measure and bytes


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


def of_p2p(launcher: str, options: list[str], journal: Path) -> Times:
    """Returns the times of messages by ``cclmark p2p`` over two processes."""
    sizes = ["-b", str(PEER_SIZES[0]), "-e", str(PEER_SIZES[-1]), "-f", "32"]
    run(launcher, ["p2p", "-t", "CE", *sizes, *options], journal)
    return {
        (one.transfer.measure, one.transfer.size_bytes): one.summary.time_s
        for one in read_journal(journal).transfers
        if one.transfer.ccl and one.transfer.flows[0] == (0, 1) and one.summary is not None
    }


def of_osu(launcher: str, directory: Path) -> Times:
    """Returns the times of the OSU micro-benchmarks at all sizes that they measure."""
    times: Times = {}
    for measure, (name, ways) in PEERS.items():
        words = shlex.split(launcher.replace("{}", shlex.quote(str(directory / name))))
        done = subprocess.run(
            words, check=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE, text=True
        )
        rows = [line.split() for line in done.stdout.splitlines() if line[:1].isdigit()]
        for size_bytes, figure in ((int(row[0]), float(row[1])) for row in rows):
            us = figure if measure == "latency" else ways * size_bytes / figure  # of MB/s
            times[measure, size_bytes] = us * 1e-6
    return times


def bound(processors: str) -> list[str]:
    """Returns the option for the processors of the ranks, if any are given."""
    return ["--bind", processors] if processors else []


def summarised(pairs: list[tuple[float, float]], names: tuple[str, str]) -> dict[str, object]:
    """Returns the medians of both times and of their ratios, the 95 % interval, and all ratios."""
    ratios = [one / other for one, other in pairs]
    return {
        f"{names[0]}_us": statistics.median(one for one, _ in pairs) * 1e6,
        f"{names[1]}_us": statistics.median(other for _, other in pairs) * 1e6,
        "ratio": statistics.median(ratios),
        "interval": median_interval(ratios),
        "ratios": [round(one, 4) for one in ratios],
    }


def printed(label: str, row: dict[str, object], names: tuple[str, str]) -> None:
    """Prints one row."""
    first, second = (f"{name} {row[name + '_us']:10.2f} us" for name in names)
    ratios = row["ratios"]
    assert isinstance(ratios, list)
    low, high = row["interval"] or (float("nan"), float("nan"))
    print(
        f"{label:25} {first}, {second}, median of {len(ratios)} ratios {row['ratio']:.3f} "
        f"({low:.3f} to {high:.3f})"
    )


def compare_alone(flags: argparse.Namespace, common: list[str]) -> None:
    """Compares the matrix of all processes with the same pair alone."""
    matrix, two = flags.output / "matrix.jsonl", flags.output / "alone.jsonl"
    command = ["p2p", "-t", "CE", "-b", flags.size, *common]
    bind_all, bind_two = bound(flags.bind_all), bound(flags.bind)
    rounds: list[tuple[dict[str, float], dict[str, float]]] = []
    table: dict[str, dict[str, object]] = {}
    compared = ("matrix", "alone")
    for number in range(flags.rounds):
        runs = [(flags.all, bind_all, matrix), (flags.two, bind_two, two)]
        for launcher, binding, journal in runs if number % 2 else reversed(runs):
            run(launcher, [*command, *binding], journal)
        rounds.append((of_matrix(matrix), of_matrix(two)))
        table = {
            measure: summarised([(whole[measure], one[measure]) for whole, one in rounds], compared)
            for measure in MEASURES
        }
        # After every round, so that an interrupted run leaves its rounds.
        (flags.output / "p2p_across_hosts.json").write_text(json.dumps(table, indent=1) + "\n")
    for measure, row in table.items():
        printed(measure, row, compared)


def compare_peer(flags: argparse.Namespace, common: list[str]) -> None:
    """Compares messages of two processes with the OSU micro-benchmarks, who is first in turn."""
    journal, launcher = flags.output / "beside_osu.jsonl", flags.osu_launcher or flags.two
    options = [*common, *bound(flags.bind)]
    rounds: list[tuple[Times, Times]] = []
    for number in range(flags.rounds):
        if number % 2:
            peer = of_osu(launcher, flags.osu)
            rounds.append((of_p2p(flags.two, options, journal), peer))
        else:
            own = of_p2p(flags.two, options, journal)
            rounds.append((own, of_osu(launcher, flags.osu)))
    table = {}
    compared = ("cclmark", "osu")
    for measure, size_bytes in rounds[0][0]:
        pairs = [(own[measure, size_bytes], peer[measure, size_bytes]) for own, peer in rounds]
        label = f"{measure} {size_bytes}"
        table[label] = summarised(pairs, compared)
        printed(label, table[label], compared)
    (flags.output / "beside_osu.json").write_text(json.dumps(table, indent=1) + "\n")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", help="launcher of all processes, with {}")
    parser.add_argument(
        "--two", required=True, help="launcher of one process on each host, with {}"
    )
    parser.add_argument("--osu", type=Path, help="directory of osu_latency, osu_bw and osu_bibw")
    parser.add_argument(
        "--osu-launcher",
        help="launcher of these, with {}, that binds ranks to the processors of cclmark's [--two]",
    )
    parser.add_argument(
        "--bind", default="", help="--bind of cclmark's two ranks, if the hosts share a machine"
    )
    parser.add_argument("--bind-all", default="", help="--bind of the ranks of --all, likewise")
    parser.add_argument("--ccl", default="mpi")
    parser.add_argument("--devices", default="host")
    parser.add_argument("--size", default="16M")
    parser.add_argument("--max-time", default="1", help="seconds for each pair and measure")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "-O", "--output", type=Path, required=True, help="directory of the journals"
    )
    flags = parser.parse_args()
    if not (flags.all or flags.osu):
        parser.error("nothing to compare: --all, --osu or both")
    if flags.osu and flags.ccl != "mpi":
        parser.error("the OSU micro-benchmarks exchange messages of MPI: use --ccl mpi")
    flags.output.mkdir(parents=True, exist_ok=True)
    common = ["--devices", flags.devices, "--ccl", flags.ccl, "--max-time", flags.max_time]
    common += ["--precision", "1"]
    if flags.all:
        compare_alone(flags, common)
    if flags.osu:
        compare_peer(flags, common)


if __name__ == "__main__":
    main()
