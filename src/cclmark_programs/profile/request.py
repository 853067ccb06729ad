"""Runs ``cclmark profile``: options to a request, its result to a file or a standard stream."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from cclmark.base.errors import EXIT_MISSING, EXIT_OK, MissingError, OutputError, UsageError
from cclmark.base.printable import plain, printable
from cclmark.base.signals import signal_name
from cclmark.base.version import VERSION
from cclmark.document.exporter import Exporter
from cclmark.document.exporters import exporter_of
from cclmark.document.paint import ansi, unpainted
from cclmark.document.report_kind import View
from cclmark.explain.chaining import VARIABLES, chained
from cclmark.explain.plugin_log import open_plugin_log, plugin_path
from cclmark.journal.journal_file import JournalWriter, Line
from cclmark.journal.machine import describe_machine, kept_environment, readable
from cclmark.journal.schema import (
    SCHEMA_VERSION,
    DeviceDescription,
    Footer,
    Header,
    LibraryDescription,
    time_text,
)
from cclmark.kinds.registry import is_readable
from cclmark.launch.request import Outcome
from cclmark.profile.profile_assembly import Assembled, assembled_profile, unmeasured_settings
from cclmark.profile.profile_gaps import (
    absent_of,
    differences_of,
    losses_of,
    uncounted_of,
    unlisted_of,
)
from cclmark.profile.profile_log import (
    ProfileLog,
    complete_groups,
    is_of,
    number_by_process,
    read_profile_log,
    runs_of,
)
from cclmark.recording.caller import caller, notice
from cclmark.recording.output import Output, print_lines
from cclmark.recording.recorder import Recorded
from cclmark.recording.run_files import new_journal
from cclmark.work.profiled import PLUG_IN
from cclmark_programs.profile.command import ProfileFlags
from cclmark_programs.profile.kind import KIND

_PROC = Path("/proc")
#: Libraries of collective communication, by the beginning of the file's name.
_LIBRARIES = re.compile(
    rb"/(lib(?:nccl|rccl|hccl|mccl|cncl|bkcl|flagcx|eccl|ixccl|mpi|gloo|torch_cuda|torch_hip|"
    rb"torch_cpu|cudart|cuda)[^/\n ]*\.so[^/\n ]*)"
)
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.25, 16.0
_LAST_LOOK_S = 1.0  # between looks for the end of processes that the program has left behind
_SOON_S = 10.0  # programs load their libraries at the beginning


@dataclass
class SeenProcess:
    """A process of the program. ``libraries``: the names of the files that it had loaded."""

    pid: int
    name: str
    libraries: set[str] = field(default_factory=set)

    @property
    def has_nccl(self) -> bool:
        """Whether it had loaded NCCL, or a library that may contain it."""
        return any(one.startswith(("libnccl.", "librccl.")) for one in self.libraries)


class Descendants:
    """Looks at the processes of a program while no log of the plug-in exists.

    Reading the mappings of a process briefly blocks it, so that pauses become longer after a while,
    and nothing is read once there is a log.
    """

    def __init__(self, variable: str, value: str, logs: Path) -> None:
        """``variable=value`` is in the environment of all processes; ``logs``: their directory.

        It may contain logs of earlier programs.
        """
        self._mark = f"{variable}={value}".encode()
        self._logs = logs
        self._earlier = {*logs.glob("*.cclmlog")}
        self._pause_s = _FIRST_PAUSE_S
        #: Observed processes, by PID.
        self.seen: dict[int, SeenProcess] = {}

    def observe(self, now_s: float) -> float:
        """Looks, and returns how many seconds later to look again."""
        if any(path not in self._earlier for path in self._logs.glob("*.cclmlog")):
            return _LAST_PAUSE_S
        with contextlib.suppress(OSError):  # for instance too many open files
            for pid in self._processes():
                self._look_at(pid)
        if now_s > _SOON_S:
            self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)
        return self._pause_s

    def left(self, patience_s: float) -> list[SeenProcess]:
        """The processes that run after ``patience_s``, but for those with a cleared environment."""
        deadline_s = time.monotonic() + patience_s
        while True:
            pids = [*self._processes()]
            if not pids or time.monotonic() >= deadline_s:
                break
            time.sleep(_FIRST_PAUSE_S)
        for pid in pids:
            self._look_at(pid)
        return [self.seen[pid] for pid in pids if pid in self.seen]

    def wait(self) -> None:
        """Waits until no process of the program remains, however long, and looks at them."""
        began_s = time.monotonic()
        while [*self._processes()]:
            time.sleep(min(self.observe(time.monotonic() - began_s), _LAST_LOOK_S))

    def _processes(self) -> Iterator[int]:
        for entry in _PROC.iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if self._mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
            except OSError:  # it has ended, or belongs to another user
                continue

    def _look_at(self, pid: int) -> None:
        try:
            content = (_PROC / str(pid) / "maps").read_bytes()
            name = (_PROC / str(pid) / "comm").read_text(errors="replace").strip()
        except OSError:
            return
        found = self.seen.setdefault(pid, SeenProcess(pid, name))
        found.name = name
        found.libraries |= {
            match.decode(errors="replace") for match in set(_LIBRARIES.findall(content))
        }


_PASSED_ON = frozenset(
    (
        *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
    )
)
_FROM_KERNEL = 128  # si_code of a signal that the terminal sent, to the whole foreground group
_GRACE_S = 2.0  # between SIGTERM and SIGKILL
_SIGNAL_BASE = 128  # a shell's status of a program that a signal ended


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended. ``code``: its exit code, negative for a signal."""

    code: int
    wall_s: float

    @property
    def exit_code(self) -> int:
        """The exit code as a shell reports it."""
        return self.code if self.code >= 0 else _SIGNAL_BASE - self.code

    @property
    def text(self) -> str:
        """The end in words; empty if it succeeded."""
        if self.code > 0:
            return f"the program ended with exit code {self.code}"
        if self.code < 0:
            return f"the program was ended by {signal_name(-self.code)}"
        return ""


def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    observe: Callable[[float], float],
) -> ProgramEnd:
    """Runs ``command`` with this process's standard streams until it ends.

    Signals to this process alone are passed on; those of the terminal reach the program directly,
    since it is in the same process group. ``observe`` is called while the program runs, with the
    seconds since its start; it returns after how many seconds to call it again. Raises UsageError
    if the program cannot be started. A program that runs when anything else is raised is ended.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    waited_for = _PASSED_ON | {signal.SIGCHLD}
    former = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    # Where it was inherited as ignored, the kernel would discard how the program ended.
    on_end = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        began_s = time.monotonic()
        process = _started(command, environment, former, is_end_ignored=on_end == signal.SIG_IGN)
        try:
            next_s = observe(0.0)
            while process.poll() is None:
                now_s = time.monotonic() - began_s
                if now_s >= next_s:
                    next_s = now_s + observe(now_s)
                    continue
                received = signal.sigtimedwait(waited_for, next_s - now_s)
                if received is not None:
                    _pass_on(received, process)
        except BaseException:
            _end(process)
            raise
        return ProgramEnd(process.returncode, time.monotonic() - began_s)
    finally:
        signal.signal(signal.SIGCHLD, on_end if on_end is not None else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _started(
    command: Sequence[str],
    environment: Mapping[str, str],
    mask: set[int | signal.Signals],
    *,
    is_end_ignored: bool,
) -> subprocess.Popen[bytes]:
    def with_own_signals() -> None:
        if is_end_ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        # A signal to the group may arrive before the program replaces this process: it ends it, and
        # does not run this process's handlers.
        for number in _PASSED_ON:
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        # Descriptors that this process inherited are the program's, too.
        return subprocess.Popen(
            command,
            env=dict(environment),
            preexec_fn=with_own_signals,  # noqa: PLW1509 - no other thread
            close_fds=False,
        )
    except FileNotFoundError:
        raise UsageError(
            f"cannot run {plain(command[0])}: there is no such program. The program to profile "
            "follows the options: cclmark profile [OPTIONS] -- COMMAND..."
        ) from None
    except OSError as error:
        raise UsageError(f"cannot run {plain(command[0])}: {error.strerror}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the program: with a signal, and by force if it does not react or is stopped."""
    for end in (process.terminate, process.kill):
        end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            return


def _pass_on(received: signal.struct_siginfo, process: subprocess.Popen[bytes]) -> None:
    number = received.si_signo
    if number == signal.SIGCHLD or received.si_code == _FROM_KERNEL:
        return
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(process.pid, number)


_RESERVED = 3 << 13  # records of the plug-in that are not calls, see engine/plugin/call_profile.hpp
_PROFILER = VARIABLES[0]
_LOG, _RUN = "CCLMARK_PLUGIN_LOG", "CCLMARK_PLUGIN_RUN"
_TEMPORARY = "cclmark-profile-"
_RUNNING = "running"  # in the temporary directory of logs, and locked, while it is used
_MOST_READ = 1 << 21  # listed calls of all processes, which take 450 bytes of memory each


@dataclass(frozen=True)
class ProfileRequest:
    """What to profile. ``command``: empty to read the logs in ``logs`` of an earlier run.

    ``logs``: the directory of the logs, None for a temporary one. ``calls``: how many calls of a
    process are listed one by one. ``kernel_times``: whether the library reports times of kernels.
    ``run``: the first characters of the ID of the run to read, empty if there is only one.
    ``waits``: for processes that the program leaves behind.
    """

    command: Sequence[str]
    logs: Path | None
    calls: int
    kernel_times: bool
    run: str = ""
    waits: bool = False


@dataclass(frozen=True)
class ProgramRun:
    """What happened. ``identity``: of the journal, and of the logs of a run that was started.

    ``end``: None if logs of an earlier run were read. ``left``: processes that still run after the
    end of the program; ``directory``: of their logs.
    """

    identity: str
    end: ProgramEnd | None
    logs: list[ProfileLog]
    unreadable: list[str]
    seen: list[SeenProcess]
    left: list[SeenProcess] = field(default_factory=list)
    directory: Path = Path()


def profile(
    request: ProfileRequest,
    journal: Path,
    exporter: Exporter[Any],
    write: Callable[[str], None],
    *,
    to_error: bool = False,
    is_quiet: bool = False,
) -> Recorded:
    """Profiles. The exit code is the program's, if that is not 0.

    ``to_error``: whether ``write`` writes to standard error, where messages follow that the text
    does not contain. ``is_quiet``: the path of the journal is not printed.
    Raises CclmarkError before the program is started if something is missing for it.
    """
    began_s = time.monotonic()
    writer = JournalWriter(journal)  # before the program runs: its profile must not be lost
    is_begun, failure = False, ""
    try:
        started_at = time_text()
        with _directory(request) as directory:  # until the journal contains what the logs contain
            run = _run(request, directory) if request.command else _read(request, directory)
            header, assembled, footer = _assembled(run, started_at, began_s)
            lines: list[Line] = [header, assembled.profile, *assembled.results, footer]
            if not all(is_readable(line, header) for line in lines):
                raise UsageError(
                    "the logs of the program are damaged: they contain numbers that are too large"
                )
            for line in lines:
                writer.write(line)
                is_begun = True
    except OutputError as error:  # the profile is printed nevertheless
        failure = str(error)
    finally:
        writer.close(keep=is_begun)
    whole = _text_of(header, assembled, footer, exporter)
    write(whole)
    shown = " ".join(whole.split()) if to_error else ""  # its lines are folded
    for text in (footer.message, *footer.problems, failure):
        if text and " ".join(text.split()) not in shown:
            notice(text)
    if is_begun and not is_quiet:
        notice(f"journal {journal}", is_whole=True)
    code = footer.exit_code or (EXIT_MISSING if failure else EXIT_OK)
    return Recorded(code, Outcome(code, footer.message))


def _assembled(
    run: ProgramRun, started_at: str, began_s: float
) -> tuple[Header, Assembled, Footer]:
    """The lines of the journal."""
    processes = [one for log in run.logs for one in log.processes]
    processes = sorted(
        (one for one in processes if one.operations or one.groups),
        key=lambda one: (one.rank < 0, one.rank, one.host, one.pid),
    )
    complete_groups(processes)
    numbered = number_by_process(processes)
    assembled = assembled_profile(PLUG_IN, processes)
    code = run.end.exit_code if run.end is not None else EXIT_OK
    problems = [*run.unreadable, *losses_of(run.logs)]
    if not assembled.results:
        problems.append(_why_empty(run))
    elif any(one.has_nccl for one in run.left):
        problems.append(_left_behind(run))
    if problems and code == EXIT_OK:
        code = EXIT_MISSING
    found = assembled.profile
    found.wall_s = run.end.wall_s if run.end is not None else 0.0
    found.program_exit_code = run.end.code if run.end is not None else None
    found.notes = [
        *numbered,
        *unlisted_of(run.logs),
        *uncounted_of(run.logs),
        *absent_of(found),
        *differences_of(found, assembled.results),
    ]
    footer = Footer(
        ended_at=time_text(),
        exit_code=code,
        duration_s=time.monotonic() - began_s,
        message=run.end.text if run.end is not None else "",
        problems=problems,
    )
    return _header(assembled, run, started_at), assembled, footer


def _run(request: ProfileRequest, directory: Path) -> ProgramRun:
    identity = uuid.uuid4().hex
    began_ns = time.time_ns()
    prefix = str(directory / "log")
    descendants = Descendants(_LOG, prefix, directory)
    end = run_program(
        request.command,
        {**environment_of(request, prefix, os.environ), _RUN: identity},
        descendants.observe,
    )
    left: list[SeenProcess] = []
    if not request.waits:
        left = descendants.left(_GRACE_S)
    elif waited_for := descendants.left(0.0):
        notice(f"the program has ended; waiting for {_named(waited_for)} (Ctrl-C ends this)")
        descendants.wait()
        end = ProgramEnd(end.code, (time.time_ns() - began_ns) * 1e-9)
    if left and request.logs is None:  # their logs remain, see _directory
        (directory / _RUNNING).unlink(missing_ok=True)
    logs, unreadable = read_logs(directory, identity, began_ns)
    seen = [*descendants.seen.values()]
    return ProgramRun(identity, end, logs, unreadable, seen, left, directory)


def _read(request: ProfileRequest, directory: Path) -> ProgramRun:
    if not directory.is_dir():
        raise UsageError(f"--read {directory}: this is no directory with logs of cclmark profile")
    logs, unreadable = read_logs(directory)
    if not logs and not unreadable:
        raise UsageError(
            f"--read {directory}: the directory contains no log (*.cclmlog) of cclmark profile"
        )
    return ProgramRun(uuid.uuid4().hex, None, _chosen(logs, request, directory), unreadable, [])


def _chosen(
    logs: Sequence[ProfileLog], request: ProfileRequest, directory: Path
) -> list[ProfileLog]:
    """The logs of the run that the user has chosen, or of the only one. Raises UsageError."""
    if not logs:  # none is readable, which is reported
        return []
    runs = runs_of(logs)
    fitting = [one for one in runs if is_of(one, request.run)] if request.run else runs
    if not fitting and request.run:
        raise UsageError(
            f"--run {request.run}: --read {directory} contains no logs of such a run, but of "
            f"{'; '.join(one.text for one in runs)}"
        )
    if len(fitting) > 1:
        raise UsageError(
            f"--read {directory} contains logs of {len(fitting)} runs, which are no profile "
            f"together: choose one with --run: {'; '.join(one.text for one in fitting)}"
        )
    return [log for one in fitting for log in one.logs]


def environment_of(
    request: ProfileRequest, prefix: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the program: NCCL loads the plug-in, and that one the user's profiler.

    Raises MissingError if the plug-in is not installed.
    """
    own = plugin_path()
    wanted = chained({_PROFILER.nccl: environ.get(_PROFILER.nccl, "")}, own)
    return {
        **environ,
        **{name: wanted[name] for name in (_PROFILER.nccl, _PROFILER.other) if name in wanted},
        _LOG: prefix,
        "CCLMARK_PLUGIN_EVENTS": "profile" if request.kernel_times else "counts",
        "CCLMARK_PLUGIN_RECORDS": str(request.calls + _RESERVED),
    }


@contextlib.contextmanager
def _directory(request: ProfileRequest) -> Iterator[Path]:
    """The directory of the logs: the user's, or a private one.

    The private one is removed, unless an exception is raised while it contains logs, or processes
    of the program still write them, for which its lock file has been removed.
    """
    if request.logs is not None:
        if not request.command:
            yield request.logs
            return
        try:
            request.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot create --logs {request.logs}: {error.strerror}") from None
        yield request.logs.absolute()
        return
    _remove_abandoned(Path(tempfile.gettempdir()))
    try:
        made = Path(tempfile.mkdtemp(prefix=_TEMPORARY))
        running = _locked(made / _RUNNING)
    except OSError as error:
        raise MissingError(
            f"cannot create a directory for the logs below {tempfile.gettempdir()}: "
            f"{error.strerror}. Set TMPDIR, or choose a directory with --logs DIR"
        ) from None
    remain = False
    # All within the lock: another run removes the directories that no run has locked.
    with running:
        try:
            yield made
            remain = not (made / _RUNNING).exists()
        except BaseException:
            remain = any(made.glob("*.cclmlog"))
            if remain:
                (made / _RUNNING).unlink(missing_ok=True)
            raise
        finally:
            if remain:
                notice(f"the logs of the program remain: cclmark profile --read {made}")
            else:
                shutil.rmtree(made, ignore_errors=True)


def _locked(path: Path) -> IO[bytes]:
    """Creates a file, which is locked while this process or the program lives. Raises OSError."""
    begun = path.with_suffix(".begun")  # another run may look for the file before it is locked
    file = begun.open("xb")
    os.set_inheritable(file.fileno(), True)
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        begun.rename(path)
    return file


def _remove_abandoned(directory: Path) -> None:
    """Removes the directories of runs that were killed, and whose program has ended, too."""
    for made in directory.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            if made.is_symlink() or made.stat().st_uid != os.geteuid():
                continue
            with (made / _RUNNING).open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not os.fstat(file.fileno()).st_nlink:
                    continue  # its run has ended since the file was opened, and keeps its logs
                shutil.rmtree(made, ignore_errors=True)
            notice(f"removed {made}, which a killed run had left")


def read_logs(
    directory: Path, identity: str = "", since_ns: int = 0
) -> tuple[list[ProfileLog], list[str]]:
    """Reads the logs of one run, or of all, and returns why others are unreadable.

    ``identity``: of the run. Logs without one, whose environment a launcher has not handed on, are
    of the run if they were begun since ``since_ns``, a time of day.
    """
    paths: list[Path] = []
    logs: list[ProfileLog] = []
    unreadable: list[str] = []
    for path in sorted(directory.glob("*.cclmlog")):
        try:
            with open_plugin_log(path) as opened:
                log = opened.log
        except UsageError as error:
            unreadable.append(str(error))
            continue
        if (
            not identity
            or log.run == identity
            or (not log.run and log.begin_realtime_ns >= since_ns)
        ):
            paths.append(path)
    most_calls = max(1, _MOST_READ // max(1, len(paths)))
    for path in paths:
        try:
            logs.append(read_profile_log(path, most_calls))
        except UsageError as error:
            unreadable.append(str(error))
    return logs, unreadable


def _named(processes: Sequence[SeenProcess]) -> str:
    """Processes in words: the first one, and how many others."""
    first, *others = processes
    more = f" and {len(others)} more of its processes" if others else ""
    return f"process {first.pid} ({plain(first.name)}){more}"


def _left_behind(run: ProgramRun) -> str:
    """What to do about processes that still run, in words."""
    return (
        f"{_named(run.left)} still {'run' if len(run.left) > 1 else 'runs'} after the program has "
        "ended, as it does where the program detaches from what it starts. --wait waits for them; "
        "or keep the logs with --logs DIR, and read them when the processes have ended: "
        f"cclmark profile --read {shlex.quote(str(run.directory))}"
    )


def _why_empty(run: ProgramRun) -> str:
    """Why there is no call, in words."""
    if run.left and not any(one.has_nccl for one in run.seen if one not in run.left):
        return f"no operation was recorded: {_left_behind(run)}"
    if run.logs:
        versions = {log.log.interface_version for log in run.logs}
        if not any(log.log.claimed for log in run.logs):
            return "NCCL loaded the plug-in, but the program created no communicator"
        reason = (
            "the program called no operation on more than one rank"
            if max(versions) >= 1
            else "the library does not report its operations"
        )
        return f"no operation was recorded: {reason}"
    with_nccl = [one for one in run.seen if one.has_nccl]
    if with_nccl:
        one = with_nccl[0]
        names = ", ".join(sorted(one.libraries))
        return (
            f"no operation was recorded: process {one.pid} ({plain(one.name)}) had loaded "
            f"{plain(names)}, but NCCL did not load the plug-in. It created no communicator, is "
            "older than 2.23, is linked statically without plug-ins, or a launcher did not pass on "
            f"{_PROFILER.nccl}"
        )
    libraries = sorted({name for one in run.seen for name in one.libraries})
    text = (
        "no operation was recorded: cclmark profile records the operations of NCCL, which no "
        "process of the program had loaded when it was looked at"
    )
    if libraries:
        text += f". Loaded were {plain(', '.join(libraries))}"
    if any(name.startswith("libtorch") for name in libraries):
        text += (
            ". For other backends of torch, for example gloo, record a trace of each rank with "
            "torch.profiler (record_shapes=True) and import them: cclmark import TRACE.json..."
        )
    return text


def _header(assembled: Assembled, run: ProgramRun, started_at: str) -> Header:
    processes = assembled.profile.processes
    names = _device_names()
    name = names[0] if len(set(names)) == 1 else "process"
    libraries = dict.fromkeys(one.library for one in processes if one.library)
    notices = [other.text for log in run.logs for other in log.log.other_plugins]
    notices += [log.log.table.text for log in run.logs if log.log.table is not None]
    return Header(
        schema_version=SCHEMA_VERSION,
        cclmark_version=VERSION,
        started_at=started_at,
        command=[*map(readable, caller().command)],
        machine=describe_machine(),
        devices=[
            DeviceDescription(number, one.host, "", -1, name, 0, pid=one.pid)
            for number, one in enumerate(processes)
        ],
        links=[],
        libraries=[
            LibraryDescription(name, version, "")
            for name, _, version in (text.partition(" ") for text in libraries)
        ],
        environment=kept_environment(os.environ),
        settings=unmeasured_settings("profile"),
        notices=[*dict.fromkeys(notices)],
        run_id=run.identity,
        planned_cases=len(assembled.results),
        directory=readable(str(Path.cwd())),
    )


def _device_names() -> list[str]:
    """The names of NVIDIA's devices of this host; empty if NVML is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
        names = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index))
            names.append(name.decode() if isinstance(name, bytes) else str(name))
        return names
    except Exception:  # NVML's own errors, or a library without some of its functions
        return []


def _text_of(header: Header, assembled: Assembled, footer: Footer, exporter: Exporter[Any]) -> str:
    """The result in the exporter's format."""
    exporter.profile(printable(assembled.profile))
    return exporter.whole(header, assembled.results, footer)


def _planned_lines(request: ProfileRequest) -> list[str]:
    """What would start, or be read. Raises MissingError if the plug-in is not installed."""
    if not request.command:
        return [f"Reads the logs in {request.logs}."]
    prefix = str((request.logs or Path("PRIVATE-DIRECTORY")) / "log")
    given = environment_of(request, prefix, os.environ).items() - os.environ.items()
    if shutil.which(request.command[0]) is None:
        raise MissingError(f"{request.command[0]}: no such program")
    return [
        f"Starts {shlex.join(request.command)} with these variables:",
        *(f"  {name}={text}" for name, text in sorted(given)),
    ]


def profile_program(flags: ProfileFlags) -> Recorded:
    """Profiles a program, or reads the logs of one."""
    read, output = flags.read, flags.output
    if read is None and not flags.program:
        raise UsageError(
            "the program to profile is missing: cclmark profile [OPTIONS] -- COMMAND..."
        )
    if caller().step is not None:
        raise UsageError("profile runs a program itself: cclmark.session has no part in it")
    request = ProfileRequest(
        *(flags.program, read or flags.logs, flags.calls, not flags.no_kernel_times, flags.run),
        waits=flags.wait,
    )
    if flags.dry_run:
        print_lines(_planned_lines(request))
        return Recorded(EXIT_OK, Outcome(EXIT_OK))
    to_error = (output is None and read is None) or caller().is_silent
    with contextlib.closing(Output(output)) as printed:
        coloured = printed.takes_colours and not to_error
        recorded = profile(
            request,
            flags.journal or new_journal("profile"),
            exporter_of(
                KIND,
                flags.format,
                View(
                    paint=ansi if coloured else unpainted,
                    columns=printed.columns,
                    fields=flags.columns,
                ),
            ),
            _print_error if to_error else printed.write,
            to_error=to_error,
            is_quiet=flags.quiet,
        )
    if printed.failure:
        notice(printed.failure)
    return recorded


def _print_error(text: str) -> None:
    if not caller().is_silent:
        sys.stderr.write(text)
