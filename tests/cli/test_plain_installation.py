"""The program without the packages of its extras."""

import pytest

from places import RUNS

_WITHOUT = """
import sys

for name in ("sqlalchemy", "perfetto", "starlette", "uvicorn", "matplotlib", "pyarrow"):
    sys.modules[name] = None
"""


@pytest.fixture
def plain(cclmark, tmp_path):
    """Runs a command in a process that cannot import these packages."""
    (tmp_path / "sitecustomize.py").write_text(_WITHOUT)
    return lambda *words, **options: cclmark(*words, env={"PYTHONPATH": str(tmp_path)}, **options)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("history", "list"), "history"),
        (("serve",), "serve"),
        (("trace", "all_reduce", "--devices", "host:2", "-b", "1K"), "timelines"),
        (("export", str(RUNS / "ctas8.jsonl"), "--format", "parquet", "-O", "x"), "parquet"),
        (("report", str(RUNS / "ctas8.jsonl"), "--png", "pictures"), "pictures"),
    ],
)
def test_commands_name_the_extra_that_they_require(plain, words, extra):
    assert f"pip install 'cclmark[{extra}]'" in plain(*words, code=3).message


def test_runs_are_measured_compared_and_reported(plain):
    words = ("all_reduce", "--devices", "host:2", "-b", "1K", "-e", "1K", "--max-time", "0.02")
    for name in ("a.jsonl", "b.jsonl"):
        plain(*words, "--journal", name)
    compared = plain("compare", "a.jsonl", "b.jsonl")
    assert "2 cases" in compared.out
    assert "SQLAlchemy" not in compared.err
    assert plain("report", "a.jsonl", "-O", "page.html").written()


def test_a_history_that_cannot_be_read_is_reported(cclmark, plain, tmp_path):
    home = {"PYTHONPATH": str(tmp_path), "CCLMARK_HISTORY": str(tmp_path / "h.sqlite")}
    cclmark("history", "add", RUNS / "ctas8.jsonl", "--db", tmp_path / "h.sqlite")
    runs = [str(RUNS / f"{name}.jsonl") for name in ("default-1", "ctas8")]
    told = cclmark("compare", *runs, env=home)
    assert "pip install 'cclmark[history]'" in told.err
