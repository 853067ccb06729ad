"""``cclmark torch``: a backend of torch.distributed as a training program uses it."""

from __future__ import annotations

import click

from cclmark.options.click_command import command, imported
from cclmark.options.command import CommandGroup
from cclmark_training.check.command import TorchFlags
from cclmark_training.objects.command import ObjectFlags

_EXAMPLES = [
    ("cclmark torch check --backend nccl", "Every operation of NCCL through torch."),
    ("cclmark torch objects --backend gloo -g 2", "Python objects through gloo."),
    ("cclmark all_reduce --ccl torch:nccl,nccl", "Bandwidths, beside those of the library."),
]
_COMMANDS = (
    (
        "check",
        "Call every operation of a backend and compare the results.",
        TorchFlags,
        "cclmark_training.check.request.check_torch",
    ),
    (
        "objects",
        "Time Python objects through a backend, and the same data as tensors.",
        ObjectFlags,
        "cclmark_training.objects.request.measure_objects",
    ),
)


def torch_commands(name: str, summary: str) -> click.Group:
    """Returns the group with its commands."""
    text = f"{summary}\n\nAs a training program uses it."
    group = CommandGroup(name, help=text, examples=_EXAMPLES)
    for own_name, text, flags_type, run in _COMMANDS:
        group.add_command(command(own_name, text, flags_type, imported(run)))
    return group
