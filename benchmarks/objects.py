#!/usr/bin/env python3
"""Do plain torch scripts see the same cost of objects and of pieces as cclmark?

    python benchmarks/objects.py [--ranks 2] [--size 4G] [--parts nccl,gloo,pieces]
        [--out FILE.json]

`cclmark torch objects` on nccl and on gloo, and `cclmark all_reduce --pieces 1,10,100,1000` with
NCCL and with torch, each followed by a plain script (torch/objects_plain.py) that measures as
ml-engineering's do. A part that fails is reported, the others run nevertheless, and the exit code
is 1. NVLink multicast is off unless the environment sets it. On two GPUs less than 90 seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cclmark.kinds.pieces.result import PieceResult
from cclmark.kinds.registry import read_journal
from cclmark.work.sizes import parse_size
from cclmark_training.objects.result import ObjectResult

_PLAIN = Path(__file__).parent / "torch" / "objects_plain.py"
_PARTS = ("nccl", "gloo", "pieces")
_TIMEOUT_S = 120
_US = 1e6


def run(command: list[str]) -> None:
    """Runs a Python command in time. Raises OSError, CalledProcessError, TimeoutExpired."""
    print("$ python", " ".join(command), flush=True)
    subprocess.run([sys.executable, *command], check=True, timeout=_TIMEOUT_S)


def plain(args: argparse.Namespace, out: Path, *options: str) -> Mapping[str, Any]:
    """What the plain script measures."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks)]
    run([*launch, str(_PLAIN), *options, "--out", str(out)])
    found: Mapping[str, Any] = json.loads(out.read_text())
    return found


def objects(args: argparse.Namespace, place: Path, backend: str) -> dict[str, Any]:
    """The calls of one backend, and the flag by the plain script."""
    journal = place / f"{backend}.jsonl"
    devices = ["--devices", f"host:{args.ranks}"] if backend == "gloo" else ["-g", str(args.ranks)]
    command = ["-m", "cclmark", "torch", "objects", "--backend", backend, *devices]
    run([*command, "-e", "1M", "-f", "128", "--max-time", "0.2", "--journal", str(journal)])
    own = [
        {
            "call": one.call.operation,
            "size_bytes": one.call.size_bytes,
            "objects_us": one.figures.object_s * _US,
            "tensors_us": one.figures.tensor_s * _US,
            "ratio": [one.figures.ratio, one.figures.ratio_low, one.figures.ratio_high],
            "pickling_us": one.figures.pickling_s * _US,
        }
        for one in read_journal(journal).of(ObjectResult)
        if one.figures is not None
    ]
    script = plain(args, place / f"{backend}.json", "--backend", backend)["flags"]
    print(f"\n{backend}: the flag of each rank, µs per call")
    print(f"{'':>24} {'all_gather_object':>18} {'all_reduce':>12} {'ratio':>8}")
    rows = [
        ("cclmark", one["objects_us"], one["tensors_us"]) for one in own if one["call"] == "flag"
    ]
    for name, suffix in (("script", "_s"), ("script, waits at end", "_waited_s")):
        times = (script[f"{call}{suffix}"] * 1e3 for call in ("all_gather_object", "all_reduce"))
        rows.append((name, *times))
    for name, object_us, tensor_us in rows:
        print(f"{name:>24} {object_us:>18.1f} {tensor_us:>12.1f} {object_us / tensor_us:>8.1f}")
    print(flush=True)
    return {"cclmark": own, "script": script}


def pieces(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    """One message against many."""
    journal = place / "pieces.jsonl"
    command = ["-m", "cclmark", "all_reduce", "-g", str(args.ranks), "--ccl", "nccl,torch:nccl"]
    command += ["--pieces", "1,10,100,1000", "-b", args.size, "-e", args.size]
    run([*command, "--placement", "in-place", "--max-time", "0.3", "--journal", str(journal)])
    own: dict[str, list[dict[str, Any]]] = {}
    for result in read_journal(journal).of(PieceResult):
        own[result.pieces.ccl] = [
            {
                "form": row.division.form,
                "pieces": row.division.pieces,
                "time_us": row.summary.time_s * _US,
                "busbw_gbps": row.summary.busbw_bytes_per_s / 1e9,
                "ratio": [row.ratio, row.ratio_low, row.ratio_high],
                "launch_bound": row.launch_bound,
            }
            for row in result.rows
            if row.summary is not None
        ]
    size = ("--size-bytes", str(parse_size(args.size)))
    script = plain(args, place / "pieces.json", "--backend", "nccl", *size)["pieces_s"]
    print(f"\n{args.size} all_reduce in pieces: time over the time in one call")
    print(f"{'pieces':>8} {'as':>10} " + " ".join(f"{name:>12}" for name in [*own, "script"]))
    ratios = {
        name: {(row["form"], row["pieces"]): f"{row['ratio'][0]:.3f}" for row in many}
        for name, many in own.items()
    }
    for form, number in dict.fromkeys(key for many in ratios.values() for key in many):
        cells = [many.get((form, number), "-") for many in ratios.values()]
        known = form in ("one", "separate") and str(number) in script
        cells.append(f"{script[str(number)] / script['1']:.3f}" if known else "-")
        print(f"{number:>8} {form:>10} " + " ".join(f"{cell:>12}" for cell in cells))
    print(flush=True)
    return {"cclmark": own, "script_s": script}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--size", default="4G")
    parser.add_argument("--parts", default=",".join(_PARTS))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    chosen = args.parts.split(",")
    if unknown := set(chosen) - set(_PARTS):
        parser.error(f"--parts: unknown {', '.join(sorted(unknown))}")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    measures: dict[str, Callable[[Path], dict[str, Any]]] = {
        "nccl": lambda place: objects(args, place, "nccl"),
        "gloo": lambda place: objects(args, place, "gloo"),
        "pieces": lambda place: pieces(args, place),
    }
    found: dict[str, Any] = {}
    failed = []
    with tempfile.TemporaryDirectory() as directory:
        for name in chosen:
            try:
                found[name] = measures[name](Path(directory))
            except (OSError, subprocess.SubprocessError) as error:
                failed.append(name)
                print(f"{name}: {error}", flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1))
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
