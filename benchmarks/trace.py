#!/usr/bin/env python3
"""Are all events of a trace there, how well are its clocks aligned, and what does tracing cost?

    python benchmarks/trace.py [--ranks 2] [--operations 10000] [--size 1M] [--out FILE.json]

For short traces of several operations, and one of ``--operations`` all_reduces, it reads the
Perfetto file back and prints: the slices of kernels of each rank, which must be as many on all, the
events that were lost, the alignment of the clocks, the time of an operation with and without
tracing, the size of the file, and the time of the command and of reading the file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

SHORT = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "sendrecv")


def traced(
    operation: str, ranks: int, number: int, size: str, directory: Path
) -> dict[str, object]:
    """One trace and what is in it. Raises CalledProcessError."""
    path = directory / f"{operation}-{number}.pftrace"
    command = [sys.executable, "-m", "cclmark", "trace", operation, "-b", size, "-n", str(number)]
    began_s = time.monotonic()
    run = subprocess.run(
        [*command, "-g", str(ranks), "-O", str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=580,
    )
    whole_s = time.monotonic() - began_s
    began_s = time.monotonic()
    kernels = kernels_in(path)
    figures = {
        "operation": operation,
        "size": size,
        "operations": number,
        "kernels of each rank": kernels,
        "lost": _figure(r"(\d+) lost", run.stdout),
        "clocks agree within us": _figure(r"the clocks agree within ([\d.]+)", run.stdout),
        "traced us": _figure(r"([\d.]+) µs each while traced", run.stdout),
        "untraced us": _figure(r"untraced ([\d.]+) µs", run.stdout),
        "file bytes": path.stat().st_size,
        "whole command s": round(whole_s, 2),
        "read back s": round(time.monotonic() - began_s, 2),
    }
    path.unlink()
    return figures


def _figure(pattern: str, text: str) -> float | None:
    found = re.search(pattern, text)
    return float(found[1]) if found else None


def kernels_in(path: Path) -> dict[str, int]:
    """The number of slices on the channels' tracks of each rank."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    names: dict[int, str] = {}
    parents: dict[int, int] = {}
    found: Counter[str] = Counter()
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            described = packet.track_descriptor
            name = described.process.process_name or described.name
            names[described.uuid] = name
            parents[described.uuid] = described.parent_uuid
        elif packet.HasField("track_event"):
            event = packet.track_event
            is_kernel = names[event.track_uuid].startswith("channel ")
            if event.type == event.TYPE_SLICE_BEGIN and is_kernel:
                found[names[parents[event.track_uuid]].partition(",")[0]] += 1
    return dict(sorted(found.items()))


def main() -> None:
    """Prints a line for each trace."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--size", default="1M")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        plan = [(operation, 20) for operation in SHORT] + [("all_reduce", chosen.operations)]
        for operation, number in plan:
            try:
                found = traced(operation, chosen.ranks, number, chosen.size, Path(name))
            except subprocess.CalledProcessError as error:
                found = {
                    "operation": operation,
                    "exit code": error.returncode,
                    "error": error.stderr,
                }
            results.append(found)
            print(json.dumps(found, ensure_ascii=False), flush=True)
    failed = [one for one in results if "error" in one or not _is_complete(one)]
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    if failed:
        sys.exit(f"{len(failed)} traces are incomplete")


def _is_complete(found: dict[str, object]) -> bool:
    """Whether all ranks have as many kernels, a multiple of the operations, and none are lost."""
    kernels = found["kernels of each rank"]
    assert isinstance(kernels, dict)
    numbers = set(kernels.values())
    return (
        len(numbers) == 1
        and min(numbers) % int(str(found["operations"])) == 0
        and not found["lost"]
    )


if __name__ == "__main__":
    main()
