"""Runs ``cclmark suite``: a suite to processes, journals to verdicts, verdicts to the screen."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import re
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

import click

from cclmark.base.errors import (
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    EXIT_USAGE,
    CclmarkError,
    MissingError,
    OutputError,
    UnreadError,
    UsageError,
)
from cclmark.base.files import shipped_toml_files
from cclmark.base.printable import printable
from cclmark.base.signals import note, noted, on_ending_signals
from cclmark.base.standard_error import folded, tell
from cclmark.cli.commands import load_command
from cclmark.cli.suite.command import SuiteFlags
from cclmark.document.json_format import encode
from cclmark.document.naming import NamedRun
from cclmark.document.paint import ansi, unpainted
from cclmark.document.text import clock_text, counted
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import time_text
from cclmark.kinds.pairs.command import PairFlags
from cclmark.kinds.registry import read_journal
from cclmark.launch.devices import choose_devices
from cclmark.launch.placement import is_primary
from cclmark.options.groups import SizeOptions
from cclmark.rank.probe import count_devices
from cclmark.recording.caller import notice
from cclmark.recording.output import Output, made_directory, print_lines, refuse_to_lose
from cclmark.recording.recorder import StatusLine, every_s
from cclmark.recording.run_files import new_path
from cclmark.report.overview import insights
from cclmark.suites.checks import (
    CommandRun,
    CommandVerdict,
    RunFinding,
    SuiteVerdict,
    judge,
    suite_exit_code,
)
from cclmark.suites.suite import (
    ACCELERATORS,
    Suite,
    SuiteCommand,
    chosen_commands,
    parse_suite,
    with_baselines,
)
from cclmark.suites.words import (
    VerdictTable,
    describe_suite,
    describe_suites,
    junit_xml,
    verdict_markdown,
)
from cclmark.work.runtimes import RUNTIMES, parse_devices
from cclmark.work.sizes import format_size, sweep
from cclmark.work.thresholds import SizeRange, meant

_LOOK_S = 0.1
_GRACE_S = 30.0  # for a command to end its ranks and to store its results
# Replaced by the command through exec; the parent-death signal set here survives exec.
_STARTER = (
    "import os, signal, sys; from cclmark import _engine; "
    "_engine.die_with_parent(int(sys.argv[1]), signal.SIGTERM); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``exit_code`` is negative for a signal; ``said``: its standard error."""

    exit_code: int
    said: str
    timed_out: bool


class Children:
    """Runs one command at a time and forwards termination signals to it."""

    def __init__(self) -> None:
        on_ending_signals(note)

    @property
    def interrupted(self) -> bool:
        """Whether this process received a termination signal: no further command is started."""
        return bool(noted())

    def run(
        self,
        arguments: Sequence[str],
        *,
        printed: Path | None,
        said: Path,
        timeout_s: float,
        watch: Callable[[], None],
        step: int,
    ) -> Ended:
        """Runs ``cclmark`` with ``arguments`` to completion and calls ``watch`` periodically.

        Standard output goes to the file ``printed``, or to standard error if that is None;
        standard error goes to ``said`` as far as disk space permits. Under a launcher, children
        with the same ``step`` connect to each other. Raises OutputError if the files cannot be
        created, MissingError if no process can be started.
        """
        began_s = time.monotonic()
        command = [sys.executable, "-c", _STARTER, str(os.getpid()), "-m", "cclmark", *arguments]
        with contextlib.ExitStack() as stack:
            spoken = stack.enter_context(contextlib.closing(_Spoken(said)))
            output = sys.stderr if printed is None else stack.enter_context(_created(printed))
            sys.stderr.flush()
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=spoken.descriptor,
                    # Otherwise Ctrl-C would reach the child twice: from the terminal and from here.
                    start_new_session=True,
                    env={**os.environ, "CCLMARK_STEP": str(step)},
                )
            except OSError as error:
                raise MissingError(f"cannot start a process: {error.strerror}") from None

            def look() -> None:
                spoken.keep()
                watch()

            timed_out = self._wait(process, began_s + timeout_s, look)
            words = spoken.keep()
        code = -signal.SIGKILL if process.returncode is None else process.returncode
        return Ended(code, words, timed_out)

    def _wait(
        self, process: subprocess.Popen[bytes], deadline_s: float, watch: Callable[[], None]
    ) -> bool:
        """Waits until the process has exited; True if it timed out and was terminated."""
        timed_out, passed_on, last_s = False, 0, float("inf")
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
                return timed_out
            now_s = time.monotonic()
            arrived = noted()
            for number in arrived[passed_on:]:
                process.send_signal(number)
                last_s = min(last_s, now_s + _GRACE_S)
            passed_on = len(arrived)
            if now_s > deadline_s and last_s == float("inf"):
                timed_out, last_s = True, now_s + _GRACE_S
                process.terminate()
            if now_s > last_s + _GRACE_S:
                return timed_out  # blocked in the kernel, where even SIGKILL has no effect
            if now_s > last_s:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            watch()


class _Spoken:
    """A command's standard error: in memory, so that a full disk can be reported, and in a file."""

    def __init__(self, path: Path) -> None:
        """Raises OutputError if the file cannot be created."""
        self._file = _created(path)
        self.descriptor = os.memfd_create("cclmark-said")
        self._kept = 0

    def keep(self) -> str:
        """Returns the complete text, and appends the new part to the file if it can be written."""
        words = os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)
        with contextlib.suppress(OSError):
            self._file.write(words[self._kept :])
        self._kept = len(words)
        return words.decode(errors="replace")

    def close(self) -> None:
        """Closes the file and the memory."""
        self._file.close()
        os.close(self.descriptor)


def _created(path: Path) -> IO[bytes]:
    """Creates ``path``. Raises OutputError if it exists or cannot be created."""
    try:
        return path.open("xb", buffering=0)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_STEM = 60


def shipped_suites() -> dict[str, Suite]:
    """Returns the suites shipped with cclmark, by name."""
    found = {}
    for path in shipped_toml_files("suites"):
        suite = parse_suite(path.read_bytes(), path.name, Path())
        found[suite.name] = suite
    return found


_OLD_NAMES = {"host": "self-test"}


def read_suite(name: str) -> Suite:
    """Reads the shipped suite of that name, else the file. Raises UsageError if neither exists."""
    shipped = shipped_suites()
    if name in _OLD_NAMES:
        notice(f"the suite {name} is now called {_OLD_NAMES[name]}")
        name = _OLD_NAMES[name]
    if name in shipped:
        return shipped[name]
    path = Path(name)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"no file and no suite has the name {name!r}{meant(name, shipped)} The suites of "
            f"cclmark are {', '.join(shipped)}."
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {name!r}: {error}") from None
    return parse_suite(content, name, path.parent)


class SuiteDirectory:
    """The directory with a journal of every run of every command of a suite."""

    def __init__(self, suite: Suite, path: Path | None) -> None:
        """``path`` None: a new one. Raises UsageError if it cannot be created, or is in use."""
        if path is None:
            path = new_path(_slug(suite.name))
        self.path = path
        self._numbers = {command.name: number for number, command in enumerate(suite.commands, 1)}
        made_directory(path, "Choose another with --journal-dir DIR")
        for command in suite.commands:
            for run in range(command.repeats):
                for file in self.files_of(command, run):
                    if file.exists():
                        raise UsageError(
                            f"{file} already exists: choose another directory with --journal-dir"
                        )

    def files_of(self, command: SuiteCommand, run: int) -> tuple[Path, Path, Path]:
        """Returns the files of the journal, standard output and standard error of a run, from 0."""
        stem = f"{self._numbers[command.name]:02}-{_slug(command.name)}"
        if command.repeats > 1:
            stem += f".{run + 1}"
        return (
            self.path / f"{stem}.jsonl",
            self.path / f"{stem}.txt",
            self.path / f"{stem}.stderr.txt",
        )


def _slug(name: str) -> str:
    return _ODD.sub("-", name)[:_LONGEST_STEM]


class SuiteProgress:
    """Shows the line while a command runs, without a terminal a new one from time to time."""

    def __init__(self, stream: TextIO, *, hidden: bool) -> None:
        """``hidden``: the terminal shows other output."""
        self._line = StatusLine(stream)
        self._watched = self._line.is_watched and not hidden and not _read_by_a_pager()
        self._began_s = time.monotonic()
        self._every_s = every_s()
        self._next_s = math.inf if hidden else self._began_s + self._every_s
        self._words = ""
        self._journal = Path()
        self._lines = 0
        self._read_bytes = 0

    def begin(self, words: str, journal: Path) -> None:
        """``words`` describe the running command; its results appear in ``journal``."""
        self._words, self._journal = words, journal
        self._lines = self._read_bytes = 0

    def show(self) -> None:
        """Shows the progress."""
        if self._watched:
            self._line.show(self.describe())
        elif not self._line.is_watched and time.monotonic() > self._next_s:
            self._next_s = time.monotonic() + self._every_s
            tell(self.describe())

    def describe(self) -> str:
        """Returns the time since the suite began, the command, and its number of results."""
        with contextlib.suppress(OSError), self._journal.open("rb") as file:
            file.seek(self._read_bytes)
            new = file.read()
            self._read_bytes += len(new)
            self._lines += new.count(b"\n")
        results = max(0, self._lines - 1)  # without the header
        noun = "result" if results == 1 else "results"
        return f"{clock_text(time.monotonic() - self._began_s)}  {self._words}: {results} {noun}"

    def clear(self) -> None:
        """Removes the line before other output is printed."""
        self._line.clear()


def _read_by_a_pager() -> bool:
    """Whether standard output is a pipe, whose reader may own the screen."""
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    return False


_USUAL_FACTORS = {"collective": SizeOptions.usual_factor, "pairs": PairFlags.usual_factor}


def require_devices(suite: Suite) -> None:
    """Raises MissingError if this machine lacks the devices that the suite requires.

    Raises UsageError for an unknown device name.
    """
    if not suite.needs:
        return
    known = (ACCELERATORS, *(runtime for runtime in RUNTIMES if runtime != "host"))
    if suite.needs not in known:
        raise UsageError(
            f"{suite.name}: needs: unknown devices {suite.needs!r}{meant(suite.needs, known)} "
            f"Choose from {', '.join(known)}."
        )
    runtime = "" if suite.needs == ACCELERATORS else suite.needs
    reason = ""
    try:
        if (
            choose_devices(parse_devices(runtime), 1, count_devices, falls_back=True).runtime
            != "host"
        ):
            return
    except MissingError as error:
        reason = f": {str(error).splitlines()[0]} See cclmark info for details"
    kind = f"{runtime} " if runtime else ""
    raise MissingError(
        f"no {kind}accelerators on this machine, which the suite {suite.name} requires{reason}"
    )


def check_sizes(suite: Suite) -> None:
    """Raises UsageError for a threshold of sizes that its command does not measure.

    If the command's options do not determine the sizes, the check is left to the verdict.
    """
    for command in suite.commands:
        wanted = [one for one in command.thresholds if one.sizes is not None]
        sizes = _sizes_of(command) if wanted else []
        for threshold in wanted if sizes else []:
            assert threshold.sizes is not None
            if not any(_may_be_in(size, threshold.sizes) for size in sizes):
                raise UsageError(
                    f"{suite.name}: {command.name!r}: {threshold.describe()}: the command measures "
                    f"{_listed(sizes)}, so this threshold can never fail"
                )


def _sizes_of(command: SuiteCommand) -> Sequence[int]:
    """Returns the sizes that the command's options request; none if they leave that open."""
    name, *words = command.arguments
    if command.kind not in _USUAL_FACTORS or {"-h", "--help"} & set(words):
        return []
    try:
        values = load_command(name).make_context(name, words).params
        if not values["end"]:
            return []
        begin, end, step = values["begin"], values["end"], values["step"]
        return sweep(begin, end, step, values["factor"] or _USUAL_FACTORS[command.kind])
    except (click.ClickException, UsageError):
        return []  # the command itself reports the error


def _may_be_in(size_bytes: int, sizes: SizeRange) -> bool:
    """Whether a size may be in the range after an operation's rounding, by less than half."""
    least, most = sizes.least_bytes, sizes.most_bytes
    return (least is None or least < 2 * size_bytes) and (most is None or size_bytes < 2 * most)


def _listed(sizes: Sequence[int]) -> str:
    if len(sizes) <= 4:
        return " and ".join(map(format_size, sizes))
    shown = ", ".join(map(format_size, sizes[:2]))
    return f"{len(sizes)} sizes ({shown}, … {format_size(sizes[-1])})"


_PREFIXES = ("cclmark: ", "Error: ")


def run_suite(flags: SuiteFlags) -> int:
    """Runs the suite; returns its exit code. Raises CclmarkError before anything is run."""
    if not flags.suite:
        if not flags.listed:
            raise UsageError(
                "SUITE is missing: use a TOML file or the name of a suite of cclmark: "
                f"{', '.join(shipped_suites())}"
            )
        print_lines([describe_suites(shipped_suites().values())])
        return EXIT_OK
    suite = chosen_commands(read_suite(flags.suite), flags.only, flags.tags)
    if flags.listed:
        print_lines([describe_suite(suite)])
        return EXIT_OK
    check_sizes(suite)
    require_devices(suite)
    if not is_primary(os.environ):
        return _follow_suite(suite)
    if flags.dry_run:
        return _dry_run(suite)
    suite = with_baselines(suite, {name: Path(path) for name, path in flags.baselines})
    baselines = {
        command.name: read_journal(command.baseline)
        for command in suite.commands
        if command.baseline is not None
    }
    with contextlib.ExitStack() as stack:
        printed = Output(None)
        junit = None
        refuse_to_lose(flags.junit, (one.baseline for one in suite.commands if one.baseline))
        if flags.junit is not None:
            junit = stack.enter_context(contextlib.closing(Output(flags.junit)))
        running = SuiteRun(suite, baselines, flags, printed)
        try:
            verdict = running.run()
        except UnreadError as gone:
            notice(str(gone))
            notice(f"journals {running.directory}", is_whole=True)
            return EXIT_INTERRUPTED
        if junit is not None:
            junit.write_whole(junit_xml(printable(verdict)))
        code = verdict.exit_code
        if not flags.quiet:
            notice(f"journals {running.directory}", is_whole=True)
    for output in filter(None, (printed, junit)):
        if output.failure:
            notice(output.failure)
            code = code or EXIT_MISSING
    return code


def _dry_run(suite: Suite) -> int:
    """Lists what every command would measure. Returns the first code of one that cannot."""
    children, code = Children(), EXIT_OK
    with tempfile.TemporaryDirectory(prefix="cclmark-suite-") as directory:
        for number, command in enumerate(suite.commands):
            if children.interrupted:
                return EXIT_INTERRUPTED
            runs = f", {counted(command.repeats, 'run')}" if command.repeats > 1 else ""
            print_lines([f"{command.name}{runs}: cclmark {shlex.join(command.arguments)}"])
            ended = children.run(
                [*command.arguments, "--dry-run"],
                printed=None,
                said=Path(directory) / f"{number}.err",
                timeout_s=command.timeout_s,
                watch=lambda: None,
                step=0,
            )
            print(ended.said, end="", file=sys.stderr)
            code = code or ended.exit_code
    return code


def _follow_suite(suite: Suite) -> int:
    """Runs the suite in a process that is not the first, which decides the verdicts."""
    children = Children()
    with tempfile.TemporaryDirectory(prefix="cclmark-suite-") as directory:
        for number, command in enumerate(suite.commands):
            for run in range(command.repeats):
                if children.interrupted:
                    return EXIT_INTERRUPTED
                ended = children.run(
                    command.arguments,
                    printed=Path(directory) / f"{number}-{run}.out",
                    said=Path(directory) / f"{number}-{run}.err",
                    timeout_s=command.timeout_s,
                    watch=lambda: None,
                    step=suite.step_of(command, run),
                )
                print(ended.said, end="", file=sys.stderr)
                if ended.exit_code in (EXIT_USAGE, EXIT_MISSING):
                    break
    return EXIT_OK


class SuiteRun:
    """Runs the commands of a suite one after the other and checks each as soon as it has ended."""

    def __init__(
        self, suite: Suite, baselines: dict[str, Journal], flags: SuiteFlags, output: Output
    ) -> None:
        """Raises UsageError if the directory of the journals cannot be created."""
        self._suite = suite
        self._baselines = baselines
        self._verbose = flags.verbose
        self._format = flags.format
        self._output = output
        self._table = VerdictTable(paint=ansi if output.takes_colours else unpainted)
        self._files = SuiteDirectory(suite, flags.journal_dir)
        self._progress = SuiteProgress(sys.stderr, hidden=flags.verbose or flags.quiet)
        self._children = Children()

    @property
    def directory(self) -> Path:
        """The directory of the journals."""
        return self._files.path

    def run(self) -> SuiteVerdict:
        """Runs the suite to its end, or until it is interrupted, and returns the verdict."""
        began_s = time.monotonic()
        started_at = time_text()
        table = self._format == "table"
        if table:
            self._print(self._table.begin(self._suite))
        commands = []
        for command in self._suite.commands:
            commands.append(self._command(command))
            if table:
                self._print(self._table.add(printable(commands[-1])))
        verdict = SuiteVerdict(
            suite=self._suite.name,
            title=self._suite.title,
            hostname=platform.node(),
            started_at=started_at,
            duration_s=time.monotonic() - began_s,
            interrupted=self._children.interrupted,
            exit_code=suite_exit_code(commands, interrupted=self._children.interrupted),
            commands=commands,
        )
        if table:
            self._print(self._table.end(printable(verdict)))
        elif self._format == "json":
            self._output.write(encode(verdict) + "\n")
        else:
            self._output.write(verdict_markdown(printable(verdict)))
        return verdict

    def _print(self, text: str) -> None:
        self._output.write(folded(text, self._output.columns))

    def _command(self, command: SuiteCommand) -> CommandVerdict:
        began_s = time.monotonic()
        attempts: list[CommandRun] = []
        journals: list[str] = []
        try:
            for run in range(command.repeats):
                if self._children.interrupted:
                    break
                attempts.append(self._attempt(command, run))
                if attempts[-1].journal is not None:
                    journals.append(str(self._files.files_of(command, run)[0]))
                # Invalid options and missing devices do not change with another attempt.
                if attempts[-1].exit_code in (EXIT_USAGE, EXIT_MISSING):
                    break
        finally:
            self._progress.clear()
        return CommandVerdict(
            name=command.name,
            arguments=list(command.arguments),
            tags=list(command.tags),
            runs=len(attempts),
            duration_s=time.monotonic() - began_s,
            journals=journals,
            verdicts=judge(command, attempts, self._baselines.get(command.name)),
            findings=[*_findings(attempts)],
        )

    def _attempt(self, command: SuiteCommand, run: int) -> CommandRun:
        journal_path, printed, said = self._files.files_of(command, run)
        number = self._suite.commands.index(command) + 1
        words = f"{number} of {len(self._suite.commands)}  {command.name}"
        if command.repeats > 1:
            words += f", run {run + 1} of {command.repeats}"
        self._progress.begin(words, journal_path)
        try:
            ended = self._children.run(
                [*command.arguments, "--journal", str(journal_path)],
                printed=None if self._verbose else printed,
                said=said,
                timeout_s=command.timeout_s,
                watch=self._progress.show,
                step=self._suite.step_of(command, run),
            )
        except CclmarkError as error:
            # The verdicts so far are still reported.
            return CommandRun(error.exit_code, None, str(error))
        if self._verbose:
            print(ended.said, end="", file=sys.stderr)
        journal = _journal(journal_path)
        return CommandRun(
            exit_code=ended.exit_code,
            journal=journal,
            message=_message(ended, journal),
            interrupted=self._children.interrupted,
            timed_out=ended.timed_out,
        )


def _findings(attempts: Sequence[CommandRun]) -> Iterator[RunFinding]:
    for run, attempt in enumerate(attempts, start=1):
        if attempt.journal is None:
            continue
        for one in insights(NamedRun(f"run {run}", attempt.journal)):
            if one.severity not in ("good", "note"):
                yield RunFinding(run, one.id, one.severity, one.sentence, one.advice)


def _journal(path: Path) -> Journal | None:
    """Reads the journal of a run; None if it was not created or has no header."""
    if not path.exists():
        return None
    try:
        return read_journal(path)
    except UsageError:
        return None  # ended before its first line was whole


def _message(ended: Ended, journal: Journal | None) -> str:
    """Returns the run's own message about its end; empty if there is none."""
    if journal is not None and journal.footer is not None and journal.footer.message:
        return journal.footer.message.splitlines()[0]
    lines = [line.strip() for line in ended.said.splitlines()]
    told = [line for line in lines if line and not line.startswith("cclmark: journal ")]
    # The last message, which may have several lines: messages before it are remarks.
    begins = [number for number, line in enumerate(told) if line.startswith(_PREFIXES)]
    words = " ".join(told[begins[-1] :] if begins else told[-1:])
    for prefix in _PREFIXES:
        words = words.removeprefix(prefix)
    return words.replace("--journal FILE", "--journal-dir DIR")  # the suite's counterpart
