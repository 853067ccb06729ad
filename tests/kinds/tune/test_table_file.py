"""Tuner tables: the module and the plug-in accept the same texts and refuse others alike."""

import ctypes
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.explain.plugin_log import plugin_path
from cclmark.kinds.tune.table_file import (
    ALGORITHMS,
    MOST_BYTES,
    MOST_RULES,
    OPERATIONS,
    PROTOCOLS,
    Rule,
    RuleTable,
    read,
    written,
)
from examples import examples
from goldens import require_outcomes
from places import REPOSITORY

LOGGER = ctypes.CFUNCTYPE(
    *(None, ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p),
    *(ctypes.c_char_p, ctypes.c_char_p),  # what its format prints
)
INIT = ctypes.CFUNCTYPE(
    *(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, LOGGER, ctypes.POINTER(ctypes.c_void_p))
)
END = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
INVALID_USAGE = 5
REFUSES = "refuses the tuner table"


class Interface(ctypes.Structure):
    """ncclTunerPlugin_v2."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("init", INIT),
        ("get_info", ctypes.c_void_p),
        ("destroy", END),
    )


class Plugin:
    """The plug-in, which reads a table as for a communicator of NCCL."""

    def __init__(self, directory):
        os.environ["CCLMARK_PLUGIN_LOG"] = str(directory / "log")
        os.environ["CCLMARK_PLUGIN_TUNER"] = "none"
        library = ctypes.CDLL(str(plugin_path()))
        self.interface = Interface.in_dll(library, "ncclTunerPlugin_v2")
        self.path = directory / "table"

    def logged(self, content):
        """The warnings and notices about the content: pairs of a headline and a text."""
        self.path.write_bytes(content)
        os.environ["CCLMARK_TUNER_TABLE"] = str(self.path)
        logged = []

        def log(_level, _flags, _file, _line, _format, problem, text):
            logged.append((problem.decode(), text.decode("latin-1")))

        context = ctypes.c_void_p()
        result = self.interface.init(2, 1, LOGGER(log), ctypes.byref(context))
        is_refused = any(problem == REFUSES for problem, _ in logged)
        assert result == (INVALID_USAGE if is_refused else 0)
        assert bool(context) == (not is_refused)
        assert self.interface.destroy(context) == 0
        return logged

    def problem(self, content):
        """Why it refuses the content, empty if it does not."""
        return "".join(text for problem, text in self.logged(content) if problem == REFUSES)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    names = ("PLUGIN_LOG", "PLUGIN_TUNER", "TUNER_TABLE", "TUNER_ANYWHERE")
    with pytest.MonkeyPatch.context() as patch:
        for name in (*(f"CCLMARK_{name}" for name in names), "NCCL_NVLS_ENABLE"):
            patch.setenv(name, "")
        yield Plugin(tmp_path_factory.mktemp("plugin"))


RULES = (
    Rule("all_gather", 2, 1, 0, MOST_BYTES, "ring", "simple", 32),
    Rule("all_reduce", 2, 1, 0, 1023, "tree", "ll"),
    Rule("all_reduce", 2, 1, 1024, 4194304, "ring", "ll128", 16),
    Rule("all_reduce", 16, 2, 1024, 1024, "collnet_chain", "simple", 256),
    Rule("reduce_scatter", 8, 1, 64, 128, "nvls", "simple", 1),
)
TABLE = RuleTable("nccl", "2.28.9", "NVIDIA H200", 18, RULES)
TEXT = written(TABLE, comments=["proven on two hosts"])


def problem_of(text, source="table"):
    try:
        read(text, source)
    except UsageError as error:
        return str(error)
    return ""


def test_what_is_written_is_read():
    assert read(TEXT, "table") == TABLE
    other = replace(TABLE, library="rccl", nvlinks=None, device="AMD  Instinct MI300X")
    assert read(written(other), "table").device == "AMD Instinct MI300X"
    assert written(replace(TABLE, rules=RULES[::-1])) == written(TABLE)
    assert "all_reduce      2      1      1024            4194304  " in TEXT


@pytest.mark.parametrize(
    "changes",
    [
        *({"rules": ()}, {"rules": (*RULES, RULES[0])}, {"device": ""}, {"library": "hccl"}),
        *({"library_version": "2.28.9\nend"}, {"nvlinks": -1}),
    ],
)
def test_a_table_that_cannot_be_read_is_not_written(changes):
    with pytest.raises(UsageError):
        written(replace(TABLE, **changes))
    with pytest.raises(UsageError, match="cannot be written"):  # nor a value that adds a line
        written(replace(TABLE, library_version="2.28.9\n# or newer"))


HEAD = "cclmark-tuner-table 1\nlibrary nccl 2.28.9\ndevice NVIDIA H200\nnvlinks 18\n"


def test_both_sides_refuse_with_the_line_and_the_field(plugin):
    def outcome(line):
        """Of the text that is written in JSON."""
        text = json.loads(line)
        problem = problem_of(text, str(plugin.path))
        assert plugin.problem(text.encode()) == problem != ""
        return problem_of(text)

    require_outcomes(Path(__file__).with_name("table_texts.txt"), outcome)


def test_both_sides_have_the_same_limits(plugin):
    def problem(text):
        """Of both sides."""
        found = problem_of(text, str(plugin.path))
        assert plugin.problem(text.encode()) == found
        return found

    rules = [f"all_reduce 2 1 {size} {size} ring ll 0\n" for size in range(MOST_RULES + 1)]
    assert problem(HEAD + "".join(rules[:MOST_RULES]) + "end\n") == ""
    assert f"there are more than {MOST_RULES} rules" in problem(HEAD + "".join(rules) + "end\n")
    padding = "#\n" * ((1 << 19) - len(TEXT) // 2)
    assert "larger than 1048576 bytes" not in problem_of(TEXT + padding)
    assert problem(TEXT + padding + "####\n") == f"{plugin.path}: it is larger than 1048576 bytes"


_WORDS = (
    *("", "#", "end", "library", "device", "nvlinks", "nccl", "rccl", "2.28.9", "any", "0", "00"),
    *("2", "18", "-1", "+1", "1e3", "9223372036854775807", "9223372036854775808", "0x10", "é"),
    *("\0", "\t", "\r", "\x7f", " ", *OPERATIONS, *ALGORITHMS, *PROTOCOLS),
)


@st.composite
def mutated(draw):
    """The text of a table with a few lines, words and characters changed."""
    text = TEXT
    for _ in range(draw(st.integers(0, 3))):
        way, lines = draw(st.sampled_from(["character", "word", "line", "cut"])), text.split("\n")
        at, place = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(text)))
        if way == "cut":
            text = text[:place]
        elif way == "character":
            text = (
                text[:place] + draw(st.text(max_size=2)) + text[place + draw(st.integers(0, 2)) :]
            )
        elif way == "line":
            other = draw(st.sampled_from(lines))
            lines[at : at + draw(st.integers(0, 1))] = [other] * draw(st.integers(0, 2))
            text = "\n".join(lines)
        else:
            words = lines[at].split(" ")
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(_WORDS))
            lines[at] = " ".join(words)
            text = "\n".join(lines)
    return text


@given(text=mutated())
@settings(max_examples=examples(600), deadline=None)
def test_both_sides_accept_and_refuse_the_same_texts(plugin, text):
    content = text.encode("utf-8", "surrogatepass")
    assert plugin.problem(content) == problem_of(text, str(plugin.path))


def test_the_example_of_the_documents_is_a_table():
    page = REPOSITORY / "docs" / "reference" / "tuner-table.md"
    text = page.read_text().split("```text\n", 1)[1].split("```", 1)[0]
    assert len(read(text, "the page").rules) == 3


def test_a_library_without_a_version_of_its_own_is_another_one(plugin):
    """As with a library that is linked into another file: here no library calls."""
    text = written(replace(TABLE, library_version="2.28.10"))
    ((problem, reason),) = plugin.logged(text.encode())
    assert problem == "does not apply the tuner table"
    unknown = "the library's version is unknown (it is linked into another file)"
    assert f"{unknown}, not nccl 2.28.10" in reason
    assert plugin.logged(text.encode()) == []  # once
