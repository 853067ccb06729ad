"""Starts the program by a fork of a process that has imported all of it already.

What it runs is what ``python -m cclmark`` runs, in a process of its own, with its own arguments,
environment, directory, standard streams and exit code; its ranks are forked as well (see
``forked_ranks``). This saves the time in which Python imports the program. Variables that Python
itself reads at its start have no effect on a fork: ``Source.suits`` refuses such environments.
"""

import atexit
import ctypes
import gc
import importlib
import os
import pickle
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NoReturn

import forked_ranks
from patience import scaled

# Below a launcher a process ends with its parent, which it notes when it is imported.
_LAUNCHERS = ("RANK", "LOCAL_", "WORLD_", "SLURM_", "OMPI_", "PMI")
_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_", "VIRTUAL_ENV", *_LAUNCHERS)
_MOST_BYTES = 1 << 22
_CHILD_SUBREAPER = 36  # of prctl
PLUG_INS_OF_TORCH = str(Path(__file__).parent / "fakes" / "torch_device")
_READY_S = scaled(60.0)  # torch is imported beside compilers


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(_AT_START)}


class Forked:
    """One run: what is used of ``subprocess.Popen``."""

    def __init__(self, args: list[str], out: int, err: int, status: int) -> None:
        self.args = args
        self.returncode: int | None = None
        self._texts: dict[int, bytearray] = {out: bytearray(), err: bytearray()}
        self._out, self._err, self._status = out, err, status
        self._open = {out, err, status}
        self._said = bytearray()

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """What it has written to the end of both streams; its exit code is there then."""
        deadline_s = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for one in self._open:
                selector.register(one, selectors.EVENT_READ)
            while self._open:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise subprocess.TimeoutExpired(self.args, timeout)
                for key, _ in selector.select(left_s):
                    self._read(key.fd, selector)
        self.returncode = int(self._said.split()[1])
        return bytes(self._texts[self._out]), bytes(self._texts[self._err])

    @property
    def pid(self) -> int:
        while b" " not in self._said:
            self._said += os.read(self._status, 64)
        return int(self._said.split()[0])

    def kill(self) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def _read(self, descriptor: int, selector: selectors.BaseSelector) -> None:
        content = os.read(descriptor, 1 << 16)
        if content:
            (self._said if descriptor == self._status else self._texts[descriptor]).extend(content)
        else:
            selector.unregister(descriptor)
            self._open.discard(descriptor)
            os.close(descriptor)


class Source:
    """The process that is forked. It ends with its socket, so with the process that made it."""

    def __init__(self, *modules: str, path: str = "") -> None:
        """``modules``: what is imported besides the program, torch for example. ``path``: the
        PYTHONPATH of its runs, if it is another than that of this process.
        """
        # Threads of numpy, which a fork loses, are not needed before a run has begun.
        additions = {"OPENBLAS_NUM_THREADS": "1"}
        if path:
            additions["PYTHONPATH"] = path
        self._environment = _at_start({**os.environ, **additions})
        self._processors = os.sched_getaffinity(0)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **additions},
            )
        self._socket.settimeout(_READY_S)
        assert self._socket.recv(16) == b"ready"

    def living(self) -> dict[int, list[str]]:
        """All processes that began with it and live, with their command lines: runs, their ranks
        and what they left behind, for what loses its parent becomes a child of this one.
        """
        found: dict[int, list[str]] = {}
        _add_descendants(self._process.pid, found)
        return found

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether Python and the loader would start in the same way with ``environment``."""
        if os.sched_getaffinity(0) != self._processors:
            return False
        return _at_start(environment) == self._environment

    def start(
        self, arguments: list[str], directory: Path, environment: Mapping[str, str]
    ) -> Forked:
        """Starts ``python -m cclmark ARGUMENTS`` with nothing to read on standard input."""
        pipes = [os.pipe() for _ in range(3)]
        job = pickle.dumps((arguments, str(directory), dict(environment)))
        try:
            socket.send_fds(self._socket, [job], [writing for _, writing in pipes])
        finally:
            for _, writing in pipes:
                os.close(writing)
        return Forked([sys.executable, "-m", "cclmark", *arguments], *(one for one, _ in pipes))

    def close(self) -> None:
        self._socket.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Sources:
    """Makes a Source of each kind when it is needed first: of the program, and with torch."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], Source] = {}

    def of(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Source:
        """The one that has imported what a command with these arguments is about, and finds the
        fake plug-ins of torch where the ``environment`` does. Whether it suits all of that is for
        the caller to ask.
        """
        path = (environment or {}).get("PYTHONPATH", "")
        has_plug_in = path == PLUG_INS_OF_TORCH
        named = any("torch" in one for one in arguments) or [*arguments[:1]] == ["train"]
        about_torch = (named or has_plug_in) and find_spec("torch") is not None
        modules = ("torch", "torch.distributed") if about_torch else ()
        key = (path if has_plug_in else "", *modules)
        if key not in self._made:
            self._made[key] = Source(*modules, path=key[0])
        return self._made[key]

    def living(self) -> dict[int, list[str]]:
        """The living processes of all of them."""
        found: dict[int, list[str]] = {}
        for source in self._made.values():
            found |= source.living()
        return found

    def close(self) -> None:
        for source in self._made.values():
            source.close()


#: They import SQLAlchemy, which makes every fork copy more.
_WITH_SQL = ("cclmark.history", "cclmark.cli.history", "cclmark.cli.compare")


def import_all(modules: Sequence[str]) -> None:
    """The modules of ranks and of commands that start some, where what they need is installed, and
    others.
    """
    import cclmark
    import cclmark_training

    for found in chain.from_iterable(
        pkgutil.walk_packages(one.__path__, f"{one.__name__}.")
        for one in (cclmark, cclmark_training)
    ):
        needs_torch = found.name.startswith("cclmark_training.torch.")
        left_out = found.name.startswith(_WITH_SQL) or found.name.endswith("__main__")
        if not left_out and (modules or not needs_torch):
            with suppress(ImportError):
                importlib.import_module(found.name)
    for name in (*modules, "pynvml"):  # runs with simulated devices import NVML's binding
        importlib.import_module(name)
    from cclmark.work.libraries import listed_settings, shipped

    for library in shipped().values():  # read from their files once
        listed_settings(library)


def serve(connection: socket.socket) -> list[str] | None:
    """Forks for every job that comes. Returns its arguments in the new process; None at the end."""
    waking, woken = os.pipe()
    for one in (waking, woken):
        os.set_blocking(one, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    statuses: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        selector.register(waking, selectors.EVENT_READ)
        connection.send(b"ready")
        while True:
            for key, _ in selector.select():
                if key.fileobj is connection:
                    job, pipes, _, _ = socket.recv_fds(connection, _MOST_BYTES, 3)
                    if not job:
                        return None
                    pid = os.fork()
                    if pid == 0:
                        break
                    statuses[pid] = pipes[2]
                    os.write(pipes[2], b"%d " % pid)
                    for one in pipes[:2]:
                        os.close(one)
                else:
                    with suppress(BlockingIOError):
                        os.read(waking, 4096)
                    _tell(statuses)
            else:
                continue
            break
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection.close()
    for one in (waking, woken, *statuses.values(), pipes[2]):
        os.close(one)
    for number, one in enumerate(pipes[:2], start=1):
        os.dup2(one, number)
        os.close(one)
    arguments, directory, environment = pickle.loads(job)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    return arguments


def _tell(statuses: dict[int, int]) -> None:
    """Passes on how processes have ended; others are those that lost their parent."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pipe = statuses.pop(ended[0], None)
            if pipe is not None:
                with suppress(BrokenPipeError):
                    os.write(pipe, b"%d" % os.waitstatus_to_exitcode(ended[1]))
                os.close(pipe)


def end_at_once(program: Callable[[], object]) -> NoReturn:
    """Runs ``program`` and ends as Python does, but for its last step: to take all modules apart
    would write to, and so copy, most of the memory that was shared until then.
    """
    code: object = 0
    try:
        program()
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    with suppress(AttributeError):
        threading._shutdown()  # waits for threads that are not daemons
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120  # as Python
    os._exit(int(code or 0) & 0xFF)


def _add_descendants(pid: int, found: dict[int, list[str]]) -> None:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                    found[child] = [word.decode(errors="replace") for word in words]
                _add_descendants(child, found)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    gc.disable()
    import_all(sys.argv[2:])
    gc.enable()
    # A collection of garbage in a fork would write to, and so copy, all that was imported.
    gc.collect()
    gc.freeze()
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a fork would lose threads"
    words = serve(socket.socket(fileno=int(sys.argv[1])))
    if words is not None:
        sys.path[0] = str(Path.cwd())
        if forked_ranks.are_possible():
            forked_ranks.fork_ranks_of_this_program()
        sys.argv = ["-m", *words]
        sys.orig_argv = [sys.executable, "-m", "cclmark", *words]
        end_at_once(lambda: runpy.run_module("cclmark", run_name="__main__", alter_sys=True))
