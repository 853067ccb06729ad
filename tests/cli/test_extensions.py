"""Pages of docs/extend, all of them applied to one copy of the package: what they add works."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import toml

import cclmark
from cclmark import _engine
from cclmark.kinds.registry import read_journal
from commands import completed
from host_cases import Case
from patience import scaled
from places import REPOSITORY, TESTS
from recorded_hosts import base

EXTEND = REPOSITORY / "docs" / "extend"
SAMPLE = TESTS / "golden" / "sample.jsonl"
#: Each page with the most files that it names. Of a kind: a room, the list of kinds and the table
#: of commands.
MOST_FILES = {"kind": 10, "format": 2, "check": 2, "launcher": 3}
#: The lines of existing files before which pages add their own.
PLACES = {
    "src/cclmark/kinds/registry.py": ("from cclmark.kinds.collective import", ")\nKINDS: "),
    "src/cclmark/cli/commands.py": ("        **_COLLECTIVES,\n",),
    "src/cclmark/kinds/collective/formats.py": ("CASE_FORMATS: ", "}\n"),
    "src/cclmark_fleet/hosts/checks/__init__.py": ("#: In the order of lists", ")\nIDS:"),
    "src/cclmark/launch/placement.py": ("# In order of precedence", '    "openmpi": _openmpi,'),
}
_SECTION = re.compile(r"^## \d+\. .*?`([^`]+)`$", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# An editable install of the package would be found before the copy.
_SITE = """
import sys
sys.meta_path = [one for one in sys.meta_path if "Redirecting" not in type(one).__name__]
"""


def blocks_of(name: str) -> dict[str, list[str]]:
    """The file of each numbered section of a page, and the blocks of code in it."""
    text = (EXTEND / f"add-a-{name}.md").read_text()
    _, *parts = _SECTION.split(re.split(r"^## [^\d]", text, flags=re.MULTILINE)[0])
    assert len(parts[::2]) == len({*parts[::2]}) <= MOST_FILES[name]
    return {
        path: _BLOCK.findall(block) for path, block in zip(parts[::2], parts[1::2], strict=True)
    }


BLOCKS = {path: blocks for name in MOST_FILES for path, blocks in blocks_of(name).items() if blocks}


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A directory with a copy of the package to which the pages were applied."""
    root = tmp_path_factory.mktemp("extended")
    source = Path(cclmark.__file__).parent.parent
    for name in sorted(path.parent.name for path in source.glob("cclmark*/__init__.py")):
        # What was compiled serves the copy too: files keep their times.
        ignored = shutil.ignore_patterns("_engine*.so")
        shutil.copytree(source / name, root / name, ignore=ignored)
    (root / "cclmark" / Path(_engine.__file__).name).symlink_to(_engine.__file__)
    (root / "sitecustomize.py").write_text(_SITE)
    for path, blocks in BLOCKS.items():
        file = root / path.removeprefix("src/")
        if path not in PLACES:
            file.parent.mkdir(exist_ok=True)
            (text,) = blocks
        else:
            text = file.read_text()
            for place, addition in zip(PLACES[path], blocks, strict=True):
                assert text.count(f"\n{place}") == 1
                text = text.replace(f"\n{place}", f"\n{addition}{place}")
        file.write_text(text)
    return root


@pytest.fixture
def extended(package, tmp_path):
    """Runs the extended program and returns what it printed on both streams."""

    def run(*arguments: str, code: int = 0) -> str:
        done = completed(
            [sys.executable, "-m", "cclmark", *arguments], cwd=tmp_path, env=environment(package)
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def environment(package: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(package), **more}


def test_pages_name_existing_files_and_follow_the_rules_of_the_code(package):
    """Style, names and options are what the project's own tests require."""
    existing = {path for path in BLOCKS if (REPOSITORY / path).exists()}
    assert existing == PLACES.keys()
    assert all((REPOSITORY / path).is_file() for path in blocks_of("launcher"))
    ours = ("--config", 'lint.isort.known-first-party=["cclmark", "cclmark_fleet"]')

    def require(words: Sequence[str], **options: object) -> None:
        done = completed([sys.executable, "-m", *words], cwd=REPOSITORY, **options)
        assert done.returncode == 0, done.stdout + done.stderr

    for path in BLOCKS.keys() - existing:
        text = (package / path.removeprefix("src/")).read_text()
        for check in (("check", *ours), ("format", "--diff")):
            require(["ruff", *check, "--stdin-filename", path, "-"], input=text)
    tests = ("tests/repository/test_names.py", "tests/options/test_options.py")
    require(["pytest", "-q", "-p", "no:cacheprovider", *tests], env=environment(package))


def test_a_new_kind_measures_and_is_reported(extended, tmp_path):
    assert "Measure a barrier of all ranks." in extended("--help")
    shown = extended("arrival", "--devices", "host:2", "--rounds", "50", "--journal", "a.jsonl")
    assert re.search(r"^ +50 +[\d.]+$", shown, re.MULTILINE), shown
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines] == ["header", "arrival", "footer"]
    assert 0 < lines[1]["time_s"] < 1
    columns = "rounds,status,reason,time_us"
    chosen = extended("export", "a.jsonl", "--format", "csv", "--columns", columns).splitlines()
    assert chosen[0] == columns
    assert chosen[1].startswith("50,ok,,")
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
    command = [sys.executable, "-c", MEASURED]
    done = completed(command, cwd=tmp_path, env=environment(package), check=True)
    assert done.stdout == (
        "arrival 1 50 arrival --rounds 50 --devices host:2\n"
        "devices count bind timeout_s debug_rank rounds\n"
    )


def test_a_rank_that_dies_in_the_new_kind_is_named(extended):
    """The phases that the runner enters are known to supervision."""
    message = extended(
        *("arrival", "--devices", "host:2", "--rounds", "1000000000", "--timeout", "2"),
        code=4,
    )
    assert "1000000000 barriers" in message


def test_a_new_format_is_exported_and_offered(extended, tmp_path):
    shutil.copy(SAMPLE, tmp_path / "a.jsonl")
    text = extended("export", "a.jsonl", "--format", "sizes")
    assert text.startswith("# ")
    assert "all_reduce " in text
    flags = ("--devices", "host:2", "-b", "8", "-e", "8", "-n", "1", "--journal", "b.jsonl")
    assert "all_reduce 8 0.0" in extended("all_reduce", *flags, "--format", "sizes")


def test_a_new_check_fails_passes_and_cannot_tell(extended, tmp_path):
    page = (EXTEND / "add-a-check.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    rows = [Case("swap", number, row) for number, row in enumerate(toml.decode(block)["swap"])]
    assert [one.state for one in rows] == ["fail", "pass"]
    outcomes = []
    for host in (*(one.recording() for one in rows), base()):
        document = host.document()
        content = document | {"checks": [*document["checks"], "swap"]}
        (tmp_path / "host.json").write_text(json.dumps(content))
        words = ("--from", "host.json", "--only", "swap", "--format", "json", "--quiet")
        journal = ("--journal", f"{len(outcomes)}.jsonl")
        text = extended("doctor", *words, *journal, code=int(not outcomes))
        outcomes += [outcome for one in json.loads(text)["hosts"] for outcome in one["outcomes"]]
    failed, passed, unknown = outcomes
    assert (failed["state"], failed["signals"][0]["seen"]) == ("fail", "4096 MiB used")
    assert failed["remedies"][0]["step"] == "setting"
    assert passed["state"] == "pass"
    assert (unknown["state"], unknown["needs"]) == ("unknown", "swapon --show")


def test_processes_of_a_new_launcher_measure_together(package, tmp_path):
    processes = []
    for rank in ("0", "1"):
        own = {"JSM_NAMESPACE_RANK": rank, "JSM_NAMESPACE_LOCAL_RANK": rank, "LSB_JOBID": "7"}
        sizes = {"JSM_NAMESPACE_SIZE": "2", "JSM_NAMESPACE_LOCAL_SIZE": "2"}
        words = ("-b", "8", "-e", "8", "-n", "1", "-w", "0", "--journal", "run.jsonl")
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "cclmark", "all_reduce", "--devices", "host", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=tmp_path,
                env=environment(package, **own, **sizes),
            )
        )
    ended = [process.communicate(timeout=scaled(60)) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ended
    journal = read_journal(tmp_path / "run.jsonl")
    assert len(journal.header.devices) == 2
    assert {result.status for result in journal.results} == {"ok"}
