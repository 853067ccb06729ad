"""Do our transfers reach nvbandwidth's figures? Both in turn on the same buffers, several rounds.

    python benchmarks/p2p.py --nvbandwidth path/to/nvbandwidth [--rounds 3] [--out p2p.json]
                             [--matrices p2p_matrices.txt]

Compares, over all pairs, the medians of the rounds: copy engine and kernel copies, write and read,
one way and both ways at once, and the latency of a pointer chase. Buffers are of 512 MiB,
and a sample is 16 copies, as nvbandwidth takes them. --matrices gets both programs' matrices of the
last round, side by side.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import permutations
from pathlib import Path
from statistics import median

from cclmark.kinds.p2p.figures import figures
from cclmark.kinds.registry import read_journal

SIZE_MIB = 512
# nvbandwidth's name: ours (measure, direction, engine).
CASES = {
    "device_to_device_memcpy_write_ce": ("unidirectional", "write", "CE"),
    "device_to_device_memcpy_read_ce": ("unidirectional", "read", "CE"),
    "device_to_device_bidirectional_memcpy_write_ce": ("bidirectional", "write", "CE"),
    "device_to_device_bidirectional_memcpy_read_ce": ("bidirectional", "read", "CE"),
    "device_to_device_memcpy_write_sm": ("unidirectional", "write", "SM"),
    "device_to_device_memcpy_read_sm": ("unidirectional", "read", "SM"),
    "device_to_device_bidirectional_memcpy_write_sm": ("bidirectional", "write", "SM"),
    "device_to_device_bidirectional_memcpy_read_sm": ("bidirectional", "read", "SM"),
    "device_to_device_latency_sm": ("latency", "read", "SM"),
}

Case = tuple[str, str, str]
Matrix = dict[tuple[int, int], float]  # GB/s or ns by row and column


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def of_nvbandwidth(program: Path) -> dict[Case, Matrix]:
    """What nvbandwidth measures of each pair."""
    command = [str(program), "-j", "-b", str(SIZE_MIB), "-t", *CASES]
    document = json.loads(run(command))
    found: dict[Case, Matrix] = {}
    for case in document["nvbandwidth"]["testcases"]:
        rows = case.get("bandwidth_matrix")
        if not rows:
            continue
        rows = rows[-len(rows[0]) :]  # both ways: first, second, total
        found[CASES[case["name"]]] = {
            (i, j): float(rows[i][j])
            for i, j in permutations(range(len(rows[0])), 2)
            if rows[i][j] not in ("N/A", "")
        }
    return found


def of_cclmark(devices: str) -> dict[Case, Matrix]:
    """The same of ours."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "run.jsonl"
        command = [sys.executable, "-m", "cclmark", "p2p", "-d", "write,read", "-r", "16"]
        command += ["-b", f"{SIZE_MIB}M", "--format", "json", "--journal", str(journal)]
        run([*command, *(["--devices", devices] if devices else [])])
        found: dict[Case, Matrix] = defaultdict(dict)
        for result in read_journal(journal).transfers:
            transfer = result.transfer
            key = (transfer.measure, transfer.direction, transfer.engine)
            scale = 1e9 if transfer.measure == "latency" else 1e-9
            found[key].update({pair: value * scale for pair, value in figures(result)})
    return found


def side_by_side(case: Case, ours: Matrix, theirs: Matrix) -> str:
    """Both matrices of a case, rows as both programs have them: the device that copies."""
    unit = "ns" if case[0] == "latency" else "GB/s"
    columns = sorted({device for pair in (*ours, *theirs) for device in pair})
    lines = [f"{' '.join(case)} [{unit}]", f"{'cclmark':{8 * len(columns) + 10}}nvbandwidth"]
    lines.append("   ".join([" " * 4 + "".join(f"{column:8}" for column in columns)] * 2))
    for row in columns:
        halves = [
            f"{row:4}"
            + "".join(f"{of[row, at]:8.2f}" if (row, at) in of else f"{'x':>8}" for at in columns)
            for of in (ours, theirs)
        ]
        lines.append("   ".join(halves))
    return "\n".join(lines) + "\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvbandwidth", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--devices", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--matrices", type=Path)
    args = parser.parse_args()
    theirs, ours = defaultdict(list), defaultdict(list)
    for _ in range(args.rounds):
        peer_matrices = of_nvbandwidth(args.nvbandwidth)
        own_matrices = of_cclmark(args.devices)
        for key, matrix in peer_matrices.items():
            theirs[key].append(median(matrix.values()))
        for key, matrix in own_matrices.items():
            ours[key].append(median(matrix.values()))
    entries = []
    for key in CASES.values():
        if not theirs[key] or not ours[key]:
            print(f"{' '.join(key):32} not measured by both")
            continue
        own, peer = median(ours[key]), median(theirs[key])
        unit = "ns" if key[0] == "latency" else "GB/s"
        print(f"{' '.join(key):32} {own:9.2f} {peer:9.2f} {unit:5} {own / peer:.4f}")
        entries.append(
            {"case": list(key), "cclmark": ours[key], "nvbandwidth": theirs[key], "unit": unit}
        )
    if args.matrices:
        both = [key for key in CASES.values() if key in own_matrices and key in peer_matrices]
        texts = [side_by_side(key, own_matrices[key], peer_matrices[key]) for key in both]
        args.matrices.write_text("".join(texts))
    if args.out:
        args.out.write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
