"""Runs a journal's command again: only its options are used, and parsed like typed ones.

A journal may come from an untrusted source. So a command that does not measure is rejected, code to
load and files to write are not read from the journal, and of its environment only plain settings.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from cclmark.base.errors import EXIT_DIED, MissingError, UsageError
from cclmark.base.printable import plain
from cclmark.base.standard_error import columns_of_lines, folded
from cclmark.base.statistics import median
from cclmark.cli.rerun.command import RerunFlags
from cclmark.comparison.figures import MARGIN, Compared, Side, compare
from cclmark.document.text import counted
from cclmark.history.run_rows import devices_of
from cclmark.history.user_history import noise_of_machines
from cclmark.journal.machine import kept_environment
from cclmark.journal.schema import Header
from cclmark.journal.secrets import HIDDEN
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.launch.placement import find_placement, is_primary
from cclmark.recording.caller import notice
from cclmark.recording.joining import devices_here
from cclmark.recording.output import refuse_to_lose
from cclmark.recording.resuming import Repetition
from cclmark.work.binding import NONE, NUMA, RANKS, mode_of
from cclmark.work.cases import Case, rows_pattern
from cclmark.work.transfers import Transfer

_MOST_LINES = 40


def repeat_lines(compared: Sequence[Compared], name: str, *, numbers: bool = False) -> list[str]:
    """Returns the ratios of times to those in the journal ``name``, and a summary.

    ``numbers``: the ratios of all cases; without it, of those that differ.
    """
    found = [(one, one.ratio) for one in compared if one.ratio is not None]
    if not found:
        first = f"  nothing that was measured now can be compared with {name}"
        return [first, *_why_not(compared)]
    verdicts = Counter(one.verdict for one, _ in found)
    decided = [ratio for one, ratio in found if one.judged and one.verdict != "inconclusive"]
    shown = found if numbers else [it for it in found if it[0].differs][:_MOST_LINES]
    several = len({one.thing.ccl for one, _ in found}) > 1
    labels = [_label(one.thing, several=several) for one, _ in shown]
    width = max(map(len, labels), default=0)
    lines = [f"  time now over time in {name}:"] if shown else []
    lines += [
        f"    {label:<{width}}  {ratio:7.3f}  {one.verdict}".rstrip()
        for label, (one, ratio) in zip(labels, shown, strict=True)
    ]
    text = f"  {len(found)} in both"
    if decided:
        text += f", median ratio of those with a verdict {median(decided):.3f}"
    text += f"; {verdicts['slower']} slower and {verdicts['faster']} faster beyond noise"
    if verdicts["no difference"]:
        text += f", {verdicts['no difference']} without a difference"
    if verdicts["inconclusive"]:
        text += f", {verdicts['inconclusive']} inconclusive at {MARGIN:.0%}"
    reasons = Counter(plain(one.reason) for one, _ in found if not one.judged)
    unknown = [f", {count} not judged: {reason}" for reason, count in reasons.items()]
    return [*lines, text + "".join(unknown)]


def _why_not(compared: Sequence[Compared]) -> list[str]:
    reasons = Counter(plain(one.reason) for one in compared if one.reason)
    only = {
        "not measured after": "only in the old run",
        "not measured before": "only in the new run",
    }
    return [
        f"    {counted(count, 'case')} {only[reason]}"
        if reason in only
        else f"    {counted(count, 'case')}: {reason}"
        for reason, count in reasons.items()
    ]


def _label(thing: Case | Transfer, *, several: bool) -> str:
    """Describes a case. ``several``: include the library."""
    return f"{thing.describe()}, {thing.ccl}" if several else thing.describe()


_PLACES = ("journal", "output", "resume")  # files to write, and the journal to resume
_CODE = ("ccl_path", "ccl_files", "modules")
_DEVICES = ("devices", "count", "npus")  # options that select the devices to measure
_SETTING = re.compile(r"[\w.,:;^=+@ -]*", re.ASCII)
# Words of variables that name files, programs or modules to load.
_NAMING = {
    *("LIBRARY", "LIBRARIES", "LIB", "PLUGIN", "PLUGINS", "MODULE", "MODULES", "PRELOAD", "LOAD"),
    *("PATH", "PATHS", "FILE", "FILES", "FILENAME", "DIR", "HOME", "ROOT", "CONF", "CONFIG"),
    *("PREFIX", "DEST", "DUMP", "OUTPUT"),
    *("MPIRUN", "AGENT", "EXEC", "LAUNCHER", "COMMAND", "SCRIPT", "SHELL", "COMPONENT"),
}


def rerun(flags: RerunFlags) -> int:
    """Runs the command of a journal, with ``options`` instead of its options.

    Returns the exit code. Raises UsageError for a journal without such a command and, unless
    ``on_this_host`` or ``options`` select others, MissingError if its devices are not present.
    """
    path, options = flags.journal, [*flags.options]
    options += ["--quiet"] * flags.quiet + ["--dry-run"] * flags.dry_run
    then = read_journal(path, as_written=True)
    names, command, words = _command_of(then.header, path)
    given = _given(command, words)
    replaced = _given(command, options)
    if "output" in replaced:
        refuse_to_lose(Path(replaced["output"]), [path])
    _refuse_code(command, given, replaced, path)
    if not flags.on_this_host and not replaced.keys() & {*_DEVICES, "ccl"}:
        _require_devices(then.header, path)
    if "pattern" not in replaced:
        _keep_pattern(given, then.header, path)
    if "bind" not in replaced:
        _keep_binding(given, then.header, path)
    given = {name: value for name, value in given.items() if name not in _PLACES} | replaced
    arguments = _spelt(command, given)
    repetition = Repetition(then.header, path, [sys.argv[0], *names, *arguments])
    typed = f", typed in {then.header.directory}" if then.header.directory else ""
    if not flags.quiet:
        _say(
            f"again, as on {then.header.started_at}{typed}: cclmark "
            f"{shlex.join([*names, *arguments])}"
        )
    if then.header.launcher and find_placement(os.environ) is None:
        _say(_alone(then.header, path))
    if not flags.keep_environment:
        repetition.notices = _set_variables(then.header.environment)
    context = click.get_current_context()
    try:
        with command.make_context(names[-1], arguments, parent=context, obj=repetition) as inner:
            command.invoke(inner)
            code = 0
    except click.UsageError as error:  # click would print the journal's text unfiltered
        raise UsageError(error.format_message()) from None
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else EXIT_DIED
    if repetition.journal is not None and repetition.journal.exists():
        on_screen = given.get("format", "table") == "table" and "output" not in given
        _compare(repetition, sys.stdout if on_screen else sys.stderr, numbers=flags.numbers)
    return code


def _alone(header: Header, path: Path) -> str:
    """Describes how to repeat a launcher's run, for a user who has started this one without."""
    number = header.launched
    processes = f"{number} processes" if number else "the same number of processes"
    return (
        f"{header.launcher} started the original run, but not this one: start cclmark rerun "
        f"{shlex.quote(str(path))} under {header.launcher} with {processes}"
    )


def _require_devices(header: Header, path: Path) -> None:
    """Raises MissingError if this host lacks the accelerators of the journal's run.

    Otherwise the host would be measured, and the two runs would have no case in common.
    """
    alone = find_placement(os.environ) is None and len(header.hosts) <= 1
    for runtime in dict.fromkeys(device.runtime for device in header.devices):
        if runtime in ("", "host"):
            continue
        needed = sum(device.runtime == runtime for device in header.devices) if alone else 1
        reason = ""
        try:
            present = devices_here(runtime)
        except MissingError as error:
            present, reason = 0, f" ({str(error).splitlines()[0].rstrip('.')})"
        if present < needed:
            libraries = ", ".join(f"{one.name} {one.version}".rstrip() for one in header.libraries)
            raise MissingError(
                f"{path} was measured on {devices_of(header)} with {libraries}, but this host has "
                f"{counted(present, f'{runtime} device')}{reason}. To measure the devices of this "
                f"host without a comparison, use cclmark rerun --elsewhere {shlex.quote(str(path))}"
            )


def _say(text: str) -> None:
    if not is_primary(os.environ):
        return
    notice(plain(text))


def _command_of(header: Header, path: Path) -> tuple[list[str], click.Command, list[str]]:
    """Returns the names of the journal's command, the command, and the words after them."""
    words = header.command[1:]
    names: list[str] = []
    context = click.get_current_context().find_root()
    command: click.Command | None = context.command
    while isinstance(command, click.Group) and words:
        name, *words = words
        names.append(name)
        command = command.get_command(context, name)
    known = {parameter.name for parameter in command.params} if command is not None else set()
    if "program" in known:
        raise UsageError(
            f"{path} is the profile of a program, and no program is read from a journal: type its "
            "command again"
        )
    if command is None or "journal" not in known or "options" in known:
        raise UsageError(
            f"the command of {path} is not a measuring command: {' '.join(names)[:60]!r}"
        )
    return names, command, words


def _given(command: click.Command, words: Sequence[str]) -> dict[str, Any]:
    """Parses ``words``, as text by parameter name. Raises UsageError."""
    context = click.Context(command, info_name=command.name)
    try:
        values, rest, _ = command.make_parser(context).parse_args(list(words))
    except click.UsageError as error:
        raise UsageError(error.format_message()) from None
    if rest:
        raise UsageError(f"{rest[0]!r} is not an option of {command.name}")
    arguments = {one.name for one in command.params if isinstance(one, click.Argument)}
    # The parser has a value for each argument, also for one that was not typed.
    return {
        name: value
        for name, value in values.items()
        if name not in arguments or isinstance(value, str)
    }


def _spelt(command: click.Command, given: Mapping[str, Any]) -> list[str]:
    """Returns the command line with these arguments and options."""
    words = []
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or parameter.name not in given:
            continue
        value = given[parameter.name]
        option = max(parameter.opts, key=len)
        if parameter.is_flag:
            words.append(option)
            continue
        for one in value if isinstance(value, list) else [value]:
            # For an option with an optional value, click uses a sentinel.
            text = one if isinstance(one, str) else str(parameter.flag_value)
            words += [f"{option}={text}"] if option.startswith("--") else [option, text]
    arguments = [
        given[one.name]
        for one in command.params
        if isinstance(one, click.Argument) and one.name in given
    ]
    # A journal's argument must not become an option, which could load code.
    return [*words, *(["--"] if any(one.startswith("-") for one in arguments) else []), *arguments]


def _refuse_code(
    command: click.Command, given: Mapping[str, Any], replaced: Mapping[str, Any], path: Path
) -> None:
    """Raises UsageError if the journal names code to load that the user has not named too."""
    named = {name: given[name] for name in _CODE if name in given and name not in replaced}
    if named:
        options = shlex.join(_spelt(command, named))
        raise UsageError(
            f"the command of {path} loads code: {plain(options)}. If you trust this code, use "
            f"cclmark rerun {shlex.quote(str(path))} -- {plain(options)}"
        )


def _keep_pattern(given: dict[str, Any], header: Header, path: Path) -> None:
    """Replaces a matrix file by the weights that the journal's run read from it.

    The file may have changed or be missing, and a foreign journal must not select files to read.
    Raises UsageError for a journal without the weights.
    """
    if not str(given.get("pattern", "")).startswith("matrix:"):
        return
    weights = header.settings.weights
    if not weights:
        raise UsageError(
            f"{path} refers to a matrix file for alltoallv but does not contain its weights: give "
            f"the file again with cclmark rerun {shlex.quote(str(path))} -- --pattern matrix:FILE"
        )
    given["pattern"] = rows_pattern(weights)


def _keep_binding(given: dict[str, Any], header: Header, path: Path) -> None:
    """Restores the processors of the ranks from the journal, for the same reason.

    Raises UsageError for a journal that names a file instead.
    """
    if not given.get("bind"):
        return
    bind = header.settings.bind
    if mode_of(bind) not in (NONE, NUMA, RANKS):
        raise UsageError(
            f"{path} refers to a file for --bind but does not contain its processors: give the "
            f"file again with cclmark rerun {shlex.quote(str(path))} -- --bind FILE"
        )
    given["bind"] = bind


def _set_variables(there: Mapping[str, str]) -> list[str]:
    """Sets variables that were set then and are not now; returns notices on both kinds."""
    said = []
    kept = kept_environment(there)
    for name in [name for name in kept if name not in os.environ]:
        value = kept[name]
        words = {*name.upper().split("_")}
        if HIDDEN in value:
            said.append(f"{name} is not set: the journal does not contain its value")
        elif not _SETTING.fullmatch(value) or words & _NAMING:
            said.append(
                f"{name} is not set: names of files and modules are not taken from a journal"
            )
        else:
            os.environ[name] = value
            said.append(f"{name}={value} is set, as in the journal")
    return said


def _models(header: Header) -> set[tuple[str, str]]:
    return {(device.runtime, device.name) for device in header.devices}


def _compare(repetition: Repetition, stream: Any, *, numbers: bool) -> None:
    assert repetition.journal is not None
    then, now = read_journal(repetition.path), read_journal(repetition.journal)
    if not now.results or not report_kind(now.kind).has_times:
        return
    there, here = devices_of(then.header), devices_of(now.header)
    if _models(then.header) != _models(now.header):
        print(
            f"  nothing is compared: {plain(str(repetition.path))} was measured on {there}, "
            f"this run on {here}",
            file=stream,
        )
        return
    own_noise = noise_of_machines(lambda text: print(f"  {plain(text)}", file=stream))
    found = compare(
        Side("then", [then], own_noise=own_noise), Side("now", [now], own_noise=own_noise)
    )
    width = columns_of_lines(is_terminal=stream.isatty())
    path = plain(str(repetition.path))
    sides = shlex.join(map(str, (repetition.path, repetition.journal)))
    more = f"  next       cclmark compare {plain(sides)}  (every case, with intervals)"
    for line in ("", *repeat_lines(found, path, numbers=numbers), more):
        print(folded(line, width), file=stream)
