"""Writes the help and the examples of commands in cli.md, and the list in findings.md, anew.

python docs/reference/make.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from cclmark.cli.commands import COMMANDS, load_command
from cclmark.document.finding_rules import FINDINGS
from cclmark.work.operations import COLLECTIVES

PAGE = Path(__file__).parent / "cli.md"
FINDINGS_PAGE = Path(__file__).parent / "findings.md"
_COLUMNS = 78  # of a terminal with 80


def commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """The command, and those within it."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, click.Context(inner, context, name))


def examples() -> str:
    """The examples of all commands; those of the collectives once."""
    names = [name for name in COMMANDS if name not in list(COLLECTIVES)[1:]]
    lines = []
    for name in names:
        top = load_command(name)
        for command, _ in commands(top, click.Context(top, info_name=name)):
            for line, text in getattr(command, "examples", ()):
                lines += [f"# {text}", line]
    return "\n".join(lines) + "\n"


def all_reduce_help() -> str:
    """What ``cclmark all_reduce -h`` prints."""
    command = load_command("all_reduce")
    parent = click.Context(click.Group("cclmark"), info_name="cclmark")
    settings = {**command.context_settings, "terminal_width": _COLUMNS}
    return command.get_help(click.Context(command, parent, "all_reduce", **settings))


def with_findings(page: str) -> str:
    """The page of findings with the current list at its end."""
    before, head, _ = page.partition("| id | what it says |\n|---|---|\n")
    assert head
    return before + head + "".join(f"| `{one}` | {text} |\n" for one, text in FINDINGS.items())


def with_block(page: str, heading: str, language: str, text: str) -> str:
    """The page with another content of the first such block after a heading."""
    before, found, rest = page.partition(f"\n## {heading}\n")
    assert found, heading
    fence = re.compile(rf"```{language}\n.*?```", re.DOTALL)
    return before + found + fence.sub(lambda _: f"```{language}\n{text.rstrip()}\n```", rest, 1)


def main() -> None:
    """Writes the pages."""
    FINDINGS_PAGE.write_text(with_findings(FINDINGS_PAGE.read_text()))
    page = with_block(PAGE.read_text(), "Examples", "sh", examples())
    PAGE.write_text(with_block(page, "`cclmark all_reduce -h`", "text", all_reduce_help()))


if __name__ == "__main__":
    main()
