import dataclasses
import itertools
import json
import math
import multiprocessing
import re
import shutil
import sqlite3
import sys
import zlib
from collections import Counter

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from sqlalchemy import Connection, MetaData, delete, insert, text, update
from sqlalchemy.schema import CreateIndex, CreateTable

from cclmark.analysis.run_noise import BANDS, NoiseClass, RunNoise
from cclmark.base.errors import MissingError, UsageError
from cclmark.history import history_model, tables
from cclmark.history.history_model import RunFilter, moment
from cclmark.history.lists import context_of, trends
from cclmark.history.store import Database, History
from cclmark.history.tables import migrate, version_of
from cclmark.history.user_history import noise_of_machines
from cclmark.kinds.registry import read_journal
from commands import completed
from examples import exhaustive
from patience import scaled
from places import H200X4, RESULTS, RUNS, TESTS
from samples import edited, with_header

GOLDEN = TESTS / "golden" / "sample.jsonl"
EVERYTHING = RunFilter()
FIRST = read_journal(RUNS / "default-1.jsonl").header
BLOCKING = replace(FIRST, settings=replace(FIRST.settings, timing="blocking"))
A100 = [replace(one, name="NVIDIA A100") for one in FIRST.devices]
LARGE = NoiseClass("call", "all_reduce", "nccl", "above 1 MiB")

# What is computed or refused without the database is so in every kind of it.
mainly_sqlite = pytest.mark.parametrize(
    "history_place", ["sqlite", exhaustive("postgresql")], indirect=True
)


def content(name):
    return (RUNS / f"{name}.jsonl").read_bytes()


def add_runs(history, *numbers):
    for number in numbers:
        history.add(content(f"default-{number}"), f"default-{number}")


def changed(name, **fields):
    return with_header(content(name), **fields)


def timed_auto(name, device_s=5e-6):
    """A journal of that run in which launches set the first case, whose device took so long."""

    def change(entry):
        if entry["type"] == "header":
            entry["settings"]["timing"] = "auto"
        elif entry["type"] == "case" and entry["index"] == 0:
            summary = {**entry["summary"], "time_s": device_s, "half_width": 0.005}
            entry["device"] = {"samples": entry["samples"], "summary": summary}

    return edited(content(name), change)


def execute(place, *statements):
    with Database(place).writing() as connection:
        for one in statements:
            connection.execute(text(one) if isinstance(one, str) else one)


@pytest.fixture
def history(history_place):
    return History(history_place)


def _fill(place):
    """Adds the eight runs of one command, and two of others."""
    history = History(place)
    for number in range(1, 9):
        history.add(content(f"default-{number}"), f"default-{number}", ["night", f"n{number % 2}"])
    history.add(content("ctas8"), "ctas8")
    history.add((H200X4 / "p2p.jsonl").read_bytes(), "p2p", ["links"])


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


@pytest.fixture(params=["sqlite", "postgresql"])
def filled_place(request, filled_file, tmp_path):
    """Of a copy of the ten runs."""
    if request.param == "sqlite":
        return str(shutil.copy(filled_file, tmp_path / "history.sqlite"))
    server = request.getfixturevalue("postgres_server")
    return server.url(server.new_database(request.getfixturevalue("filled_database")))


@pytest.fixture
def filled(filled_place):
    return History(filled_place)


def test_a_journal_comes_out_as_it_went_in(history, request):
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


def test_schemas_from_the_first_one_on(history):
    """Each version's real lines: every case and every transfer has a row."""
    files = [GOLDEN, H200X4 / "p2p.jsonl", H200X4 / "collectives.jsonl", RUNS / "default-1.jsonl"]
    for version, file in enumerate(files, 1):
        entries = [json.loads(line) for line in file.read_bytes().splitlines()]
        assert entries[0]["schema_version"] == version
        stored = history.run(history.add(file.read_bytes(), str(file)).run_id)
        assert stored.cases == sum(one["type"] in ("case", "transfer") for one in entries)
        assert stored.damaged_lines == 0
        sound = [one for one in entries if one.get("status") == "ok" and "summary" in one]
        # A case that is bound by launches has a series for each of its two figures.
        summaries = [one["summary"] for one in sound]
        summaries += [one["device"]["summary"] for one in sound if "device" in one]
        series, _ = history.series(RunFilter(number=stored.number))
        times = sorted(time_s for one in series for _, time_s, _ in one.figures)
        assert times == pytest.approx(sorted(one["time_s"] for one in summaries))


def test_a_run_that_went_on_replaces_its_beginning_when_asked(history):
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
    ((stored,), _) = history.runs(EVERYTHING)
    assert (stored.exit_code, stored.labels) == (0, ["night"])


@mainly_sqlite
def test_what_is_no_journal_or_began_at_no_time(history):
    history.begin()
    for wrong in (b"", b"# nThread 1\n", b'{"type":"header"', b"\x00\xff", b"{}\n"):
        with pytest.raises(UsageError, match="file"):
            history.add(wrong, "file")
    for time in ("", "yesterday", "2026-13-01T00:00:00"):
        with pytest.raises(UsageError, match="cannot read the start time"):
            history.add(changed("default-1", started_at=time), "file")
    assert history.runs(EVERYTHING) == ([], 0)


def test_results_that_another_run_measured_count_once(history):
    first = history.add(content("default-1"), "first")
    continues = {"run_id": first.run_id, "path": "first", "carried": 20}
    history.add(changed("default-1", run_id="second", continues=continues), "second")
    series, _ = history.series(EVERYTHING)
    assert sorted(len(one.figures) for one in series) == [1] * 20 + [2] * 6
    history.remove([history.run(first.run_id).number])
    series, _ = history.series(EVERYTHING)
    assert [len(one.figures) for one in series] == [1] * 26


def test_looking_at_pages_filters_choices_and_series(filled):
    everything, total = filled.runs(EVERYTHING)
    assert filled.runs(EVERYTHING, 4, 3) == (everything[3:7], total)
    assert filled.runs(EVERYTHING, None, 8) == (everything[8:], total)
    night = RunFilter(label="night")
    found, _ = filled.runs(night, 3)
    assert [run.source for run in found] == ["default-8", "default-7", "default-6"]
    assert filled.runs(night, 3, 6)[1] == 8

    def names(**chosen):
        return sorted(run.source for run in filled.runs(RunFilter(**chosen))[0])

    assert len(names()) == len(names(device="h200", machine="H200-HOST")) == 10
    assert names(operation="p2p") == names(label="links") == ["p2p"]
    assert len(names(ccl="nccl")) == 9
    assert names(ccl="ncc") == names(device="%") == names(machine="_") == []
    assert len(names(label="n1")) == 4
    assert names(since=moment("2026-11-22T05:01:06"), ccl="nccl") == ["ctas8"]
    assert names(until=moment("2026-11-22T05:00:39")) == ["default-1", "p2p"]
    newest = everything[0]
    assert names(since=newest.started_at) == [newest.source]
    assert newest.source not in names(until=newest.started_at)
    found = filled.choices()
    assert (found.hostnames, found.devices) == (["h200-host"], ["4 × NVIDIA H200 (cuda)"])
    assert "p2p" in found.operations
    assert "nccl" in found.ccls
    assert found.labels == ["links", "n0", "n1", "night"]
    copies, _ = filled.series(RunFilter(operation="p2p"))
    assert {type(one.thing).__name__ for one in copies} == {"Transfer"}
    series, runs = filled.series(night)
    assert len(series) == 26
    nights = [f"default-{number}" for number in range(1, 9)]
    results = [one for name in nights for one in read_journal(RUNS / f"{name}.jsonl").results]
    for one in series:
        own = [result.summary for result in results if result.case == one.thing]
        assert [figure[1:] for figure in one.figures] == [(s.time_s, s.half_width) for s in own]
        assert [runs[number].source for number, _, _ in one.figures] == nights


def test_a_run_by_the_beginning_of_its_id(filled):
    run_id = "fa3d6a0ec1c84c559bb0eb9291906219"
    assert filled.run("fa3d").run_id == filled.run(run_id).run_id == run_id
    for wrong in ("", "zzz", "%", "fa3d_", run_id + "0", "x" * 100_000, "\0"):
        with pytest.raises(UsageError, match="no run"):
            filled.run(wrong)
    filled.add(changed("default-1", run_id="fa3d"), "short name")
    assert filled.run("fa3d").source == "short name"
    with pytest.raises(UsageError, match="matches fa3d, fa3d6a0e"):
        filled.run("fa3")


def test_what_was_measured_in_another_way_is_another_series(filled):
    settings_of = to_builtins(FIRST.settings)
    blocking = {**settings_of, "timing": "blocking"}
    filled.add(changed("default-1", run_id="b", settings=blocking), "blocking")
    precise = {**settings_of, "precision": 0.01, "check": 3}
    filled.add(changed("default-1", run_id="p", settings=precise), "precise")
    series, _ = filled.series(RunFilter(operation="all_reduce"))
    found = {(one.method, len(one.figures)) for one in series}
    assert found == {("blocking", 1), ("throughput", 10)}


@mainly_sqlite
def test_imports_that_name_no_host_are_of_no_machine_that_is_known(history):
    """Texts of strangers: their times are no series of one machine."""
    machine = to_builtins(FIRST.machine) | {"hostname": ""}
    for number in (1, 2):
        history.add(changed(f"default-{number}", machine=machine), f"{number}.txt")
    series, runs = history.series(EVERYTHING)
    assert len(runs) == 2
    assert [len(one.figures) for one in series] == [1] * 52
    assert all(one.machine.startswith("unknown host, run ") for one in series)


def test_what_is_left_after_removing_is_what_was(filled, filled_place):
    keep, _ = filled.runs(RunFilter(label="n1"))
    gone, _ = filled.runs(RunFilter(label="n0"))
    before, _ = filled.series(RunFilter(label="n1"))
    filled.remove([run.number for run in gone])
    assert filled.runs(RunFilter(label="night"))[0] == keep
    assert filled.series(RunFilter(label="n1"))[0] == before
    with pytest.raises(UsageError, match="no run"):
        filled.content(gone[0].run_id)
    filled.remove([run.number for run in filled.runs(EVERYTHING)[0]])
    with Database(filled_place).reading() as connection:
        counts = {
            table: connection.scalar(text(f"SELECT count(*) FROM {table}"))
            for table in tables.metadata.tables
        }
    assert counts.pop("cclmark_noise") > 0
    assert counts.pop("cclmark_schema") == 1
    assert not any(counts.values()), counts


# The noise from run to run of a machine, which its history measures.


def test_three_runs_of_a_machine_and_a_method_measure_its_noise(history):
    add_runs(history, 1, 2)
    assert history.own_noise(FIRST) == {}
    history.add(content("default-3"), "x")
    found = history.own_noise(FIRST)
    assert {one.band for one in found} == {name for _, name in BANDS}
    assert {(one.clocked, one.operation, one.ccl) for one in found} == {
        ("call", "all_reduce", "nccl")
    }
    assert {one.freedom for one in found.values()} == {2}
    # By hand, for the largest messages.
    logs = {}
    for number in (1, 2, 3):
        for one in read_journal(RUNS / f"default-{number}.jsonl").results:
            if one.case.size_bytes > 1 << 20:
                logs.setdefault(one.case, []).append(math.log(one.summary.time_s))
    squares = [(b - a) ** 2 for own in logs.values() for a, b in itertools.pairwise(own)]
    expected = math.sqrt(sum(squares) / len(squares) / 2)
    assert found[LARGE].share == pytest.approx(max(expected, 1e-4))
    for other in (replace(FIRST, devices=A100), BLOCKING):
        assert history.own_noise(other) == {}


# Two runs measure no noise: it remains. Three measure it again: it is not that of old runs.
@pytest.mark.parametrize(("removed", "freedom"), [(4, 4), (3, 2)])
def test_noise_remains_until_enough_runs_measure_it_again(history, removed, freedom):
    add_runs(history, *range(1, 6))
    known = history.own_noise(FIRST)
    history.remove([run.number for run in history.runs(EVERYTHING)[0]][:removed])
    history.add(content("ctas8"), "x")
    found = history.own_noise(FIRST)
    assert {one.freedom for one in known.values()} == {4}
    assert {one.freedom for one in found.values()} == {freedom}
    assert found.keys() == known.keys()
    assert (found == known) == (freedom == 4)


def test_comparisons_try_a_history_that_cannot_be_read_once(monkeypatch):
    # No server listens at this port.
    monkeypatch.setenv(history_model.HISTORY_VARIABLE, "postgresql://127.0.0.1:1/runs")
    notices = []
    own_noise = noise_of_machines(notices.append)
    assert [own_noise(FIRST) for _ in range(3)] == [{}] * 3
    (notice,) = notices
    assert "history is not used: the history postgresql://" in notice


def test_a_trend_of_another_machine_uses_its_own_noise(history):
    """With three runs of each level the assumed noise of H200 would decide elsewhere."""
    for number in range(1, 7):
        history.add(changed(f"default-{number}", devices=to_builtins(A100)), "x")
    series, _ = history.series(EVERYTHING)
    assert not any(one.is_measured_machine for one in series)
    assert {one.noise.freedom for one in series} == {5}
    for number in range(1, 7):
        history.add(content(f"default-{number}"), "x", replace=True)
    series, _ = history.series(EVERYTHING)
    assert all(one.is_measured_machine for one in series)
    # As compare does, a trend prefers the measured noise to the assumed one.
    large = max(series, key=lambda one: one.thing.size_bytes)
    levels = [
        (run, 1e-3 * (1.1 if place >= 3 else 1), 1e-4)
        for place, (run, _, _) in enumerate(large.figures)
    ]
    for noise, number in ((None, 1), (RunNoise(0.2, freedom=5), 0)):
        (found,) = trends([dataclasses.replace(large, figures=levels, noise=noise)])
        assert len(found.changes) == number


@pytest.mark.parametrize(
    "packed",
    [
        lambda: b"no zlib",
        lambda: zlib.compress(b""),
        lambda: zlib.compress(b"x" * (65 << 20), 1),
        lambda: zlib.compress(content("default-1"))[:100],
    ],
    ids=["else", "nothing", "endless", "cut"],
)
@mainly_sqlite
def test_an_altered_journal_is_refused(history, history_place, packed):
    history.add(content("default-1"), "default-1")
    execute(history_place, update(tables.journals).values(content=packed()))
    ((run,), _) = history.runs(EVERYTHING)
    for look in (lambda: history.content(run.run_id), lambda: history.headers([run.number])):
        with pytest.raises(UsageError, match=r"damaged|not a journal|incomplete"):
            look()


HOSTILE = "x'; DROP TABLE cclmark_runs; --\x00\x1b[2J\u202e\x85é"


def test_text_of_a_hostile_journal_stays_text(history):
    wrong = changed(
        "default-1",
        run_id=HOSTILE,
        machine=to_builtins(replace(FIRST.machine, hostname=HOSTILE)),
        devices=to_builtins([replace(one, name=HOSTILE) for one in FIRST.devices]),
        command=[HOSTILE, "\x00"],
        libraries=[{"name": HOSTILE, "version": HOSTILE, "path": HOSTILE}],
    ).replace(b'"operation":"all_reduce"', b'"operation":"x\'; DROP--\\u0000"')
    added = history.add(wrong, HOSTILE, ["'; --"])
    stored = history.run(added.run_id)
    assert history.content(added.run_id) == wrong
    assert "DROP TABLE" in stored.hostname
    assert (stored.hostname + stored.devices + stored.command + stored.source).isprintable()
    series, _ = history.series(EVERYTHING)
    assert len(series) == 26
    assert all(one.machine.isprintable() for one in series)
    for chosen in ({"label": "'; --"}, {"operation": stored.operations[0]}):
        assert history.runs(RunFilter(**chosen))[1] == 1
    assert history.runs(RunFilter(machine="x'; drop"))[1] == 1


def test_the_device_s_time_is_judged_and_calls_are_a_series_beside_it(history, history_place):
    for number in range(1, 9):
        history.add(timed_auto(f"default-{number}", 5e-6 * (1.05 if number > 4 else 1)), "x")
    # The other times of its class are of calls that launches set: their noise hides the change.
    execute(history_place, delete(tables.noises))
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
    others = [trend for trend in found if trend.series.kind == "time"]
    assert len(others) == 25
    assert all(trend.series.of_device for trend in others)
    assert {context_of(trend) for trend in others} == {changed.series.machine}


@mainly_sqlite
def test_what_launches_do_not_set_goes_on_from_older_runs(history):
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
    """The tables of a database, whatever the order of their columns is."""
    found = MetaData()
    found.reflect(connection)
    # SQLite keeps a type as it was written: FLOAT(53) is its FLOAT.
    texts = {
        name: str(CreateTable(table)).replace("FLOAT(53)", "FLOAT").replace(",", "").splitlines()
        for name, table in found.tables.items()
    }
    indexes = {str(CreateIndex(one)) for table in found.tables.values() for one in table.indexes}
    return {name: sorted(lines) for name, lines in texts.items()}, indexes


def test_tables_of_version_1_become_the_newest_and_keep_their_runs(history_place):
    """Without times of devices; one with both figures can be added then."""
    with Database(history_place).writing() as connection:
        assert [version_of(connection), migrate(connection, "x")] == [0, 0]
        assert version_of(connection) == migrate(connection, "x") == len(tables.MIGRATIONS)
        newest = described(connection)
    History(history_place).add(content("default-1"), "default-1")
    execute(
        history_place,
        "DROP INDEX cclmark_results_trend",
        "ALTER TABLE cclmark_results DROP COLUMN device_time_s",
        "ALTER TABLE cclmark_results DROP COLUMN device_half_width",
        "ALTER TABLE cclmark_results RENAME COLUMN spread TO cv",
        "DROP TABLE cclmark_noise",
        "UPDATE cclmark_schema SET version = 1",
    )
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


def test_a_step_of_a_migration_that_fails_leaves_all_as_it_was(history_place):
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
        assert "note" not in connection.execute(text("SELECT * FROM cclmark_runs")).keys()  # noqa: SIM118


def test_tables_of_a_newer_program_are_refused(history_place):
    History(history_place).begin()
    execute(history_place, "UPDATE cclmark_schema SET version = 99")
    history = History(history_place)
    for act in (
        lambda: history.runs(EVERYTHING),
        lambda: history.add(content("default-1"), "x"),
        lambda: history.remove([1]),
    ):
        with pytest.raises(UsageError, match=r"schema 99.*update cclmark"):
            act()


def test_nothing_is_made_by_looking(tmp_path):
    place = tmp_path / "history.sqlite"
    with pytest.raises(MissingError, match="there is no history"):
        History(str(place)).runs(EVERYTHING)
    assert not place.exists()
    place.touch()
    with pytest.raises(MissingError, match="no history yet"):
        History(str(place)).runs(EVERYTHING)
    assert place.read_bytes() == b""


def test_one_that_is_opened_to_read_cannot_be_changed(filled_place):
    opened = History(filled_place, read_only=True)
    for change in (lambda: opened.remove([1]), lambda: opened.add(content("buff8"), "buff8")):
        with pytest.raises(UsageError, match="was opened read-only"):
            change()
    assert opened.runs(EVERYTHING)[1] == 10
    with (
        pytest.raises((MissingError, UsageError), match=r"read-only|may not write"),
        Database(filled_place).reading() as connection,
    ):
        connection.execute(insert(tables.things).values(digest="x"))


LOCKED = r"locked by another process for more than 0\.2 s"


def test_a_locked_one_is_waited_for_and_then_told(filled, filled_place):
    with Database(filled_place).writing():
        assert filled.runs(EVERYTHING)[1] == 10
        with (
            pytest.raises(MissingError, match=LOCKED),
            Database(filled_place, busy_s=0.2).writing(),
        ):
            pass
    assert filled.add(content("buff8"), "buff8").run_id


def test_a_file_of_something_else_is_left_alone(tmp_path):
    place = tmp_path / "places.sqlite"
    with sqlite3.connect(place) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    was = place.read_bytes()
    with pytest.raises(UsageError, match=r"database of another program.*bookmarks"):
        History(str(place)).begin()
    assert place.read_bytes() == was


def _add(place, numbers):
    add_runs(History(place), *numbers)


def test_processes_add_at_the_same_time(history_place):
    """Each adds all of them, in another order: each run is there once."""
    orders = ([*range(1, 9)], [*range(8, 0, -1)], [*range(5, 9), *range(1, 5)])
    forking = multiprocessing.get_context("fork")  # spares each of them the imports
    processes = [forking.Process(target=_add, args=(history_place, order)) for order in orders]
    for process in processes:
        process.start()
    for process in processes:
        process.join(scaled(60))
    assert [process.exitcode for process in processes] == [0, 0, 0]
    history = History(history_place)
    assert history.runs(EVERYTHING)[1] == 8
    assert [len(one.figures) for one in history.series(EVERYTHING)[0]] == [8] * 26


def test_addresses_and_names_of_files(tmp_path):
    """Names are names, whatever SQLite would read into one."""
    for wrong in ("mysql://u@h/d", "sqlite://", "postgresql://u:s3cr3t@h:port/d", "://", "oracle:"):
        with pytest.raises(UsageError) as caught:
            Database(wrong if "//" in wrong else f"{wrong}//x")
        assert "s3cr3t" not in str(caught.value)
    odd = tmp_path / "a?mode=memory&b#c%20d'"
    odd.mkdir()
    place = odd / "history.sqlite"
    History(str(place)).add(content("default-1"), "x")
    assert place.stat().st_size > 10_000
    History(f"sqlite:///{tmp_path}/other.sqlite").begin()
    assert (tmp_path / "other.sqlite").exists()


def test_moments_are_kept_as_utc():
    for said, kept in (
        ("2026-11-22T05:00:36.664+00:00", "2026-11-22T05:00:36.664Z"),
        ("2026-11-22T05:00:36Z", "2026-11-22T05:00:36.000Z"),
        ("2026-11-22T06:00:36+02:00", "2026-11-22T04:00:36.000Z"),
        ("2026-11-22", "2026-11-22T00:00:00.000Z"),
    ):
        assert history_model.stored_moment(said) == moment(said) == kept
    # The end of a span includes the day.
    assert moment("2026-11-22", after=True) == "2026-11-23T00:00:00.000Z"
    assert moment("2026-11-22T05:00", after=True) == "2026-11-22T05:00:00.001Z"
    for wrong in ("", "yesterday", "2026-02-30", "9999-12-31"):
        with pytest.raises(UsageError, match="cannot read the time"):
            moment(wrong, after=True)
    with pytest.raises(UsageError, match="cannot read the time"):
        moment("0001-01-01T00:00+14:00")


def test_importing_the_model_brings_no_sql():
    """Reports and other commands import it, and must not pay for a database."""
    code = "import sys, cclmark.history.history_model, cclmark.cli.main, cclmark.history.lists; "
    code += "print('sqlalchemy' in sys.modules)"
    assert completed([sys.executable, "-c", code], check=True).stdout == "False\n"
