"""The files of commands that start no rank: never an input, and whole or not there."""

import resource
import shutil
from contextlib import contextmanager

import pytest

from places import H200X4, TESTS

INPUTS = {
    "a.jsonl": H200X4 / "runs" / "default-1.jsonl",
    "b.jsonl": H200X4 / "runs" / "default-2.jsonl",
    "c.jsonl": H200X4 / "runs" / "ctas8.jsonl",
    "copies.jsonl": H200X4 / "p2p.jsonl",
}
HISTORY = ("--db", "history.sqlite")
RUN_ID = "fa3d6a0ec1c84c559bb0eb9291906219"  # of a.jsonl
#: By name: the words before the output, and the option that names it.
WRITING = {
    "compare": (("compare", "a.jsonl,b.jsonl", "c.jsonl", "--format", "html"), "-O"),
    "export": (("export", "c.jsonl", "--format", "csv"), "-O"),
    "report": (("report", "a.jsonl", "c.jsonl"), "-o"),
    "references": (("references", "check", "c.jsonl"), "-O"),
    "history list": (("history", "list", *HISTORY), "-O"),
    "history show": (("history", "show", RUN_ID, *HISTORY), "-O"),
    "history trend": (("history", "trend", *HISTORY), "-O"),
    "history export": (("history", "export", RUN_ID, *HISTORY), "-O"),
}
each_command = pytest.mark.parametrize(("words", "option"), WRITING.values(), ids=WRITING)


@pytest.fixture(autouse=True)
def files(cclmark, tmp_path):
    """The content of the inputs, to which a symbolic link leads and a hard one."""
    for name, path in INPUTS.items():
        shutil.copy(path, tmp_path / name)
    cclmark("history", "add", "a.jsonl", *HISTORY)
    (tmp_path / "link").symlink_to("c.jsonl")
    (tmp_path / "hard").hardlink_to(tmp_path / "c.jsonl")
    return contents(tmp_path)


def contents(directory):
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@each_command
def test_outputs_that_cannot_be_written_and_standard_output(
    cclmark, tmp_path, files, words, option
):
    for place, code, reason in (
        ("no/where", 2, "No such file or directory"),
        (".", 2, "Is a directory"),
        ("/dev/full", 3, "No space left on device"),
    ):
        message = cclmark(*words, option, place, code=code).message
        assert message.endswith(f"cclmark: cannot write {place}: {reason}")
    told = cclmark(*words, option, "-")
    assert told.out
    assert "report" in words or told.out == cclmark(*words).out
    assert contents(tmp_path) == files


@each_command
def test_an_input_is_not_written_over(cclmark, tmp_path, files, words, option):
    names = ["history.sqlite"] if "history" in words else ["c.jsonl", "link", "hard"]
    names += ["a.jsonl", "b.jsonl"] if "compare" in words else []
    said = (
        "already exists" if "export" in words[1:2] else "is an input of this command and would be"
    )
    for name in names:
        assert f"{name} {said}" in cclmark(*words, option, name, code=2).message
        assert contents(tmp_path) == files


@contextmanager
def small_files():
    """The limit for the size of files stands for a full disk; Python ignores its signal."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "a.jsonl", "c.jsonl", "--format", "html", "-O"),
        ("export", "copies.jsonl", "--format", "json", "-O"),
        ("report", "c.jsonl", "-o"),
        ("history", "export", RUN_ID, *HISTORY, "-O"),
        ("import", "nccl.txt", "-o"),
    ],
    ids=lambda words: words[0],
)
def test_no_room_leaves_what_was_there(cclmark, tmp_path, words):
    shutil.copy(TESTS / "foreign" / "nccl-tests-2.19.txt", tmp_path / "nccl.txt")
    (tmp_path / "old").write_text("old")
    before = contents(tmp_path)
    for name in ("new",) if words[0] in ("history", "import") else ("new", "old"):
        with small_files():
            told = cclmark(*words, name, code=3)
        assert f"{name}: File too large" in told.err
        assert "cannot write " in told.err
        assert contents(tmp_path) == before
