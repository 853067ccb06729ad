"""``cclmark doctor``: what costs communication on hosts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import (
    INPUT,
    METHOD,
    SELECTION,
    Excludes,
    OptionRules,
    Requires,
    argument,
    changed,
    flag,
    option,
)
from cclmark.options.groups import ColumnOptions, FileOptions, FormatOptions, TimeoutOptions
from cclmark.options.types import DURATION, PATH, Names

#: The longest time of a prolog.
PROLOG_S = 5.0


@dataclass
class DoctorFlags:
    """The options of ``cclmark doctor``."""

    title: ClassVar[str] = METHOD
    examples: ClassVar = [
        ("cclmark doctor", "This host."),
        ("cclmark doctor --watch 60s --only rdma,pcie", "Counters of a minute, of some checks."),
        ("cclmark doctor --record host.json.gz", "Also write what was read, without names."),
        ("cclmark doctor --from host-a.json.gz host-b.json.gz", "Recorded hosts, anywhere."),
    ]
    about: ClassVar = (
        "Checks read settings, links, limits, counters and logs, without root as far as possible. "
        "Each passes, fails, cannot tell (with what would tell), or is not applicable; a failed "
        "one has what was seen, the limit with its source, what it costs, and how to fix it. The "
        "exit code is 1 if a check failed, or if hosts differ in what costs communication: GPUs, "
        "drivers, NCCL, RDMA, MTU, PFC, variables of libraries. FILE: recorded hosts, after --from."
    )
    usual: ClassVar = (
        *("only", "skip", "watch_s", "prolog", "measure", "record", "recorded", "format", "output"),
        "journal",
    )
    rules: ClassVar[OptionRules] = (
        Requires("columns", "format", ("table", "csv", "markdown")),
        Requires("more", "recorded", why="they are recorded hosts"),
        Excludes("recorded", "record", "they are recorded already"),
        Excludes("recorded", "measure", "recorded hosts cannot be measured"),
        Excludes("recorded", "watch_s", "their counters were read when they were recorded"),
        Excludes("prolog", "measure", f"a prolog has {PROLOG_S:.0f} s"),
        Excludes("prolog", "watch_s", f"a prolog has {PROLOG_S:.0f} s"),
        Excludes("prolog", "format", "a prolog prints a line"),
    )
    files: ClassVar[tuple[str, ...]] = ("record",)

    more: tuple[Path, ...] = argument("FILE...", nargs=-1, type=PATH)
    only: list[str] = option(
        "--only",
        default=[],
        title=SELECTION,
        type=Names(),
        metavar="CHECKS",
        help="These checks alone, separated by commas; the beginning of names selects all of them. "
        "A wrong name lists all.",
    )
    skip: list[str] = option(
        "--skip",
        default=[],
        title=SELECTION,
        type=Names(),
        metavar="CHECKS",
        help="All checks but these.",
    )
    recorded: list[Path] = option(
        "--from",
        multiple=True,
        title=INPUT,
        type=PATH,
        metavar="FILE",
        help="Judge recorded hosts in place of this one; further files may follow.",
    )
    record: Path | None = option(
        "--record",
        title=METHOD,
        type=PATH,
        metavar="FILE",
        help="Also write what was read to this file; names, serial numbers and addresses are "
        "replaced.",
    )
    watch_s: float = option(
        "--watch",
        default=0.0,
        title=METHOD,
        type=DURATION,
        help="Time between readings of counters: 60s, 10m [1s].",
    )
    prolog: bool = flag(
        "--prolog",
        title=METHOD,
        help="For schedulers: at most 5 s, one line, the exit code; no journal but with --journal.",
    )
    measure: bool = flag(
        "--measure",
        title=METHOD,
        help="Run short tests: copies between devices in both directions at once, and an "
        "all-reduce with and without variables that a check objects to.",
    )
    timeout_s: float = changed(
        TimeoutOptions, "timeout_s", help=("How long hosts of a launcher wait for each other [60].")
    )
    format: str = changed(
        FormatOptions,
        "format",
        type=click.Choice(["table", "json", "csv", "markdown", "junit", "prometheus"]),
    )
    wide: bool = changed(FormatOptions, "wide")
    columns: list[str] = changed(ColumnOptions, "columns")
    output: Path | None = changed(FileOptions, "output")
    journal: Path | None = changed(FileOptions, "journal")
    quiet: bool = changed(
        FileOptions, "quiet", help="Print results and errors alone: no path of the journal."
    )
    dry_run: bool = changed(
        FileOptions, "dry_run", help="List the checks and how long they take; examine nothing."
    )
    print_plan: bool = changed(FileOptions, "print_plan")
