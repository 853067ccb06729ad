"""Commands of the installed program: run to their end, or in the background."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

import forked
from patience import scaled

REPOSITORY = Path(__file__).resolve().parent.parent
PROGRAM = [sys.executable, "-m", "cclmark"]
TAG = "TAG_OF_CCLMARK_TEST"
_FOREIGN = ("CCLMARK_", "NCCL_", "CUDA_", "OMP_")
# Popen restores SIGPIPE in its child: here, threads of other tests may write to closed sockets.
_INHERITED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_PATIENCE_S = 30.0  # until something must have happened


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = _PATIENCE_S) -> None:
    """Looks again and again until ``condition`` holds; fails the test when it never does."""
    timeout_s = scaled(timeout_s)
    deadline_s = time.monotonic() + timeout_s
    while True:
        before_s = time.thread_time()
        if condition():
            return
        if time.monotonic() > deadline_s:
            pytest.fail(f"waited {timeout_s:g} s until {what}")
        # A look at all processes takes milliseconds, which those that are waited for need.
        time.sleep(min(max(0.005, 5 * (time.thread_time() - before_s)), 0.1))


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    command: list[str]
    directory: Path
    code: int
    out: str
    err: str
    lines_of_err: list[str] = field(init=False)  # as they are printed; ``err`` has whole messages

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines_of_err", self.err.splitlines())
        object.__setattr__(self, "err", unfolded(self.err))

    @property
    def journal_path(self) -> Path:
        """The journal that the run named at its end."""
        named = re.findall(r"^cclmark: journal (.+)$", self.err, re.MULTILINE)
        assert len(named) == 1, f"no journal is named in {self.err!r}"
        return self.directory / named[0]

    @property
    def journal(self):
        """That journal, read, and whole."""
        from cclmark.kinds.registry import read_journal

        journal = read_journal(self.journal_path)
        assert journal.damaged_lines == 0
        return journal

    @property
    def message(self) -> str:
        """What stderr says besides where the journal is and how it is continued."""
        of_journal = ("cclmark: journal", "cclmark: the same command with --resume ")
        return "\n".join(line for line in self.err.splitlines() if not line.startswith(of_journal))

    def written(self) -> list[str]:
        """The files in the directory of the run."""
        return sorted(
            str(path.relative_to(self.directory))
            for path in self.directory.rglob("*")
            if path.is_file()
        )


def tagged_processes(tag: str) -> dict[int, list[str]]:
    """The living processes that carry ``tag``, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if f"{TAG}={tag}".encode() not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")
            found[int(entry.name)] = [word.decode() for word in words]
    return found


def is_alive(pid: int) -> bool:
    """Whether there is such a process that is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Background:
    """A run that goes on while the test looks at it."""

    command: list[str]
    directory: Path
    journal_path: Path
    tag: str
    process: subprocess.Popen[bytes]
    killed_at_s: float = field(default=0.0)

    def workers(self) -> list[int]:
        """The processes of the ranks that exist by now, in the order of their start."""
        return sorted(
            pid
            for pid, words in tagged_processes(self.tag).items()
            if "cclmark.rank_process" in words
        )

    def wait_for_workers(self, count: int) -> list[int]:
        """The processes of all ranks, as soon as they exist: they are started in rank order."""
        wait_until(lambda: len(self.workers()) >= count or self.ended(), f"{count} ranks exist")
        return self.workers()

    def wait_for_ranks(self, results: int = 0) -> list[int]:
        """The processes by rank, from the header, once all are up and ``results`` are written."""
        wait_until(
            lambda: self._lines() > results or self.ended(), f"the journal has {results} results"
        )
        assert not self.ended(), self.finish().err
        return [device.pid for device in self.read().header.devices]

    def read(self):
        """The journal as it is now."""
        from cclmark.kinds.registry import read_journal

        return read_journal(self.journal_path)

    def board(self):
        """The status board of the run, as the launcher sees it."""
        from cclmark.rendezvous.board import Board

        for descriptor in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(OSError):
                if "cclmark-board" in str(descriptor.readlink()):
                    memory = os.open(descriptor, os.O_RDWR)
                    try:
                        return Board(memory, os.fstat(memory).st_size // 64)
                    finally:
                        os.close(memory)
        return None

    def wait_for_phase(self, rank: int, phase: str) -> None:
        """Returns when ``rank`` has said on the status board that it is in ``phase``."""
        wait_until(lambda: self.board() is not None or self.ended(), "there is a status board")
        board = self.board()
        assert board is not None, self.finish().err
        wait_until(lambda: board.read(rank).phase == phase, f"rank {rank} is in {phase}")

    def signal(self, pid: int, number: int) -> None:
        """Sends a signal to the launcher or to a rank of this run and keeps the time."""
        assert pid == self.process.pid or self.is_rank(pid), f"{pid} is none of ours"
        self.killed_at_s = time.monotonic()
        os.kill(pid, number)

    def is_rank(self, pid: int) -> bool:
        """Whether this is the process of a rank of this run."""
        return pid in self.workers()

    def ended(self) -> bool:
        """Whether the launcher is gone."""
        return self.process.poll() is not None

    def finish(
        self, timeout_s: float = _PATIENCE_S, *, code: int | None = None, traceback: bool = False
    ) -> Run:
        """The end of the run, and of the test if it takes longer, fell over or has another code.

        ``traceback``: the run may end with one.
        """
        timeout_s = scaled(timeout_s)
        try:
            out, err = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the run has not ended after {timeout_s:g} s: {self.command}")
        ended = self.process.returncode
        run = Run(self.command, self.directory, ended, (out or b"").decode(), err.decode())
        assert traceback or "Traceback" not in run.err, run.err
        assert code in (None, ended), f"exit code {ended}, not {code}: {run.err}"
        return run

    def _lines(self) -> int:
        try:
            return self.journal_path.read_bytes().count(b"\n")
        except OSError:
            return 0


@contextmanager
def default_signals() -> Iterator[None]:
    """Processes that are started meanwhile ignore none of the signals that a shell in the
    background, nohup or Python let its children ignore.
    """
    ignored = [one for one in _INHERITED if signal.getsignal(one) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def environment(tag: str, extra: Mapping[str, str] | None) -> dict[str, str]:
    """This environment without what would change a run, plus ``extra``."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_FOREIGN)}
    return {**kept, "COLUMNS": "1000", "CCLMARK_PROGRESS_S": "0", TAG: tag, **(extra or {})}


def unfolded(err: str) -> str:
    """Standard error with each message on one line, as it was before the program folded it at 100
    columns: where a line ends although it has room for the next word, it was not folded.
    """
    lines: list[str] = []
    before = begun = ""  # the line before, and the first word of the message
    for line in err.splitlines(keepends=True):
        word, indent = line.split(maxsplit=1)[:1], len(line) - len(line.lstrip(" "))
        is_further = indent == {"cclmark:": 4, "Error:": 2}.get(begun)
        can_be_folded = len(before) <= 100 or " " not in before.strip()
        if word and is_further and can_be_folded and len(before) + len(word[0]) >= 100:
            lines[-1] = f"{lines[-1].rstrip()} {line.lstrip()}"
        else:
            lines.append(line)
        before = line.rstrip()
        begun = word[0] if word and not indent else begun
    return "".join(lines)


def completed(
    command: Sequence[str | Path], *, timeout_s: float = 60, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs any program to its end; with ``check`` its exit code has to be 0."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=scaled(timeout_s),
        check=check,
        **options,
    )
    done.stderr = unfolded(done.stderr)
    return done


def launch(
    tag: str,
    directory: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    code: int | tuple[int, ...] = 0,
    timeout_s: float = 60,
    stdout: int | IO[bytes] = subprocess.PIPE,
    source: forked.Sources | None = None,
) -> Run:
    """Runs cclmark to its end and checks the exit code, and that nothing fell over.

    With a ``source`` it is forked from that one where this makes no difference.
    """
    command = [*PROGRAM, *map(str, arguments)]
    variables = environment(tag, env)
    process: subprocess.Popen[bytes] | forked.Forked
    words = [*map(str, arguments)]
    suiting = None
    if source is not None and stdout == subprocess.PIPE:
        with default_signals():
            suiting = source.of(words, variables)
    if suiting is not None and suiting.suits(variables):
        process = suiting.start(words, directory, variables)
    else:
        with default_signals():
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
            )
    try:
        out, err = process.communicate(timeout=scaled(timeout_s))
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
        pytest.fail(f"still running after {timeout_s:g} s: {' '.join(command)}")
    run = Run(command, directory, process.returncode, (out or b"").decode(), err.decode())
    if "Traceback" in run.err + run.out:
        pytest.fail(f"fell over: {run.err[-1500:]}")
    if run.code not in (code if isinstance(code, tuple) else (code,)):
        pytest.fail(f"exit code {run.code}, not {code}: {run.err[-1500:]}\n{run.out[-1500:]}")
    return run
