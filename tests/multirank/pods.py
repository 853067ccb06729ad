"""Processes that know their number and how many they are, as in pods."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from commands import PROGRAM, default_signals, environment, tagged_processes
from patience import scaled

SWEEP = ("all_reduce", "--devices", "host", "-b", "64", "-e", "64", "-n", "5", "-w", "1")


class Pods:
    """Starts them and waits for their end."""

    def __init__(self, tag: str, directory: Path) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[str]] = []
        self.tag = tag

    def start(self, rank, number, *arguments, prefix: Sequence[str] = (), **env):
        """One of them. ``prefix``: what starts it; an empty variable is not set at all."""
        extra = {
            "RANK": str(rank),
            "WORLD_SIZE": str(number),
            "CCLMARK_SHARED_DIR": str(self.directory / "shared"),
            **env,
        }
        with default_signals():
            process = subprocess.Popen(
                [*prefix, *PROGRAM, *(arguments or SWEEP)],
                cwd=self.directory,
                env=environment(self.tag, {name: text for name, text in extra.items() if text}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.processes.append(process)
        return self.processes[-1]

    def end(self, process, timeout_s=60):
        """Its exit code, what it printed and what it said."""
        out, err = process.communicate(timeout=scaled(timeout_s))
        assert "Traceback" not in err, err
        return process.returncode, out, err

    def results(self) -> int:
        """How many lines there are in their journals."""
        return sum(path.read_bytes().count(b"\n") for path in self.directory.rglob("*.jsonl"))


@contextmanager
def pods_in(directory: Path, tag: str) -> Iterator[Pods]:
    """They are killed at the end if they still run."""
    made = Pods(f"{tag}-pods-{os.urandom(4).hex()}", directory)
    yield made
    for pid in tagged_processes(made.tag):
        os.kill(pid, signal.SIGKILL)
    for process in made.processes:
        process.communicate()
