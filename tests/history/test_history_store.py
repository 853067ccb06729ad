"""The history as its users in Python see it, in SQLite and in PostgreSQL."""

import dataclasses
import itertools
import json
import math
import multiprocessing
import os
import re
import shutil
import sqlite3
import sys
import tracemalloc
import zlib
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Connection, delete, insert, inspect, select, text, update

from cclmark.analysis.run_noise import BANDS, NoiseClass, RunNoise
from cclmark.base.errors import MissingError, UsageError
from cclmark.history import measured_noise, tables
from cclmark.history.history_model import (
    HISTORY_VARIABLE,
    RunFilter,
    default_path,
    moment,
    stored_moment,
)
from cclmark.history.lists import (
    context_of,
    runs_table,
    started_of,
    trend_document,
    trends,
    trends_of,
)
from cclmark.history.run_rows import devices_of, machine_of, method_of
from cclmark.history.store import Database, History
from cclmark.history.tables import journals, migrate, runs, things, version_of
from cclmark.history.user_history import noise_of_machines
from cclmark.journal.schema import HostDescription, LibraryDescription
from cclmark.kinds.registry import read_journal
from commands import completed
from examples import exhaustive
from patience import scaled
from places import REPOSITORY, RESULTS, RUNS
from samples import edited, header_of, usual_settings, with_header

GOLDEN = REPOSITORY / "tests" / "golden" / "sample.jsonl"
EVERYTHING = RunFilter()

# What is computed or refused without the database is so in every kind of it.
mainly_sqlite = pytest.mark.parametrize(
    "history_place",
    ["sqlite", exhaustive("postgresql")],
    indirect=True,
)


def content(name):
    return (RUNS / f"{name}.jsonl").read_bytes()


def add_runs(history, *numbers):
    """Adds runs of one command."""
    for number in numbers:
        history.add(content(f"default-{number}"), f"default-{number}")


def changed(name, **fields):
    """A journal with other values in its header."""
    return with_header(content(name), **fields)


def rewritten(name, **values):
    """A journal whose cases have other values in the fields of these names, as bytes."""
    first, *others = content(name).splitlines()
    found = [first]
    for line in others:
        bare = re.sub(rb',"crc32":"[0-9a-f]{8}"\}$', b"}", line)
        for field, value in values.items():
            bare = re.sub(
                rb'"%s":[^,}]+' % field.encode(), b'"%s":%s' % (field.encode(), value), bare
            )
        found.append(bare)
    return b"\n".join(found)


def without_large(name):
    """A journal without the cases above 1 MiB."""
    return edited(content(name), lambda one: one.get("case", {}).get("size_bytes", 0) <= 1 << 20)


@pytest.fixture
def history(history_place):
    return History(history_place)


@pytest.fixture(params=["sqlite", "postgresql"])
def history_kind(request):
    return request.param


def _fill(place):
    """Adds the eight runs of one command, and two of others."""
    history = History(place)
    for number in range(1, 9):
        history.add(content(f"default-{number}"), f"default-{number}", ["night", f"n{number % 2}"])
    history.add(content("ctas8"), "ctas8")
    history.add((RESULTS / "h200x4" / "p2p.jsonl").read_bytes(), "p2p", ["links"])


@pytest.fixture(scope="module")
def filled_file(tmp_path_factory):
    place = tmp_path_factory.mktemp("filled") / "history.sqlite"
    _fill(str(place))
    return place


@pytest.fixture(scope="module")
def filled_database(postgres_server):
    """The name of a database on the server."""
    name = postgres_server.new_database()
    _fill(postgres_server.url(name))
    return name


@pytest.fixture
def filled_place(request, history_kind, filled_file, tmp_path):
    """Of a copy of the ten runs, for a test that changes them."""
    if history_kind == "sqlite":
        return str(shutil.copy(filled_file, tmp_path / "history.sqlite"))
    server = request.getfixturevalue("postgres_server")
    return server.url(server.new_database(request.getfixturevalue("filled_database")))


@pytest.fixture
def filled(filled_place):
    return History(filled_place)


@pytest.fixture
def looked_at(request, history_kind, filled_file):
    """The ten runs, for tests that change nothing: all of them share one database."""
    if history_kind == "sqlite":
        return History(str(filled_file))
    server = request.getfixturevalue("postgres_server")
    return History(server.url(request.getfixturevalue("filled_database")))


def test_a_time_is_on_one_line_whatever_the_names_are(filled_file):
    (run,), total = History(str(filled_file)).runs(EVERYTHING, 1)
    long = dataclasses.replace(
        run,
        hostname="ip-172-31-17-203.eu-west-1.compute.internal",
        operations=["all_reduce", "reduce_scatter"],
        labels=["of night", "acceptance"],
    )
    assert runs_table([long], 1, width=100).splitlines()[0].endswith("  labels")
    failed = dataclasses.replace(long, exit_code=1)
    for shown in ([long, run], [failed, run]):
        lines = runs_table(shown, total, width=100).splitlines()
        assert max(map(len, lines)) <= 100
        times = [line for line in lines if started_of(run)[:10] in line]
        assert len(times) == 2
        assert all(started_of(run) in line for line in times)


class TestPages:
    def test_runs_behind_the_newest(self, looked_at):
        everything, total = looked_at.runs(EVERYTHING)
        assert looked_at.runs(EVERYTHING, 4, 3) == (everything[3:7], total)
        assert looked_at.runs(EVERYTHING, None, 8) == (everything[8:], total)
        assert looked_at.runs(EVERYTHING, 4, total) == ([], total)
        found, total = looked_at.runs(RunFilter(label="night"), 3)
        assert [run.source for run in found] == ["default-8", "default-7", "default-6"]
        for limit, skipped in ((3, 0), (8, 0), (3, 6)):
            assert looked_at.runs(RunFilter(label="night"), limit, skipped)[1] == total == 8


class TestAdding:
    def test_a_journal_comes_out_as_it_went_in(self, history, request):
        """Of a series of equal runs the first one, and no large one; with --all every one."""
        whole = request.config.getoption("--all")
        for file in [GOLDEN, *sorted(RESULTS.rglob("*.jsonl"))]:
            large = file.stat().st_size > 500_000
            if not whole and (large or re.search("-[2-9]$", file.stem)):
                continue
            was = file.read_bytes()
            added = history.add(was, str(file))
            assert not added.known
            assert history.content(added.run_id) == was

    def test_schemas_from_the_first_one_on(self, history):
        """Each version's real lines: every case and every transfer has a row."""
        versions = {
            1: GOLDEN,
            2: RESULTS / "h200x4" / "p2p.jsonl",
            3: RESULTS / "h200x4" / "collectives.jsonl",
            4: RUNS / "default-1.jsonl",
        }
        for version, file in versions.items():
            lines = [json.loads(line) for line in file.read_bytes().splitlines()]
            assert lines[0]["schema_version"] == version
            run_id = history.add(file.read_bytes(), str(file)).run_id
            stored = history.run(run_id)
            assert stored.cases == sum(one["type"] in ("case", "transfer") for one in lines)
            assert stored.damaged_lines == 0
            sound = [one for one in lines if one.get("status") == "ok" and "summary" in one]
            # A case that is bound by launches has a series for each of its two figures.
            summaries = [one["summary"] for one in sound]
            summaries += [one["device"]["summary"] for one in sound if "device" in one]
            series, _ = history.series(RunFilter(number=stored.number))
            assert sum(len(one.figures) for one in series) == len(summaries)
            times = sorted(time_s for one in series for _, time_s, _ in one.figures)
            assert times == pytest.approx(sorted(one["time_s"] for one in summaries))

    def test_what_another_tool_did_not_tell_is_left_out(self):
        journal = read_journal(RUNS / "default-1.jsonl")
        devices = [msgspec.structs.replace(one, runtime="") for one in journal.header.devices]
        untold = msgspec.structs.replace(journal.header.settings, across_ranks="", registration="")
        header = msgspec.structs.replace(journal.header, devices=devices, settings=untold)
        assert devices_of(header) == "4 × NVIDIA H200"
        assert method_of(header) == "throughput"

    def test_the_memory_of_buffers_is_part_of_the_method(self):
        """Times of graphs with and without registered buffers are no series."""
        settings = usual_settings(timing="graph", memory="auto")
        methods = [
            method_of(header_of(settings, LibraryDescription("nccl", "2.28.9", "", memory=kind)))
            for kind in ("plain", "library", "")
        ]
        assert methods == ["graph", "graph, memory library", "graph"]

    def test_a_run_that_went_on_replaces_its_beginning_when_asked(self, history):
        whole = content("default-1")
        short = b"\n".join(whole.split(b"\n")[:10])
        run_id = history.add(short, "short", ["night"]).run_id
        begun = history.run(run_id)
        assert (begun.exit_code, begun.cases) == (None, 9)  # it has no footer
        with pytest.raises(UsageError, match="--replace"):
            history.add(whole, "whole")
        assert history.content(run_id) == short
        assert history.add(whole, "whole", replace=True).replaced
        assert history.content(run_id) == whole
        stored, total = history.runs(EVERYTHING)
        assert total == 1
        assert (stored[0].exit_code, stored[0].labels) == (0, ["night"])

    @mainly_sqlite
    def test_a_run_without_a_name_is_known_by_its_content(self, history):
        first = history.add(changed("default-1", run_id=""), "one")
        second = history.add(changed("default-2", run_id=""), "two")
        assert first.run_id != second.run_id
        assert history.add(changed("default-1", run_id=""), "again").known

    @pytest.mark.parametrize(
        "wrong", [b"", b"# nThread 1\n", b'{"type":"header"', b"\x00\xff", b"{}\n"]
    )
    @mainly_sqlite
    def test_what_is_no_journal(self, history, wrong):
        history.begin()
        with pytest.raises(UsageError, match="file"):
            history.add(wrong, "file")
        assert history.runs(EVERYTHING) == ([], 0)

    @mainly_sqlite
    def test_one_that_began_at_no_time(self, history):
        for text_of_time in ("", "yesterday", "2026-13-01T00:00:00"):
            with pytest.raises(UsageError, match="cannot read the start time"):
                history.add(changed("default-1", started_at=text_of_time), "file")

    def test_results_that_another_run_measured_count_once(self, history):
        first = history.add(content("default-1"), "first")
        continues = {"run_id": first.run_id, "path": "first", "carried": 20}
        history.add(changed("default-1", run_id="second", continues=continues), "second")
        series, _ = history.series(EVERYTHING)
        assert sorted(len(one.figures) for one in series) == [1] * 20 + [2] * 6
        history.remove([history.run(first.run_id).number])
        series, _ = history.series(EVERYTHING)
        assert [len(one.figures) for one in series] == [1] * 26


class TestLooking:
    def test_filters(self, looked_at):
        def names(**chosen):
            return sorted(run.source for run in looked_at.runs(RunFilter(**chosen))[0])

        assert len(names()) == 10
        assert names(operation="p2p") == names(label="links") == ["p2p"]
        assert len(names(ccl="nccl")) == 9
        assert names(ccl="ncc") == []
        assert len(names(label="n1")) == 4
        assert len(names(device="h200", machine="H200-HOST")) == 10
        assert names(device="%") == names(machine="_") == []
        assert names(since=moment("2026-11-22T05:01:06"), ccl="nccl") == ["ctas8"]
        assert names(until=moment("2026-11-22T05:00:39")) == ["default-1", "p2p"]
        (newest,), _ = looked_at.runs(EVERYTHING, 1)
        assert names(since=newest.started_at) == [newest.source]
        assert newest.source not in names(until=newest.started_at)

    def test_a_run_by_the_beginning_of_its_id(self, filled):
        run_id = "fa3d6a0ec1c84c559bb0eb9291906219"
        assert filled.run("fa3d").run_id == filled.run(run_id).run_id == run_id
        for wrong in ("", "zzz", "%", "fa3d_", run_id + "0", "x" * 100_000, "\0"):
            with pytest.raises(UsageError, match="no run"):
                filled.run(wrong)
        filled.add(changed("default-1", run_id="fa3d"), "short name")
        assert filled.run("fa3d").source == "short name"
        with pytest.raises(UsageError, match="matches fa3d, fa3d6a0e"):
            filled.run("fa3")

    def test_choices(self, looked_at):
        found = looked_at.choices()
        assert found.hostnames == ["h200-host"]
        assert found.devices == ["4 × NVIDIA H200 (cuda)"]
        assert "p2p" in found.operations
        assert "nccl" in found.ccls
        assert found.labels == ["links", "n0", "n1", "night"]

    def test_series_are_those_of_the_journals(self, looked_at):
        copies, _ = looked_at.series(RunFilter(operation="p2p"))
        assert {type(one.thing).__name__ for one in copies} == {"Transfer"}
        series, runs = looked_at.series(RunFilter(label="night"))
        assert len(series) == 26
        journals = [read_journal(RUNS / f"default-{number}.jsonl") for number in range(1, 9)]
        for one in series:
            want = [
                (result.summary.time_s, result.summary.half_width)
                for journal in journals
                for result in journal.results
                if result.case == one.thing
            ]
            assert [figure[1:] for figure in one.figures] == want
            assert [runs[number].source for number, _, _ in one.figures] == [
                f"default-{number}" for number in range(1, 9)
            ]

    def test_what_was_measured_in_another_way_is_another_series(self, filled):
        settings_of = json.loads(content("default-1").split(b"\n")[0])["settings"]
        blocking = {**settings_of, "timing": "blocking"}
        filled.add(changed("default-1", run_id="b", settings=blocking), "blocking")
        precise = {**settings_of, "precision": 0.01, "check": 3}
        filled.add(changed("default-1", run_id="p", settings=precise), "precise")
        series, _ = filled.series(RunFilter(operation="all_reduce"))
        assert sorted({(one.method, len(one.figures)) for one in series}) == [
            ("blocking", 1),
            ("throughput", 10),
        ]

    def test_hosts_in_another_order_are_one_machine(self):
        header = read_journal(RUNS / "default-1.jsonl").header
        found = set()
        for names in ("ab", "ba"):
            hosts = [
                HostDescription(msgspec.structs.replace(header.machine, hostname=name), name, {})
                for name in names
            ]
            devices = [
                msgspec.structs.replace(one, host=names[one.rank // 2], index=one.rank % 2)
                for one in header.devices
            ]
            placed = msgspec.structs.replace(header, hosts=hosts, devices=devices)
            found.add(machine_of(placed, names))
        assert found == {"a, b: 4 × NVIDIA H200 (cuda) [0-1]"}

    @mainly_sqlite
    def test_imports_that_name_no_host_are_of_no_machine_that_is_known(self, history):
        """Texts of strangers: their times are no series of one machine."""
        machine = json.loads(content("default-1").split(b"\n")[0])["machine"] | {"hostname": ""}
        for number in (1, 2):
            history.add(changed(f"default-{number}", machine=machine), f"{number}.txt")
        series, runs = history.series(EVERYTHING)
        assert len(runs) == 2
        assert [len(one.figures) for one in series] == [1] * 52
        assert all(one.machine.startswith("unknown host, run ") for one in series)


class TestRemoving:
    def test_what_is_left_is_what_was(self, filled):
        keep, _ = filled.runs(RunFilter(label="n1"))
        gone, _ = filled.runs(RunFilter(label="n0"))
        before, _ = filled.series(RunFilter(label="n1"))
        filled.remove([run.number for run in gone])
        assert filled.runs(RunFilter(label="night"))[0] == keep
        assert filled.series(RunFilter(label="n1"))[0] == before
        with pytest.raises(UsageError, match="no run"):
            filled.content(gone[0].run_id)

    def test_all_and_nothing_is_left(self, filled, filled_place):
        found, _ = filled.runs(EVERYTHING)
        filled.remove([run.number for run in found])
        with Database(filled_place).reading() as connection:
            for table in tables.metadata.tables:
                rows = connection.scalar(text(f"SELECT count(*) FROM {table}"))
                if table == "cclmark_noise":
                    assert rows > 0
                    continue
                assert rows == (1 if table == "cclmark_schema" else 0), table


class TestNoise:
    """The noise from run to run of a machine, which its history measures."""

    @staticmethod
    def header(number=1):
        return read_journal(RUNS / f"default-{number}.jsonl").header

    @pytest.fixture
    def read_noises(self, monkeypatch):
        """The headers whose noise was read from a history."""
        headers = []
        read = History.own_noise

        def counted(history, header):
            headers.append(header)
            return read(history, header)

        monkeypatch.setattr(History, "own_noise", counted)
        return headers

    def test_three_runs_measure_it(self, history):
        add_runs(history, 1, 2)
        assert history.own_noise(self.header()) == {}
        history.add(content("default-3"), "x")
        found = history.own_noise(self.header())
        assert {one.band for one in found} == {name for _, name in BANDS}
        assert {(one.clocked, one.operation, one.ccl) for one in found} == {
            (clocked, "all_reduce", "nccl") for clocked in ("call", "device")
        } or {one.clocked for one in found} == {"call"}
        assert {one.freedom for one in found.values()} == {2}
        # By hand, for the largest messages.
        logs = {}
        for number in (1, 2, 3):
            for one in read_journal(RUNS / f"default-{number}.jsonl").results:
                if one.case.size_bytes > 1 << 20:
                    logs.setdefault(one.case, []).append(math.log(one.summary.time_s))
        squares = [(b - a) ** 2 for own in logs.values() for a, b in itertools.pairwise(own)]
        key = NoiseClass("call", "all_reduce", "nccl", "above 1 MiB")
        expected = math.sqrt(sum(squares) / len(squares) / 2)
        assert found[key].share == pytest.approx(max(expected, 1e-4))

    def test_it_is_of_a_machine_and_a_method(self, history):
        add_runs(history, 1, 2, 3)
        header = self.header()
        devices = [msgspec.structs.replace(one, name="NVIDIA A100") for one in header.devices]
        other = msgspec.structs.replace(header, devices=devices)
        assert history.own_noise(other) == {}
        blocking = msgspec.structs.replace(header.settings, timing="blocking")
        assert history.own_noise(msgspec.structs.replace(header, settings=blocking)) == {}

    # Two runs measure no noise: it remains. Three measure it again: it is not that of old runs.
    @pytest.mark.parametrize(("removed", "freedom"), [(4, 4), (3, 2)])
    def test_it_remains_until_enough_runs_measure_it_again(self, history, removed, freedom):
        add_runs(history, *range(1, 6))
        known = history.own_noise(self.header())
        history.remove([run.number for run in history.runs(EVERYTHING)[0]][:removed])
        history.add(content("ctas8"), "x")
        found = history.own_noise(self.header())
        assert {one.freedom for one in known.values()} == {4}
        assert {one.freedom for one in found.values()} == {freedom}
        assert found.keys() == known.keys()
        assert (found == known) == (freedom == 4)

    def test_a_class_that_fewer_of_the_newest_runs_have(self, history, monkeypatch):
        monkeypatch.setattr(measured_noise, "_NEWEST", 5)
        add_runs(history, *range(1, 6))
        large = NoiseClass("call", "all_reduce", "nccl", "above 1 MiB")
        assert history.own_noise(self.header())[large].freedom == 4
        for number in (6, 7):
            history.add(without_large(f"default-{number}"), "x")
        found = history.own_noise(self.header())
        assert {one.freedom for key, one in found.items() if key != large} == {4}
        assert found[large].freedom == 2  # of the runs 3 to 5
        kept = found[large]
        history.add(without_large("default-8"), "x")
        assert history.own_noise(self.header())[large] == kept  # two runs measure no noise

    def test_damaged_rows_are_no_noise(self, history, history_place):
        add_runs(history, 1, 2, 3)
        for change in ("deviation = 0", "deviation = -1", "runs = 1"):
            with Database(history_place).writing() as connection:
                connection.execute(text(f"UPDATE cclmark_noise SET {change}"))
            assert history.own_noise(self.header()) == {}

    def test_comparisons_read_the_users_history_once(self, history_place, monkeypatch, read_noises):
        history = History(history_place)
        add_runs(history, 1, 2, 3)
        monkeypatch.setenv(HISTORY_VARIABLE, history_place)
        notices = []
        own_noise = noise_of_machines(notices.append)
        found = [own_noise(self.header(number)) for number in (1, 2, 3)]
        assert found == [history.own_noise(self.header())] * 3
        settings = msgspec.structs.replace(self.header().settings, timing="blocking")
        blocking = msgspec.structs.replace(self.header(), settings=settings)
        assert [own_noise(blocking), own_noise(blocking)] == [{}, {}]
        assert len(read_noises) == 3  # the test has read once
        assert notices == []

    def test_comparisons_leave_an_older_history_as_it_is(
        self, history_place, monkeypatch, read_noises
    ):
        add_runs(History(history_place), 1, 2, 3)
        with Database(history_place).writing() as connection:
            connection.execute(text("UPDATE cclmark_schema SET version = 2"))
        monkeypatch.setenv(HISTORY_VARIABLE, history_place)
        notices = []
        own_noise = noise_of_machines(notices.append)
        assert [own_noise(self.header(number)) for number in (1, 2, 3)] == [{}] * 3
        (notice,) = notices
        assert "older schema 2: cclmark history list updates it" in notice
        assert len(read_noises) == 1
        with Database(history_place).reading() as connection:
            assert version_of(connection) == 2

    @pytest.mark.parametrize(
        ("place", "reads", "said"),
        [
            # No server listens at this port.
            ("postgresql://127.0.0.1:1/runs", 1, "history is not used: the history postgresql://"),
            ("none.sqlite", 1, ""),
        ],
    )
    def test_comparisons_try_a_history_that_cannot_be_read_once(
        self, tmp_path, monkeypatch, read_noises, place, reads, said
    ):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv(HISTORY_VARIABLE, place)
        notices = []
        own_noise = noise_of_machines(notices.append)
        assert [own_noise(self.header(number)) for number in (1, 2, 3)] == [{}] * 3
        assert [said in notice for notice in notices] == [True] * bool(said)
        assert len(read_noises) == reads

    def test_a_trend_of_another_machine_uses_its_own(self, history):
        """With three runs of each level the assumed noise of H200 would decide elsewhere."""
        for number in range(1, 7):
            devices = self.header(number).devices
            named = [msgspec.structs.replace(one, name="NVIDIA A100") for one in devices]
            history.add(changed(f"default-{number}", devices=msgspec.to_builtins(named)), "x")
        series, _ = history.series(EVERYTHING)
        assert not any(one.is_measured_machine for one in series)
        assert {one.noise.freedom for one in series} == {5}
        for number in range(1, 7):
            history.add(content(f"default-{number}"), "x", replace=True)
        series, _ = history.series(EVERYTHING)
        assert all(one.is_measured_machine for one in series)

    @mainly_sqlite
    def test_a_trend_prefers_the_measured_noise_to_the_assumed_one(self, history):
        """As compare does."""
        add_runs(history, *range(1, 7))
        series, _ = history.series(EVERYTHING)
        large = max(series, key=lambda one: one.thing.size_bytes)
        assert large.is_measured_machine
        levels = [
            (run, 1e-3 * (1.1 if place >= 3 else 1), 1e-4)
            for place, (run, _, _) in enumerate(large.figures)
        ]
        for noise, number in ((None, 1), (RunNoise(0.2, freedom=5), 0)):
            (found,) = trends([dataclasses.replace(large, figures=levels, noise=noise)])
            assert len(found.changes) == number


HOSTILE = "x'; DROP TABLE cclmark_runs; --\x00\x1b[2J\u202e\x85é"


class TestDamagedDatabases:
    """Rows that somebody altered: a message, in bounded time and memory."""

    def replaced(self, history, history_place, packed):
        history.add(content("default-1"), "default-1")
        with Database(history_place).writing() as connection:
            connection.execute(update(journals).values(content=packed))
        return history

    @pytest.mark.parametrize(
        "packed",
        [
            lambda: b"",
            lambda: b"no zlib",
            lambda: zlib.compress(b""),
            lambda: zlib.compress(b"\n\n  \n"),
            lambda: zlib.compress(b" " * (65 << 20), 1),
            lambda: zlib.compress(b"x" * (65 << 20), 1),
            lambda: zlib.compress(content("default-1"))[:100],
        ],
        ids=["empty", "else", "nothing", "blank", "spaces", "endless", "cut"],
    )
    @mainly_sqlite
    def test_a_journal_that_is_none(self, history, history_place, packed):
        altered = self.replaced(history, history_place, packed())
        run = altered.runs(EVERYTHING)[0][0]
        for look in (lambda: altered.content(run.run_id), lambda: altered.headers([run.number])):
            with pytest.raises(UsageError, match=r"damaged|not a journal|incomplete"):
                look()

    @mainly_sqlite
    def test_one_that_swells_is_not_unpacked_whole(self, history, history_place):
        swelling = zlib.compress(content("default-1") + b"\n" * (100 << 20), 1)
        altered = self.replaced(history, history_place, swelling)
        tracemalloc.start()
        try:
            with pytest.raises(UsageError, match="damaged"):
                altered.content(altered.runs(EVERYTHING)[0][0].run_id)
            assert tracemalloc.get_traced_memory()[1] < 50 << 20
        finally:
            tracemalloc.stop()


class TestHostileJournals:
    def test_text_stays_text(self, history):
        header = json.loads(content("default-1").split(b"\n")[0])
        machine = {**header["machine"], "hostname": HOSTILE}
        devices = [{**one, "name": HOSTILE} for one in header["devices"]]
        wrong = changed(
            *("default-1",),
            run_id=HOSTILE,
            machine=machine,
            devices=devices,
            command=[HOSTILE, "\x00"],
            libraries=[{"name": HOSTILE, "version": HOSTILE, "path": HOSTILE}],
        ).replace(b'"operation":"all_reduce"', b'"operation":"x\'; DROP--\\u0000"')
        added = history.add(wrong, HOSTILE, ["'; --"])
        stored = history.run(added.run_id)
        assert history.content(added.run_id) == wrong
        assert "DROP TABLE" in stored.hostname
        assert (stored.hostname + stored.devices + stored.command + stored.source).isprintable()
        assert all(one.machine.isprintable() for one in history.series(EVERYTHING)[0])
        assert history.runs(RunFilter(label="'; --"))[1] == 1
        assert history.runs(RunFilter(operation=stored.operations[0]))[1] == 1
        assert history.runs(RunFilter(machine="x'; drop"))[1] == 1
        assert len(history.series(EVERYTHING)[0]) == 26

    def test_numbers_at_the_ends_of_what_a_journal_may_hold(self, history):
        huge = b"%d" % ((1 << 63) - 1)
        wrong = rewritten("default-1", size_bytes=huge, time_s=b"1e100", count=huge)
        added = history.add(wrong, "huge")
        series, _ = history.series(EVERYTHING)
        assert history.run(added.run_id).damaged_lines == 0
        assert series == []
        history.add(rewritten("default-2", size_bytes=huge, half_width=b"1e100"), "wide")
        series, _ = history.series(EVERYTHING)
        assert {one.thing.size_bytes for one in series} == {(1 << 63) - 1}
        assert len(trends(series)) == 26

    @mainly_sqlite
    def test_times_that_are_none_have_no_series(self, history):
        added = history.add(rewritten("default-1", time_s=b"-1.0"), "negative")
        assert history.run(added.run_id).damaged_lines == 0
        assert history.series(EVERYTHING)[0] == []


def timed_auto(name, device_s=5e-6):
    """A journal of that run in which launches set the first case, whose device took so long."""

    def change(entry):
        if entry["type"] == "header":
            entry["settings"]["timing"] = "auto"
        elif entry["type"] == "case" and entry["index"] == 0:
            summary = {**entry["summary"], "time_s": device_s, "half_width": 0.005}
            entry["device"] = {"samples": entry["samples"], "summary": summary}

    return edited(content(name), change)


class TestDeviceTimes:
    """What launches set has two series: the device's times, and the cost of calls."""

    def test_the_device_s_time_is_judged_and_calls_are_a_series_beside_it(
        self, history, history_place
    ):
        for number in range(1, 9):
            history.add(timed_auto(f"default-{number}", 5e-6 * (1.05 if number > 4 else 1)), "x")
        # The other times of its class are of calls that launches set: their noise hides the change.
        with Database(history_place).writing() as connection:
            connection.execute(delete(tables.noises))
        series, _ = history.series(EVERYTHING)
        assert sum(one.calls for one in series) == 1
        found = trends(series)
        (changed,) = [trend for trend in found if trend.changes]
        assert not changed.series.calls
        assert changed.times_s[0] == pytest.approx(5e-6)
        assert changed.changes[0].ratio == pytest.approx(1.05)
        (calls,) = [trend for trend in found if trend.series.calls]
        assert calls.series.thing == changed.series.thing
        assert min(calls.times_s) > 6e-6
        assert context_of(calls).endswith(" · cost of a call, set by launches")
        assert context_of(changed).endswith(" · device time, of cases that launches set")
        document = trend_document(trends_of(*history.series(EVERYTHING), history.headers))
        *_, (row,) = (table.rows for table in document.blocks)
        assert row[0].endswith(" (device time)")
        others = [trend for trend in found if trend.series.kind == "time"]
        assert len(others) == 25
        assert all(trend.series.of_device for trend in others)
        assert {context_of(trend) for trend in others} == {changed.series.machine}

    @mainly_sqlite
    def test_what_launches_do_not_set_goes_on_from_older_runs(self, history):
        """The default timing became auto: the same figures under another name."""
        for number in range(1, 9):
            name = f"default-{number}"
            history.add(timed_auto(name) if number > 4 else content(name), name)
        series, _ = history.series(EVERYTHING)
        lengths = Counter((one.timing, one.kind, len(one.figures)) for one in series)
        assert lengths == {
            ("throughput", "time", 8): 25,
            ("throughput", "time", 4): 1,
            ("auto", "device", 4): 1,
            ("auto", "calls", 4): 1,
        }
        assert not any(one.of_device for one in series if one.kind == "time")
        heads = {context_of(one) for one in trends(series)}
        assert len(heads) == 3
        assert not any("throughput" in head or "auto" in head for head in heads)


def described(connection):
    """The tables of a database."""
    there = inspect(connection)
    return {
        name: (
            {
                # SQLite keeps a type as it was written: FLOAT(53) is its FLOAT.
                (one["name"], str(one["type"]).replace("FLOAT(53)", "FLOAT"), one["nullable"])
                for one in there.get_columns(name)
            },
            there.get_pk_constraint(name)["constrained_columns"],
            sorted(tuple(one["column_names"]) for one in there.get_indexes(name)),
            sorted(tuple(one["column_names"]) for one in there.get_unique_constraints(name)),
            sorted(
                (tuple(one["constrained_columns"]), one["referred_table"], str(one["options"]))
                for one in there.get_foreign_keys(name)
            ),
        )
        for name in there.get_table_names()
    }


class TestVersions:
    """Whatever version the tables have, nobody loses anything by it."""

    def test_an_empty_database_gets_the_newest(self, history_place):
        database = Database(history_place)
        with database.writing() as connection:
            assert version_of(connection) == 0
            assert migrate(connection, "x") == 0
            assert version_of(connection) == len(tables.MIGRATIONS)
            assert migrate(connection, "x") == len(tables.MIGRATIONS)

    def test_version_1_knew_no_device_times(self, history_place):
        """Its runs stay, its tables become the newest, and one with both figures can be added."""
        History(history_place).add(content("default-1"), "default-1")
        with Database(history_place).writing() as connection:
            newest = described(connection)
            connection.execute(text("DROP INDEX cclmark_results_trend"))
            for column in ("device_time_s", "device_half_width"):
                connection.execute(text(f"ALTER TABLE cclmark_results DROP COLUMN {column}"))
            connection.execute(text("ALTER TABLE cclmark_results RENAME COLUMN spread TO cv"))
            connection.execute(text("DROP TABLE cclmark_noise"))
            connection.execute(text("UPDATE cclmark_schema SET version = 1"))
        with pytest.raises(MissingError, match="older schema 1"):
            History(history_place, read_only=True).runs(EVERYTHING)
        history = History(history_place)
        assert len(history.series(EVERYTHING)[0]) == 26
        history.add(timed_auto("default-2"), "auto")
        series, _ = history.series(EVERYTHING)
        assert Counter((one.timing, one.calls) for one in series) == {
            ("throughput", False): 26,
            ("auto", False): 1,
            ("auto", True): 1,
        }
        with Database(history_place).reading() as connection:
            assert version_of(connection) == 4
            assert described(connection) == newest

    def test_an_older_one_is_brought_up_to_date(self, history_place, monkeypatch):
        """Tables of an older version with a run in them, and a program that knows one more."""
        History(history_place).add(content("default-1"), "default-1")

        def with_notes(connection: Connection) -> None:
            connection.execute(text("ALTER TABLE cclmark_runs ADD COLUMN note TEXT"))

        steps = (*tables.MIGRATIONS, with_notes)
        monkeypatch.setattr("cclmark.history.store.MIGRATIONS", steps)
        monkeypatch.setattr(migrate, "__defaults__", (steps,))
        monkeypatch.setattr(tables.refuse_newer, "__defaults__", (len(steps),))
        with pytest.raises(MissingError, match=f"older schema {len(steps) - 1}"):
            History(history_place, read_only=True).runs(EVERYTHING)
        for _ in range(2):
            assert History(history_place).runs(EVERYTHING)[1] == 1
            with Database(history_place).reading() as connection:
                assert version_of(connection) == len(steps)
                assert connection.execute(text("SELECT note FROM cclmark_runs")).all() == [(None,)]

    def test_a_step_that_fails_leaves_all_as_it_was(self, history_place):
        History(history_place).add(content("default-1"), "default-1")

        def broken(connection: Connection) -> None:
            connection.execute(text("ALTER TABLE cclmark_runs ADD COLUMN note TEXT"))
            connection.execute(text("DELETE FROM cclmark_results"))
            raise RuntimeError("power failure")

        database = Database(history_place)
        with pytest.raises(RuntimeError), database.writing() as connection:
            migrate(connection, "x", (*tables.MIGRATIONS, broken))
        assert len(History(history_place).series(EVERYTHING)[0]) == 26
        with database.reading() as connection:
            assert version_of(connection) == len(tables.MIGRATIONS)
            names = connection.execute(text("SELECT * FROM cclmark_runs")).keys()
            assert "note" not in names

    def test_a_newer_one_is_refused(self, history_place):
        History(history_place).begin()
        with Database(history_place).writing() as connection:
            connection.execute(text("UPDATE cclmark_schema SET version = 99"))
        history = History(history_place)
        for act in (
            lambda: history.runs(EVERYTHING),
            lambda: history.add(content("default-1"), "x"),
            lambda: history.remove([1]),
        ):
            with pytest.raises(UsageError, match=r"schema 99.*update cclmark"):
                act()

    def test_nothing_is_made_by_looking(self, tmp_path):
        place = tmp_path / "history.sqlite"
        with pytest.raises(MissingError, match="there is no history"):
            History(str(place)).runs(EVERYTHING)
        assert not place.exists()
        place.touch()
        with pytest.raises(MissingError, match="no history yet"):
            History(str(place)).runs(EVERYTHING)
        assert place.read_bytes() == b""


def _add(place, names):
    history = History(place)
    for name in names:
        history.add(content(name), name)


class TestDatabases:
    def test_one_that_is_opened_read_only(self, filled_place):
        opened = History(filled_place, read_only=True)
        for change in (lambda: opened.remove([1]), lambda: opened.add(content("buff8"), "buff8")):
            with pytest.raises(UsageError, match="was opened read-only"):
                change()
        assert opened.runs(EVERYTHING)[1] == 10

    def test_looking_cannot_change_anything(self, filled, filled_place):
        with (
            pytest.raises((MissingError, UsageError), match=r"read-only|may not write"),
            Database(filled_place).reading() as connection,
        ):
            connection.execute(insert(things).values(digest="x"))

    def test_a_locked_one_is_waited_for_and_then_told(self, filled, filled_place):
        locked = r"locked by another process for more than 0\.2 s"
        with Database(filled_place).writing():
            assert filled.runs(EVERYTHING)[1] == 10
            with (
                pytest.raises(MissingError, match=locked),
                Database(filled_place, busy_s=0.2).writing(),
            ):
                pass
        assert filled.add(content("buff8"), "buff8").run_id

    @pytest.mark.parametrize("how", ["reading", "writing"])
    @pytest.mark.timeout(30)
    def test_a_locked_table_of_postgresql_is_waited_for_and_then_told(self, postgres_server, how):
        """As by whoever repairs the tables: not even reading goes on."""
        psycopg = pytest.importorskip("psycopg")
        place = postgres_server.url(postgres_server.new_database())
        History(place).begin()
        with psycopg.connect(place) as other:
            other.execute("LOCK TABLE cclmark_runs IN ACCESS EXCLUSIVE MODE")
            with (
                pytest.raises(
                    MissingError, match=r"locked by another process for more than 0\.2 s"
                ),
                getattr(Database(place, busy_s=0.2), how)() as connection,
            ):
                connection.execute(select(runs.c.number))

    def test_a_file_of_something_else_is_left_alone(self, tmp_path):
        place = tmp_path / "places.sqlite"
        with sqlite3.connect(place) as connection:
            connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.close()
        was = place.read_bytes()
        with pytest.raises(UsageError, match=r"database of another program.*bookmarks"):
            History(str(place)).begin()
        assert place.read_bytes() == was

    def test_processes_add_at_the_same_time(self, history_place):
        """Each adds all of them, in another order: each run is there once."""
        names = [f"default-{number}" for number in range(1, 9)]
        orders = (names, names[::-1], names[4:] + names[:4])
        forking = multiprocessing.get_context("fork")  # spares each of them the imports
        processes = [forking.Process(target=_add, args=(history_place, order)) for order in orders]
        for process in processes:
            process.start()
        for process in processes:
            process.join(scaled(60))
        assert [process.exitcode for process in processes] == [0, 0, 0]
        history = History(history_place)
        assert history.runs(EVERYTHING)[1] == 8
        series, _ = history.series(EVERYTHING)
        assert [len(one.figures) for one in series] == [8] * 26

    def test_the_default_lies_with_the_users_data(self, monkeypatch):
        monkeypatch.setenv("XDG_DATA_HOME", "/data")
        assert default_path() == Path("/data/cclmark/history.sqlite")
        for nothing in ("", "relative"):
            monkeypatch.setenv("XDG_DATA_HOME", nothing)
            assert default_path() == Path.home() / ".local/share/cclmark/history.sqlite"

        def nowhere():
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", nowhere)
        with pytest.raises(MissingError, match="set a file with --db"):
            default_path()

    @pytest.mark.parametrize(
        "wrong",
        ["mysql://u@h/d", "sqlite://", "postgresql://u:s3cr3t@h:port/d", "://", "oracle://x"],
    )
    def test_addresses_that_are_none(self, wrong):
        with pytest.raises(UsageError) as caught:
            Database(wrong)
        assert "s3cr3t" not in str(caught.value)

    def test_names_of_files_are_names(self, tmp_path):
        """Whatever SQLite would read into one."""
        odd = tmp_path / "a?mode=memory&b#c%20d'"
        odd.mkdir()
        place = odd / "history.sqlite"
        History(str(place)).add(content("default-1"), "x")
        assert place.stat().st_size > 10_000
        History(f"sqlite:///{tmp_path}/other.sqlite").begin()
        assert (tmp_path / "other.sqlite").exists()
        assert not os.environ.get("PGPASSWORD")


class TestMoments:
    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            ("2026-11-22T05:00:36.664+00:00", "2026-11-22T05:00:36.664Z"),
            ("2026-11-22T05:00:36Z", "2026-11-22T05:00:36.000Z"),
            ("2026-11-22T06:00:36+02:00", "2026-11-22T04:00:36.000Z"),
            ("2026-11-22", "2026-11-22T00:00:00.000Z"),
        ],
    )
    def test_times_are_kept_as_utc(self, said, kept):
        assert stored_moment(said) == moment(said) == kept

    def test_until_includes_the_day(self):
        assert moment("2026-11-22", after=True) == "2026-11-23T00:00:00.000Z"
        assert moment("2026-11-22T05:00", after=True) == "2026-11-22T05:00:00.001Z"

    @pytest.mark.parametrize("wrong", ["", "yesterday", "2026-02-30", "9999-12-31", "0001-01-01"])
    def test_what_is_no_time(self, wrong):
        if wrong.startswith("0001"):
            with pytest.raises(UsageError, match="cannot read the time"):
                moment("0001-01-01T00:00+14:00")
        else:
            with pytest.raises(UsageError, match="cannot read the time"):
                moment(wrong, after=True)


def test_importing_the_model_brings_no_sql():
    """Reports and other commands import it, and must not pay for a database."""
    code = "import sys, cclmark.history.history_model, cclmark.cli.main; "
    code += "import cclmark.history.lists; "
    code += "print('sqlalchemy' in sys.modules)"
    told = completed([sys.executable, "-c", code], check=True)
    assert told.stdout == "False\n"
