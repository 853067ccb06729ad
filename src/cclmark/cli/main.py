"""The entry point: a table of contents of the commands, and the topics of ``cclmark help TOPIC``.

Each topic is one screen; docs/reference/cli.md has them too.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import click

from cclmark.base.errors import (
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_UNREAD,
    CclmarkError,
    Followed,
    RankError,
    UnreadError,
    UsageError,
)
from cclmark.base.grouping import abridged
from cclmark.base.signals import interrupt, note, on_ending_signals
from cclmark.base.standard_error import print_folded, tell
from cclmark.base.streams import prepare_streams
from cclmark.base.version import VERSION
from cclmark.cli.commands import COMMANDS, FORMER, GROUPS, UNLISTED, commands_with, load_command
from cclmark.options.printed_help import SaysHelp
from cclmark.recording.standard_output import say
from cclmark.work.operations import COLLECTIVES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


#: The topics of ``cclmark help TOPIC``, in ``topics/TOPIC.txt``.
TOPICS = (
    "sizes",
    "units",
    "devices",
    "libraries",
    "launchers",
    "formats",
    "environment",
    "exit-codes",
)


def topic_text(name: str) -> str:
    """The text of a topic."""
    from pathlib import Path

    return (Path(__file__).parent / "topics" / f"{name}.txt").read_text(encoding="utf-8").rstrip()


# The kernel's errors when a limit on files, processes, threads or memory is reached.
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_FIRST_WORD_S = 1.0
_MOST_OWNERS = 4  # commands named for an option that another one lacks


class _TableOfContents(SaysHelp, click.Group):
    """Lists the commands in the order of their table, and loads only the one that is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments; ``help COMMAND`` is ``COMMAND --help``, as in git."""
        if args[:1] == ["help"]:
            names = [word for word in args if word != "help" and not word.startswith("-")]
            if names[:1] and names[0] in TOPICS:
                if not ctx.resilient_parsing:
                    say(topic_text(names[0]))
                ctx.exit()
            args = [*names, "--help"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command, None for an unknown name."""
        if cmd_name not in self.commands and cmd_name in COMMANDS:
            self.add_command(load_command(cmd_name))
        return super().get_command(ctx, cmd_name)

    def screen(self, ctx: click.Context) -> str:
        """The list of commands is one screen."""
        return self.get_help(ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the groups of commands with a line for each command, and the topics."""
        formatter.write(f"Usage: cclmark COMMAND [OPTIONS]\n  {self.help}\n\n")
        rows = []
        for title, commands in GROUPS.items():
            others = [name for name in commands if name in COLLECTIVES][1:]
            shown = [name for name in commands if name not in (*others, *UNLISTED)]
            for place, name in enumerate(shown):
                summary = commands[name].summary
                if name in COLLECTIVES:
                    summary = f"Measure one operation; also {', '.join(others)}."
                rows.append((f"{'' if place else title:12}{name}", summary))
        formatter.write_dl(rows)
        formatter.write_dl(self.examples)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; for an unknown one, suggests the most similar name."""
        name = FORMER.get(args[0], args[0])
        if name != args[0] and not ctx.resilient_parsing and _speaks():
            tell(f"{args[0]} is now called {name}")
        args = [name, *args[1:]]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        meant = _meant(name, [*COMMANDS, *TOPICS] if "--help" in args else [*COMMANDS])
        question = f": did you mean {meant}?" if meant else "."
        raise click.UsageError(f"No such command {name!r}{question}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes the names of commands without loading them, and options."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command. On a broken pipe click would exit with 1, which means wrong data.

        An option of other commands is reported with these, not with the most similar option.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if owners := commands_with(error.option_name):
                names = abridged([f"cclmark {one}" for one in owners], _MOST_OWNERS)
                text = f"No such option {error.option_name!r} here: it is an option of {names}"
                raise click.UsageError(text, error.ctx) from None
            raise
        except BrokenPipeError:
            raise UnreadError from None


def _meant(name: str, commands: list[str]) -> str:
    """Returns the command that ``name`` spells, also as the peers' programs do, or empty."""
    import difflib

    bare = {_bare(command): command for command in commands}
    close = difflib.get_close_matches(_bare(name), bare, n=1, cutoff=0.75)
    return bare[close[0]] if close else ""


def _bare(name: str) -> str:
    """Reduces ``all-reduce``, ``AllReduce``, ``all_reduce_perf`` and ``test_…`` to one spelling."""
    words = name.lower().replace("-", "_").split("_")
    return "".join(word for word in words if word not in ("perf", "test")).replace("2", "to")


def _say_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        say(f"cclmark {VERSION}")
        ctx.exit()


@click.group(
    cls=_TableOfContents,
    help="Measure, verify and explain the communication between accelerators.",
    examples=[
        ("Start with", "cclmark all_reduce, and cclmark all_reduce -h for its options."),
        ("Topics", f"cclmark help and one of {', '.join(TOPICS)}."),
    ],
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version and exit.",
)
def app() -> None:
    """Holds the commands."""


def main() -> None:
    """Runs the command line; every failure ends in one message and its exit code."""
    prepare_streams()
    try:
        _run()
    except BrokenPipeError:
        # Standard output broke while an error was handled: only the exit code remains.
        os._exit(EXIT_UNREAD)
    except Exception as error:  # from Python, or from ZeroMQ, which has its own class
        if getattr(error, "errno", None) not in _SHORTAGES:
            raise
        tell(f"{error}: see the limits of this user or container (ulimit -a)")
        sys.exit(EXIT_MISSING)


def _speaks() -> bool:
    """Whether this process is the one that reports an error that all processes detect."""
    from cclmark.launch.placement import is_primary

    return is_primary(os.environ)


def _let_the_first_speak(exit_code: int) -> None:
    """Delays the exit so that the first process can print its message.

    An mpirun ends all processes as soon as one fails, possibly before the reporting process has
    printed the reason.
    """
    on_ending_signals(lambda number, frame: os._exit(exit_code))
    time.sleep(_FIRST_WORD_S)


def _check_arguments() -> None:
    """Raises UsageError for an argument that cannot be sent to a journal or a rank."""
    for text in sys.argv[1:]:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the argument {text!a} is not UTF-8: use another name") from None


def _run() -> None:
    try:
        try:
            on_ending_signals(interrupt)
            _check_arguments()
            app(prog_name="cclmark", standalone_mode=False)
        finally:
            on_ending_signals(note)  # the exit code is final, and the message may be delayed
    except Followed as followed:
        sys.exit(followed.exit_code)
    except click.ClickException as error:
        if _speaks():
            said = io.StringIO()
            error.show(said)
            print_folded(said.getvalue().rstrip("\n"))
        else:
            _let_the_first_speak(error.exit_code)
        sys.exit(error.exit_code)
    except CclmarkError as error:
        # All processes detect an error of the command line, and one reports it.
        if isinstance(error, RankError) or _speaks():
            tell(str(error))
        else:
            _let_the_first_speak(error.exit_code)
        sys.exit(error.exit_code)
    except UnreadError:
        os._exit(EXIT_UNREAD)  # the remaining output has no reader either
    except (KeyboardInterrupt, click.Abort):
        if _speaks():
            tell("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    finally:
        on_ending_signals(signal.SIG_IGN)  # also while the interpreter ends
