"""What ``cclmark profile`` costs a training step, and whether its counts equal torch's.

    python benchmarks/profiling.py [--ranks 2] [--rounds 6] [--counts ddp,fsdp2,tp]
        [--costs ddp,fsdp2,tp] [--variants profile,again,counts] [--budget 540]

Requires GPUs, torch and cclmark (the ``cclmark`` module, which the same Python can import); no
network. Three checks, for modes of benchmarks/torch/profiled_training.py:

1. Cost: the program alone and under ``cclmark profile`` in turns, in fresh processes each time. A
   ratio for each round, of the medians over blocks of steps; the median of the ratios is printed,
   with that of the program against itself as a measure of noise, and with --no-kernel-times.
2. Counts: calls and bytes of each collective by ``cclmark profile`` in one run, by the kernels in
   torch.profiler's (Kineto's) trace in another one.
3. Time: the traces are imported; compute, exposed communication and idle time of the device, in all
   and in a step.

Everything is printed as soon as it is known. When --budget seconds are over, no new round starts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cclmark.analysis.steps import steps_of_profile
from cclmark.kinds.registry import read_journal

JOB = Path(__file__).resolve().parent / "torch" / "profiled_training.py"
RUN_S = 180.0  # the longest run
BYTES = {
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
}
#: Kineto's names of collectives, and whether the count is that of the input or of the output.
NAMES = {
    "allreduce": ("all_reduce", "In"),
    "allreduce_coalesced": ("all_reduce", "In"),
    "barrier": ("all_reduce", "In"),
    "broadcast": ("broadcast", "In"),
    "_broadcast_oop": ("broadcast", "In"),
    "allgather": ("all_gather", "In"),
    "all_gather": ("all_gather", "In"),
    "_allgather_base": ("all_gather", "In"),
    "all_gather_into_tensor_coalesced": ("all_gather", "In"),
    "allgather_into_tensor_coalesced": ("all_gather", "In"),
    "reduce_scatter": ("reduce_scatter", "Out"),
    "_reduce_scatter_base": ("reduce_scatter", "Out"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", "Out"),
    "reduce": ("reduce", "In"),
    "send": ("send", "In"),
    "recv": ("recv", "In"),
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--counts", default="ddp,fsdp2,tp", help="modes whose counts are compared")
    parser.add_argument("--costs", default="ddp,fsdp2,tp", help="modes whose steps are timed")
    parser.add_argument("--variants", default="profile,again,counts", help="beside the program")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--counted-steps", type=int, default=5)
    parser.add_argument(
        "--tokens",
        type=int,
        default=0,
        help="of a step: more where the host's launches determine it, so that steps vary less",
    )
    parser.add_argument("--budget", type=float, default=540.0)
    parser.add_argument("--keep", type=Path, help="directory for the journals and traces")
    parser.add_argument("--cpu", action="store_true", help="gloo on the host, to try the script")
    parser.add_argument("--small", action="store_true", help="a small model, to try the script")
    return parser.parse_args()


class Bench:
    """Runs the program, alone and profiled."""

    def __init__(self, given: argparse.Namespace, directory: Path) -> None:
        self.given = given
        self.directory = directory
        self.ends_s = time.monotonic() + given.budget
        self.runs = 0

    def has_time(self) -> bool:
        return time.monotonic() < self.ends_s

    def command(self, mode: str, *more: str) -> list[str]:
        found = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        found += ["--nproc-per-node", str(self.given.ranks), str(JOB), mode, *more]
        found += ["--cpu"] if self.given.cpu else []
        if self.given.tokens:
            found += ["--tokens", str(self.given.tokens)]
        if self.given.small:
            found += ["--width", "64", "--blocks", "2", "--tokens", "64", "--warmup", "2"]
        return found

    def run(self, command: list[str]) -> bool:
        """Runs a command; prints the end of its output if it fails."""
        left_s = max(30.0, min(RUN_S, self.ends_s - time.monotonic() + 60.0))
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=left_s,
                check=False,
                env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "4")},
            )
        except subprocess.TimeoutExpired:
            print(f"  no end within {left_s:.0f} s: {' '.join(command)}", flush=True)
            return False
        # Without GPUs the program calls no operation of NCCL: exit code 3.
        is_good = done.returncode in ((0, 3) if self.given.cpu else (0,))
        if not is_good:
            print(f"  exit code {done.returncode}: {' '.join(command)}")
            lines = done.stdout.splitlines()
            raised = [line for line in lines if re.match(r"(\[rank\d+\]: )?\w*Error", line)]
            print("\n".join(f"    {line}" for line in [*raised[:4], *lines[-25:]]), flush=True)
        return is_good

    def profiled(self, command: list[str], *flags: str) -> tuple[list[str], Path]:
        self.runs += 1
        journal = self.directory / f"profile-{self.runs}.jsonl"
        program = [sys.executable, "-m", "cclmark", "profile", "--journal", str(journal), *flags]
        return [*program, "--", *command], journal

    def step_s(self, mode: str, variant: str) -> float | None:
        """The median time of a step; ``variant``: alone, again, profile or counts."""
        result = self.directory / "result.json"
        result.unlink(missing_ok=True)
        command = self.command(mode, "--steps", str(self.given.steps), "--result", str(result))
        if variant == "profile":
            command, _ = self.profiled(command)
        elif variant == "counts":
            command, _ = self.profiled(command, "--no-kernel-times")
        if not self.run(command) or not result.exists():
            return None
        return statistics.median(json.loads(result.read_text())["times_s"])


def costs(bench: Bench, modes: list[str]) -> None:
    """Prints what profiling costs, after each round for all modes so far.

    Each round has the program alone and the chosen variants: profiled, again alone as a measure of
    noise, and with --no-kernel-times (counts).
    """
    ratios: dict[tuple[str, str], list[float]] = {}
    for number in range(bench.given.rounds):
        for mode in modes:
            if not bench.has_time():
                print(f"  the time is over in round {number + 1}", flush=True)
                return
            variants = ["alone", *filter(None, bench.given.variants.split(","))]
            begin = number % len(variants)
            order = variants[begin:] + variants[:begin]
            times = {name: bench.step_s(mode, name) for name in order}
            shown = "  ".join(
                f"{name} {time_s * 1e3:.3f}" if time_s else f"{name} failed"
                for name, time_s in times.items()
            )
            print(f"  {mode} round {number + 1}, ms a step: {shown}", flush=True)
            base_s = times["alone"]
            for name, time_s in times.items():
                if base_s and time_s and name != "alone":
                    ratios.setdefault((mode, name), []).append(time_s / base_s)
        for (mode, name), found in ratios.items():
            median = statistics.median(found)
            print(
                f"  {mode}: {name} / alone {median:.4f} ({median - 1:+.2%}), "
                f"{min(found):.4f} to {max(found):.4f}, rounds: {len(found)}",
                flush=True,
            )


def of_journal(journal: Path) -> list[Counter[tuple[str, int, int]]]:
    """Calls by (operation, bytes of a call, group size), of each process of a journal."""
    found: dict[int, Counter[tuple[str, int, int]]] = {}
    for text in journal.read_text().splitlines():
        line = json.loads(text)
        if line["type"] != "profiled":
            continue
        one = line["profiled"]
        name, ranks = one["operation"], one["group_ranks"]
        size = one["size_bytes"] // (ranks if name in ("all_gather", "reduce_scatter") else 1)
        for figures in line["figures"]:
            counter = found.setdefault(figures["process"], Counter())
            counter[name, size, ranks] += figures["calls"]
    return [found[number] for number in sorted(found)]


def of_trace(trace: Path) -> tuple[Counter[tuple[str, int, int]], Counter[str]]:
    """The same of one rank's trace, from its kernels, and the names that are not known."""
    counter: Counter[tuple[str, int, int]] = Counter()
    unknown: Counter[str] = Counter()
    for event in json.loads(trace.read_text())["traceEvents"]:
        arguments = event.get("args", {})
        name = arguments.get("Collective name")
        if event.get("cat") != "kernel" or not name:
            continue
        if name not in NAMES:
            unknown[name] += 1
            continue
        operation, side = NAMES[name]
        size = arguments.get(f"{side} msg nelems", 0) * BYTES.get(arguments.get("dtype"), 0)
        counter[operation, size, arguments.get("Group size", 0)] += 1
    return counter, unknown


def counts(bench: Bench, mode: str) -> list[Path]:
    """Prints whether the counts agree. Returns the traces."""
    steps = str(bench.given.counted_steps)
    command, journal = bench.profiled(bench.command(mode, "--steps", steps))
    traced = bench.command(mode, "--steps", steps, "--trace", str(bench.directory))
    if not bench.run(command) or not bench.run(traced):
        return []
    traces = [bench.directory / f"{mode}-{rank}.json" for rank in range(bench.given.ranks)]
    own = of_journal(journal)
    if len(own) != len(traces):
        print(f"  {mode}: the profile has {len(own)} processes, not {len(traces)}")
    equal = total = 0
    for rank, (ours, trace) in enumerate(zip(own, traces, strict=False)):
        theirs, unknown = of_trace(trace)
        for key in sorted(ours | theirs):
            total += 1
            equal += ours[key] == theirs[key]
            if ours[key] != theirs[key]:
                operation, size, ranks = key
                print(
                    f"  {mode} rank {rank}: {operation} of {size} bytes on {ranks} ranks: "
                    f"{ours[key]} calls by cclmark, {theirs[key]} by Kineto"
                )
        for name, number in unknown.items():
            print(f"  {mode} rank {rank}: Kineto has {number} kernels of {name!r}")
        sums = [sum(key[1] * number for key, number in one.items()) for one in (ours, theirs)]
        print(
            f"  {mode} rank {rank}: {sum(ours.values())} calls and {sums[0]} bytes by cclmark, "
            f"{sum(theirs.values())} calls and {sums[1]} bytes by Kineto"
        )
    print(f"  {mode}: {equal} of {total} rows of counts are equal", flush=True)
    return traces


def times(bench: Bench, mode: str, traces: list[Path]) -> None:
    """Prints what the import of the traces says about compute and communication."""
    journal = bench.directory / f"kineto-{mode}.jsonl"
    command = [sys.executable, "-m", "cclmark", "import", "-o", str(journal), *map(str, traces)]
    if not bench.run(command):
        return
    for text in journal.read_text().splitlines():
        line = json.loads(text)
        if line["type"] != "profile":
            continue
        for one in line["processes"]:
            compute_s, exposed_s = one.get("compute_s") or 0.0, one.get("exposed_s") or 0.0
            span_s = one.get("span_s") or float("nan")
            print(
                f"  {mode} rank {one['rank']}: span {span_s:.4f} s, compute {compute_s:.4f} s, "
                f"exposed communication {exposed_s:.4f} s, no kernel for "
                f"{span_s - compute_s - exposed_s:.4f} s",
                flush=True,
            )
    profile = read_journal(journal).profile
    if profile is None:
        return
    found = steps_of_profile(profile)
    if found.compute_s is None or found.exposed_s is None or not found.profiled_s:
        print(f"  {mode}: the parts of a step are unknown: {found.reason}", flush=True)
        return
    parts_s = found.compute_s + found.exposed_s
    print(
        f"  {mode}: {found.steps} steps of {found.profiled_s * 1e3:.3f} ms with the profiler: "
        f"compute {found.compute_s * 1e3:.3f} + exposed communication "
        f"{found.exposed_s * 1e3:.3f} ms = {parts_s / found.profiled_s:.2%} of a step",
        flush=True,
    )


def main() -> None:
    given = options()
    with tempfile.TemporaryDirectory() as made:
        directory = given.keep or Path(made)
        directory.mkdir(parents=True, exist_ok=True)
        bench = Bench(given, directory)
        for mode in filter(None, given.counts.split(",")):  # first what needs few runs
            print(f"{mode}: counts", flush=True)
            if traces := counts(bench, mode):
                times(bench, mode, traces)
        if modes := list(filter(None, given.costs.split(","))):
            print("cost", flush=True)
            costs(bench, modes)


if __name__ == "__main__":
    main()
