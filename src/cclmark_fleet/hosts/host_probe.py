"""Everything that checks read of a host, through one interface: files, directories, commands.

A question is a verb and a subject: ``read /proc/loadavg``, ``run nvidia-smi -q``. Verbs: ``read``
(the text of a file), ``list`` (the names in a directory, a line each), ``resolve`` (the path
without links), ``space`` (the bytes of a file system and those that are free), ``run`` (the output
of a command), ``clock`` (the kernel's view of its clock), ``packages`` (those of Python that
concern communication, a line each), ``measure`` (the output of a short test, if the probe may run
it). A question may be asked again at a later moment, for counters.
"""

from __future__ import annotations

import ctypes
import os
import queue
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec

from cclmark.base.errors import UsageError
from cclmark.journal.machine import kept_prefixes, readable
from cclmark.journal.secrets import names_secret, without_secrets
from cclmark.work.binding import parse_processors
from cclmark_fleet.hosts.shipped_data import table

#: Why an answer is missing.
MISSING, DENIED, HANGS, LATE = "missing", "permission denied", "no answer", "no time left"
_READ_LIMIT_S = 2.0
COMMAND_LIMIT_S, _REST_S = 20.0, 1.0
_MOST_BYTES = 1 << 20
_FIRST_BYTES = {"/proc/cpuinfo": 4096}  # the first processor of many
_TEST_S = 120.0
#: The arguments of tests, by name.
TESTS = {
    "both-directions": (
        *("p2p", "-b", "256M", "-t", "CE", "-p", "uniBw,biBw", "--scope", "pairs", "-j", "1"),
        *("--max-time", "0.1"),
    ),
}
_UNSYNCHRONISED = 0x40  # STA_UNSYNC of adjtimex(2)
#: Variables of jobs of schedulers.
JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
# Variables that influence communication, besides those of libraries.
_VARIABLES = (
    *("CUDA_", "TORCH_", "PYTORCH_", "UCX_", "FI_", "GLOO_", "TP_SOCKET", "HSA_", "HIP_", "ROCR_"),
    *(
        "AMD_",
        "ASCEND_",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "OFI_",
        "MPICH_",
        "container",
    ),
    *("KUBERNETES_SERVICE_HOST", "CXI_", "OMP_", "NVSHMEM_", "SLURM_NNODES", *JOB_VARIABLES),
)
_PACKAGES = re.compile(r"(nvidia_nccl|rccl|torch|aws_ofi|mpi4py)[\w.-]*\.dist-info$")
# The lines of large outputs that checks use, by the program: of the kernel's log besides those of
# kernel_lines.toml.
_KERNEL_LINES = (
    r"Xid|available PCIe bandwidth|(?i:link.{0,30}(down|lost|disconnected|not ready))"
    r"|(?i:lost carrier|carrier lost)|peermem|memory_peers"
)
_DEVICE_LINES = r"^[0-9a-f]|LnkCap:|LnkSta:|ACSC|ATSC|DevC|MaxPayload|RlxdOrd|access denied|^$"


@cache
def _lines_of(program: str) -> re.Pattern[str] | None:
    """What the lines match that are kept of a program's output; None: all are."""
    if program == "lspci":
        return re.compile(_DEVICE_LINES)
    if program not in ("dmesg", "journalctl"):
        return None
    texts = [text for one in table("kernel_lines") for text in (one.text, one.ended) if text]
    # A flag for the whole pattern becomes one for its part.
    parts = [f"(?i:{one[4:]})" if one.startswith("(?i)") else f"(?:{one})" for one in texts]
    return re.compile("|".join([_KERNEL_LINES, *parts]))


class Reading(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer. ``error``: why it is missing, empty for none; ``code``: of a command's exit."""

    text: str = ""
    error: str = ""
    code: int = 0


class Probe(ABC):
    """Answers questions on a host. ``moment``: 0, and 1 when counters are read again.

    ``interval_s``: the time between both moments.
    """

    moment = 0
    interval_s = 0.0

    @abstractmethod
    def ask(self, verb: str, subject: str) -> Reading:
        """The answer to a question; never raises."""

    @property
    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """The variables that influence communication."""

    @abstractmethod
    def wait(self, interval_s: float, began_s: float) -> None:
        """Waits until ``interval_s`` after ``began_s`` (time.monotonic); begins moment 1."""

    def read(self, path: str) -> Reading:
        """The text of a file."""
        return self.ask("read", path)

    def text(self, path: str) -> str:
        """The text of a file without space around it; empty if it cannot be read."""
        return self.read(path).text.strip()

    def number(self, path: str) -> int | None:
        """The integer in a file, None if there is none."""
        return whole(self.text(path))

    def processors(self, path: str) -> set[int]:
        """The processors in a file in the kernel's list format; empty if there are none."""
        with suppress(UsageError, ValueError):
            return parse_processors(self.text(path))
        return set()

    def entries(self, path: str) -> list[str]:
        """The sorted names in a directory, short ones first; empty if it cannot be read."""
        names = [name for name in self.ask("list", path).text.split("\n") if name]
        return sorted(names, key=lambda name: (len(name), name))

    def exists(self, path: str) -> bool:
        """Whether something is at ``path``."""
        return not self.ask("resolve", path).error

    def resolved(self, path: str) -> str:
        """The path without links; empty if there is nothing."""
        return self.ask("resolve", path).text

    def space(self, path: str) -> tuple[int, int] | None:
        """The bytes of a file system, and those that are free; None if unknown."""
        words = [whole(word) for word in self.ask("space", path).text.split()]
        return None if len(words) != 2 or None in words else (words[0] or 0, words[1] or 0)

    def run(self, *words: str) -> Reading:
        """What a command prints, on both outputs."""
        return self.ask("run", " ".join(words))


def whole(text: str) -> int | None:
    """The integer that a text is, decimal or ``0x``; None for other texts."""
    text = text.strip()
    with suppress(ValueError):
        return int(text, 16 if text.startswith("0x") else 10) if len(text) < 24 else None
    return None


class _Worker:
    """Calls functions in another thread, because a read from a device that hangs never returns."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            call, answers = self._calls.get()
            try:
                answers.put(call())
            except OSError as error:
                answers.put(error)

    def result(self, call: Callable[[], str], limit_s: float) -> str | OSError:
        """What ``call`` returns or raises. Raises queue.Empty if it takes too long."""
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._calls.put((call, answers))
        found: str | OSError = answers.get(timeout=limit_s)
        return found


class LiveProbe(Probe):
    """Answers from this host. ``deadline_s``: by time.monotonic, when answers end; None: never.

    ``measures``: whether short tests may run on its devices. Each command runs once for each
    moment; those of ``begin`` at the same time.
    """

    def __init__(self, deadline_s: float | None = None, *, measures: bool = False) -> None:
        self._deadline_s = deadline_s
        self._measures = measures
        self._worker = _Worker()
        self._commands: dict[tuple[int, str], subprocess.Popen[bytes] | Reading] = {}
        self._started_s: dict[tuple[int, str], float] = {}

    def begin(self, *commands: str) -> None:
        """Starts commands whose outputs will be asked for."""
        for command in commands:
            self._start(command)

    def ask(self, verb: str, subject: str) -> Reading:
        """The answer to a question; never raises."""
        left_s = self._left_s()
        if left_s <= 0:
            return Reading(error=LATE)
        if verb == "measure":
            return _measured(subject) if self._measures else Reading(error=MISSING)
        if verb == "run":  # files and a second reading of counters need the rest
            return self._output(subject, max(left_s - _REST_S, 0.0))
        try:
            found = self._worker.result(lambda: _DIRECT[verb](subject), min(_READ_LIMIT_S, left_s))
        except queue.Empty:
            self._worker = _Worker()
            return Reading(error=HANGS)
        if isinstance(found, OSError):
            return Reading(error=_reason(found))
        return Reading(readable(found))

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The variables that influence communication, without secrets.

        HOME is one of them: NCCL reads .nccl.conf there.
        """
        names = (*kept_prefixes(), *_VARIABLES)
        return {
            readable(name): without_secrets(readable(value))
            for name, value in sorted(os.environ.items())
            if (name.startswith(names) or name == "HOME") and not names_secret(name)
        }

    def wait(self, interval_s: float, began_s: float) -> None:
        """Sleeps until ``interval_s`` after ``began_s``."""
        until_s = began_s + interval_s
        if self._deadline_s is not None:
            until_s = min(until_s, self._deadline_s - _REST_S / 2)
        time.sleep(max(0.0, until_s - time.monotonic()))
        self.interval_s = time.monotonic() - began_s
        self.moment = 1

    def close(self) -> None:
        """Ends commands that still run."""
        running = [one for one in self._commands.values() if isinstance(one, subprocess.Popen)]
        for one in running:
            one.kill()
        for one in running:
            _released(one)

    def _left_s(self) -> float:
        return 1e9 if self._deadline_s is None else self._deadline_s - time.monotonic()

    def _start(self, command: str) -> subprocess.Popen[bytes] | Reading:
        key = self.moment, command
        if key not in self._commands:
            self._commands[key] = _started(command)
            self._started_s[key] = time.monotonic()
        return self._commands[key]

    def _output(self, command: str, left_s: float) -> Reading:
        process = self._start(command)
        if isinstance(process, Reading):
            return process
        ran_s = time.monotonic() - self._started_s[self.moment, command]
        limit_s = min(max(COMMAND_LIMIT_S - ran_s, 0.0), left_s)
        try:
            output, _ = process.communicate(timeout=limit_s)
            text = output[: 8 * _MOST_BYTES].decode(errors="replace")
            if (lines := _lines_of(command.partition(" ")[0])) is not None:
                text = "\n".join(one for one in text.split("\n") if lines.search(one))
            found = Reading(text[-_MOST_BYTES:], "", process.returncode)
        except subprocess.TimeoutExpired:
            process.kill()
            _released(process)
            found = Reading(error=f"{HANGS} within {ran_s + limit_s:.0f} s")
        self._commands[self.moment, command] = found
        return found


def _released(process: subprocess.Popen[bytes]) -> None:
    """Waits shortly for a killed command: one in an uninterruptible call does not end."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.05)
    if process.stdout is not None:
        process.stdout.close()


def _started(command: str) -> subprocess.Popen[bytes] | Reading:
    program, *words = command.split(" ")
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        return Reading(error=MISSING)
    try:
        return subprocess.Popen(
            [path, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C", "LANG": "C"},
        )
    except OSError as error:
        return Reading(error=_reason(error))


def _reason(error: OSError) -> str:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return MISSING
    return DENIED if isinstance(error, PermissionError) else (error.strerror or str(error))


def _text_of(path: str) -> str:
    """The first bytes of a file that does not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        most, content = _FIRST_BYTES.get(path, _MOST_BYTES), b""
        while len(content) < most and (piece := os.read(descriptor, most - len(content))):
            content += piece
    finally:
        os.close(descriptor)
    text = content.decode(errors="replace")
    return _loopback_names(text) if path == "/etc/hosts" else text


def _loopback_names(text: str) -> str:
    """The lines of /etc/hosts with loopback addresses, without domains: no name of another host."""
    rows = [line.partition("#")[0].split() for line in text.splitlines()]
    kept = [(row[0], {name.partition(".")[0] for name in row[1:]}) for row in rows if row]
    return "\n".join(f"{one} {' '.join(sorted(names))}" for one, names in kept if one[:4] == "127.")


def _space_of(path: str) -> str:
    found = os.statvfs(path)
    return f"{found.f_blocks * found.f_frsize} {found.f_bavail * found.f_frsize}"


def _clock(_subject: str) -> str:
    """The status of adjtimex(2), which is readable without root, and its error bound in µs."""
    values = (ctypes.c_long * 64)()  # struct timex: modes, offset, freq, maxerror, esterror, status
    library = ctypes.CDLL(None, use_errno=True)
    if library.adjtimex(values) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex failed")
    synchronised = not values[5] & _UNSYNCHRONISED
    return f"synchronised={int(synchronised)} maximum_error_us={values[3]}"


def _measured(subject: str) -> Reading:
    """What a test prints."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cclmark", *TESTS[subject], "--quiet"]
        command += ["--format", "csv", "--journal", f"{folder}/run.jsonl"]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TEST_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return Reading(error=f"{HANGS} within {_TEST_S:.0f} s")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return Reading(error=lines[-1] if lines else f"exit code {done.returncode}")
    return Reading(done.stdout.decode(errors="replace"))


def _packages(_subject: str) -> str:
    """The installed packages of Python that concern communication."""
    names = os.listdir(sysconfig.get_paths()["purelib"])  # noqa: PTH208 - the names alone
    return "\n".join(name for name in names if _PACKAGES.match(name))


_DIRECT: Mapping[str, Callable[[str], str]] = {
    "read": _text_of,
    "list": lambda path: "\n".join(os.listdir(path)),  # noqa: PTH208 - the names alone
    "resolve": lambda path: str(Path(path).resolve(strict=True)),
    "space": _space_of,
    "clock": _clock,
    "packages": _packages,
}
