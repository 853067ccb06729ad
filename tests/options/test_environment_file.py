"""Files of variables: shells read from them what was written."""

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.options.environment_file import read_shell, shell_text
from commands import completed
from examples import examples

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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("", "1", "is not the name of a variable"),
        ("1A", "1", "'1A' is not the name"),
        ("A B", "1", "'A B' is not the name"),
        ("A=B", "1", "'A=B' is not the name"),
        ("A;reboot", "1", "is not the name"),
        ("Ä", "1", "is not the name"),
        ("A", "1\n2", "the value of A is not one printable line"),
        ("A", "\x00", "the value of A is not one printable line"),
    ],
)
def test_what_is_no_variable_is_not_written(name, value, message):
    with pytest.raises(UsageError) as error:
        shell_text({name: value})
    assert message in str(error.value)


def test_comments_are_one_line():
    with pytest.raises(UsageError, match="a comment is not one printable line"):
        shell_text({}, comments=["a\nexport B=1"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=1", "line 1: 'A=1' is not export NAME=VALUE"),
        ("\nexport A", "line 2: 'export A' is not export NAME=VALUE"),
        ("export 1A=1", "line 1: '1A' is not the name of a variable"),
        ("export A=$B", "line 1: '$B' is not a literal value: put it in single quotes"),
        ("export A=`id`", "is not a literal value"),
        ('export A="$B"', "is not a literal value"),
        ("export A=1 B=2", "is not a literal value"),
        ("export A=1;id", "is not a literal value"),
        ("export A=~", "is not a literal value"),
        ("export A='1", "is not a literal value"),
        ("export A=1\r", "line 1: it contains characters that are not printable"),
        ("export A=1\nexport A=2", "line 2: A is set before this line"),
    ],
)
def test_other_lines_for_shells_are_refused(text, message):
    with pytest.raises(UsageError) as error:
        read_shell(text, "file")
    assert message in str(error.value)


def test_quotes_of_users_are_read():
    text = "\n  export\tA=\"b c\"'d'\\\n".replace("\\", "") + "# comment\nexport E=\n"
    assert read_shell(text, "file") == {"A": "b cd", "E": ""}
