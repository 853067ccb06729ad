"""Files of variables: shells read from them what was written."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.options.environment_file import read_shell, shell_text
from commands import completed
from examples import examples
from goldens import refusal, require_outcomes

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


def test_quotes_of_users_are_read():
    text = "\n  export\tA=\"b c\"'d'\\\n".replace("\\", "") + "# comment\nexport E=\n"
    assert read_shell(text, "file") == {"A": "b cd", "E": ""}
