"""``cclmark export``: to files that are whole or not there, and to pipes."""

import csv
import json
import threading

import pytest

from commands import PROGRAM, completed
from places import H200X4
from samples import with_header
from transcripts import require_transcript

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
    rows = cclmark("export", "pairs.jsonl", "--format", "csv").out.splitlines()
    pairs = [(row["first"], row["second"]) for row in csv.DictReader(rows)]
    assert {*pairs} == {("DEV0", "DEV1"), ("DEV0", "DEV2"), ("DEV1", "DEV2")}
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


def test_a_file_keeps_its_rights_and_its_links_and_a_new_one_is_as_others_are(cclmark, tmp_path):
    real, link = tmp_path / "real.prom", tmp_path / "link.prom"
    real.write_text("old")
    real.chmod(0o604)
    link.symlink_to(real)
    cclmark("export", RUN, "--format", "prometheus", "-O", "link.prom")
    assert link.is_symlink()
    assert real.read_text().endswith("# EOF\n")
    assert real.stat().st_mode & 0o777 == 0o604
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


def test_a_reader_that_has_gone(tmp_path):
    done = completed(
        [
            *("bash", "-c", '"$@" | head -c 10 >/dev/null; exit ${PIPESTATUS[0]}', "-"),
            *(*PROGRAM, "export", str(H200X4 / "collectives.jsonl"), "--format", "json"),
        ],
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (141, "")


TRANSCRIPT = [
    "export run.jsonl again.jsonl --format prometheus",
    "export run.jsonl run.jsonl --format csv",
    "export run.jsonl --format json --table samples",
    "export early.jsonl --format csv",
    "export cut.jsonl --format csv",
    "export short.jsonl --format csv -O short.csv",
    # Its copies are of two devices more than its header names.
    *(f"export two.jsonl --format {format}" for format in ("csv", "prometheus", "table")),
    *(f"report {name}.jsonl" for name in ("text", "early", "gone")),
    "report page.html",
    "report run.jsonl --svg text.jsonl",
    "report run.jsonl run.jsonl",
    "report a=run.jsonl a=again.jsonl",
]


def test_what_is_said_of_journals(cclmark, tmp_path):
    run, copies = ((H200X4 / f"{name}.jsonl").read_bytes() for name in ("all_reduce", "p2p"))
    lines = run.splitlines(keepends=True)
    devices = json.loads(copies.partition(b"\n")[0])["devices"]
    files = {
        **{"run.jsonl": run, "again.jsonl": run, "page.html": run, "cut.jsonl": run[:-3000]},
        **{"early.jsonl": lines[0], "short.jsonl": b"".join(lines[:5])},
        **{"text.jsonl": b"# nThread 1\n", "two.jsonl": with_header(copies, devices=devices[:2])},
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    require_transcript("journals", TRANSCRIPT, cclmark, tmp_path)
    assert (tmp_path / "page.html").read_bytes() == run
