"""``cclmark history``: the installed program with files as they come, and with a real server."""

import csv
import hashlib
import io
import json
import os
import pty
import resource
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from commands import PROGRAM, completed
from examples import exhaustive
from places import RESULTS, RUNS, TESTS
from postgres import PASSWORD
from samples import edited

GOLDEN = TESTS / "golden" / "sample.jsonl"
DEFAULTS = [str(RUNS / f"default-{number}.jsonl") for number in range(1, 9)]
FIRST = "fa3d6a0ec1c84c559bb0eb9291906219"


# Commands say the same whatever has the history, which tests/history/test_history_store.py uses in
# every place: here some do so.
mainly_sqlite = pytest.mark.parametrize(
    "history_place",
    ["sqlite", exhaustive("postgresql")],
    indirect=True,
)


@pytest.fixture
def history(cclmark, history_place):
    """``cclmark history`` with a database of its own, by the variable."""

    def run(command, *arguments, **options):
        env = {"CCLMARK_HISTORY": history_place}
        return cclmark("history", command, *arguments, env=env, **options)

    return run


@pytest.fixture
def in_file(cclmark, tmp_path):
    """The same in an SQLite file, by the option."""

    def run(command, *arguments, **options):
        place = str(tmp_path / "history.sqlite")
        return cclmark("history", command, *arguments, "--db", place, **options)

    return run


def night(number):
    """The id of the run of that night."""
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def slower_from(place, ratio, directory, runs=10):
    """Journals of one command, in which 32 MiB and more take ``ratio`` times as long from the run
    ``place`` on, with another driver there.
    """
    files = []
    for number in range(runs):

        def change(entry, number=number):
            if entry["type"] == "header":
                entry["run_id"] = night(number)
                entry["started_at"] = f"2026-11-{number + 1:02}T02:00:00.000+00:00"
                if number >= place:
                    entry["machine"]["vendor_driver"] = "590.1"
            elif entry["type"] == "case" and entry["case"]["size_bytes"] >= 32 << 20:
                entry["summary"]["time_s"] *= ratio if number >= place else 1

        file = directory / f"night-{number:02}.jsonl"
        file.write_bytes(edited(Path(DEFAULTS[number % 8]).read_bytes(), change))
        files.append(str(file))
    return files


class TestEveryday:
    def test_from_a_run_to_its_trend(self, cclmark, tmp_path):
        """As in docs/how-to/keep-history.md: without any option the user's own file."""
        env = {"XDG_DATA_HOME": str(tmp_path / "data")}
        sizes = ("-b", "64", "-e", "1K", "-f", "4", "-n", "5", "--devices", "host:2")
        ids = []
        for _ in range(3):
            run = cclmark("all_reduce", *sizes)
            told = cclmark("history", "add", run.journal_path, "--label", "night", env=env)
            assert told.out.startswith(f"added {run.journal.header.run_id}, 6 cases")
            ids.append(run.journal.header.run_id)
            again = cclmark("history", "show", ids[-1][:10], env=env)
            # A run in a history has no file: the verdict does not name one.
            assert again.out.endswith(run.out.replace(str(run.journal_path), "JOURNAL"))
        listed = cclmark("history", "list", env=env).out.splitlines()
        assert [line.split()[0] for line in listed[1:]] == [one[:12] for one in reversed(ids)]
        trend = cclmark("history", "trend", env=env).out
        assert "3 runs from" in trend
        assert "6 series on 1 machine" in trend
        assert "6 not judged: fewer than 6 runs" in trend
        assert (tmp_path / "data" / "cclmark" / "history.sqlite").is_file()

    def test_a_journal_comes_back_byte_by_byte(self, history, tmp_path):
        whole = (RUNS / "ctas8.jsonl").read_bytes()
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(Path(DEFAULTS[0]).read_bytes()[:50_000])
        history("add", RUNS / "ctas8.jsonl", cut)
        out = tmp_path / "out.jsonl"
        told = history("export", "6a7", "-o", out)
        assert (told.out, told.err) == ("", f"cclmark: written {out}\n")
        assert out.read_bytes() == whole
        other = tmp_path / "other.jsonl"
        history("export", FIRST, "--output", other)
        assert other.read_bytes() == cut.read_bytes()
        told = history("export", FIRST, "-o", out, code=2)
        assert "out.jsonl already exists: use another file" in told.err
        assert out.read_bytes() == whole
        history("export", FIRST, "-o", "/dev/null")
        assert history("export", FIRST).out.encode() == cut.read_bytes()

    @mainly_sqlite
    def test_several_values_have_commas_between(self, history):
        """Of copies the library is what copies, and such names have spaces in them."""
        history("add", RESULTS / "h200x4" / "p2p.jsonl", "--label", "of night", "--label", "links")
        ccls = json.loads(history("list", "--format", "json").out)["runs"][0]["ccls"]
        assert len(ccls) > 1
        [line] = history("list").out.splitlines()[1:]
        assert f"p2p · {', '.join(ccls)}  " in line
        assert line.endswith("  links, of night")
        [row] = csv.DictReader(io.StringIO(history("list", "--format", "csv").out))
        assert (row["ccls"], row["labels"]) == (", ".join(ccls), "links, of night")

    @mainly_sqlite
    def test_the_same_run_twice(self, history):
        assert history("add", DEFAULTS[0]).out.startswith(f"added {FIRST}, 26 cases")
        told = history("add", DEFAULTS[0], DEFAULTS[1])
        assert f"known {FIRST}: already in the history, nothing changed" in told.out
        assert told.out.count("added ") == 1
        told = history("add", DEFAULTS[0], "--label", "late")
        assert f"known {FIRST}: already in the history, labelled late" in told.out
        assert history("list", "--label", "late").out.count(FIRST[:12]) == 1
        assert json.loads(history("list", "--format", "json").out)["total"] == 2

    @mainly_sqlite
    def test_good_journals_are_added_and_bad_ones_told(self, history, tmp_path):
        text = tmp_path / "notes.txt"
        text.write_text("nothing")
        told = history("add", DEFAULTS[0], text, "absent.jsonl", DEFAULTS[1], code=2)
        assert told.out.count("added") == 2
        assert "notes.txt is not a journal" in told.err
        assert "cannot read absent.jsonl" in told.err
        assert "2 of 4 journals were not added" in told.err
        assert "1 of 1 journal was not added" in history("add", text, code=2).err
        assert json.loads(history("list", "--format", "json").out)["total"] == 2

    def test_replace(self, in_file, tmp_path):
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(Path(DEFAULTS[0]).read_bytes()[:50_000])
        in_file("add", cut)
        assert "use --replace to store this one" in in_file("add", DEFAULTS[0], code=2).err
        assert f"replaced {FIRST}, 26 cases" in in_file("add", DEFAULTS[0], "--replace").out

    def test_the_trials_of_an_experiment_are_its_cases(self, in_file, cclmark):
        sizes = ("--devices", "host:2", "-b", "1K", "-e", "1K", "-n", "1", "-w", "0")
        vary = ("--vary", "CCLMARK_SHM_INLINE_BYTES=512", "--rounds", "2")
        journal = cclmark("experiment", "all_reduce", *sizes, *vary).journal_path
        assert ", 6 cases (" in in_file("add", str(journal)).out
        (run,) = json.loads(in_file("list", "--format", "json").out)["runs"]
        assert run["cases"] == 6


class TestLists:
    def test_filters_and_formats(self, in_file):
        history = in_file
        history("add", *DEFAULTS[:5], "--label", "night")
        history("add", RESULTS / "h200x4" / "p2p.jsonl", RESULTS / "h200x2" / "libraries.jsonl")

        def total(*filters):
            return json.loads(history("list", "--format", "json", *filters).out)["total"]

        assert total() == 7
        assert total("--label", "night", "--device", "h200", "--machine", "h200-HOST") == 5
        assert total("--operation", "p2p") == 1
        assert total("--ccl", "flagcx") == 1
        assert total("--since", "2026-11-22T05:00:43", "--label", "night") == 3
        assert total("--until", "2026-11-22", "--label", "night") == 5
        assert total("--until", "2026-11-21", "--label", "night") == 0
        table = history("list", "-n", "2", "--label", "night").out
        assert "2 of 5 runs" in table
        rows = list(csv.DictReader(io.StringIO(history("list", "--format", "csv", "-n0").out)))
        assert len(rows) == 7
        assert rows[0]["run_id"]
        assert history("list", "--label", "none").out == "no runs\n"

    @pytest.mark.parametrize(
        "file",
        [
            GOLDEN,
            RESULTS / "h200x4" / "two_hosts.jsonl",
        ],
    )
    def test_every_kind_of_run_is_shown(self, in_file, file):
        in_file("add", file)
        run = json.loads(in_file("list", "--format", "json").out)["runs"][0]["run_id"]
        table = in_file("show", run).out
        assert run in table
        assert "cclmark 0.1.0" in table
        for name in ("json", "csv", "markdown"):
            assert in_file("show", run, "--format", name).out
        shown = json.loads(in_file("show", run, "--format", "json").out)
        written = json.loads(file.read_text().splitlines()[0])
        assert shown["header"]["command"] == written["command"]

    def test_a_run_that_is_not_there(self, in_file):
        in_file("add", *DEFAULTS)
        assert "no run 'xyz'" in in_file("show", "xyz", code=2).err
        assert " matches " in in_file("export", "8", "-o", "x", code=2).err


def test_a_run_is_shown_with_what_is_normal(in_file, cclmark):
    sweep = RUNS.parent / "all_reduce.jsonl"
    in_file("add", sweep)
    (run,) = json.loads(in_file("list", "--format", "json").out)["runs"]
    normal = "peaks are normal: all_reduce 99% of the reference (4 × H200, nccl-tests"
    assert normal in in_file("show", run["run_id"]).out
    assert normal in cclmark("export", sweep, "--format", "table").out
    in_file("add", RUNS.parent / "p2p.jsonl")
    copies = json.loads(in_file("list", "--operation", "p2p", "--format", "json").out)["runs"]
    path = RUNS.parent / "p2p.jsonl"
    there = cclmark("export", path, "--format", "table").out.replace(str(path), "JOURNAL")
    assert in_file("show", copies[0]["run_id"]).out.endswith(there)
    assert "normal: " in there


class TestTrends:
    @mainly_sqlite
    def test_eight_runs_of_one_command_have_no_change(self, history):
        history("add", *DEFAULTS)
        told = history("trend", "--fail-if-slower", "1%")
        assert "no change in 26 series by 1 % or more" in told.out
        assert told.out.count("   8  ") >= 26

    @mainly_sqlite
    def test_a_change_is_told_with_what_else_changed(self, history, tmp_path):
        history("add", *slower_from(6, 1.05, tmp_path))
        told = history("trend", "--fail-if-slower", "3%", code=1)
        ends = (f"{night(number)[:12]} (2026-11-0{number + 1} 02:00:00)" for number in (5, 6))
        assert "between runs " + " and ".join(ends) in told.out
        assert "4 slower, most of all all_reduce float32 sum" in told.out
        assert "driver: 580.159.04 before, 590.1 after" in told.out
        assert "4 of 26 series changed by 2 % or more: 4 slower, 0 faster" in told.out
        assert "4 slower by 3 % or more since their last change" in told.err
        assert history("trend", "--fail-if-slower", "8%").err == ""
        # Whoever accepts a change begins after it, and is told as long as that is too short.
        told = history("trend", "--fail-if-slower", "3%", "--since", "2026-11-07", code=2)
        assert "every case has fewer than 6 runs, the most 4" in told.err

    @mainly_sqlite
    def test_a_change_below_the_threshold_is_not_reported(self, history, tmp_path):
        history("add", *slower_from(6, 1.015, tmp_path))
        assert "no change in 26 series by 2 % or more" in history("trend").out
        assert "changed by 1 % or more: 2 slower" in history("trend", "--threshold", "1%").out
        # A gate below the default looks for what it is asked for.
        told = history("trend", "--fail-if-slower", "1%", code=1)
        assert "2 slower by 1 % or more" in told.err
        told = history("trend", "--fail-if-slower", "1%", "--threshold", "2%", code=2)
        assert "lower the threshold" in told.err

    @mainly_sqlite
    def test_equal_runs_of_two_machines_of_a_kind_show_no_change(self, history):
        """Two of 169 series differ by 1.8 and 1.9 %: below what matters."""
        history("add", *sorted((RUNS / "collectives").glob("*.jsonl")))
        assert "no change in 169 series by 2 % or more" in history("trend").out
        assert "2 of 169 series changed" in history("trend", "--threshold", "1%").out

    def test_formats_of_a_trend(self, in_file, tmp_path):
        in_file("add", *slower_from(6, 0.9, tmp_path))
        found = json.loads(in_file("trend", "--format", "json").out)
        changed = [one for one in found["series"] if one["changes"]]
        assert len(found["series"]) == 26
        assert len(changed) == 4
        for one in changed:
            (change,) = one["changes"]
            assert change["verdict"] == "faster"
            assert change["low"] < 0.9 < change["high"]
            assert change["before"] == night(5)
            assert change["after"] == night(6)
            assert len(one["times_s"]) == len(one["runs"]) == 10
        assert found["steps"][0]["differences"] == ["driver: 580.159.04 before, 590.1 after"]
        text = in_file("trend", "--format", "markdown").out
        assert text.count("| faster |") == 4
        assert "driver: 580.159.04 before, 590.1 after" in text


class TestPruning:
    def left(self, history):
        return {
            one["run_id"] for one in json.loads(history("list", "--format", "json").out)["runs"]
        }

    @mainly_sqlite
    def test_nothing_goes_without_a_yes(self, history):
        history("add", *DEFAULTS)
        told = history("prune", "--keep", "5", code=2)
        assert "This removes 3 runs" in told.err
        assert FIRST[:12] in told.err
        assert "use --yes to remove 3 runs without confirmation" in told.err
        assert len(self.left(history)) == 8

    @pytest.mark.parametrize(("answer", "left", "code"), [("n", 2, 130), ("y", 1, 0)])
    def test_on_a_terminal_it_asks(self, in_file, tmp_path, answer, left, code):
        in_file("add", *DEFAULTS[:2])
        mine, theirs = pty.openpty()
        os.write(mine, f"{answer}\n".encode())
        command = ("history", "prune", "--keep", "1", "--db", str(tmp_path / "history.sqlite"))
        told = completed([sys.executable, "-m", "cclmark", *command], stdin=theirs)
        os.close(mine)
        os.close(theirs)
        assert told.returncode == code, told.stderr
        assert "This removes 1 run " in told.stderr
        assert len(self.left(in_file)) == left

    @mainly_sqlite
    def test_what_goes(self, history):
        history("add", *DEFAULTS)
        assert history("prune", "--run", FIRST[:6], "--yes").out == "removed 1 run\n"
        assert FIRST not in self.left(history)
        assert (
            history("prune", "--before", "2026-11-22T05:00:45", "--yes").out == "removed 2 runs\n"
        )
        assert history("prune", "--keep", "4", "--machine", "other", "--yes").out == (
            "nothing to remove\n"
        )
        assert history("prune", "--keep", "2", "--yes").out == "removed 3 runs\n"
        assert len(self.left(history)) == 2
        assert history("prune", "--keep", "0", "--yes").out == "removed 2 runs\n"
        assert history("trend").out.startswith("no runs")
        assert history("add", *DEFAULTS).out.count("added") == 8

    def test_one_way_of_choosing(self, in_file):
        in_file("add", DEFAULTS[0])
        both = ("--keep", "1", "--before", "2026-11-22")
        for wrong in ((), both, ("--run", FIRST, "--machine", "x"), ("--before", "soon")):
            in_file("prune", *wrong, "--yes", code=2)
        assert len(self.left(in_file)) == 1


def test_a_gate_that_can_judge_nothing_does_not_pass(in_file):
    in_file("add", DEFAULTS[0])
    assert in_file("trend").out.startswith("1 run of 2026-11-2")
    in_file("add", *DEFAULTS[1:5], "--label", "night")
    gate = ("trend", "--fail-if-slower", "5%")
    told = in_file(*gate, "--label", "nihgt", code=2)
    assert "--label 'nihgt': no run of the history has this label: it has night" in told.err
    assert "every case has fewer than 6 runs, the most 5" in in_file(*gate, code=2).err
    in_file("add", DEFAULTS[5])
    assert in_file(*gate).err == ""


class TestBadPlaces:
    @pytest.mark.parametrize("command", [("list",), ("show", FIRST), ("trend",)])
    def test_the_history_itself_is_not_written_over(self, in_file, tmp_path, command):
        in_file("add", DEFAULTS[0])
        before = (tmp_path / "history.sqlite").read_bytes()
        assert "would be overwritten" in in_file(*command, "-o", "history.sqlite", code=2).err
        assert (tmp_path / "history.sqlite").read_bytes() == before

    READING = (("list",), ("show", "x"), ("trend",), ("export", "x"), ("prune", "--keep", "1"))

    def test_there_is_none_yet(self, cclmark, tmp_path):
        for command in self.READING:
            told = cclmark("history", *command, "--db", "new.sqlite", code=3)
            assert "history add JOURNAL creates one" in told.err
        assert not (tmp_path / "new.sqlite").exists()

    def test_what_is_no_database(self, cclmark, tmp_path):
        (tmp_path / "text").write_text("This is a text, and by far longer than a header." * 100)
        was = (tmp_path / "text").read_bytes()
        for command in (*self.READING, ("add", DEFAULTS[0])):
            told = cclmark("history", *command, "--db", "text", code=2)
            assert "text is not a history of cclmark" in told.err
        assert (tmp_path / "text").read_bytes() == was

    @pytest.mark.parametrize(
        ("place", "code", "says"),
        [
            ("missing/history.sqlite", 3, "does not exist"),
            ("/proc/history.sqlite", 3, "may not write there"),
            (".", 2, "is a directory"),
            ("x" * 300, 3, "cannot open the history"),
            ("mysql://user:s3cr3t@host/db", 2, "not mysql"),
            ("postgresql://user:s3cr3t@host:port/db", 2, "cannot read the address"),
        ],
    )
    def test_where_none_can_be(self, cclmark, place, code, says):
        told = cclmark("history", "add", DEFAULTS[0], "--db", place, code=code)
        assert says in told.err
        assert "s3cr3t" not in told.err + told.out

    def test_a_damaged_one(self, in_file, tmp_path):
        in_file("add", *DEFAULTS)
        file = tmp_path / "history.sqlite"
        content = bytearray(file.read_bytes())
        for at in range(4096, len(content) - 100, 4096):
            content[at : at + 100] = b"\xff" * 100
        file.write_bytes(content)
        told = in_file("trend", code=3)
        assert "is damaged" in told.err

    def test_one_that_is_locked(self, in_file, tmp_path):
        in_file("add", DEFAULTS[0])
        other = sqlite3.connect(tmp_path / "history.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert in_file("list").out.count(FIRST[:12]) == 1
        told = in_file("add", DEFAULTS[1], code=3)
        assert "was locked by another process for more than 5 s" in told.err
        other.execute("ROLLBACK")
        other.close()
        in_file("add", DEFAULTS[1])

    def test_without_the_drivers_package(self, cclmark, tmp_path):
        (tmp_path / "psycopg.py").write_text("raise ModuleNotFoundError('no', name='psycopg')")
        env = {"PYTHONPATH": str(tmp_path)}
        place = "postgresql://user:s3cr3t@host/db"
        for command in (("list",), ("add", DEFAULTS[0])):
            told = cclmark("history", *command, "--db", place, env=env, code=3)
            assert "pip install 'cclmark[postgres]'" in told.err
            assert "s3cr3t" not in told.err

    def test_an_export_that_finds_no_room_leaves_nothing_behind(self, in_file, tmp_path):
        in_file("add", DEFAULTS[0])
        run = json.loads(Path(DEFAULTS[0]).read_text().split("\n", 1)[0])["run_id"]
        command = [*PROGRAM, "history", "export", run, "-O", str(tmp_path / "half.jsonl")]
        command += ["--db", str(tmp_path / "history.sqlite")]
        in_file("export", run, "-O", tmp_path / "new.jsonl")
        assert (tmp_path / "new.jsonl").read_bytes() == Path(DEFAULTS[0]).read_bytes()
        # Smaller than the journal, and larger than whatever else is written.
        room = (100_000, 100_000)
        limited = subprocess.run(
            command,
            capture_output=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, room),
        )
        assert limited.returncode == 3
        assert b"cannot write" in limited.stderr
        assert not list(tmp_path.glob("*half*"))
        assert not list(tmp_path.glob(".half*"))

    def test_wrong_options(self, in_file):
        in_file("add", DEFAULTS[0])
        assert "write 2026-11-01" in in_file("list", "--since", "soon", code=2).err
        assert "leave the option out" in in_file("list", "--machine=", code=2).err
        assert "write a share" in in_file("trend", "--fail-if-slower", "a bit", code=2).err
        assert "--label is empty" in in_file("add", DEFAULTS[0], "--label", " ", code=2).err
        hostile = in_file("add", DEFAULTS[0], "--label", "a\x1b[31m", code=2).err
        assert "--label must be printable, and 'a\\x1b[31m' is not" in hostile
        assert "cannot write" in in_file("export", FIRST, "-o", "/nowhere/x", code=2).err
        assert "cannot write" in in_file("export", FIRST, "-o", "/dev/full", code=3).err
        in_file("list", "-O", "/nowhere/x", code=2)
        in_file("add", code=2)
        in_file("list", "-n", str(10**30), code=2)


class TestServers:
    def over_tcp(self, server, password, database, **options):
        place = (
            f"postgresql://postgres:{quote(password, safe='')}@127.0.0.1:{server.port}/{database}"
        )
        return place + ("?" + "&".join(f"{key}={value}" for key, value in options.items()))

    def test_with_a_password(self, cclmark, postgres_server):
        database = postgres_server.new_database()
        place = self.over_tcp(postgres_server, PASSWORD, database)
        cclmark("history", "add", *DEFAULTS, "--db", place)
        assert "8 runs" in cclmark("history", "trend", "--db", place).out
        assert postgres_server.sql(database, "SELECT count(*) FROM cclmark_results") == "208"

    def test_a_wrong_password_is_not_repeated(self, cclmark, postgres_server):
        place = self.over_tcp(postgres_server, "s3cr3t/@x", "postgres")
        query = f"postgresql://postgres@127.0.0.1:{postgres_server.port}/x?password=s3cr3t"
        for url in (place, query):
            told = cclmark("history", "list", "--db", url, code=3)
            assert "password authentication failed" in told.err
            for written in ("s3cr3t", quote("s3cr3t/@x", safe="")):
                assert written not in told.err + told.out
        told = cclmark("history", "list", "--db", postgres_server.url("nothing"), code=3)
        assert 'database "nothing" does not exist' in told.err

    def test_a_user_who_may_only_look(self, cclmark, postgres_server):
        database = postgres_server.new_database()
        cclmark("history", "add", DEFAULTS[0], "--db", postgres_server.url(database))
        place = postgres_server.url(database, user="reader")
        assert "permission denied" in cclmark("history", "list", "--db", place, code=3).err
        grant = "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
        postgres_server.sql(database, grant)
        assert FIRST[:12] in cclmark("history", "list", "--db", place).out
        assert (
            "permission denied" in cclmark("history", "add", DEFAULTS[1], "--db", place, code=3).err
        )

    @pytest.mark.parametrize("listens", [False, True])
    def test_a_server_that_does_not_answer(self, cclmark, listens):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            if listens:
                one.listen()
            address = f"127.0.0.1:{one.getsockname()[1]}"
            place = f"postgresql://user:s3cr3t@{address}/db?connect_timeout=2"
            told = cclmark("history", "list", "--db", place, code=3, timeout_s=20)
        assert ("time" if listens else "refused") in told.err
        assert "s3cr3t" not in told.err


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (
            ("--device", "nope"),
            "--device 'nope': no device of the history has this in its name: it has 4 × NVIDIA",
        ),
        (
            ("--operation", "allreduce"),
            "--operation 'allreduce': no run of the history has this operation: it has all_re",
        ),
        (("--ccl", "nope"), "--ccl 'nope': no run of the history has this library: it has nccl"),
        (("--label", "nope"), "--label 'nope': no run of the history has this label: it has night"),
        (
            ("--machine", "nope"),
            "--machine 'nope': no host of the history has this in its name: it has h200-host",
        ),
        (
            ("--label", "night", "--since", "2030-01-01"),
            "no case of the history matches --label 'night' and --since '2030-01-01'",
        ),
    ],
)
def test_filters_that_choose_nothing_are_an_error(in_file, filters, said):
    in_file("add", DEFAULTS[0], "--label", "night")
    assert said in in_file("trend", *filters, code=2).err
    assert "26 series" in in_file("trend", "--machine", "H200-HOST").out
    if "nope" in filters and "--label" in filters:
        in_file("prune", "--keep", "0", "--yes")
        in_file("add", DEFAULTS[0])
        assert "it has none" in in_file("trend", *filters, code=2).err


class TestDamagedLines:
    @pytest.fixture
    def damaged(self, tmp_path):
        """A journal, of which all but so many of the lines with results are damaged."""

        def make(sound):
            file = tmp_path / f"damaged-{sound}.jsonl"
            lines = []
            for line in Path(DEFAULTS[0]).read_text().splitlines():
                is_case = '"type":"case"' in line
                lines.append(line.replace("time_s", "time_x") if is_case and sound <= 0 else line)
                sound -= is_case
            file.write_text("\n".join(lines) + "\n")
            return str(file)

        return make

    def test_are_reported_when_a_journal_is_added(self, in_file, damaged):
        told = in_file("add", damaged(20))
        assert "damaged-20.jsonl: damaged lines are left out: 6" in told.err
        assert ", 20 cases (" in told.out

    def test_a_journal_without_any_other_line_is_refused(self, in_file, damaged, cclmark):
        nothing = damaged(0)
        told = in_file("add", nothing, code=2)
        assert "damaged-0.jsonl: no result can be read: damaged lines: 26" in told.err
        lacks = "0 of 26 results are there; damaged lines are left out: 26"
        for command in (("report", nothing), ("compare", nothing, DEFAULTS[1])):
            assert lacks in cclmark(*command, code=2).message
        assert "damaged lines are left out: 6" in cclmark("report", damaged(20)).err
