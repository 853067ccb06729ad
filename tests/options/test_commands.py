"""The table of commands, and what the program imports before it does something."""

import json
import re
import sys
from pathlib import Path

import click
import pytest

from cclmark.cli.commands import COMMANDS, GROUPS, load_command
from cclmark.cli.main import app
from commands import completed
from goldens import require_outcomes
from places import REPOSITORY

_WHOLE = 300  # characters of a help text
# None of these is needed to print a help text.
_HEAVY = (
    *("cclmark._engine", "cclmark.journal", "cclmark.launch", "cclmark.rendezvous", "cclmark.rank"),
    *("cclmark.report", "cclmark.document", "cclmark.kinds.registry", "cclmark.suites"),
    *("cclmark.analysis", "cclmark.history", "cclmark.references", "cclmark.comparison"),
    *("zmq", "msgspec", "rich", "jinja2", "sqlalchemy", "pynvml", "tempfile", "ctypes"),
)
_PACKAGES = sorted({entry.package for entry in COMMANDS.values()})
_OF_OPTIONS = ("cclmark.options.command", "cclmark.recording.recorder")
_NOT_FOR_LISTS = (*_HEAVY, *_OF_OPTIONS, *_PACKAGES, "pathlib")


def called(*arguments):
    """Code that runs the program with ``arguments`` and goes on behind it."""
    return f"""
import cclmark.cli.main
try:
    cclmark.cli.main.app({[*arguments]!r}, prog_name="cclmark", standalone_mode=False)
finally:
    print()
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_sentence_of_the_help(name):
    command = load_command(name)
    assert command.name == name
    assert command.get_short_help_str(_WHOLE) == COMMANDS[name].summary


_REFUSED = "from contextlib import suppress\nimport click\nwith suppress(click.UsageError):"
_REFUSED += called("all_reduce", "--nonsense").replace("\n", "\n    ")
_OF_RANKS = (
    *("click", "tempfile", "hashlib", "importlib.resources", "ctypes", "rich", "jinja2"),
    *("sqlalchemy", "pynvml", "cclmark.cli", "cclmark.launch", "cclmark.recording"),
    *("cclmark.report", "cclmark.history", "cclmark.references"),
)
_OF_MEASURING = (
    *("importlib.resources", "rich", "jinja2", "sqlalchemy", "pynvml", "matplotlib"),
    *("cclmark._engine", "cclmark.history", "cclmark.comparison.figures", "cclmark.report.page"),
    *("cclmark.kinds.collective.markdown", "cclmark.kinds.collective.soak"),
    *("cclmark.cli.rerun.rerunning", "cclmark.references.reference_store"),
)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        pytest.param(called("--help"), _NOT_FOR_LISTS, id="the list of commands"),
        pytest.param(called("--version"), _NOT_FOR_LISTS, id="the version"),
        pytest.param(_REFUSED, _HEAVY, id="a refused option"),
        ("import cclmark.rank.worker, cclmark.kinds.collective.run", _OF_RANKS),
        ("import cclmark.cli.main, cclmark.kinds.collective.request", _OF_MEASURING),
    ],
)
def test_nothing_is_imported_that_is_not_needed(code, unwanted):
    code += f"""
import sys
unwanted = {unwanted!r}
below = tuple(name + "." for name in unwanted)
print([name for name in sys.modules if name in unwanted or name.startswith(below)], end="")
"""
    done = completed([sys.executable, "-c", code], check=True)
    assert done.stdout.rpartition("\n")[2] == "[]"


@pytest.mark.parametrize("order", [1, -1])
def test_the_help_of_a_command_imports_no_more_than_its_options(order):
    """In one process, in both orders: what one has imported does not show behind it."""
    inner = ("torch check", "torch objects", "history add", "references check", "references show")
    commands = [one.split() for one in (*COMMANDS, *inner)][::order]
    code = f"""
import json
import sys
import cclmark.cli.main
for words in {commands}:
    before = {{*sys.modules}}
    cclmark.cli.main.app([*words, "--help"], prog_name="cclmark", standalone_mode=False)
    print("imported", json.dumps([one for one in sys.modules if one not in before]))
"""
    done = completed([sys.executable, "-c", code], check=True)
    imported = re.findall("^imported (.*)$", done.stdout, re.MULTILINE)
    for words, modules in zip(commands, imported, strict=True):
        name = words[0]
        own = {COMMANDS[name].package}
        own |= {"cclmark.kinds.collective"} if name == "export" else set()  # names of its formats
        own |= {"cclmark_training"} if name == "torch" else set()  # which is a part of it
        unwanted = (*_HEAVY, *({*_PACKAGES} - own))
        below = tuple(f"{one}." for one in unwanted)
        found = [one for one in json.loads(modules) if one in unwanted or one.startswith(below)]
        assert found == [], words


def every_command():
    """Each command with its context, those of groups included."""
    for name in COMMANDS:
        command = load_command(name)
        yield name, command, click.Context(command, info_name=name, terminal_width=78)
        for own, inner in getattr(command, "commands", {}).items():
            path = f"{name} {own}"
            yield path, inner, click.Context(inner, info_name=path, terminal_width=78)


def test_the_help_of_a_command_is_one_screen_with_three_examples():
    for name, command, context in every_command():
        screen = command.screen(context).splitlines()
        assert len(screen) <= 40, name
        assert max(len(line) for line in screen if "cclmark " not in line) <= 78, name
        if " " not in name:
            assert len(command.examples) >= 3, name
            assert all(f"  {line}" in screen for line, _ in command.examples[:3]), name


def test_the_whole_help_has_every_option_and_all_names():
    for name, command, context in every_command():
        text = command.get_help(context)
        shown = [one for one in command.params if not getattr(one, "hidden", True)]
        missing = [word for one in shown for word in one.opts if word not in text]
        assert missing == [], name


def test_what_a_command_lacks_is_refused_with_the_reason_and_the_way():
    """Also: only a close name of an option is suggested, and the command that has an option."""

    def refused(line):
        with pytest.raises(click.UsageError) as error:
            app.main(line.split(), standalone_mode=False)
        return error.value.format_message()

    require_outcomes(Path(__file__).with_name("refused_lines.txt"), refused)


def test_the_page_of_commands_lists_them_in_their_groups():
    page = (REPOSITORY / "docs" / "reference" / "cli.md").read_text()
    table = page.partition("| command | |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = dict.fromkeys(
        word
        for line in table.splitlines()
        for word in re.findall(r"[`*]+(\w+)", line.split(" | ")[0])
    )
    assert [*listed] == [word for title, group in GROUPS.items() for word in (title, *group)]
