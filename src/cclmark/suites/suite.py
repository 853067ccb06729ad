"""Acceptance suites: commands to run and thresholds for their figures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain_lines, printable
from cclmark.work.operations import COLLECTIVES
from cclmark.work.sizes import parse_duration
from cclmark.work.thresholds import (
    Threshold,
    Words,
    WrittenThreshold,
    in_key,
    meant,
    parse_threshold,
)

ACCELERATORS = "accelerators"  # of any vendor
_MOST_REPEATS = 1000
_USUAL_TIMEOUT_S = 3600.0
_KINDS = {
    **dict.fromkeys((*COLLECTIVES, "collectives"), "collective"),
    **dict.fromkeys(("p2p", "p2pBandwidthLatencyTest"), "p2p"),
    "pairs": "pairs",
    "torch": "torch",
}
# Patterns of msgspec's messages, for example the place ``$.command[0].threshold[1]``.
_UNKNOWN = re.compile(r"unknown field `(.+?)`")
_PLACE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.?(\w+)(?:\[(\d+)\])?")


class _WrittenCommand(msgspec.Struct, forbid_unknown_fields=True):
    """A ``[[command]]`` table as the file contains it."""

    run: Words
    name: str = ""
    tags: list[str] = []
    repeats: int = 1
    timeout: str | None = None
    optional: bool = False
    baseline: str | None = None
    threshold: list[WrittenThreshold] = []


class _WrittenSuite(msgspec.Struct, forbid_unknown_fields=True):
    """A suite as the file contains it."""

    command: list[_WrittenCommand]
    title: str = ""
    description: str = ""
    needs: str = ""


@dataclass(frozen=True)
class SuiteCommand:
    """One command of a suite, to be run ``repeats`` times.

    ``arguments``: the command line of cclmark, without the program name. ``kind``: collective,
    pairs, p2p or torch. ``optional``: the command does not fail on a machine that lacks its
    requirements.
    """

    name: str
    arguments: tuple[str, ...]
    kind: str
    tags: tuple[str, ...] = ()
    repeats: int = 1
    timeout_s: float = _USUAL_TIMEOUT_S
    optional: bool = False
    baseline: Path | None = None
    thresholds: tuple[Threshold, ...] = ()


@dataclass(frozen=True)
class Suite:
    """A suite from a file. ``needs``: the devices that the suite requires, empty for none."""

    name: str
    title: str
    description: str
    commands: tuple[SuiteCommand, ...]
    needs: str = ""

    def step_of(self, command: SuiteCommand, run: int) -> int:
        """The number (from 1) of run ``run`` (from 0) of ``command`` among all runs of the suite.

        It is independent of earlier results, so processes with different results stay in step.
        """
        before = self.commands[: self.commands.index(command)]
        return sum(other.repeats for other in before) + run + 1


def parse_suite(content: bytes, file: str, directory: Path) -> Suite:
    """Parses ``file``; baselines are relative to ``directory``. Raises UsageError."""
    try:
        written = msgspec.toml.decode(content, type=_WrittenSuite)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file}: {_explained(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None
    if not written.command:
        raise UsageError(f"{file}: the suite has no [[command]]")
    commands: list[SuiteCommand] = []
    for number, entry in enumerate(written.command, start=1):
        place = f"command {number}" + (f" ({entry.name!r})" if entry.name else "")
        try:
            command = _command(entry, directory)
        except UsageError as error:
            raise UsageError(f"{file}: {place}: {error}") from None
        if command.name in [other.name for other in commands]:
            raise UsageError(
                f"{file}: {place}: another command has the name {command.name!r}: give each "
                "command a unique name"
            )
        commands.append(command)
    title, needs = printable((written.title, written.needs))
    return Suite(Path(file).stem, title, plain_lines(written.description), tuple(commands), needs)


def chosen_commands(suite: Suite, names: Sequence[str], tags: Sequence[str]) -> Suite:
    """The suite reduced to commands with one of ``names`` and one of ``tags``; empty selects all.

    Raises UsageError for an unknown name or tag, and if no command is left.
    """
    for name in names:
        _require_known("--only", name, [command.name for command in suite.commands])
    for tag in tags:
        known = [known for command in suite.commands for known in command.tags]
        _require_known("--tag", tag, list(dict.fromkeys(known)))
    chosen = [
        command
        for command in suite.commands
        if (not names or command.name in names) and (not tags or set(tags) & set(command.tags))
    ]
    if not chosen:
        raise UsageError("no command of the suite matches both --only and --tag")
    return replace(suite, commands=tuple(chosen))


def with_baselines(suite: Suite, baselines: Mapping[str, Path]) -> Suite:
    """The suite with ``baselines``, by command name, instead of the baselines in its file.

    Raises UsageError for an unknown name, for a threshold without its baseline and for a baseline
    that no threshold uses.
    """
    for name in baselines:
        _require_known("--baseline", name, [command.name for command in suite.commands])
    commands = [
        replace(command, baseline=baselines.get(command.name, command.baseline))
        for command in suite.commands
    ]
    for command in commands:
        wanted = [one for one in command.thresholds if one.bound.of == "baseline"]
        if wanted and command.baseline is None:
            raise UsageError(
                f"{command.name!r} has no baseline for {wanted[0].describe()!r}: use --baseline "
                f"'{command.name}=JOURNAL' or set baseline = \"JOURNAL\" in the suite"
            )
        if command.baseline is not None and not wanted:
            raise UsageError(
                f"no threshold of {command.name!r} uses its baseline: add one, for example "
                'busbw_at_least = "0.95 of baseline"'
            )
    return replace(suite, commands=tuple(commands))


def _require_known(flag: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        there_are = f" Choose from {', '.join(map(repr, known))}." if known else ""
        raise UsageError(f"{flag}: the suite has no {name!r}{meant(name, known)}{there_are}")


def _command(written: _WrittenCommand, directory: Path) -> SuiteCommand:
    arguments = in_key("run", _arguments, written.run)
    kind = in_key("run", _kind, arguments)
    if not 1 <= written.repeats <= _MOST_REPEATS:
        raise UsageError(f"repeats must be from 1 to {_MOST_REPEATS}, not {written.repeats}")
    name = written.name or " ".join(arguments[: 2 if kind == "torch" else 1])
    if not name.isprintable() or name != name.strip():
        raise UsageError("name must be printable and must not begin or end with a space")
    thresholds: list[Threshold] = []
    for number, entry in enumerate(written.threshold, start=1):
        thresholds += in_key(
            f"threshold {number}", partial(parse_threshold, kind=kind, command=arguments[0]), entry
        )
    timeout_s = _USUAL_TIMEOUT_S
    if written.timeout is not None:
        timeout_s = in_key("timeout", parse_duration, written.timeout)
    return SuiteCommand(
        name=name,
        arguments=arguments,
        kind=kind,
        tags=tuple(written.tags),
        repeats=written.repeats,
        timeout_s=timeout_s,
        optional=written.optional,
        baseline=None if written.baseline is None else directory / written.baseline,
        thresholds=tuple(thresholds),
    )


def _arguments(run: Words) -> tuple[str, ...]:
    """The words of a command line without the program name. Raises UsageError."""
    try:
        words = shlex.split(run) if isinstance(run, str) else run
    except ValueError as error:
        raise UsageError(f"cannot read {run!r}: {error}") from None
    if words[:1] == ["cclmark"]:
        words = words[1:]
    for word in words:
        if not word.isprintable():
            raise UsageError(f"a command line cannot contain {word!r}")
        if word.partition("=")[0] in ("--journal", "--output") or word.startswith("-O"):
            raise UsageError(
                f"{word}: --journal-dir sets the directory of the results: remove this option"
            )
        if word.partition("=")[0] == "--resume":
            raise UsageError(
                "--resume is not supported in a suite, which judges only its own measurements: "
                "remove it"
            )
    return tuple(words)


def _kind(arguments: Sequence[str]) -> str:
    name = arguments[0] if arguments else ""
    if name not in _KINDS:
        raise UsageError(
            f"{name!r} is not a measuring command{meant(name, _KINDS)} Choose from "
            f"{', '.join(_KINDS)}."
        )
    if name == "torch" and list(arguments[1:2]) != ["check"]:
        raise UsageError("the only command of torch is torch check")
    return _KINDS[name]


def _explained(text: str) -> str:
    """A validation error of msgspec in terms of suites: the place, the key and a suggestion."""
    place, of = [], "suite"
    where = _PLACE.search(text)
    for name, number in _STEP.findall(where[1] if where else ""):
        place.append(f"{name} {int(number) + 1}" if number else name)
        of = name if number else of
    what = text[: where.start()] if where else text
    unknown = _UNKNOWN.search(what)
    if unknown is not None:
        written = {"command": _WrittenCommand, "threshold": WrittenThreshold}
        known = written.get(of, _WrittenSuite).__struct_fields__
        what = (
            f"unknown key {unknown[1]!r}{meant(unknown[1], known)} Known keys: {', '.join(known)}."
        )
    what = what.replace("Object missing required field", "missing key")
    what = what.replace("`str | array | null`", "`str` or a list").replace(" | null", "")
    return ": ".join([", ".join(place), what] if place else [what])
