"""docs/extend/add-a-kind.md, applied to a copy of the package: the new kind works everywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from extending import blocks_of, copy_of_package, run_copy

PAGE = Path(__file__).parents[2] / "docs" / "extend" / "add-a-kind.md"
MOST_FILES = 6  # four new ones and two tables


def extend_kinds(text: str, struct: str, union: str, line: str) -> str:
    """The table of kinds with the struct, the union and the line of the page."""
    assert text.count("\nResult = ") == 1
    before, _, after = text.partition("\nResult = ")
    _, name, rest = after.partition("\nLine = ")  # after the union, of one line or several
    rest = name.lstrip() + rest
    table, end, tail = rest.partition("\n}\n")
    assert end
    return (
        before.replace(
            "from cclmark.plan.pair_cases import",
            "from cclmark.plan.meetings import MEETING, Meeting\n"
            "from cclmark.plan.pair_cases import",
        )
        + f"\n{struct}\n\n{union}{table}\n{line}}}\n{tail}"
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A directory with a copy of the package to which the page was applied."""
    root = copy_of_package(tmp_path_factory.mktemp("extended"))
    copy = root / "cclmark"
    for path, blocks in blocks_of(PAGE):
        file = copy / path.removeprefix("src/cclmark/")
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(blocks[0])
        elif file.name == "kinds.py":
            file.write_text(extend_kinds(file.read_text(), *blocks))
        else:
            (line,) = blocks
            text = file.read_text()
            assert text.count("COMMANDS = {\n") == 1
            file.write_text(text.replace("COMMANDS = {\n", f"COMMANDS = {{\n{line}"))
    return root


@pytest.fixture
def extended(package, tmp_path):
    """Runs the extended program and returns what it printed."""

    def run(*arguments: str, code: int = 0) -> str:
        return run_copy(package, tmp_path, *arguments, code=code)

    return run


def test_the_page_names_few_files():
    paths = [path for path, _ in blocks_of(PAGE)]
    assert len(paths) == len(set(paths)) <= MOST_FILES
    existing = {path for path in paths if (PAGE.parents[2] / path).exists()}
    assert existing == {"src/cclmark/results/kinds.py", "src/cclmark/cli/commands.py"}


def test_the_new_kind_measures_and_is_reported(extended, tmp_path):
    assert "Time of a barrier between ranks." in extended("--help")
    shown = extended("meeting", "--devices", "host:2", "--rounds", "50", "--journal", "a.jsonl")
    assert re.search(r"^ +50 +[\d.]+ us$", shown, re.MULTILINE), shown
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["header", "meeting", "footer"]
    assert 0 < lines[1]["time_s"] < 1
    csv = extended("export", "a.jsonl", "--format", "csv")
    assert "rounds,status,time_us" in csv.splitlines()[0]
    document = json.loads(extended("export", "a.jsonl", "--format", "json").partition("\n#")[0])
    assert [one["meeting"]["rounds"] for one in document["meetings"]] == [50]
    (tmp_path / "a.json").write_text(json.dumps(document))
    extended("import", "a.json", "--journal", "b.jsonl")
    assert '"rounds":50' in (tmp_path / "b.jsonl").read_text().replace(" ", "")
    gauges = extended("export", "a.jsonl", "--format", "prometheus")
    assert 'cclmark_meeting_seconds{rounds="50"' in gauges
    extended("report", "a.jsonl", "-O", "a.html")
    assert "1 meetings" in (tmp_path / "a.html").read_text()
    extended("history", "add", "a.jsonl", "--db", "h.sqlite")
    assert "meeting" in extended("history", "list", "--db", "h.sqlite", "--format", "json")
    assert "meetings" in extended("compare", "a.jsonl", "a.jsonl", code=2)


def test_a_rank_that_dies_in_it_is_named(extended, tmp_path):
    """The phases that the runner enters are known to supervision."""
    message = extended(
        *("meeting", "--devices", "host:2", "--rounds", "1000000000", "--timeout", "2"),
        code=4,
    )
    assert "1000000000 barriers" in message
