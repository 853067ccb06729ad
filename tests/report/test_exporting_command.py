"""``cclmark export``: to files that are whole or not there, and to pipes."""

import csv
import json
import shutil
import threading
from pathlib import Path

import pytest

from commands import PROGRAM, completed
from places import H200X4

RUN = str(H200X4 / "all_reduce.jsonl")


@pytest.mark.parametrize("format", ["json", "prometheus"])
def test_to_a_file_and_to_a_pipe_it_is_the_same(cclmark, tmp_path, format):
    told = cclmark("export", RUN, "--format", format)
    assert told.err == ""
    assert told.out
    cclmark("export", RUN, "--format", format, "-O", "out")
    assert (tmp_path / "out").read_text() == told.out
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_pairs_read_as_when_they_were_measured(cclmark):
    measured = cclmark(
        *("pairs", "--devices", "host:3", "-b", "1K", "-e", "1K", "-n", "5"),
        *("--only", "all_reduce,sendrecv", "--journal", "pairs.jsonl"),
    )
    assert cclmark("export", "pairs.jsonl", "--format", "table").out == measured.out
    rows = list(
        csv.DictReader(cclmark("export", "pairs.jsonl", "--format", "csv").out.splitlines())
    )
    assert {(row["first"], row["second"]) for row in rows} == {
        ("DEV0", "DEV1"),
        ("DEV0", "DEV2"),
        ("DEV1", "DEV2"),
    }
    samples = cclmark("export", "pairs.jsonl", "--format", "csv", "--table", "samples").out
    ranks = {(row["first"], row["rank"]) for row in csv.DictReader(samples.splitlines())}
    assert ("DEV1", "2") in ranks
    prometheus = cclmark("export", "pairs.jsonl", "--format", "prometheus").out
    assert 'first="DEV1",second="DEV2"' in prometheus
    message = cclmark("export", "pairs.jsonl", "--format", "hccl", code=2).message
    assert "not supported by hccl" in message
    formats = message.partition("choose from ")[2].split(", ")
    assert {"csv", "table", "parquet", "prometheus"} < set(formats)
    assert len(set(formats)) == len(formats)


def test_a_run_that_a_newer_one_replaces_in_prometheus_is_named(cclmark, tmp_path):
    shutil.copy(RUN, tmp_path / "again.jsonl")
    told = cclmark("export", RUN, "again.jsonl", "--format", "prometheus")
    assert f"cclmark: {RUN}: the figures of " in told.err
    assert "again.jsonl: the figures" not in told.err


def test_a_file_that_is_there_keeps_its_rights_and_its_links(cclmark, tmp_path):
    real, link = tmp_path / "real.prom", tmp_path / "link.prom"
    real.write_text("old")
    real.chmod(0o604)
    link.symlink_to(real)
    cclmark("export", RUN, "--format", "prometheus", "-O", "link.prom")
    assert link.is_symlink()
    assert real.read_text().endswith("# EOF\n")
    assert real.stat().st_mode & 0o777 == 0o604


def test_a_new_file_is_readable_as_others_are(cclmark, tmp_path):
    cclmark("export", RUN, "--format", "csv", "-O", "new.csv")
    (tmp_path / "other").touch()
    assert (tmp_path / "new.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_who_reads_meanwhile_never_sees_half_of_it(cclmark, tmp_path):
    """As node_exporter does, at any time."""
    file = tmp_path / "cclmark.prom"
    cclmark("export", RUN, "--format", "prometheus", "-O", str(file))
    seen, done = set(), threading.Event()

    def watch():
        while not done.is_set():
            seen.add(file.read_text()[-6:])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(4):
            cclmark("export", RUN, "--format", "prometheus", "-O", str(file))
    finally:
        done.set()
        watcher.join()
    assert seen == {"# EOF\n"}


class TestWrongInput:
    def refused(self, cclmark, *arguments, code=2):
        told = cclmark("export", *arguments, code=code)
        assert "Traceback" not in told.err
        return told.message

    def test_a_reader_that_has_gone(self, tmp_path):
        done = completed(
            [
                *("bash", "-c", '"$@" | head -c 10 >/dev/null; exit ${PIPESTATUS[0]}', "-"),
                *(*PROGRAM, "export", str(H200X4 / "collectives.jsonl"), "--format", "json"),
            ],
            cwd=tmp_path,
        )
        assert (done.returncode, done.stderr) == (141, "")

    def test_what_cannot_be(self, cclmark, tmp_path):
        assert "listed twice" in self.refused(cclmark, RUN, RUN, "--format", "csv")
        message = self.refused(cclmark, RUN, "--format", "json", "--table", "samples")
        assert "only csv and parquet are tables" in message
        early = tmp_path / "early.jsonl"
        early.write_text(Path(RUN).read_text().splitlines()[0] + "\n")
        assert "holds no results" in self.refused(cclmark, str(early), "--format", "csv")

    def test_what_a_journal_lacks_is_told(self, cclmark, tmp_path):
        (tmp_path / "cut.jsonl").write_bytes(Path(RUN).read_bytes()[:-3000])
        told = cclmark("export", "cut.jsonl", "--format", "csv")
        assert told.err == (
            "cclmark: cut.jsonl: the end of the run is missing; 26 of 28 results are there; "
            "damaged lines are left out: 1\n"
        )
        assert "run_id" in told.out
        lines = Path(RUN).read_bytes().splitlines(keepends=True)
        (tmp_path / "short.jsonl").write_bytes(b"".join(lines[:5]))
        told = cclmark("export", "short.jsonl", "--format", "csv", "-O", "short.csv")
        assert told.err == (
            "cclmark: short.jsonl: the end of the run is missing; 4 of 28 results are there\n"
            "cclmark: written short.csv\n"
        )

    def test_results_of_devices_that_there_are_not(self, cclmark, tmp_path):
        lines = (H200X4 / "p2p.jsonl").read_text().splitlines()
        header = json.loads(lines[0])
        header["devices"] = header["devices"][:2]
        header.pop("crc32", None)
        damaged = tmp_path / "damaged.jsonl"
        damaged.write_text("\n".join([json.dumps(header, separators=(",", ":")), *lines[1:]]))
        for format in ("csv", "prometheus", "table", "markdown"):
            told = cclmark("export", str(damaged), "--format", format)
            assert "damaged lines are left out: 120" in told.err
            assert "DEV2" not in told.out
