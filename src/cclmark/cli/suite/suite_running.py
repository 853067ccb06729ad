"""Runs ``cclmark run``: a suite to processes, journals to verdicts, verdicts to the screen."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from cclmark.analysis.threshold_checks import (
    CommandRun,
    CommandVerdict,
    SuiteVerdict,
    judge,
    suite_exit_code,
)
from cclmark.cli.suite.children import Children, Ended
from cclmark.cli.suite.suite_checking import check_sizes, require_devices
from cclmark.cli.suite.suite_files import SuiteDirectory, read_suite, shipped_suites
from cclmark.cli.suite.suite_options import SuiteFlags
from cclmark.cli.suite.suite_progress import SuiteProgress
from cclmark.errors import (
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    EXIT_USAGE,
    CclmarkError,
    UnreadError,
    UsageError,
)
from cclmark.launch.placement import is_primary
from cclmark.plan.suites import Suite, SuiteCommand, chosen_commands, with_baselines
from cclmark.printable import printable
from cclmark.recording.atomic import refuse_to_lose
from cclmark.recording.output import Output
from cclmark.recording.standard_output import say
from cclmark.report.formats.json_format import encode
from cclmark.report.formats.junit import junit_xml
from cclmark.report.lists.suite_lines import describe_suite, describe_suites
from cclmark.document.paint import ansi, unpainted
from cclmark.report.wording.verdicts import VerdictTable, verdict_markdown
from cclmark.results.journal import Journal, read_journal

_PREFIXES = ("cclmark: ", "Error: ")


def run_suite(flags: SuiteFlags) -> int:
    """Runs the suite that the flags name and returns the exit code of its verdicts.

    Raises CclmarkError before anything is run if the suite or the flags are invalid.
    """
    if not flags.suite:
        if not flags.listed:
            raise UsageError(
                "SUITE is missing: use a TOML file or the name of a suite of cclmark: "
                f"{', '.join(shipped_suites())}"
            )
        say(describe_suites(shipped_suites().values()))
        return EXIT_OK
    suite = chosen_commands(read_suite(flags.suite), flags.only, flags.tags)
    if flags.listed:
        say(describe_suite(suite))
        return EXIT_OK
    check_sizes(suite)
    require_devices(suite)
    if not is_primary(os.environ):
        return _follow_suite(suite)
    suite = with_baselines(suite, dict(map(_named_baseline, flags.baselines)))
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
            print(f"cclmark: {gone}\ncclmark: journals {running.directory}", file=sys.stderr)
            return EXIT_INTERRUPTED
        if junit is not None:
            junit.write_whole(junit_xml(printable(verdict)))
        code = verdict.exit_code
        print(f"cclmark: journals {running.directory}", file=sys.stderr)
    for output in filter(None, (printed, junit)):
        if output.failure:
            print(f"cclmark: {output.failure}", file=sys.stderr)
            code = code or EXIT_MISSING
    return code


def _follow_suite(suite: Suite) -> int:
    """Runs the suite in a process that a launcher started and that is not the first.

    Returns EXIT_OK, whatever is measured: the first process decides the verdicts.
    """
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
        self._progress = SuiteProgress(sys.stderr, hidden=flags.verbose)
        self._children = Children()

    @property
    def directory(self) -> Path:
        """The directory of the journals."""
        return self._files.path

    def run(self) -> SuiteVerdict:
        """Runs the suite to its end, or until it is interrupted, and returns the verdict."""
        began_s = time.monotonic()
        started_at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        table = self._format == "table"
        if table:
            self._output.write(self._table.begin(self._suite))
        commands = []
        for command in self._suite.commands:
            commands.append(self._command(command))
            if table:
                self._output.write(self._table.add(printable(commands[-1])))
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
            self._output.write(self._table.end(printable(verdict)))
        elif self._format == "json":
            self._output.write(encode(verdict) + "\n")
        else:
            self._output.write(verdict_markdown(printable(verdict)))
        return verdict

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


def _named_baseline(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UsageError(f"--baseline: cannot read {text!r}: write NAME=JOURNAL")
    return name, Path(path)
