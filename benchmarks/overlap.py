#!/usr/bin/env python3
"""Does a plain torch script see the same slow-downs as `cclmark overlap`?

    python benchmarks/overlap.py [--ranks 2] [--ctas 4,8,16,32,64] [--matrix 8192] [--size 1G]
        [--rounds 5] [--out FILE.json]

`cclmark overlap` measures an all-reduce beside a bfloat16 product for each number of CTAs.
torch/overlap_plain.py then does the same with torch.mm and torch.distributed, if torch is there, on
groups with as many CTAs (ProcessGroupNCCL.Options.config). Both record events between operations,
and the same rule selects the operations that ran entirely beside the other work. One runs after the
other. NVLink multicast is off in both unless the environment sets it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from cclmark.analysis.ratio import RatioEstimate
from cclmark.kinds.overlap.figures import summaries_of
from cclmark.kinds.overlap.result import OverlapResult
from cclmark.kinds.registry import read_journal
from cclmark.work.sizes import format_size, parse_size

_USUAL_CTAS = 24  # on devices with NVLink
_PLAIN = Path(__file__).parent / "torch" / "overlap_plain.py"


def varied(ctas: str) -> list[str]:
    """Limits below NCCL's usual number of CTAs, and numbers above it, which require a minimum."""
    numbers = [int(one) for one in ctas.split(",")]
    options = []
    for name, few in (("NCCL_MAX_CTAS", True), ("NCCL_MIN_CTAS", False)):
        chosen = [str(one) for one in numbers if (one <= _USUAL_CTAS) == few]
        options += ["--vary", f"{name}={','.join(chosen)}"] if chosen else []
    return options


def of_cclmark(args: argparse.Namespace, journal: Path) -> dict[str, dict[str, object]]:
    """The slow-downs by number of CTAs, with their intervals."""
    command = [
        *(sys.executable, "-m", "cclmark", "overlap", "all_reduce", "-g", str(args.ranks)),
        *("-b", args.size, "-e", args.size, "--matrix", str(args.matrix)),
        *(*varied(args.ctas), "--one-at-a-time", "--rounds", str(args.rounds), "--explain"),
        *("--journal", str(journal)),
    ]
    print("$", " ".join(command[2:]), flush=True)
    subprocess.run(command, check=True)
    found: dict[str, dict[str, object]] = {}
    for one in summaries_of(read_journal(journal).of(OverlapResult)):
        if one.communication is None or one.compute is None:
            continue
        ctas = one.variant.assignments[0].value if one.variant.assignments else "default"
        found[ctas] = {
            "collective_alone_us": one.communication.alone_s * 1e6,
            "compute_alone_us": one.compute.alone_s * 1e6,
            "collective_slow_down": one.communication.ratio,
            "collective_interval": interval(one.communication.estimate),
            "compute_slow_down": one.compute.ratio,
            "compute_interval": interval(one.compute.estimate),
            "evaluated": one.evaluated,
            "ran": one.ran,
        }
    return found


def interval(estimate: RatioEstimate | None) -> tuple[float, float] | None:
    return None if estimate is None else (estimate.low, estimate.high)


def of_torch(args: argparse.Namespace, out: Path) -> dict[str, dict[str, object]]:
    """The medians of the plain script; empty where it cannot run."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(args.ranks), str(_PLAIN)),
        *("--ctas", args.ctas, "--matrix", str(args.matrix), "--rounds", str(args.rounds)),
        *("--size-bytes", str(parse_size(args.size)), "--out", str(out)),
    ]
    print("$", " ".join(command[2:]), flush=True)
    if subprocess.run(command, check=False).returncode != 0:
        print("no comparison: the torch script failed, or torch is not installed")
        return {}
    found = json.loads(out.read_text())
    return {
        ctas: {
            "collective_alone_us": median(one["communication_alone_s"] for one in many) * 1e6,
            "compute_alone_us": median(one["compute_alone_s"] for one in many) * 1e6,
            "collective_slow_down": median(
                one["communication_s"] / one["communication_alone_s"] for one in many
            ),
            "compute_slow_down": median(one["compute_s"] / one["compute_alone_s"] for one in many),
        }
        for ctas, many in found.items()
        if many
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--ctas", default="4,8,16,32,64")
    parser.add_argument("--matrix", type=int, default=8192)
    parser.add_argument("--size", default="1G")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    with tempfile.TemporaryDirectory() as place:
        own = of_cclmark(args, Path(place) / "overlap.jsonl")
        plain = of_torch(args, Path(place) / "torch.json")
    print(f"\n{format_size(parse_size(args.size))} all_reduce beside {args.matrix}³ bfloat16")
    print(f"{'CTAs':>8} {'':>8} {'alone µs':>10} {'slow-down':>10} {'mm µs':>8} {'slow-down':>10}")
    for ctas, figures in own.items():
        for name, one in (("cclmark", figures), ("torch", plain.get(ctas))):
            if one is not None:
                print(
                    f"{ctas:>8} {name:>8} {one['collective_alone_us']:>10.1f} "
                    f"{one['collective_slow_down']:>10.3f} {one['compute_alone_us']:>8.1f} "
                    f"{one['compute_slow_down']:>10.3f}"
                )
    if args.out is not None:
        args.out.write_text(json.dumps({"cclmark": own, "torch": plain}, indent=1))


if __name__ == "__main__":
    main()
