"""``cclmark history``: the installed program with files as they come, and with a real server.

What commands print is in tests/golden/transcripts.
"""

import csv
import hashlib
import json
import os
import pty
import socket
import sys
from urllib.parse import quote

import pytest

from commands import completed
from examples import exhaustive
from places import H200X4, RESULTS, RUNS, TESTS
from postgres import PASSWORD
from samples import edited
from transcripts import require_transcript, stored_commands, stored_names

STORED = {
    **{path.stem: path for path in RUNS.glob("*.jsonl")},
    **{"sweep": H200X4 / "all_reduce.jsonl", "copies": H200X4 / "p2p.jsonl"},
    "libraries": RESULTS / "h200x2" / "libraries.jsonl",
    **{"sample": TESTS / "golden" / "sample.jsonl", "hosts": H200X4 / "two_hosts.jsonl"},
}
DEFAULTS = [str(STORED[f"default-{number}"]) for number in range(1, 9)]


def night(number):
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def night_of(number, ratio):
    """The journal of a night, in which 32 MiB and more take ``ratio`` times as long from the night
    6 on, with another driver there.
    """

    def change(entry):
        if entry["type"] == "header":
            entry["run_id"] = night(number)
            entry["started_at"] = f"2026-11-{number + 1:02}T02:00:00.000+00:00"
            if number >= 6:
                entry["machine"]["vendor_driver"] = "590.1"
        elif entry["type"] == "case" and entry["case"]["size_bytes"] >= 32 << 20:
            entry["summary"]["time_s"] *= ratio if number >= 6 else 1

    return edited(STORED[f"default-{number % 8 + 1}"].read_bytes(), change)


def damaged(stored, sound):
    """A journal, of which all but so many of the lines with results are damaged."""
    lines = []
    for line in STORED[stored].read_text().splitlines():
        is_case = '"type":"case"' in line
        lines.append(line.replace("time_s", "time_x") if is_case and sound <= 0 else line)
        sound -= is_case
    return "\n".join([*lines, ""]).encode()


MADE = {
    "cut": lambda: STORED["default-1"].read_bytes()[:50_000],
    "damaged": lambda: damaged("default-4", 20),
    "empty": lambda: damaged("default-5", 0),
    "zero": bytes,
    **{f"slower-{n}": lambda n=n: night_of(n, 1.05) for n in range(10)},
}


# Commands say the same whatever has the history, which tests/history/test_history_store.py uses in
# every place: here some do so.
@pytest.mark.parametrize("history_place", ["sqlite", exhaustive("postgresql")], indirect=True)
@pytest.mark.parametrize("name", stored_names("history-"))
def test_what_commands_print(cclmark, history_place, tmp_path, name):
    lines = stored_commands(name)
    for journal in (*STORED, *MADE):
        if any(f"{journal}.jsonl" in line for line in lines):
            content = MADE[journal]() if journal in MADE else STORED[journal].read_bytes()
            (tmp_path / f"{journal}.jsonl").write_bytes(content)
    texts = {"notes.txt": "nothing", "text": "This is a text, longer than a header. " * 100}
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    place = {"CCLMARK_HISTORY": history_place}
    require_transcript(name, lines, cclmark, tmp_path, hidden=history_place, **place)
    assert [(tmp_path / file).read_text() for file in texts] == [*texts.values()]
    assert not (tmp_path / "new.sqlite").exists()


@pytest.fixture
def in_file(cclmark, tmp_path):
    def run(command, *arguments, **options):
        place = str(tmp_path / "history.sqlite")
        return cclmark("history", command, *arguments, "--db", place, **options)

    return run


def test_from_a_run_to_its_trend(cclmark, tmp_path):
    """As in docs/how-to/keep-history.md: without any option the user's own file."""
    env = {"XDG_DATA_HOME": str(tmp_path / "data")}
    sizes = ("-b", "64", "-e", "1K", "-f", "4", "-n", "5", "--devices", "host:2")
    ids = []
    for _ in range(2):
        run = cclmark("all_reduce", *sizes)
        told = cclmark("history", "add", run.journal_path, "--label", "night", env=env)
        assert told.out.startswith(f"added {run.journal.header.run_id}, 6 cases")
        ids.append(run.journal.header.run_id)
        again = cclmark("history", "show", ids[-1][:10], env=env)
        # A run in a history has no file: the verdict does not name one.
        place = str(run.journal_path.relative_to(run.directory))
        assert again.out.endswith(run.out.replace(place, "JOURNAL"))
    listed = cclmark("history", "list", env=env).out.splitlines()
    assert [line.split()[0] for line in listed[1:]] == [one[:12] for one in reversed(ids)]
    trend = cclmark("history", "trend", env=env).out
    assert "2 runs from" in trend
    assert "6 series on 1 machine" in trend
    assert "6 not judged: fewer than 6 runs" in trend
    assert (tmp_path / "data" / "cclmark" / "history.sqlite").is_file()


def test_equal_runs_of_two_machines_of_a_kind_show_no_change(in_file):
    """Two of 169 series differ by 1.8 and 1.9 %: below what matters."""
    in_file("add", *sorted((RUNS / "collectives").glob("*.jsonl")))
    assert "no change in 169 series by 2 % or more" in in_file("trend").out
    assert "2 of 169 series changed" in in_file("trend", "--threshold", "1%").out


def test_lists_for_programs(in_file):
    """Several values have commas between: names of what copies have spaces in them."""
    in_file("add", STORED["copies"], "--label", "of night", "--label", "links")
    in_file("add", *DEFAULTS)
    found = json.loads(in_file("list", "--format", "json").out)
    assert (found["total"], len(found["runs"])) == (9, 9)
    ccls = found["runs"][-1]["ccls"]
    assert len(ccls) > 1
    *_, row = csv.DictReader(in_file("list", "--format", "csv", "-n0").out.splitlines())
    assert (row["ccls"], row["labels"]) == (", ".join(ccls), "links, of night")


def test_a_trend_for_a_program(in_file, tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.jsonl").write_bytes(night_of(number, 0.9))
    in_file("add", *tmp_path.glob("*.jsonl"))
    found = json.loads(in_file("trend", "--format", "json").out)
    changed = [one for one in found["series"] if one["changes"]]
    assert len(found["series"]) == 26
    assert len(changed) == 4
    for one in changed:
        (change,) = one["changes"]
        assert change["verdict"] == "faster"
        assert change["low"] < 0.9 < change["high"]
        assert (change["before"], change["after"]) == (night(5), night(6))
        assert len(one["times_s"]) == len(one["runs"]) == 10
    assert found["steps"][0]["differences"] == ["driver: 580.159.04 before, 590.1 after"]


def test_on_a_terminal_it_asks(in_file, tmp_path):
    in_file("add", *DEFAULTS[:2])
    mine, theirs = pty.openpty()
    os.write(mine, b"n\n")
    command = ("history", "prune", "--keep", "1", "--db", str(tmp_path / "history.sqlite"))
    told = completed([sys.executable, "-m", "cclmark", *command], stdin=theirs)
    os.close(mine)
    os.close(theirs)
    assert told.returncode == 130, told.stderr
    assert "This removes 1 run " in told.stderr
    assert json.loads(in_file("list", "--format", "json").out)["total"] == 2


def test_a_damaged_database(in_file, tmp_path):
    in_file("add", *DEFAULTS)
    file = tmp_path / "history.sqlite"
    content = bytearray(file.read_bytes())
    for at in range(4096, len(content) - 100, 4096):
        content[at : at + 100] = b"\xff" * 100
    file.write_bytes(content)
    assert "is damaged" in in_file("trend", code=3).err


def test_servers_without_the_drivers_package(cclmark, tmp_path):
    (tmp_path / "psycopg.py").write_text("raise ModuleNotFoundError('no', name='psycopg')")
    env = {"PYTHONPATH": str(tmp_path)}
    place = "postgresql://user:s3cr3t@host/db"
    told = cclmark("history", "add", DEFAULTS[0], "--db", place, env=env, code=3)
    assert "pip install 'cclmark[postgres]'" in told.err
    assert "s3cr3t" not in told.err


def test_a_server_with_a_password_which_is_not_repeated(cclmark, postgres_server):
    def over_tcp(password, database):
        address = f"127.0.0.1:{postgres_server.port}/{database}"
        return f"postgresql://postgres:{quote(password, safe='')}@{address}"

    database = postgres_server.new_database()
    place = over_tcp(PASSWORD, database)
    cclmark("history", "add", DEFAULTS[0], "--db", place)
    assert postgres_server.sql(database, "SELECT count(*) FROM cclmark_results") == "26"
    query = f"postgresql://postgres@127.0.0.1:{postgres_server.port}/x?password=s3cr3t"
    for url in (over_tcp("s3cr3t/@x", "postgres"), query):
        told = cclmark("history", "list", "--db", url, code=3)
        assert "password authentication failed" in told.err
        for written in ("s3cr3t", quote("s3cr3t/@x", safe="")):
            assert written not in told.err + told.out
    told = cclmark("history", "list", "--db", postgres_server.url("nothing"), code=3)
    assert 'database "nothing" does not exist' in told.err


def test_a_server_that_does_not_answer(cclmark):
    with socket.create_server(("127.0.0.1", 0)) as one:
        address = f"127.0.0.1:{one.getsockname()[1]}"
        place = f"postgresql://user:s3cr3t@{address}/db?connect_timeout=2"
        told = cclmark("history", "list", "--db", place, code=3, timeout_s=20)
    assert "time" in told.err
    assert "s3cr3t" not in told.err
