"""How long does a run take to notice a dead or stopped rank or process, and to end?

    python benchmarks/detection.py [--rounds 5] [--deadline 10]

Starts `cclmark all_reduce` as two processes with a rank each on this host, as torchrun does, waits
for results, and sends SIGKILL or SIGSTOP to a rank or the second process. Printed is the time from
the signal to the end of the first process, in seconds: the median and the longest, and what the
first process reported. --deadline: seconds that a phase may take (-T); a stopped rank is waited
for that long.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from cclmark.base.errors import UsageError
from cclmark.kinds.registry import read_journal

PATIENCE_S = 120.0


def start(rank: int, port: int, deadline_s: float, directory: Path) -> subprocess.Popen[str]:
    """One of two processes of a launcher."""
    words = ("all_reduce", "--devices", "host", "-b", "64", "-e", "64", "-n", "5", "-N", "0")
    variables = {
        **{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": str(port)},
    }
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "cclmark", *words, "-T", f"{deadline_s:g}"),
            *("--journal", str(directory / "run.jsonl")),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )


def results_in(file: Path) -> int:
    try:
        return len(read_journal(file).results)
    except (UsageError, OSError):
        return 0


def rank_of(process: subprocess.Popen[str]) -> int:
    """The process of the rank that ``process`` has started."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(found[0])


def measured(target: str, number: int, deadline_s: float) -> tuple[float, str]:
    """Seconds from the signal to the end, and the first line of the report."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        directory = Path(name)
        processes = [start(rank, port, deadline_s, directory) for rank in range(2)]
        try:
            begin_s = time.monotonic()
            while results_in(directory / "run.jsonl") < 3:
                if time.monotonic() > begin_s + PATIENCE_S or processes[0].poll() is not None:
                    sys.exit(f"no results: {processes[0].communicate()[1]}")
                time.sleep(0.05)
            pid = rank_of(processes[1]) if target == "rank" else processes[1].pid
            signaled_s = time.monotonic()
            os.kill(pid, number)
            _, err = processes[0].communicate(timeout=PATIENCE_S)
            took_s = time.monotonic() - signaled_s
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    lines = [line for line in err.splitlines() if line.startswith("cclmark: ")]
    return took_s, re.sub(r"\d+", "N", lines[0]) if lines else err


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--deadline", type=float, default=10.0)
    args = parser.parse_args()
    for target in ("rank", "process"):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            found = [measured(target, number, args.deadline) for _ in range(args.rounds)]
            times_s = [time_s for time_s, _ in found]
            print(
                f"{target:>8} {number.name}: {median(times_s):.2f} s, at most {max(times_s):.2f}; "
                f"{found[-1][1]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
