"""``cclmark completion``: completes command lines in a shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.options.command import argument
from cclmark.recording.standard_output import say

_SHELLS = ("bash", "zsh", "fish")


@dataclass
class CompletionFlags:
    """The argument of ``cclmark completion``."""

    examples: ClassVar = [
        ('eval "$(cclmark completion bash)"', "In ~/.bashrc."),
        ('eval "$(cclmark completion zsh)"', "In ~/.zshrc."),
        ("cclmark completion fish > ~/.config/fish/completions/cclmark.fish", "Of fish."),
    ]
    about: ClassVar = "Tab completes commands, options, and the names of operations and formats."

    shell: str = argument(f"[{'|'.join(_SHELLS)}]", required=True, type=click.Choice(_SHELLS))


def print_script(flags: CompletionFlags) -> None:
    """Prints the script."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(flags.shell)
    assert complete is not None
    say(complete(click.Group(), {}, "cclmark", "_CCLMARK_COMPLETE").source())
