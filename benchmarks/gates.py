#!/usr/bin/env python3
"""What do the gates of ``cclmark p2p`` change? Copies with each of them, in turn.

    python benchmarks/gates.py [--rounds 5] [--devices 0,1] [--engines CE,SM] [--out FILE.json]

Each round measures the same copies with ``stream-wait``, ``host-function`` and ``events``, and
again with ``stream-wait``: nothing against itself. Printed are, for each kind of copy and size, the
median over the rounds of each one's time over that of the first, and the share of launches that is
stated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

GATES = ("stream-wait", "host-function", "events", "again")
TIMEOUT_S = 300


def measured(args: argparse.Namespace, gate: str) -> list[dict[str, Any]]:
    """The transfers of one run, as in its journal."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "run.jsonl"
        command = [
            *(sys.executable, "-m", "cclmark", "p2p", "--devices", args.devices, "-t"),
            *(args.engines, "-j", "1", "-b", args.begin, "-e", args.end, "-f", args.factor),
            *("--gate", GATES[0] if gate == "again" else gate, "--journal", str(journal)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
        lines = map(json.loads, journal.read_text().splitlines())
        return [line for line in lines if line["type"] == "transfer" and "summary" in line]


def main() -> None:
    """Measures in turn and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--devices", default="0,1")
    parser.add_argument("--engines", default="CE,SM")
    parser.add_argument("-b", dest="begin", default="1M")
    parser.add_argument("-e", dest="end", default="256M")
    parser.add_argument("-f", dest="factor", default="4")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    times: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    shares: dict[tuple[str, int], list[float]] = defaultdict(list)
    for _ in range(args.rounds):
        for gate in GATES:
            for one in measured(args, gate):
                transfer, summary = one["transfer"], one["summary"]
                what = f"{transfer['measure']} {transfer['engine']}"
                key = (what, transfer["size_bytes"])
                times[key][gate].append(summary["time_s"])
                if gate == "events":
                    shares[key].append(summary.get("launch_s", 0.0) / summary["time_s"])
    rows = []
    print(f"{'copies':20} {'bytes':>10} {'us':>9}  host-function  events  again  launches at most")
    for (what, size_bytes), by_gate in sorted(times.items()):
        usual_s = median(by_gate[GATES[0]])
        ratios = {gate: median(by_gate[gate]) / usual_s for gate in GATES[1:]}
        share = median(shares[what, size_bytes])
        print(
            f"{what:20} {size_bytes:10} {usual_s * 1e6:9.2f}  {ratios['host-function']:13.4f}  "
            f"{ratios['events']:6.4f} {ratios['again']:6.4f}  {share:16.1%}",
            flush=True,
        )
        rows.append({"copies": what, "size_bytes": size_bytes, "time_s": dict(by_gate)})
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
