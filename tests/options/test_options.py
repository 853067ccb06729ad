"""Options: what their types accept, their groups, and what they exclude and require."""

import json
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.cli.commands import COMMANDS, load_command
from cclmark.kinds.p2p import command as p2p
from cclmark.options import groups
from cclmark.options.case_request import no_cases
from cclmark.options.click_command import command
from cclmark.options.command import Ascending, Distinct, Excludes, Requires, changed, check_together
from cclmark.options.command import option as made_option
from cclmark.options.environment_file import read_shell, shell_text
from cclmark.options.groups import CaseOptions
from cclmark.options.types import (  # noqa: F401 - of the stored values
    DURATION,
    Names,
    OneName,
    Pair,
    Percent,
    RealNumber,
    Size,
    WholeNumber,
)
from cclmark.work import transfers
from cclmark.work.cases import Sweep, UnevenPattern
from commands import completed
from examples import examples
from goldens import refusal, require_outcomes


def test_values_are_parsed_or_the_message_describes_what_is_expected():
    def converted(line):
        kind, text = re.fullmatch(r"(.*\)|DURATION) (.*)", line).groups()
        try:
            return repr(eval(kind).convert(text, None, None))
        except click.BadParameter as error:
            return error.message

    require_outcomes(Path(__file__).with_name("values.txt"), converted)


def _options(command):
    yield from (one for one in command.params if isinstance(one, click.Option))
    for inner in getattr(command, "commands", {}).values():
        yield from _options(inner)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_numeric_option_has_these_messages(name):
    numeric = (click.IntRange, click.FloatRange, type(click.INT), type(click.FLOAT))
    for option in _options(load_command(name)):
        if isinstance(option.type, numeric) and not option.count:
            assert isinstance(option.type, WholeNumber | RealNumber), option.opts


@dataclass
class First:
    title: ClassVar[str] = "Sizes"
    rules = (Excludes("one", "two"), Requires("three", "mode", ("fast", "slow"), "it is timed"))

    one: int = made_option("-1", "--one", default=1, type=WholeNumber(), help="One [1].")
    two: int | None = made_option("--two", type=WholeNumber(), help="Two.")
    three: bool = made_option("--three", default=False, is_flag=True, help="Three.")


@dataclass
class Second:
    title: ClassVar[str] = "Method"
    rules = (
        Excludes("two", "mode", "both are long"),
        Distinct("pairs"),
        Ascending("least", "most"),
    )

    mode: str = made_option("--mode", default="none", help="Mode [none].")
    least: int | None = made_option("--least", type=Size(), help="Least.")
    most: int | None = made_option("--most", type=Size(), help="Most.")
    pairs: list = made_option("--pair", multiple=True, type=Pair(), help="Pairs.")  # noqa: RUF009


@dataclass
class Both(First, Second):
    rules = (Requires("pairs", "two"),)

    one: int = changed(First, "one", 5, shown="5")
    own: str = made_option("--own", default="", title="Output", help="Own.")


def test_options_that_exclude_or_require_each_other():
    def outcome(line):
        seen = []
        made = command("x", "Works.", Both, seen.append)
        try:
            with pytest.raises(SystemExit):
                made.main(line.split()[1:], standalone_mode=False)
        except UsageError as error:
            assert not seen
            return str(error)
        assert len(seen) == 1
        return "accepted"

    require_outcomes(Path(__file__).with_name("rules.txt"), outcome)


@dataclass
class OnlySecond(Both):
    without: ClassVar = {First: "x counts to two"}

    two: int | None = changed(First, "two", 7)


def test_a_command_without_a_group_has_the_defaults_of_its_options():
    seen = []
    made = command("x", "Works.", OnlySecond, seen.append)
    with pytest.raises(SystemExit):
        made.main(["--pair", "a=1", "--two", "8"], standalone_mode=False)
    assert [(flags.three, flags.two, flags.pairs) for flags in seen] == [(False, 8, [("a", "1")])]
    with pytest.raises(click.UsageError, match=r"'--three'\. x counts to two\."):
        made.main(["--three"], standalone_mode=False)
    assert "--three" not in made.get_help(click.Context(made, info_name="x"))


def test_the_names_of_copies_are_those_that_are_measured():
    for name in ("ENGINES", "KERNELS", "DIRECTIONS", "SCOPES"):
        assert getattr(p2p, name) == getattr(transfers, name)


@pytest.mark.parametrize(
    "group", [one for name, one in vars(groups).items() if name.endswith("Options")]
)
def test_every_rule_of_a_group_is_about_options_of_commands(group):
    check_together(group())
    known = {
        entry.name
        for one in vars(groups).values()
        if hasattr(one, "rules")
        for entry in fields(one)
    }
    for rule in vars(group).get("rules", ()):
        assert rule.option in known
        assert getattr(rule, "other", rule.option) in known


# What a request of cases says about the sizes of its sweep.


def sweep_of(operations, sizes, ranks=4, dtypes=("float32",)):
    return Sweep(operations, ["shm"], ranks, sizes, dtypes, ["sum"], [0], (False,), UnevenPattern())


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (sweep_of(["barrier"], [1, 2]), []),
        (sweep_of(["all_reduce"], [6]), ["sizes are rounded down .*: 6 B is 4 B of float32"]),
        (
            sweep_of(["all_gather", "all_reduce", "alltoall"], [2, 4, 8, 63, 64]),
            [
                "^all_gather, alltoall: 2 B to 63 B left out: 4 parts of at least 16 B.* 64 B$",
                "^all_reduce: 2 B left out",
                "rounded down",
            ],
        ),
        (
            sweep_of(["all_reduce"], [1, 2, 8], dtypes=("int8", "float16", "float64")),
            ["1 B left out: an element of float16 has 2 B", "1 B to 2 B .* of float64 has 8 B"],
        ),
    ],
)
def test_sizes_that_are_left_out_are_named_with_the_reason(plan, said):
    notices = plan.rounding()
    assert len(notices) == len(said)
    for notice, text in zip(notices, said, strict=True):
        assert re.search(text, notice), notice


def test_a_sweep_without_cases_is_refused_with_the_reason():
    error = no_cases(CaseOptions(), sweep_of(["all_gather"], [8], ranks=2))
    assert str(error).startswith("all_gather: 8 B left out: 2 parts of at least 16 B")
    assert str(error).endswith("have 32 B: raise -e")


# Files of variables: shells read from them what was written.


COMMENTS = ["library: NCCL 2.28.9", "device: NVIDIA H200", "ranks: 2", "nodes: 1"]
TEXT = """\
# library: NCCL 2.28.9
# device: NVIDIA H200
# ranks: 2
# nodes: 1
export NCCL_PROTO=LL,LL128
export NCCL_TUNER_PLUGIN='/opt/the plug-in.so'
"""
VARIABLES = {"NCCL_PROTO": "LL,LL128", "NCCL_TUNER_PLUGIN": "/opt/the plug-in.so"}
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).map(lambda it: f"X_{it}")
PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "), max_size=40)
FILES = st.dictionaries(NAMES, PRINTABLE, max_size=5)
PRINT = "import json, os; print(json.dumps(dict(os.environ)))"


def test_the_text_for_shells():
    assert shell_text(VARIABLES, comments=COMMENTS) == TEXT
    assert read_shell(TEXT, "file") == VARIABLES


@settings(max_examples=examples(100))
@given(FILES)
def test_a_shell_gets_what_was_written_and_so_do_we(variables):
    text = shell_text(variables, comments=["a'b", "`c` $d"])
    assert read_shell(text, "file") == variables
    done = completed(
        ["sh", "-c", f'eval "$0"\nexec "{sys.executable}" -c "$1"', text, PRINT],
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    seen = json.loads(done.stdout)
    assert {name: seen[name] for name in variables} == variables


def test_what_is_no_literal_is_neither_written_nor_read():
    def outcome(line):
        written = json.loads(line)
        if isinstance(written, dict):
            return refusal(shell_text, written)
        return refusal(read_shell, written, "file")

    require_outcomes(Path(__file__).with_name("shell_lines.txt"), outcome)


def test_comments_are_one_line():
    with pytest.raises(UsageError, match="a comment is not one printable line"):
        shell_text({}, comments=["a\nexport B=1"])
