"""Processes that know their number and how many they are, as in pods."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal
from commands import PROGRAM, default_signals, environment, tagged_processes, wait_until
from forked import Sources
from forked_background import ForkedProcess
from patience import scaled

SWEEP = ("all_reduce", "--devices", "host", "-b", "64", "-e", "64", "-n", "5", "-w", "1")


class Pods:
    """Starts them and waits for their end."""

    def __init__(self, tag: str, directory: Path, sources: Sources | None) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        self.forks: list[ForkedProcess] = []
        self.tag = tag
        self._sources = sources

    def start(self, rank, number, *arguments, prefix: Sequence[str] = (), **env):
        """One of them. ``prefix``: what starts it; an empty variable is not set at all."""
        extra = {
            "RANK": str(rank),
            "WORLD_SIZE": str(number),
            "CCLMARK_SHARED_DIR": str(self.directory / "shared"),
            **env,
        }
        variables = environment(self.tag, {name: text for name, text in extra.items() if text})
        words = [*(arguments or SWEEP)]
        with default_signals():
            if self._sources is not None and not prefix:
                source = self._sources.of(words, variables)
                if source.suits(variables):
                    run = source.start(words, self.directory, variables)
                    self.forks.append(ForkedProcess(run))
                    return self.forks[-1]
            process = subprocess.Popen(
                [*prefix, *PROGRAM, *words],
                cwd=self.directory,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        self.processes.append(process)
        return process

    def end(self, process, timeout_s=60):
        """Its exit code, what it printed and what it said."""
        out, err = (text.decode() for text in process.communicate(timeout=scaled(timeout_s)))
        assert "Traceback" not in err, err
        return process.returncode, out, err

    def run(self, number, *arguments, **env):
        started = [self.start(rank, number, *arguments, **env) for rank in range(number)]
        return [self.end(process) for process in started]

    def note(self) -> Path:
        """The note of the first one, once it is there."""
        shared = self.directory / "shared"
        wait_until(lambda: list(shared.glob("meeting-*")), "there is a note")
        (note,) = shared.glob("meeting-*")
        return note

    def journal(self) -> Journal:
        """Their journal, which is whole."""
        (path,) = self.directory.rglob("*.jsonl")
        journal = read_journal(path)
        assert journal.damaged_lines == 0
        return journal

    def results(self) -> int:
        """How many lines there are in their journals."""
        return sum(path.read_bytes().count(b"\n") for path in self.directory.rglob("*.jsonl"))


@contextmanager
def pods_in(directory: Path, tag: str, sources: Sources | None = None) -> Iterator[Pods]:
    """They are killed at the end if they still run. With ``sources`` they are forked."""
    made = Pods(f"{tag}-pods-{os.urandom(4).hex()}", directory, sources)
    yield made
    for pid in tagged_processes(made.tag):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for fork in made.forks:
        fork.close()
    for process in made.processes:
        process.communicate()
