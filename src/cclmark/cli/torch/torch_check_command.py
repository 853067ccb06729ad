"""``cclmark torch check``: does a backend of torch.distributed do what a training program calls?"""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import command
from cclmark.cli.printed_help import SaysHelp
from cclmark.cli.torch.torch_options import TorchFlags


class _Torch(SaysHelp, click.Group):
    """The commands about torch."""


def torch_commands(name: str) -> click.Group:
    """Returns the group with its commands."""
    group = _Torch(
        name,
        help="Check a backend of torch.distributed as a training program uses it.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    group.add_command(
        command(
            "check",
            "Call every operation of a backend and compare the results.",
            TorchFlags,
            _check,
        )
    )
    return group


def _check(flags: TorchFlags) -> None:
    from cclmark.cli.torch.torch_checking import check_torch

    sys.exit(check_torch(flags))
