"""Commands whose help is printed like any other output, with examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import click

from cclmark.recording.standard_output import say

#: A command line, and what it does.
Example: TypeAlias = tuple[str, str]
#: How every command prints its help.
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class SaysHelp(click.Command):
    """Prints its help like any other output, so that a full disk is reported in one line.

    ``examples``: command lines with what they do, which the help lists at its end.
    """

    def __init__(self, *args: Any, examples: Sequence[Example] = (), **settings: Any) -> None:
        settings["context_settings"] = {**CONTEXT, **(settings.get("context_settings") or {})}
        super().__init__(*args, **settings)
        self.examples = examples

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Returns click's own option with this class's output function."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _say_help
        return option

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples before the epilog."""
        if self.examples:
            with formatter.section("Examples"):
                for line, text in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
                    formatter.indent()
                    formatter.write_text(text)
                    formatter.dedent()
        super().format_epilog(ctx, formatter)


def _say_help(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        say(ctx.get_help())
        ctx.exit()
