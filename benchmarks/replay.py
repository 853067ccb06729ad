"""How well ``cclmark replay`` reproduces the communication of training steps.

    python benchmarks/replay.py [--ranks 2] [--modes products,ddp,fsdp2,tp]
        [--gaps default,none,kernels,keep,fixed,fixed:4096,fit,drop]
        [--vary NCCL_P2P_DISABLE=1] [--repeats 1] [--keep DIR] [--output FILE]

Requires GPUs, torch and cclmark (the ``cclmark`` module, which the same Python can import); no
network. For each mode, ``products`` (benchmarks/torch/profiled_products.py) or one of
benchmarks/torch/profiled_training.py, the program runs under ``cclmark profile``, and its step is
replayed, ``--repeats`` times in turns. Printed are the communication and the step of the program,
those of the replay, the times of its calls and the ratios; the last line of a mode has the medians
over the repetitions. With ``--repeats``, the calls of each profile are also compared with those of
the first one, rank by rank: the program against itself. ``--output`` writes the same to a file.
With ``--vary``, the program runs with the variable too, and the ratio of its steps stands beside
that of the replay's. ``--cpu`` tries the script on the host, with gloo's traces and shm.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cclmark.kinds.registry import read_journal
from cclmark_programs.replay.program_step import step_of

PROGRAMS = Path(__file__).resolve().parent / "torch"
TRAINING, PRODUCTS = PROGRAMS / "profiled_training.py", PROGRAMS / "profiled_products.py"
OF_PRODUCTS = "products"
RUN_S = 240.0  # the longest run
# A replay that is profiled as the program is. Most of its steps are the timed ones.
WITNESS, WITNESS_STEPS = "kernels", 300


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--modes", default="products,ddp,fsdp2,tp")
    parser.add_argument(
        "--gaps",
        default="default,none",
        help="default: without options; none: with --compute none; keep, fixed, drop; fixed:N "
        "beside products of N x N matrices; fit: what --compute fit chooses; kernels: times of "
        "kernels in a replay that cclmark profile observes",
    )
    parser.add_argument("--vary", default="", help="NAME=VALUE, for the program and the replay")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--keep", type=Path, help="directory for the journals")
    parser.add_argument("--output", type=Path, help="file for the figures, besides the output")
    parser.add_argument("--cpu", action="store_true", help="gloo on the host, to try the script")
    given = parser.parse_args()
    if given.cpu and OF_PRODUCTS in given.modes.split(","):
        parser.error("--cpu is for the modes of profiled_training.py: name them with --modes")
    return given


def show(given: argparse.Namespace, text: str) -> None:
    """Prints a line, and adds it to the file of the figures."""
    print(text, flush=True)
    if given.output is not None:
        with given.output.open("a") as file:
            file.write(f"{text}\n")


def run(command: list[str], more: dict[str, str]) -> None:
    """Runs a command. Prints the end of its output and raises SystemExit if it fails."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
        env={"OMP_NUM_THREADS": "4", **os.environ, **more},
    )
    if done.returncode:
        print("\n".join(done.stdout.splitlines()[-25:]))
        raise SystemExit(f"exit code {done.returncode}: {' '.join(command)}")


def cclmark(*words: str) -> list[str]:
    return [sys.executable, "-m", "cclmark", *words]


def profiled(given: argparse.Namespace, mode: str, journal: Path, more: dict[str, str]) -> None:
    """Profiles the program into a journal."""
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    job = [str(PRODUCTS)] if mode == OF_PRODUCTS else [str(TRAINING), mode]
    program += ["--nproc-per-node", str(given.ranks), *job, "--steps", str(given.steps)]
    if not given.cpu:
        run([*cclmark("profile", "--journal", str(journal), "--"), *program], more)
        return
    traces = journal.with_suffix("")
    traces.mkdir()
    small = ["--cpu", "--width", "64", "--blocks", "2", "--tokens", "64", "--warmup", "2"]
    run([*program, *small, "--trace", str(traces)], more)
    files = sorted(map(str, traces.glob("*.json*")))
    run(cclmark("import", *files, "--journal", str(journal)), more)


def replays(journal: Path) -> Iterator[dict[str, Any]]:
    for line in journal.read_text().splitlines():
        content = json.loads(line)
        if content["type"] == "replay":
            yield content


def figures(result: dict[str, Any]) -> tuple[float, float | None]:
    """The communication (mean of the ranks) and the step of a replay, in seconds."""
    communication_s = statistics.mean(
        statistics.median(values) for values in result["communication_s"]
    )
    original = result["replay"]["original"]
    if not original.get("step_s") or result["replay"]["gaps"] == "drop":
        return communication_s, None
    pairs = zip(original["step_s"], original["span_s"], strict=True)
    tail_s = max(0.0, min(step_s - span_s for step_s, span_s in pairs))
    slowest = [max(column) for column in zip(*result["span_s"], strict=True)]
    return communication_s, statistics.median(slowest) + tail_s


def calls_of(result: dict[str, Any]) -> Iterator[str]:
    """A line for each operation of a replay, with the times of its calls."""
    for one in result["operations"]:
        own = one["operation"]
        program_s, time_s = one["program_s"], one["time_s"]
        ratio = f"{time_s / program_s:.3f}" if program_s else "-"
        single = " to ".join(f"{each:.3f}" for each in one.get("ratios", ())) or "-"
        name = f"{own['operation']:15} {own['size_bytes'] / 2**20:9.3f} MiB {one['calls']:4} calls"
        times = f"program {program_s * 1e6:9.1f} us, replay {time_s * 1e6:9.1f} us, ratio {ratio}"
        yield f"    {name}: {times}, of single calls {single}"
    if result.get("traffic"):
        yield f"    blocks of traffic by call: {' '.join(map(str, result['traffic']))}"


def medians_of(journal: Path) -> dict[tuple[str, int], float]:
    """The median time of the kernels of each operation by size in a profile, mean of the ranks."""
    found = {}
    for line in journal.read_text().splitlines():
        content = json.loads(line)
        if content["type"] == "profiled":
            own = content["profiled"]
            times_s = [one["median_s"] for one in content["figures"] if one.get("median_s")]
            if times_s:
                found[own["operation"], own["size_bytes"]] = statistics.mean(times_s)
    return found


def witness(given: argparse.Namespace, profile: Path, journal: Path) -> None:
    """Shows the times of kernels as the plug-in sees them, in the program and in its replay."""
    steps = ("-n", str(WITNESS_STEPS), "--journal", str(journal.with_suffix(".replay.jsonl")))
    replay = cclmark("replay", str(profile), *steps)
    run(cclmark("profile", "--journal", str(journal), "--", *replay), {})
    of_replay = medians_of(journal)
    for (name, size_bytes), program_s in medians_of(profile).items():
        time_s = of_replay.get((name, size_bytes))
        if time_s is not None:
            show(
                given,
                f"    kernels of {name:15} {size_bytes / 2**20:9.3f} MiB: program "
                f"{program_s * 1e6:7.1f} us, replay {time_s * 1e6:7.1f} us, ratio "
                f"{time_s / program_s:.3f}",
            )


def options_of(gaps: str) -> list[str]:
    """The options of ``cclmark replay`` for a value of --gaps."""
    kind, _, rows = gaps.partition(":")
    if rows:
        return ["--gaps", kind, "--compute", "matmul", "--matrix", rows]
    named = {"default": [], "none": ["--compute", "none"], "fit": ["--compute", "fit"]}
    return named.get(kind, ["--gaps", kind, "--compute", "none"])


def calls_in(profile: Path) -> dict[tuple[str, int], list[float]]:
    """The time of every call of every rank in a profile's step, by operation and size."""
    step = step_of(read_journal(profile), profile.name).step
    found: dict[tuple[str, int], list[float]] = {}
    for calls in step.calls:
        for call in calls:
            own = step.operations[call.operation]
            if call.time_s > 0 and not call.is_partial:
                found.setdefault((own.operation, own.size_bytes), []).append(call.time_s)
    return found


def show_itself(given: argparse.Namespace, first: Path, later: Path) -> None:
    """Shows the single calls of a later profile over those of the first, by operation."""
    if first == later:
        return
    show(given, "    the program itself, over its first profile:")
    earlier = calls_in(first)
    for (name, size_bytes), times_s in calls_in(later).items():
        before_s = earlier.get((name, size_bytes), [])
        if len(before_s) == len(times_s):
            ratios = [time_s / one_s for one_s, time_s in zip(before_s, times_s, strict=True)]
            size = f"{size_bytes / 2**20:9.3f} MiB"
            spread = f"of single calls {min(ratios):.3f} to {max(ratios):.3f}"
            show(given, f"    {name:15} {size} {len(times_s):4} calls of all ranks: {spread}")


def ms(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s * 1e3:.3f}"


def measure(given: argparse.Namespace, mode: str, directory: Path) -> None:
    varied = dict([given.vary.split("=", 1)]) if given.vary else {}
    errors: dict[tuple[str, str], list[float]] = {}
    for number in range(given.repeats):
        profile = directory / f"{mode}-{number}-profile.jsonl"
        profiled(given, mode, profile, {})
        show_itself(given, directory / f"{mode}-0-profile.jsonl", profile)
        program_step_s: float | None = None
        for gaps in given.gaps.split(","):
            if gaps == WITNESS:
                witness(given, profile, directory / f"{mode}-{number}-{WITNESS}.jsonl")
                continue
            journal = directory / f"{mode}-{number}-{gaps.replace(':', '-')}.jsonl"
            more = ["--vary", given.vary, "--rounds", "3"] if given.vary else []
            words = ["replay", str(profile), *options_of(gaps), *more]
            words += ["--journal", str(journal)]
            run(cclmark(*words), {})
            found = list(replays(journal))
            default = next(one for one in found if not one["replay"]["variant"])
            original = default["replay"]["original"]
            program_s = statistics.mean(original["communication_s"])
            program_step_s = max(original["step_s"]) if original.get("step_s") else None
            communication_s, step_s = figures(default)
            errors.setdefault((gaps, "communication"), []).append(communication_s / program_s)
            if step_s is not None and program_step_s:
                errors.setdefault((gaps, "step"), []).append(step_s / program_step_s)
            show(
                given,
                f"  {mode} {number + 1} {gaps}: communication {ms(communication_s)} ms, program "
                f"{ms(program_s)}; step {ms(step_s)} ms, program {ms(program_step_s)}; enqueued in "
                f"{ms(default['enqueue_s'])} ms, {len(default['span_s'][0])} steps in "
                f"{default['duration_s']:.1f} s",
            )
            for line in calls_of(default):
                show(given, line)
            for own in dict.fromkeys(one["replay"]["gaps"] for one in found):
                steps_s: dict[bool, list[float]] = {True: [], False: []}
                for one in found:
                    own_s = figures(one)[1] if one["replay"]["gaps"] == own else None
                    if own_s is not None:
                        steps_s[bool(one["replay"]["variant"])].append(own_s)
                if all(steps_s.values()):
                    ratio = statistics.median(steps_s[True]) / statistics.median(steps_s[False])
                    what = f"replay with {given.vary}, {own}"
                    errors.setdefault((gaps, what), []).append(ratio)
        if varied:
            other = directory / f"{mode}-{number}-varied-profile.jsonl"
            profiled(given, mode, other, varied)
            programs_s = [
                one["step_s"]
                for line in other.read_text().splitlines()
                if (content := json.loads(line))["type"] == "profile"
                for one in content["processes"]
                if one.get("step_s")
            ]
            if programs_s and program_step_s:
                errors.setdefault(("program", f"program with {given.vary}"), []).append(
                    max(programs_s) / program_step_s
                )
    for (gaps, what), ratios in errors.items():
        show(
            given,
            f"  {mode} {gaps}: {what} {statistics.median(ratios):.4f} "
            f"({min(ratios):.4f} to {max(ratios):.4f}, {len(ratios)} repetitions)",
        )


def main() -> None:
    given = options()
    with tempfile.TemporaryDirectory() as temporary:
        directory = given.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        for mode in given.modes.split(","):
            show(given, f"{mode}: ratios to the program, and of steps with and without --vary")
            measure(given, mode, directory)


main()
