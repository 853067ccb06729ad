"""Runs ``cclmark profile``: options to a request, its result to a file or a standard stream."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from cclmark import __version__
from cclmark.base.errors import EXIT_MISSING, EXIT_OK, MissingError, OutputError, UsageError
from cclmark.base.printable import plain, plain_lines, printable
from cclmark.document.exporter import Exporter, Profiles
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
)
from cclmark.kinds.profile.command import ProfileFlags
from cclmark.kinds.profile.kind import KIND
from cclmark.kinds.registry import is_readable
from cclmark.launch.program import Descendants, ProgramEnd, SeenProcess, run_program
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
from cclmark.recording.output import Output
from cclmark.recording.run_files import new_journal
from cclmark.work.profiled import PLUG_IN

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
    """

    command: Sequence[str]
    logs: Path | None
    calls: int
    kernel_times: bool
    run: str = ""


@dataclass(frozen=True)
class ProgramRun:
    """What happened. ``identity``: of the journal, and of the logs of a run that was started.

    ``end``: None if logs of an earlier run were read.
    """

    identity: str
    end: ProgramEnd | None
    logs: list[ProfileLog]
    unreadable: list[str]
    seen: list[SeenProcess]


def profile(
    request: ProfileRequest,
    journal: Path,
    exporter: Exporter[Any],
    write: Callable[[str], None],
    *,
    to_error: bool = False,
) -> int:
    """Profiles and returns the exit code: the program's, if that is not 0.

    ``to_error``: whether ``write`` writes to standard error, where messages follow that the text
    does not contain.
    Raises CclmarkError before the program is started if something is missing for it.
    """
    began_s = time.monotonic()
    writer = JournalWriter(journal)  # before the program runs: its profile must not be lost
    is_begun, failure = False, ""
    try:
        started_at = _now()
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
    shown = whole if to_error else ""
    for text in (footer.message, *footer.problems, failure):
        if text and text not in shown:
            print(f"cclmark: {plain_lines(text)}", file=sys.stderr)
    if is_begun:
        print(f"cclmark: journal {journal}", file=sys.stderr)
    return footer.exit_code or (EXIT_MISSING if failure else EXIT_OK)


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
        ended_at=_now(),
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
    logs, unreadable = read_logs(directory, identity, began_ns)
    return ProgramRun(identity, end, logs, unreadable, [*descendants.seen.values()])


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

    The private one is removed, unless an exception is raised while it contains logs.
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
        except BaseException:
            remain = any(made.glob("*.cclmlog"))
            if remain:
                (made / _RUNNING).unlink(missing_ok=True)
            raise
        finally:
            if remain:
                print(
                    f"cclmark: the logs of the program remain: cclmark profile --read {made}",
                    file=sys.stderr,
                )
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
            print(f"cclmark: removed {made}, which a killed run had left", file=sys.stderr)


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


def _why_empty(run: ProgramRun) -> str:
    """Why there is no call, in words."""
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
        cclmark_version=__version__,
        started_at=started_at,
        command=[*map(readable, sys.argv)],
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
    if isinstance(exporter, Profiles):
        exporter.profile(printable(assembled.profile))
    pieces = [exporter.begin(printable(header))]
    pieces += [exporter.add(printable(result)) for result in assembled.results]
    return "".join([*pieces, exporter.end(printable(footer))])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def profile_program(flags: ProfileFlags) -> int:
    """Profiles a program, or reads the logs of one, and returns the exit code.

    Raises CclmarkError before anything is started or written if the options are invalid.
    """
    read, output = flags.read, flags.output
    if read is None and not flags.program:
        raise UsageError(
            "the program to profile is missing: cclmark profile [OPTIONS] -- COMMAND..."
        )
    request = ProfileRequest(
        flags.program, read or flags.logs, flags.calls, not flags.no_kernel_times, flags.run
    )
    to_error = output is None and read is None
    with contextlib.closing(Output(output)) as printed:
        coloured = printed.takes_colours and not to_error
        code = profile(
            request,
            flags.journal or new_journal("profile"),
            exporter_of(KIND, flags.format, View(paint=ansi if coloured else unpainted)),
            _print_error if to_error else printed.write,
            to_error=to_error,
        )
    if printed.failure:
        print(f"cclmark: {printed.failure}", file=sys.stderr)
    return code


def _print_error(text: str) -> None:
    sys.stderr.write(text)
