"""The examples of the help: the page has them, and those for the host run."""

import importlib.util
import re
import runpy
import shlex

import click
import pytest

from cclmark.cli.commands import COMMANDS, load_command
from examples import exhaustive
from places import REPOSITORY

MAKE = runpy.run_path(str(REPOSITORY / "docs" / "reference" / "make.py"))


def examples():
    """The command lines of the examples of all commands."""
    for name in COMMANDS:
        top = load_command(name)
        for command, _ in MAKE["commands"](top, click.Context(top, info_name=name)):
            yield from (line for line, _ in getattr(command, "examples", ()))


OF_HOST = [line for line in examples() if "--devices host" in line and ".jsonl" not in line]
# Commands of one operation each are made by the same code: the first of them is enough.
FIRST = {re.sub(r"^cclmark \w+", "", line): line for line in reversed(OF_HOST)}
# These compute for seconds; tests of their kinds run them with other options.
LONG = re.compile(r"cclmark (overlap|scan) |--layout ")
NEEDS_TORCH = re.compile(r"cclmark (torch|train) ")


HELP = [(page, MAKE["with_help"]) for page in sorted(MAKE["PAGE"].parent.glob("*.md"))]
FIELDS = REPOSITORY / "docs" / "reference" / "fields.md"


@pytest.mark.parametrize(
    ("page", "made"),
    [
        (MAKE["PAGE"], MAKE["with_topics"]),
        (MAKE["FINDINGS_PAGE"], MAKE["with_findings"]),
        (FIELDS, lambda text: MAKE["fields_page"]()),
        *HELP,
    ],
)
def test_pages_have_the_current_help_topics_findings_and_fields(page, made):
    text = page.read_text(encoding="utf-8")
    assert text == made(text), "python docs/reference/make.py writes the page anew"


def tried(line):
    """A line as a parameter: with --all alone, or in turn with others that import torch."""
    if line not in FIRST.values() or LONG.search(line):
        return exhaustive(line)
    group = [pytest.mark.xdist_group("torch")] if NEEDS_TORCH.match(line) else []
    return pytest.param(line, marks=group)


@pytest.mark.parametrize("line", [*map(tried, OF_HOST)])
def test_the_examples_for_the_host_run(cclmark, line):
    if NEEDS_TORCH.match(line) and importlib.util.find_spec("torch") is None:
        pytest.skip("requires torch")
    _, *arguments = shlex.split(line)
    # While other tests have the processors, no operation may run entirely beside the other work.
    codes = (0, 3) if arguments[0] == "overlap" else 0
    run = cclmark(*arguments, code=codes)
    assert run.code == 0 or "no operation ran entirely beside the other work" in run.message
    assert run.out or run.written()
