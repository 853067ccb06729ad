"""A history of 100,000 cases: how long do `cclmark history list` and `trend` take, all in all?

Journals are made of a real one's header and of times that scatter as real ones do; a tenth of the
cases gets slower by 5 % in the middle. They are added by the store of `cclmark history`. What is
measured is the whole command, with the start of Python.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec

from cclmark.history.store import History
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Footer, Header, Summary
from cclmark.kinds.registry import read_journal
from cclmark.work.cases import Case

HERE = Path(__file__).parent
TEMPLATE = HERE / "results" / "h200x4" / "runs" / "default-1.jsonl"
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
NOISE_SHARE = 0.005
STEP = 1.05
SLOWER_EVERY = 10
COMMANDS = {
    "list": ("list",),
    "list, filtered": ("list", "--device", "h200", "--operation", "all_reduce", "--label", "night"),
    "trend": ("trend",),
    "trend, JSON": ("trend", "--format", "json"),
    "trend, one operation": ("trend", "--operation", "all_gather"),
    "compare of two journals, for scale": (),
}


def cases(number: int) -> list[Case]:
    """So many cases of several operations, as one command measures them."""
    operations = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall")
    found = []
    for place in range(number):
        size_bytes = 1024 * (place // len(operations) + 1)
        operation = operations[place % len(operations)]
        found.append(
            Case(operation, "nccl", 4, "float32", size_bytes, size_bytes // 4, in_place=False)
        )
    return found


def journal(header: Header, number: int, runs: int, things: list[Case]) -> bytes:
    """The journal of the run of that number."""
    draw = random.Random(number)
    began = BEGAN + timedelta(hours=number)
    own = msgspec.structs.replace(
        header, run_id=f"{draw.getrandbits(128):032x}", started_at=began.isoformat()
    )
    lines: list[object] = [own]
    for index, case in enumerate(things):
        usual_s = 10e-6 + case.size_bytes / 100e9
        slower = STEP if index % SLOWER_EVERY == 0 and number >= runs // 2 else 1.0
        noise = draw.gauss(0, NOISE_SHARE + 0.2e-6 / usual_s)
        time_s = usual_s * slower * math.exp(noise)
        rate = case.size_bytes / time_s
        figures = Summary(
            *("device", time_s, time_s, time_s, time_s, time_s, 0.01, 20, rate, rate * 1.5),
            half_width=0.005,
        )
        lines.append(CaseResult(index, case, "ok", summary=figures))
    lines.append(Footer(began.isoformat(), 0, 1.0))
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def build(place: str, runs: int, things: list[Case]) -> float:
    """Fills the history at ``place`` and returns how long that took, in seconds."""
    header = read_journal(TEMPLATE).header
    history = History(place)
    made = [journal(header, number, runs, things) for number in range(runs)]
    began_s = time.perf_counter()
    for number, content in enumerate(made):
        history.add(content, f"run-{number}.jsonl", ["night"])
    return time.perf_counter() - began_s


def command_s(arguments: tuple[str, ...], place: str) -> tuple[float, float]:
    """How long a command takes from its start to its end, and how much of a processor, in
    seconds: the second tells what a busy machine did to the first.
    """
    other = TEMPLATE.with_name("default-2.jsonl")
    words = ["history", *arguments] if arguments else ["compare", str(TEMPLATE), str(other)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "cclmark", *words],
        env={**os.environ, "CCLMARK_HISTORY": place},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    wall_s = time.perf_counter() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Builds each shape of history, measures and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--db", help="a PostgreSQL URL of an empty database [SQLite files]")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shapes", default="1000x100,200x500,100x1000", help="RUNSxCASES,…")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = []
    for shape in args.shapes.split(","):
        runs, number = map(int, shape.split("x"))
        with tempfile.TemporaryDirectory() as directory:
            place = args.db or str(Path(directory) / "history.sqlite")
            adding_s = build(place, runs, cases(number))
            print(f"{shape}: added in {adding_s:.1f} s ({adding_s / runs * 1e3:.1f} ms a journal)")
            times = {name: [] for name in COMMANDS}
            for _ in range(args.rounds):
                for name, arguments in COMMANDS.items():
                    times[name].append(command_s(arguments, place))
        for name, taken in times.items():
            walls_s, processor_s = (sorted(each) for each in zip(*taken, strict=True))
            middle = len(taken) // 2
            print(
                f"  {name}: {walls_s[middle]:.3f} s ({walls_s[0]:.3f} to {walls_s[-1]:.3f}), "
                f"{processor_s[middle]:.3f} s of a processor",
                flush=True,
            )
        found.append({"shape": shape, "adding_s": adding_s, "wall_and_processor_s": times})
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
