"""``cclmark profile``: what a program communicates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import (
    METHOD,
    Excludes,
    OptionRules,
    Requires,
    argument,
    changed,
    flag,
    option,
)
from cclmark.options.groups import ColumnOptions, FileOptions, FormatOptions
from cclmark.options.types import PATH, WholeNumber

_USUAL_CALLS = 1 << 17
_MOST_CALLS = 1 << 26
_EARLIER = "it reads the logs of an earlier run"


@dataclass
class ProfileFlags:
    """The options of ``cclmark profile``."""

    title: ClassVar[str] = METHOD
    usual: ClassVar = ("logs", "read", "calls", "format", "columns", "output", "journal")
    examples: ClassVar = [
        ("cclmark profile -- torchrun --nproc-per-node 8 train.py", "A job of torchrun."),
        ("cclmark profile -- mpirun -n 4 ./program", "A program under an mpirun."),
        (
            "cclmark profile --read /shared/logs --format json -O job.json",
            "The logs of several hosts, which --logs has kept.",
        ),
    ]
    about: ClassVar = (
        "Reports calls, sizes, groups, times, algorithms, and ranks that wait for others.\n\n"
        "cclmark's plug-in counts the operations in every process that the program "
        "starts on this host. Output and signals of the program are its own. Exit codes: the "
        "program's, unless it is 0; then 3 if no operation was recorded or calls are missing, else "
        "0."
    )
    context_settings: ClassVar = {"allow_interspersed_args": False}

    rules: ClassVar[OptionRules] = (
        Excludes("read", "program", _EARLIER),
        Excludes("read", "logs", _EARLIER),
        Excludes("read", "wait", _EARLIER),
        Requires("run", "read", why="it chooses among the runs of the directory"),
    )

    program: tuple[str, ...] = argument("[--] COMMAND...", nargs=-1, type=click.UNPROCESSED)
    logs: Path | None = option(
        "--logs",
        type=PATH,
        metavar="DIR",
        help="Keep the logs of the processes in this directory, which several hosts may share "
        "[a temporary directory].",
    )
    read: Path | None = option(
        "--read",
        type=PATH,
        metavar="DIR",
        help="Read the logs that --logs DIR has kept, of all hosts, and run nothing.",
    )
    wait: bool = flag(
        "--wait",
        help="Wait also for processes that still run after the program has ended, because it "
        "detached from them.",
    )
    run: str = option(
        "--run",
        default="",
        metavar="ID",
        help="Read the logs of this run only: the first characters of its ID. If --read DIR "
        "contains several runs, a message shows them [the only one].",
    )
    calls: int = option(
        "--calls",
        default=_USUAL_CALLS,
        type=WholeNumber(1, _MOST_CALLS),
        help="Calls of each process that are listed one by one, for medians, waiting and steps; "
        f"128 bytes each, all others are counted [{_USUAL_CALLS}].",
    )
    no_kernel_times: bool = flag(
        "--no-kernel-times", help="Counts and algorithms alone: costs less."
    )
    format: str = changed(FormatOptions, "format", help="Format of the result [table].")
    columns: list[str] = changed(ColumnOptions, "columns")
    output: Path | None = changed(
        FileOptions,
        "output",
        metavar="FILE",
        help="File for the result; - is standard output [standard error, after the program's own "
        "output; standard output with --read].",
    )
    journal: Path | None = changed(
        FileOptions, "journal", metavar="FILE", help="Journal [a new file in cclmark-runs/]."
    )
    quiet: bool = changed(FileOptions, "quiet", help="Print no path of the journal.")
    files: ClassVar[tuple[str, ...]] = ()
    dry_run: bool = changed(
        FileOptions,
        "dry_run",
        help="Print the command that would start and the variables it would get; start nothing.",
    )
    print_plan: bool = changed(FileOptions, "print_plan")
