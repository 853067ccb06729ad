"""``cclmark import``: converts results of other tools into journals."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.cli.printed_help import SaysHelp
from cclmark.plan.operations import COLLECTIVES, DTYPE_BYTES, REDUCTIONS, moves_data

_FORMATS = (
    *("auto", "nccl-tests", "nccl-tests-json", "flagcx", "hccl", "ml-engineering"),
    "cclmark-json",
)


def import_command(name: str) -> click.Command:
    """Returns the command."""
    return SaysHelp(
        name,
        params=[
            click.Argument(["files"], nargs=-1, required=True, metavar="FILE..."),
            click.Option(
                ["-o", "--journal", "output"],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="The journal to write; of several files of one tool, with the same devices, "
                "it holds all [one for each in cclmark-runs/].",
            ),
            click.Option(
                ["--format"],
                type=click.Choice(_FORMATS),
                default="auto",
                help="What the files are [auto: found out].",
            ),
            click.Option(
                ["--operation"],
                type=click.Choice([one for one in COLLECTIVES if moves_data(one)]),
                help="What was measured, where the text does not say.",
            ),
            click.Option(
                ["--ranks"],
                type=click.IntRange(1, 1 << 20),
                metavar="N",
                help="How many took part, where the text does not say.",
            ),
            click.Option(
                ["--dtype"],
                type=click.Choice([*DTYPE_BYTES]),
                metavar="NAME",
                help="The element type, where the text does not say.",
            ),
            click.Option(
                ["--reduction"],
                type=click.Choice(REDUCTIONS),
                help="The reduction, where the text does not say.",
            ),
            click.Option(["--device"], metavar="NAME", help="What the devices are called."),
            click.Option(
                ["--hosts"],
                type=click.IntRange(1, 1 << 20),
                metavar="N",
                help="On how many hosts they are, where the text does not say.",
            ),
            click.Option(
                ["--ccl"], metavar="NAME", help="The library that was measured [the tool's own]."
            ),
        ],
        callback=_import,
        help="Read what other tools printed into journals, which are then compared, exported and "
        "kept like any.\n\nFILE: a text of nccl-tests, rccl-tests, hccl_test, FlagCX's perf "
        "programs or all_reduce_bench.py, the JSON of nccl-tests (-J) or of cclmark; - is standard "
        "input.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _import(**options: object) -> None:
    from cclmark.cli.imports.import_files import import_files

    sys.exit(import_files(**options))  # type: ignore[arg-type]
