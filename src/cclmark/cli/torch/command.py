"""``cclmark torch``: a backend of torch.distributed as a training program uses it."""

from __future__ import annotations

import click

from cclmark.kinds.check.command import TorchFlags, check_command
from cclmark.kinds.objects.command import ObjectFlags, objects_command
from cclmark.options.printed_help import SaysHelp


class _Torch(SaysHelp, click.Group):
    """The commands about torch."""


def torch_commands(name: str, summary: str) -> click.Group:
    """Returns the group with its commands."""
    group = _Torch(
        name,
        help=summary,
    )
    group.add_command(check_command(_check))
    group.add_command(objects_command(_measure_objects))
    return group


def _check(flags: TorchFlags) -> int:
    from cclmark.kinds.check.request import check_torch

    return check_torch(flags)


def _measure_objects(flags: ObjectFlags) -> int:
    from cclmark.kinds.objects.request import measure_objects

    return measure_objects(flags)
