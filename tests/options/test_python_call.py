"""Calls of ``cclmark.measure`` and command lines: each becomes the other, for every command."""

import runpy
import shlex
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import cclmark
from cclmark.base.errors import UsageError
from cclmark.cli.commands import COMMANDS, load_command, measuring_command
from cclmark.cli.main import app
from cclmark.options.command import GroupedCommand
from cclmark.options.python_call import parsed_call
from goldens import refusal, require_outcomes
from places import REPOSITORY

MAKE = runpy.run_path(str(REPOSITORY / "docs" / "reference" / "make.py"))


def measuring():
    """Every command that measures, with its words."""
    for name in COMMANDS:
        top = load_command(name)
        for command, context in MAKE["commands"](top, click.Context(top, info_name=name)):
            if isinstance(command, GroupedCommand) and command.measures:
                yield context.command_path, command


MEASURING = dict(measuring())
MEASURING["trace p2p"] = MEASURING["trace"].commands["p2p"]
# Spellings that no example has.
OTHERS = [
    "all_reduce -e 1G -f 4",
    "all_reduce -b 1536 -e 1536 --root -1 --warmup-iters 2",
    "all_reduce --like all_reduce_bench -e 64K -p 2",
    "alltoallv -b 1K -e 2K -i 1K --pattern skew:4 --seed 7 --through-host --journal 5",
    "all_reduce --config minCTAs=2 --config maxCTAs=4 --pieces 1,10",
    "p2p --format csv --columns size_bytes,time_us",
    "experiment all_reduce --library nccl --keep 99.5% --vary 'A=1|2' --vary B=0x10",
    "memory all_reduce --devices 0 --placement in-place",
    "p2p -w -v 0 -g -1 -k ca-wb-x,bulkCopy --dev_list 0,1 --num-thread-blocks 1-8",
    "p2pBandwidthLatencyTest -b 16 -e -f 4 --use_fake_driver",
    "trace p2p --pair host-0 -n 5 -O 1.json",
    "train --artifact README.md --compile --dtype fp32",
    "torch objects -b 64 -e 1K --content numbers",
    "tune all_reduce -O 'my rules' --budget 1m",
    "profile --calls 5 -- program --journal x -O y",
]


def lines():
    """The examples of all commands, without what is only of the terminal, and others."""
    for command in MEASURING.values():
        for line, _ in command.examples:
            words = shlex.split(line)[1:]
            if "-O" in words and "output" not in command.flags_type.files:
                place = words.index("-O")
                words[place : place + 2] = []
            yield shlex.join(words)
    yield from OTHERS


class Called(NamedTuple):
    """What ``measure`` was called with, and the format of the text that is made of its run."""

    arguments: tuple[str, ...]
    options: dict[str, str]
    format: str = "table"
    columns: list[str] = []

    def text(self, format="table", columns=()):
        return self._replace(format=format, columns=[*columns])


class InPlace:
    """In place of the module."""

    @staticmethod
    def measure(*arguments, **options):
        return Called(arguments, options)


def flags_of_line(path, words):
    with MEASURING[path].make_context(path, [*words]) as context:
        return MEASURING[path].flags_from(context.params)


def flags_of_call(call):
    """The flags as ``measure`` makes them of its arguments, and the command line in the journal."""
    options = dict(call.options)
    sizes, journal = options.pop("sizes", ""), options.pop("journal", None)
    path, command, rest, options = measuring_command(call.arguments, options)
    words, flags = parsed_call(path, command, rest, sizes, options)
    flags.journal = journal and Path(journal)
    if call.format != "table":
        flags.format = call.format
    if call.columns:
        flags.columns = call.columns
    return flags, words


@pytest.mark.parametrize("line", [*lines()])
def test_the_printed_call_has_the_flags_of_the_command_line(capsys, monkeypatch, line):
    monkeypatch.chdir(REPOSITORY)  # where files are that some options name
    words = shlex.split(line)
    path = max((one for one in MEASURING if line.startswith(one)), key=len)
    number = len(path.split())
    typed = flags_of_line(path, words[number:])
    with pytest.raises(SystemExit) as ended:
        app([*words[:number], "--print-plan", *words[number:]], "cclmark", standalone_mode=False)
    assert not ended.value.code
    printed = capsys.readouterr().out
    call = eval(printed, {"cclmark": InPlace})
    called, command_line = flags_of_call(call)
    assert type(called) is type(typed)
    assert called == typed
    again = flags_of_line(path, command_line[1 + number :])
    again = replace(again, journal=called.journal, format=called.format)
    if hasattr(called, "columns"):
        again.columns = called.columns
    assert again == called


@pytest.mark.parametrize("path", [*MEASURING])
def test_every_option_of_a_call_is_explained_or_hidden(path):
    explained = cclmark.measure_options(path)
    assert not {"format", "journal", "resume", "print_plan"} & explained.keys() or "trace" in path
    assert all(text.startswith("-") and "None" not in text for text in explained.values())
    hidden = {one.name for one in MEASURING[path].params if getattr(one, "hidden", False)}
    assert not hidden & explained.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_measures_or_names_what_programs_use(name):
    if name in MEASURING:
        assert measuring_command([name], {})[0] == name
        return
    with pytest.raises(UsageError, match=f"cclmark {name} measures nothing into a journal: use .+"):
        measuring_command([name], {})


def test_what_a_call_lacks_and_what_the_command_refuses_is_no_call():
    lacks = r"excludes .*: cclmark\.measure has no"
    for typed in ("-N 2", "-O x", "--resume x", "--references", "-b 1M -e 1K", "-e 4", "-f 2 -i 8"):
        with pytest.raises(UsageError, match=rf"{lacks}|must not be above|exclude each other"):
            app(["all_reduce", "--print-plan", *typed.split()], "cclmark", standalone_mode=False)


def test_the_printed_call_has_the_values_that_are_typed(capsys):
    def printed(line):
        with pytest.raises(SystemExit):
            app(["all_reduce", "--print-plan", *line.split()], "cclmark", standalone_mode=False)
        return capsys.readouterr().out

    require_outcomes(Path(__file__).with_name("printed_calls.txt"), printed)


def test_a_call_that_makes_no_sense_is_refused_with_what_was_given(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def error(arguments):
        return refusal(eval, f"cclmark.measure({arguments})", {"cclmark": cclmark})

    require_outcomes(Path(__file__).with_name("refused_calls.txt"), error)
    assert [*tmp_path.iterdir()] == []
