"""docs/extend/add-a-kind.md, applied to a copy of the package: the new kind works everywhere."""

import json
import os
import re
import sys

import pytest

from commands import completed
from extending import blocks_of, copy_of_package, require_style, run_copy
from places import REPOSITORY

PAGE = REPOSITORY / "docs" / "extend" / "add-a-kind.md"
MOST_FILES = 10  # a room, the list of kinds and the table of commands
#: The ends of lines of existing files behind which the page adds its own.
PLACES = {
    "src/cclmark/kinds/registry.py": (
        "\nfrom cclmark.kinds.collective import",
        "\n)\nKINDS: ",
    ),
    "src/cclmark/cli/commands.py": ("        **_COLLECTIVES,\n",),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A directory with a copy of the package to which the page was applied."""
    root = copy_of_package(tmp_path_factory.mktemp("extended"))
    for path, blocks in blocks_of(PAGE):
        file = root / path.removeprefix("src/")
        if path not in PLACES:
            file.parent.mkdir(exist_ok=True)
            file.write_text(blocks[0])
            continue
        text = file.read_text()
        for place, addition in zip(PLACES[path], blocks, strict=True):
            assert text.count(place) == 1
            line = place.removeprefix("\n")
            text = text.replace(line, f"{addition}{line}", 1)
        file.write_text(text)
    return root


@pytest.fixture
def extended(package, tmp_path):
    """Runs the extended program and returns what it printed."""

    def run(*arguments: str, code: int = 0) -> str:
        return run_copy(package, tmp_path, *arguments, code=code)

    return run


def test_the_page_names_few_files_and_follows_the_rules_of_the_code(package):
    """Style, names and options are what the project's own tests require."""
    paths = [path for path, _ in blocks_of(PAGE)]
    assert len(paths) == len(set(paths)) <= MOST_FILES
    assert {path for path in paths if (REPOSITORY / path).exists()} == PLACES.keys()
    require_style(package, paths, "tests/repository/test_names.py", "tests/options/test_options.py")


def test_the_new_kind_measures_and_is_reported(extended, tmp_path):
    assert "Measure a barrier of all ranks." in extended("--help")
    shown = extended("arrival", "--devices", "host:2", "--rounds", "50", "--journal", "a.jsonl")
    assert re.search(r"^ +50 +[\d.]+$", shown, re.MULTILINE), shown
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["header", "arrival", "footer"]
    assert 0 < lines[1]["time_s"] < 1
    csv = extended("export", "a.jsonl", "--format", "csv")
    assert "rounds,status,reason,time_us" in csv.splitlines()[0]
    chosen = extended("export", "a.jsonl", "--format", "csv", "--columns", "rounds").splitlines()
    assert chosen[:2] == ["rounds", "50"]
    document = json.loads(extended("export", "a.jsonl", "--format", "json").partition("\n#")[0])
    assert [one["arrival"]["rounds"] for one in document["arrivals"]] == [50]
    (tmp_path / "a.json").write_text(json.dumps(document))
    extended("import", "a.json", "--journal", "b.jsonl")
    assert '"rounds":50' in (tmp_path / "b.jsonl").read_text().replace(" ", "")
    gauges = extended("export", "a.jsonl", "--format", "prometheus")
    assert 'cclmark_arrival_time_seconds{rounds="50"' in gauges
    extended("report", "a.jsonl", "-O", "a.html")
    assert "1 arrivals" in (tmp_path / "a.html").read_text()
    extended("history", "add", "a.jsonl", "--db", "h.sqlite")
    assert "arrival" in extended("history", "list", "--db", "h.sqlite", "--format", "json")
    assert "arrivals" in extended("compare", "a.jsonl", "a.jsonl", code=2)


MEASURED = """
import cclmark
run = cclmark.measure("arrival", rounds=50, devices="host:2")
print(run.kind, len(run.rows), run.rows[0].arrival.rounds, *run.header.command[1:])
print(*cclmark.measure_options("arrival"))
"""


def test_a_program_measures_the_new_kind(extended, package, tmp_path):
    line = extended("arrival", "--devices", "host:2", "--rounds", "50", "--print-plan")
    assert line == 'cclmark.measure("arrival", devices="host:2", rounds=50)\n'
    done = completed(
        [sys.executable, "-c", MEASURED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        check=True,
    )
    assert done.stdout == (
        "arrival 1 50 arrival --rounds 50 --devices host:2\n"
        "devices count bind timeout_s debug_rank rounds\n"
    )


def test_a_rank_that_dies_in_it_is_named(extended, tmp_path):
    """The phases that the runner enters are known to supervision."""
    message = extended(
        *("arrival", "--devices", "host:2", "--rounds", "1000000000", "--timeout", "2"),
        code=4,
    )
    assert "1000000000 barriers" in message
