"""Commands whose help is printed like any other output."""

from __future__ import annotations

import click

from cclmark.recording.standard_output import say


class SaysHelp(click.Command):
    """Prints its help like any other output, so that a full disk is reported in one line."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Returns click's own option with this class's output function."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _say_help
        return option


def _say_help(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        say(ctx.get_help())
        ctx.exit()
