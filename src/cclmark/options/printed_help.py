"""Commands whose help is printed like any other output, with examples.

``-h`` prints one screen, ``--help`` and ``cclmark help COMMAND`` everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import click

from cclmark.recording.standard_output import say

#: A command line, and what it does.
Example: TypeAlias = tuple[str, str]
#: How every command prints its help.
_WIDTH = 100
CONTEXT: dict[str, Any] = {"help_option_names": ["-h"], "max_content_width": _WIDTH}
_SCREEN_OF_EXAMPLES = 3


class SaysHelp(click.Command):
    """Prints its help like any other output, so that a full disk is reported in one line.

    ``examples``: command lines with what they do.
    """

    def __init__(self, *args: Any, examples: Sequence[Example] = (), **settings: Any) -> None:
        settings["context_settings"] = {**CONTEXT, **(settings.get("context_settings") or {})}
        super().__init__(*args, **settings)
        self.examples = examples
        self._whole = click.Option(
            ["--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_say_help,
            help="Show all options and exit.",
        )

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Returns the name of the option that prints one screen."""
        return ["-h"]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Returns click's own option, which prints one screen."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _say_screen
            option.help = "Show the most important options and exit."
        return option

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, with those that print the help."""
        return [*super().get_params(ctx), self._whole]

    def screen(self, ctx: click.Context) -> str:
        """The help on one screen."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text((self.help or "").partition("\n\n")[0])
        self._format_examples(formatter, self.examples[:_SCREEN_OF_EXAMPLES])
        self.format_screen(ctx, formatter)
        path = ctx.command_path.removeprefix("cclmark ")
        path += " COMMAND" * isinstance(self, click.Group)
        formatter.write(f"\nAll options: cclmark help {path}\n")
        return formatter.getvalue().rstrip("\n")

    def format_screen(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the most important options, or commands."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples before the epilog."""
        self._format_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)

    def _format_examples(self, formatter: click.HelpFormatter, examples: Sequence[Example]) -> None:
        if not examples:
            return
        with formatter.section("Examples"):
            for line, text in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
                formatter.indent()
                formatter.write_text(text)
                formatter.dedent()


def _fold(text: str) -> str:
    """Folds lines that are too long: values at bars, command lines as a shell continues them."""
    lines = []
    for line in text.splitlines():
        rest, indent = line, " " * (6 + len(line) - len(line.lstrip()))
        end, mark = ("|", "") if line.lstrip().startswith("-") else (" --", " \\")
        while len(rest) > _WIDTH and (at := rest.rfind(end, len(indent), _WIDTH - 2)) > 0:
            lines.append(rest[: at + (not mark)] + mark)
            rest = indent + rest[at + 1 :]
        lines.append(rest)
    return "\n".join(lines)


def _say_screen(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        command = ctx.command
        say(_fold(command.screen(ctx) if isinstance(command, SaysHelp) else ctx.get_help()))
        ctx.exit()


def _say_help(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        say(_fold(ctx.get_help()))
        ctx.exit()
