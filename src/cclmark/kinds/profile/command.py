"""``cclmark profile``: what a program communicates."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.options.numbers import WholeNumber
from cclmark.options.printed_help import SaysHelp

_USUAL_CALLS = 1 << 17
_MOST_CALLS = 1 << 26


def profile_command(name: str) -> click.Command:
    """Returns the command."""
    return SaysHelp(
        name,
        params=[
            click.Argument(
                ["program"], nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND..."
            ),
            click.Option(
                ["--logs"],
                type=click.Path(path_type=Path),
                metavar="DIR",
                help="Keep the logs of the processes in this directory, which several hosts may "
                "share [a temporary directory].",
            ),
            click.Option(
                ["--read"],
                type=click.Path(path_type=Path),
                metavar="DIR",
                help="Run nothing; read the logs that --logs DIR has kept, of all hosts.",
            ),
            click.Option(
                ["--run"],
                default="",
                metavar="ID",
                help="Read the logs of this run only: the first characters of its ID. If --read "
                "DIR contains several runs, a message shows them [the only one].",
            ),
            click.Option(
                ["--calls"],
                type=WholeNumber(1, _MOST_CALLS),
                default=_USUAL_CALLS,
                metavar="N",
                help="Calls of each process that are listed one by one, for medians, waiting and "
                f"steps, 128 bytes each; all others are counted [{_USUAL_CALLS}].",
            ),
            click.Option(
                ["--no-kernel-times"],
                is_flag=True,
                help="Only counts and algorithms, no times: costs less.",
            ),
            click.Option(
                ["--format"],
                type=click.Choice(["table", "json", "csv", "markdown"]),
                default="table",
                help="Format of the result [table].",
            ),
            click.Option(
                ["-O", "--output"],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="File for the result; - is standard output [standard error, after the "
                "program's own output; standard output with --read].",
            ),
            click.Option(
                ["--journal"],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Journal [a new file in cclmark-runs/].",
            ),
        ],
        callback=_profile,
        help="Run a program that uses NCCL, unmodified, and report its operations: calls, sizes, "
        "groups, times, algorithms, and ranks that wait for others.\n\n"
        "\b\n"
        "cclmark profile -- torchrun --nproc-per-node 8 train.py\n"
        "cclmark profile -- mpirun -n 4 ./program\n\n"
        "cclmark's plug-in counts the operations in every process that the program starts on this "
        "host. Output and signals of the program are its own. Exit codes: the program's, unless it "
        "is 0; then 3 if no operation was recorded or calls are missing, else 0.",
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            "allow_interspersed_args": False,
        },
    )


def _profile(
    program: tuple[str, ...],
    logs: Path | None,
    read: Path | None,
    run: str,
    calls: int,
    no_kernel_times: bool,
    format: str,
    output: Path | None,
    journal: Path | None,
) -> None:
    from cclmark.kinds.profile.request import profile_program

    sys.exit(
        profile_program(
            program, logs, read, run, calls, not no_kernel_times, format, output, journal
        )
    )
