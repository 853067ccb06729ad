#!/usr/bin/env python3
"""Does a plain torch script see the same step times as `cclmark train`?

    python benchmarks/train.py [--ranks 2] [--batch 4] [--ways default,p2p,sockets]
        [--rounds 3,2,1] [--limit 220] [--out FILE.json]

Both train a GPT-2-like transformer with 254 M parameters under DDP on CUDA devices: --batch
sequences of 512 tokens for each rank, bfloat16, AdamW. torch/train_plain.py contains no code of
cclmark. For each way of communication (NVLink, NCCL_P2P_DISABLE=1, shared memory off too) the two
run in turn, in new processes, as often as --rounds says. Printed are the step with and without
communication of both, their ratio, and the parts of the step that cclmark reports. After --limit
seconds no further process is started. NVLink multicast is off in both unless the environment sets
it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from cclmark.kinds.registry import read_journal
from cclmark_training.figures import figures_of, summaries_of

_PLAIN = Path(__file__).parent / "torch" / "train_plain.py"
_NAMES = {"default": "default", "p2p": "NCCL_P2P_DISABLE=1", "sockets": "P2P and SHM off"}
_WAYS = {
    "default": {},
    "NCCL_P2P_DISABLE=1": {"NCCL_P2P_DISABLE": "1"},
    "P2P and SHM off": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
}
_STEPS = {"default": 60, "NCCL_P2P_DISABLE=1": 40, "P2P and SHM off": 16}
_LONGEST_S = 90
_MS_PER_S = 1e3


def run(command: list[str], variables: dict[str, str]) -> bool:
    """Whether the command succeeded. Its output is shown if it failed."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **variables},
            timeout=_LONGEST_S,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired:
        print(f"no result after {_LONGEST_S} s: {' '.join(command)}", flush=True)
        return False
    if done.returncode != 0:
        print(f"exit code {done.returncode}: {' '.join(command)}")
        print(done.stdout[-3000:], done.stderr[-3000:], flush=True)
    return done.returncode == 0


def of_cclmark(args: argparse.Namespace, way: str, journal: Path) -> dict[str, float]:
    """The figures of one run of cclmark, in milliseconds."""
    command = [
        *(sys.executable, "-m", "cclmark", "train", "--model", "gpt2-254m", "--parallel", "ddp"),
        *(
            "-g",
            str(args.ranks),
            "--batch",
            str(args.batch),
            "--sequence",
            "512",
            "--dtype",
            "bfloat16",
        ),
        *("-w", "10", "-n", str(_STEPS[way]), "--journal", str(journal)),
    ]
    if not run(command, _WAYS[way]):
        return {}
    held = read_journal(journal)
    (result,) = held.trainings
    (one,) = summaries_of([result], held.header.devices)
    figures = figures_of(result)
    assert figures is not None
    parts = {
        "step_ms": figures.step_s,
        "alone_ms": figures.alone_s,
        "profiled_ms": figures.profiled_s,
        "compute_ms": figures.compute_s,
        "exposed_ms": figures.exposed_s,
        "idle_ms": figures.idle_s,
        "hidden_ms": figures.hidden_s,
        "slow_down_ms": figures.slow_down_s,
    }
    found = {name: time_s * _MS_PER_S for name, time_s in parts.items() if time_s is not None}
    found["mfu"] = one.share_of_peak or 0.0
    found["tokens_per_s"] = one.tokens_per_s or 0.0
    found["allocated_bytes"] = one.allocated_bytes or 0
    found["estimated_bytes"] = result.estimated_bytes
    found["first_loss"], found["last_loss"] = one.losses[0], one.losses[-1]
    return found


def of_torch(args: argparse.Namespace, way: str, out: Path) -> dict[str, float]:
    """The figures of one run of the plain script, in milliseconds."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(args.ranks), str(_PLAIN)),
        *("--steps", str(_STEPS[way]), "--batch", str(args.batch), "--out", str(out)),
    ]
    return json.loads(out.read_text()) if run(command, _WAYS[way]) else {}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--ways", default=",".join(_NAMES), help="default, p2p, sockets")
    parser.add_argument("--rounds", default="3,2,1", help="of each way, in their order")
    parser.add_argument("--limit", type=float, default=220.0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    begin_s = time.monotonic()
    ways = [_NAMES[one] for one in args.ways.split(",")]
    rounds = [int(one) for one in args.rounds.split(",")][: len(ways)]
    found: dict[str, dict[str, list[dict[str, float]]]] = {
        way: {"cclmark": [], "torch": []} for way in ways
    }
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for number in range(max(rounds)):
            for way, most in zip(ways, rounds, strict=True):
                if number >= most:
                    continue
                tools = [("cclmark", of_cclmark), ("torch", of_torch)]
                for tool, measure in tools[:: 1 if number % 2 == 0 else -1]:
                    if time.monotonic() - begin_s > args.limit:
                        print(f"left out after {args.limit:g} s: {tool}, {way}")
                        continue
                    began_s = time.monotonic()
                    one = measure(args, way, place / f"{tool}-{len(way)}-{number}.json")
                    print(
                        f"{time.monotonic() - began_s:5.1f} s  {tool:>7}  {way}: {one}", flush=True
                    )
                    if one:
                        found[way][tool].append(one)
                if args.out is not None:
                    args.out.write_text(json.dumps(found, indent=1))
    show(found)


def show(found: dict[str, dict[str, list[dict[str, float]]]]) -> None:
    """Prints medians over the rounds and the ratio of the two programs."""
    parts = ("profiled", "compute", "exposed", "idle", "hidden")
    head = ("step ms", "ratio", "alone ms", "ratio", *parts)
    print(f"\n{'':>20} {'':>8} " + " ".join(f"{one:>9}" for one in head))
    for way, tools in found.items():
        plain = middle(tools["torch"])
        for tool, rows in tools.items():
            one = middle(rows)
            if not one:
                continue
            cells = [one.get("step_ms"), ratio(one, plain, "step_ms")]
            cells += [one.get("alone_ms"), ratio(one, plain, "alone_ms")]
            cells += [one.get(f"{name}_ms") for name in parts]
            texts = [f"{cell:9.3f}" if cell is not None else f"{'-':>9}" for cell in cells]
            print(f"{way:>20} {tool:>8} {' '.join(texts)}")


def middle(rows: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    names = rows[0] if rows else {}
    return {name: median([row[name] for row in rows if name in row]) for name in names}


def ratio(one: dict[str, float], plain: dict[str, float], name: str) -> float | None:
    """One figure over that of the plain script."""
    return one[name] / plain[name] if name in one and name in plain else None


if __name__ == "__main__":
    main()
