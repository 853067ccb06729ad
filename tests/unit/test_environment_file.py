"""Files of variables: shells and NCCL read from them what was written."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.errors import UsageError
from cclmark.tune.environment_file import (
    MOST_CONF_BYTES,
    Conditions,
    nccl_conf_text,
    read_nccl_conf,
    read_shell,
    shell_text,
)
from examples import examples

CONDITIONS = Conditions("NCCL 2.28.9", "NVIDIA H200", 2, 1)
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
    assert shell_text(VARIABLES, comments=CONDITIONS.lines()) == TEXT
    assert read_shell(TEXT, "file") == VARIABLES
    assert Conditions("MPICH 5.0.2").lines() == ["library: MPICH 5.0.2"]


@settings(max_examples=examples(100))
@given(FILES)
def test_a_shell_gets_what_was_written_and_so_do_we(variables):
    text = shell_text(variables, comments=["a'b", "`c` $d"])
    assert read_shell(text, "file") == variables
    done = subprocess.run(
        ["sh", "-c", f'eval "$0"\nexec "{sys.executable}" -c "$1"', text, PRINT],
        capture_output=True,
        text=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    seen = json.loads(done.stdout)
    assert {name: seen[name] for name in variables} == variables


class Nccl:
    """setEnvFile of NCCL before 2.26, which has no comments, and since, which has them."""

    def __init__(self, text, *, has_comments):
        self.environment = {}
        for line in text.encode().split(b"\n"):
            if (has_comments and line.startswith(b"#")) or b"=" not in line:
                continue
            name, _, value = line.partition(b"=")
            self.environment.setdefault(name[:1023].decode(), value[:1023].decode())


@settings(max_examples=examples(200))
@given(FILES)
def test_nccl_gets_what_was_written_and_so_do_we(variables):
    text = nccl_conf_text(variables, comments=CONDITIONS.lines())
    assert read_nccl_conf(text, "file") == variables
    for has_comments in (False, True):
        assert Nccl(text, has_comments=has_comments).environment == variables


@pytest.mark.parametrize("write", [shell_text, nccl_conf_text])
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
def test_what_is_no_variable_is_not_written(write, name, value, message):
    with pytest.raises(UsageError) as error:
        write({name: value})
    assert message in str(error.value)


def test_comments_are_one_line_and_no_variable():
    with pytest.raises(UsageError, match="a comment is not one printable line"):
        shell_text({}, comments=["a\nexport B=1"])
    with pytest.raises(UsageError, match="a comment is not one printable line"):
        nccl_conf_text({}, comments=["a\nB=1"])
    with pytest.raises(UsageError, match="'# a=b' is a variable, not a comment"):
        nccl_conf_text({}, comments=["a=b"])


def test_nccl_would_cut_off_a_longer_value():
    longest = "ä" * (MOST_CONF_BYTES // 2) + "x"
    assert read_nccl_conf(nccl_conf_text({"A": longest}), "file") == {"A": longest}
    with pytest.raises(UsageError, match=r"NCCL cuts off .* after 1023 bytes"):
        nccl_conf_text({"A": longest + "x"})
    with pytest.raises(UsageError, match="file: line 1: NCCL cuts off"):
        read_nccl_conf(f"A={longest}x", "file")


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("export A=1", "line 1: 'export A' is not the name of a variable"),
        ("A = 1", "line 1: 'A ' is not the name of a variable"),
        ("A", "line 1: 'A' is not NAME=VALUE"),
        ("A=1\nA=2", "line 2: A is set before this line"),
    ],
)
def test_other_lines_of_nccl_are_refused(text, message):
    with pytest.raises(UsageError) as error:
        read_nccl_conf(text, "file")
    assert message in str(error.value)


def test_nccl_keeps_quotes_and_blanks():
    assert read_nccl_conf("# comment\n\nA='b' \n", "file") == {"A": "'b' "}
