"""The entry point: a table of contents of the commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cclmark import __version__
from cclmark.cli import collective, info
from cclmark.errors import EXIT_INTERRUPTED, CclmarkError
from cclmark.plan.operations import OPERATIONS

app = typer.Typer(
    name="cclmark",
    help="Measure, verify and explain the communication between accelerators.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for _operation in OPERATIONS:
    app.command(
        _operation, help=collective.summary_of(_operation), rich_help_panel="Collectives"
    )(collective.command_for(_operation))
app.command(
    "collectives",
    help="All of them in one launch: communicators and buffers are made once.",
    rich_help_panel="Collectives",
)(collective.collectives_command())
app.command("info", help="Devices, links and libraries, and why others are missing.")(info.info)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cclmark {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line; every failure ends in one message and its exit code."""
    try:
        app()
    except CclmarkError as error:
        print(f"cclmark: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("cclmark: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone: nothing more to say, and nobody to say it to.
        sys.stderr.close()
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
