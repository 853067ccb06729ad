"""``cclmark torch``: a backend of torch.distributed as a training program uses it."""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import command
from cclmark.cli.printed_help import SaysHelp
from cclmark.cli.torch.object_options import ObjectFlags
from cclmark.cli.torch.torch_options import TorchFlags


class _Torch(SaysHelp, click.Group):
    """The commands about torch."""


def torch_commands(name: str) -> click.Group:
    """Returns the group with its commands."""
    group = _Torch(
        name,
        help="Check and measure a backend of torch.distributed as a training program uses it.",
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
    group.add_command(
        command(
            "objects",
            "Time Python objects through a backend, and the same data as tensors.",
            ObjectFlags,
            _measure_objects,
        )
    )
    return group


def _check(flags: TorchFlags) -> None:
    from cclmark.cli.torch.torch_checking import check_torch

    sys.exit(check_torch(flags))


def _measure_objects(flags: ObjectFlags) -> None:
    from cclmark.cli.torch.object_measuring import measure_objects

    sys.exit(measure_objects(flags))
