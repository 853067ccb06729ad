"""The program accepts every command line of the documents."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cclmark.cli.commands import COMMANDS, load_command
from places import H200X4, PAGES, REPOSITORY

FENCE = re.compile(r"^ *(`{3,})(\w*)[^\n]*\n(.*?)^ *\1 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
SHELLS = ("sh", "bash", "console", "text")
# Where one command of a line ends.
ENDS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "(", ")", "2>", "2>&1"}
LEFT_OUT = {"…", "..."}
# In the place of one of several values.
PLACEHOLDERS = ("NAME", "FORMAT", "sizes", "OPERATION", "PERCENT", "SIZE", "N")


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def lines_of(text: str) -> Iterator[tuple[str, bool]]:
    """Command lines of blocks, with their continuations, and those that a sentence mentions.

    With each: whether it is mentioned. What is optional there is in brackets.
    """
    for _, language, block in FENCE.findall(text):
        if language not in SHELLS:
            continue
        whole = re.sub(r"\\\n *", " ", block)
        for line in whole.splitlines():
            # Blocks with output mark their commands.
            if language in ("sh", "bash") or line.startswith("$ "):
                yield line.removeprefix("$ "), False
    prose = FENCE.sub("", text)
    for code in CODE.findall(prose):
        if re.match(r"(?:\S+=\S+ )*cclmark ", code):
            yield re.sub(r"[\[\]]", "", code).replace("OPTIONS", ""), True


def words_of(line: str) -> list[str]:
    """The words of a line, those that a shell separates by signs included."""
    line = re.sub(r"\$\(command -v cclmark\)", "cclmark", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    return list(lexer)


def calls_in(line: str) -> Iterator[list[str]]:
    """The arguments of each call of cclmark in a line, without what a document leaves out."""
    words = words_of(line)
    for place, word in enumerate(words):
        if Path(word).name != "cclmark" or words[place + 1 : place + 2] == []:
            continue
        arguments: list[str] = []
        for argument in words[place + 1 :]:
            if argument in ENDS:
                break
            if argument not in LEFT_OUT:
                arguments.append(argument)
        if arguments and arguments[0] in COMMANDS:
            yield arguments


def parse(arguments: list[str]) -> None:
    """Raises click.UsageError for arguments that the program does not accept. Runs nothing."""
    name, *rest = arguments
    command = load_command(name)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        context = command.make_context(name, [], resilient_parsing=True)
        found = command.get_command(context, rest[0])
        if found is None:
            raise click.UsageError(f"there is no command {name} {rest[0]}")
        command, name, rest = found, rest[0], rest[1:]
    if {"-h", "--help"} & {*rest}:
        return
    command.make_context(name, rest)


def mistake_in(arguments: list[str], *, is_mentioned: bool) -> str:
    """Why the program refuses the arguments, empty if it does not.

    ``is_mentioned``: in a sentence or a table, where what is not the point is left out.
    """
    try:
        parse(arguments)
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError) as error:
        return "" if is_mentioned else error.format_message()
    except click.BadOptionUsage as error:
        left_out = is_mentioned and arguments[-1] == error.option_name
        return "" if left_out else error.format_message()
    except click.BadParameter as error:
        text = error.format_message()
        names_no_value = any(f"'{word}'" in error.message for word in PLACEHOLDERS)
        return "" if names_no_value or "does not exist" in text else text
    except click.ClickException as error:
        return error.format_message()
    return ""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_program_accepts_every_command_line(page):
    mistakes = [
        f"cclmark {' '.join(arguments)}: {mistake}"
        for line, is_mentioned in dict.fromkeys(lines_of(page.read_text()))
        for arguments in calls_in(line)
        if (mistake := mistake_in(arguments, is_mentioned=is_mentioned))
    ]
    assert mistakes == []


def test_command_lines_are_found_where_documents_have_them():
    text = """
```sh
mpirun -np 2 $(command -v cclmark) all_reduce -b 8 \\
  -e 16 > out.txt; cclmark info   # both
```
```console
$ NAME=1 cclmark p2p --devices host:2
output of cclmark all_reduce
```
| `cclmark pairs --only …` | `cclmark` |
"""
    found = [arguments for line, _ in lines_of(text) for arguments in calls_in(line)]
    assert found == [
        ["all_reduce", "-b", "8", "-e", "16"],
        ["info"],
        ["p2p", "--devices", "host:2"],
        ["pairs", "--only"],
    ]


def test_mistakes_are_found():
    for line, words in (
        ("all_reduce --no-such-option", "No such option"),
        ("all_reduce --placement sideways", "is not one of"),
        ("history burn", "there is no command history burn"),
        ("compare", "Missing argument"),
    ):
        mistake = mistake_in(line.split(), is_mentioned=False)
        assert words in mistake.replace("parameter", "argument")


#: hccl_test's own list (its --help, CANN 8), in its order.
OPTIONS_OF_HCCL_TEST = {
    **{"-b": "--minbytes", "-e": "--maxbytes", "-i": "--stepbytes", "-f": "--stepfactor"},
    **{"-n": "--iters", "-o": "--op", "-d": "--datatype", "-r": "--root"},
    **{"-w": "--warmup_iters", "-c": "--check", "-p": "--npus", "-h": "--help"},
}


def test_the_table_of_hccl_tests_options_is_complete_and_true():
    """Each is an option of the same names here, or the table gives the reason."""
    text = (REPOSITORY / "docs" / "from" / "hccl-test.md").read_text()
    table = text.partition("| hccl_test | here | note |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    listed = {}
    for there, here, note in rows:
        short, long, *_ = CODE.findall(there)
        listed[short] = long
        assert here.startswith("the same") or note, f"{short}: no option and no reason"
    assert listed == OPTIONS_OF_HCCL_TEST
    ours = {
        name: option for option in load_command("all_reduce").params for name in option.opts
    } | dict.fromkeys(("-h", "--help"))
    for (there, here, _), (short, long) in zip(rows, listed.items(), strict=True):
        if here.startswith("the same"):
            assert {short, long} <= set(ours), there
            # -p and --npus differ in their help only.
            assert short == "-p" or ours[short] is ours[long], there


FROM = sorted((REPOSITORY / "docs" / "from").glob("*.md"))


def rows_line_by_line(page: Path) -> list[list[str]]:
    """The rows of the first tables of a page's section on every command line of its document."""
    section = page.read_text().partition("## Line by line\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("| "))] for line in lines]


@pytest.mark.parametrize("page", FROM, ids=name_of)
def test_a_page_lists_every_command_line_of_its_document(page):
    rows = rows_line_by_line(page)
    assert len(rows) > 10
    for there, here, *_ in rows:
        assert there and here, there


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_the_transcript_of_four_devices_is_what_is_printed(name, monkeypatch):
    """Of the stored journal, without the lines that the page leaves out."""
    monkeypatch.chdir(H200X4)
    blocks = [block for _, _, block in FENCE.findall((REPOSITORY / name).read_text())]
    (block,) = (block for block in blocks if "4 ranks on h200-host" in block)
    result = CliRunner(env={"COLUMNS": ""}).invoke(
        load_command("export"), ["all_reduce.jsonl", "--format", "table"]
    )
    assert result.exit_code == 0, result.output
    printed = iter(result.output.splitlines())
    shown = [line for line in block.splitlines() if line.strip() != "…" and line[:1] != "$"]
    missing = [line for line in shown if line not in printed]  # each after the one before
    assert missing == []
