#!/usr/bin/env python3
"""Do device times repeat from run to run, and do they agree with nccl-tests in CUDA graphs?

    python benchmarks/small_messages.py [--nccl-tests DIR] [--runs 8] [--rounds 3] [--out FILE.json]

Each run is one process group of `cclmark collectives`, which measures every operation with
--timing auto. nccl-tests (DIR, built with MPI=1) measures each operation in CUDA graphs (-G) in
rounds between these runs. Per case: the coefficient of variation between runs of the cost of a call
and of the device's time, and the ratio of the medians of device time and nccl-tests' time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, stdev

from fidelity import OUT_OF_PLACE_ONLY, mpirun, run, times_in

from cclmark.kinds.registry import read_journal

OPERATIONS = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"),
    *("alltoall", "gather", "scatter", "sendrecv"),
)
Key = tuple[str, int, bool]


def ours(args: argparse.Namespace, keep: Path | None) -> dict[Key, tuple[float, float | None]]:
    """Seconds of a call and of the device by operation, size and placement."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "run.jsonl" if keep is None else keep
        journal.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "cclmark", "collectives", "-b", args.begin, "-e", args.end]
        command += ["-f", args.factor, "-g", str(args.ranks), "-c", "0", "--journal", str(journal)]
        run([*command, "--timing", "auto", *args.flags])
        return {
            (result.case.operation, result.case.size_bytes, result.case.in_place): (
                result.summary.time_s,
                None if result.device is None else result.device.summary.time_s,
            )
            for result in read_journal(journal).results
            if result.summary is not None
        }


def theirs(args: argparse.Namespace, operation: str) -> dict[Key, float]:
    """Seconds by operation, size and placement, as nccl-tests prints them."""
    flags = ["-b", args.begin, "-e", args.end, "-f", args.factor, "-n", "20", "-w", "5", "-c", "0"]
    flags += ["-a", "3", "-G", str(args.launches)]
    text, _ = run(mpirun(args.ranks, args.nccl_tests / f"{operation}_perf", flags))
    return {
        (operation, size, in_place): time_us * 1e-6
        for (size, in_place), time_us in times_in(text).items()
        if not (in_place and operation in OUT_OF_PLACE_ONLY)
    }


def variation(values: list[float]) -> float:
    """The coefficient of variation; 0 of a single value."""
    return stdev(values) / median(values) if len(values) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nccl-tests", type=Path, help="directory of its programs")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--launches", type=int, default=20, help="graph launches of nccl-tests")
    parser.add_argument("--begin", default="8")
    parser.add_argument("--end", default="256K")
    parser.add_argument("--factor", default="4")
    parser.add_argument("--keep", type=Path, help="directory for the journals of our runs")
    parser.add_argument("--out", type=Path)
    parser.add_argument("flags", nargs="*", help="more flags for cclmark, after --")
    args = parser.parse_args()
    found: dict[Key, dict[str, list[float]]] = {}
    for number in range(args.runs):
        keep = args.keep / f"run-{number + 1}.jsonl" if args.keep else None
        for key, (call_s, device_s) in ours(args, keep).items():
            entry = found.setdefault(key, {"call_s": [], "device_s": [], "nccl_tests_s": []})
            entry["call_s"].append(call_s)
            if device_s is not None:
                entry["device_s"].append(device_s)
        if args.nccl_tests and number < args.rounds:
            for operation in OPERATIONS:
                for key, time_s in theirs(args, operation).items():
                    if key in found:
                        found[key]["nccl_tests_s"].append(time_s)
    print(f"{'case':>36}  call us     cv  device us     cv  runs  nccl-tests us  ratio")
    rows = []
    for key, entry in found.items():
        operation, size_bytes, in_place = key
        name = f"{operation} {size_bytes} B {'in' if in_place else 'out'}"
        row = {"operation": operation, "size_bytes": size_bytes, "in_place": in_place, **entry}
        row |= {"call_cv": variation(entry["call_s"])}
        line = f"{name:>36}  {median(entry['call_s']) * 1e6:7.2f} {row['call_cv']:6.2%}"
        if entry["device_s"]:
            row |= {"device_cv": variation(entry["device_s"])}
            middle_s = median(entry["device_s"])
            line += f"  {middle_s * 1e6:9.2f} {row['device_cv']:6.2%}  {len(entry['device_s']):4}"
            if entry["nccl_tests_s"]:
                peer_s = median(entry["nccl_tests_s"])
                row |= {"ratio": middle_s / peer_s}
                line += f"  {peer_s * 1e6:13.2f}  {row['ratio']:5.3f}"
        print(line)
        rows.append(row)
    launch_bound = [row for row in rows if "device_cv" in row]
    if launch_bound:
        print(f"largest cv of device times: {max(row['device_cv'] for row in launch_bound):.2%}")
    if args.out:
        gpus = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
        args.out.write_text(json.dumps({"devices": gpus.splitlines(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
