"""``cclmark torch``: a backend of torch.distributed as a training program uses it."""

from __future__ import annotations

import click

from cclmark.kinds.check.command import check_command
from cclmark.kinds.objects.command import objects_command
from cclmark.options.printed_help import SaysHelp


class _Torch(SaysHelp, click.Group):
    """The commands about torch."""


def torch_commands(name: str) -> click.Group:
    """Returns the group with its commands."""
    group = _Torch(
        name,
        help="Check and measure a backend of torch.distributed as a training program uses it.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    group.add_command(check_command())
    group.add_command(objects_command())
    return group
