"""``cclmark import``: other tools' results on the way through the program."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from cclmark.kinds.registry import read_journal
from commands import PROGRAM
from places import TESTS

TEXTS = TESTS / "foreign"
REAL = TESTS.parent / "benchmarks" / "results" / "h200x4"
NEWEST = str(TEXTS / "nccl-tests-2.19.txt")


def test_it_says_what_it_took_the_file_for_and_writes_a_journal(cclmark):
    told = cclmark("import", NEWEST)
    assert "nccl-tests-2.19.txt: nccl-tests, of nccl-tests 2.19.6: 56 cases of " in told.err
    assert "all_reduce, all_gather, 4 ranks" in told.err
    assert told.out == ""
    header = told.journal.header
    assert told.journal_path.parent.name == "cclmark-runs"
    assert header.imported.file == "nccl-tests-2.19.txt"
    assert header.command[1:] == ["import", NEWEST]
    assert len(told.written()) == 1
    # Once more it is the same run in another file.
    again = cclmark("import", NEWEST)
    assert again.journal_path != told.journal_path
    assert again.journal.header.run_id == header.run_id


def test_old_results_compare_with_new_as_far_as_they_can(cclmark):
    cclmark("import", NEWEST, "-o", "old.jsonl")
    new = str(REAL / "all_reduce.jsonl")
    told = cclmark("compare", "old.jsonl", new)
    assert (
        "imported from nccl-tests 2.19.6, a time is the mean of the tool's iterations" in told.out
    )
    assert "precision" not in told.out
    assert "one figure of nccl-tests 2.19.6 before, without samples" in told.out
    (said,) = json.loads(cclmark("compare", "old.jsonl", new, "--format", "json").out)
    both = [case for case in said["cases"] if case["ratio"] is not None]
    assert len(both) == 28
    for case in both:
        assert case["verdict"] == "noise unknown"
        assert case["ratio"] == pytest.approx(case["after_s"] / case["before_s"])
    # Even a large difference is no verdict: as a gate that cannot fail it would be no use.
    told = cclmark("compare", new, "old.jsonl", "--fail-if-slower", "5%", code=2)
    assert "of old.jsonl can be judged: one figure of nccl-tests 2.19.6 after" in told.message


def test_two_imported_runs_compare_with_each_other(cclmark, tmp_path):
    cclmark("import", NEWEST, "-o", "old.jsonl")
    again = tmp_path / "again.txt"
    again.write_text(Path(NEWEST).read_text() + "\n")
    cclmark("import", str(again), "-o", "again.jsonl")
    told = cclmark("compare", "old.jsonl", "again.jsonl")
    assert "56 cases: 56 noise unknown" in told.out
    assert "one figure of nccl-tests 2.19.6 after, without samples" in told.out


def test_the_heading_names_the_tool(cclmark):
    cclmark("import", NEWEST, "-o", "old.jsonl")
    table = cclmark("export", "old.jsonl", "--format", "table").out
    assert "4 ranks on h200-host\n  imported   from nccl-tests 2.19.6, nccl-tests-2.19.txt" in table
    assert "4 × NVIDIA H200 (cuda:0,1,2,3)\n" in table
    row = ["2", "GiB", "536870912", "fp32", "sum", "-", "8958.2", "239.72", "359.58", "0"]
    assert row in [line.split()[: len(row)] for line in table.splitlines()]
    markdown = cclmark("export", "old.jsonl", "--format", "markdown").out
    assert "  imported   from nccl-tests 2.19.6" in markdown


def test_without_any_device_every_format_still_has_something_to_say(cclmark):
    cclmark("import", str(TEXTS / "all-reduce-bench.txt"), "-o", "old.jsonl")
    for name in ("table", "json", "csv", "markdown", "parquet", "prometheus", "nccl-tests"):
        cclmark("export", "old.jsonl", "--format", name, "-O", f"out.{name}")
    for name in ("flagcx", "hccl"):
        assert cclmark("export", "old.jsonl", "--format", name).out.count("\n") > 20
    assert "cclmark 0.1.0  32 ranks\n" in cclmark("export", "old.jsonl", "--format", "table").out


def test_json_of_a_run_becomes_its_journal_again(cclmark, tmp_path):
    cclmark("export", str(REAL / "p2p.jsonl"), "--format", "json", "-O", "p2p.json")
    told = cclmark("import", "p2p.json", "-o", "again.jsonl")
    assert "a journal of cclmark as JSON" in told.err
    there, here = read_journal(REAL / "p2p.jsonl"), read_journal(tmp_path / "again.jsonl")
    assert here == there


def test_several_texts_of_one_run_come_into_one_journal(cclmark, tmp_path):
    blocks = Path(NEWEST).read_text().split("# nccl-tests version")
    for name, block in zip(("reduce.txt", "gather.txt"), blocks[1:], strict=True):
        (tmp_path / name).write_text("# nccl-tests version" + block)
    cclmark("import", "reduce.txt", "gather.txt", "-o", "both.jsonl")
    both = read_journal(tmp_path / "both.jsonl")
    assert len(both.results) == 56
    assert [one.index for one in both.results] == list(range(56))
    assert both.header.imported.file == "reduce.txt, gather.txt"
    assert both.header.planned_cases == 56
    refused = cclmark("import", "reduce.txt", str(TEXTS / "nccl-tests.json"), "-o", "x", code=2)
    assert "are not of the same run: tool" in refused.message
    assert not (tmp_path / "x").exists()


def test_a_loop_over_nodes_into_one_file_is_split(cclmark, tmp_path):
    one = Path(NEWEST).read_text()
    both = one + one.replace("h200-host", "other")
    (tmp_path / "all.txt").write_text(both)
    refused = cclmark("import", "all.txt", "-o", "x.jsonl", code=2)
    line = one.count("\n") + 1
    assert f"all.txt:{line}: different from the results above (from line " in refused.message
    assert "4 × NVIDIA H200 on h200-host there, 4 × NVIDIA H200 on other here" in refused.message
    assert not (tmp_path / "x.jsonl").exists()
    lines = both.splitlines(keepends=True)
    (tmp_path / "rest.txt").write_text("".join(lines[line - 1 :]))
    assert cclmark("import", "rest.txt").journal.header.devices[0].host == "other"


@pytest.mark.parametrize("name", ["flagcx", "hccl", "nccl-tests"])
def test_a_wrong_run_of_ours_is_wrong_when_it_comes_back(cclmark, name):
    sample = read_journal(TESTS / "golden" / "sample.jsonl")
    cclmark("export", str(TESTS / "golden" / "sample.jsonl"), "--format", name, "-O", "x.txt")
    back = cclmark("import", "x.txt").journal
    assert back.footer.exit_code == sample.footer.exit_code == 1
    assert back.footer.message == sample.footer.message
    there = {one.case: one.status for one in sample.results}
    # No text has the matrix of an alltoallv.
    assert all(
        there[one.case] == one.status for one in back.results if one.case.operation != "alltoallv"
    )


def test_unknown_devices_are_not_taken_for_the_same(cclmark, tmp_path):
    ours = [str(TEXTS / f"flagcx-{name}.txt") for name in ("c550", "p800")]
    both = ("import", *ours, "--operation", "all_reduce", "-o", "both.jsonl")
    refused = cclmark(*both, code=2)
    assert "both contain all_reduce 128 KiB" in refused.message
    assert "import them one by one" in refused.message
    assert not (tmp_path / "both.jsonl").exists()
    cclmark(*both, "--device", "C550")
    again = read_journal(tmp_path / "both.jsonl")
    assert {one.cycle for one in again.results} == {0, 1}
    # Notices name the file and not where it lay.
    assert not [one for one in again.header.notices if "/" in one.partition(": ")[0]]
    assert [one for one in again.header.notices if one.startswith("flagcx-p800.txt: line")]


def test_from_a_pipe(tmp_path):
    done = subprocess.run(
        [*PROGRAM, "import", "-", "-o", "piped.jsonl"],
        input=Path(NEWEST).read_bytes(),
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert b"standard input: nccl-tests" in done.stderr
    assert read_journal(tmp_path / "piped.jsonl").header.imported.file == ""


def test_an_imported_run_cannot_be_run_again(cclmark):
    cclmark("import", NEWEST, "-o", "old.jsonl")
    assert "is not a measuring command" in cclmark("rerun", "old.jsonl", code=2).message


OUT = ("-o", "out.jsonl")
PCCL = str(TEXTS / "pccl-p2p.txt")
FLAGCX = str(TEXTS / "flagcx-a800.txt")


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"", ("in.txt", *OUT), "in.txt is empty"),
        (b"\x00\x01\x02", ("in.txt", *OUT), "in.txt is binary"),
        (b"hello\n", ("in.txt", *OUT), "contains no table of a supported tool (cclmark-"),
        (
            *(b"hello\n", ("in.txt",)),
            "trace of a program (kineto, execution-trace, nccl-inspector). Check the",
        ),
        (b"\x07\n\x050.0.4\x06\x08\x01\x12\x02ab", ("in.txt", *OUT), "in protobuf form"),
        (
            b"#  size  count  type  time  algbw  busbw\n  8  2  float  fast  1  1\n",
            *(("in.txt", *OUT), "in.txt:2"),
        ),
        (b"hello\n", (NEWEST, "in.txt"), "contains no table"),  # one of several
        (b"", ("none.txt",), "cannot read none.txt: No such file"),
        (b"", ("/",), "cannot read /: Is a directory"),
        (b"", (FLAGCX,), "set it with --operation"),
        (b"mine\n", (NEWEST, "-o", "in.txt"), "File exists. Choose another place with -o FILE"),
        (b"", (NEWEST, "-o", "no/where.jsonl"), "cannot write"),
        # Files that are not of one run.
        (
            Path(NEWEST).read_bytes().replace(b" iters: 20", b" iters: 50"),
            *((NEWEST, "in.txt", *OUT), "settings throughput -n 20 -w 1 and throughput -n 50 -w 1"),
        ),
        (
            Path(NEWEST).read_bytes(),
            *((NEWEST, "in.txt", *OUT), "have the same content: import one of them"),
        ),
        (
            b"".join(Path(PCCL).read_bytes().partition(b"\n(Enabled")[1:]),
            *((PCCL, "in.txt", *OUT), "which another file contains too"),
        ),
        (b"", (PCCL, NEWEST, *OUT), "contain different kinds of work: import them one by one"),
        (
            *(b"", (NEWEST, str(TESTS / "traces" / "gloo-0.json.gz"), *OUT)),
            "traces of programs and other files cannot be one journal: leave out -o",
        ),
        (b"", (PCCL, "--size", "1M"), "the size is 268435456 bytes, not --size 1048576"),
    ],
)
def test_files_that_are_refused_write_nothing(cclmark, tmp_path, content, arguments, message):
    (tmp_path / "in.txt").write_bytes(content)
    refused = cclmark("import", *arguments, code=2)
    assert message in refused.message
    assert "Traceback" not in refused.err
    assert refused.written() == ["in.txt"]
    assert (tmp_path / "in.txt").read_bytes() == content


def test_what_a_text_lacks_is_given(cclmark):
    told = cclmark("import", FLAGCX, "--operation", "all_reduce", "--device", "NVIDIA A800")
    assert {one.name for one in told.journal.header.devices} == {"NVIDIA A800"}


def test_no_room_leaves_nothing_behind(tmp_path):
    """The limit for the size of files stands for a full disk."""
    command = [*PROGRAM, "import", NEWEST, *OUT]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 8; exec "$@"', "-", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "cannot write the journal out.jsonl: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_hostile_names_reach_no_terminal(cclmark, tmp_path):
    text = Path(NEWEST).read_text().replace("NVIDIA H200", "\x1b]0;x\x07H200")
    (tmp_path / "in.txt").write_text(text)
    cclmark("import", "in.txt", *OUT)
    assert "\x1b" not in cclmark("export", "out.jsonl", "--format", "table").out
    assert "\x07" not in cclmark("export", "out.jsonl", "--format", "prometheus").out


def test_a_date_that_files_have_is_that_of_the_run(cclmark, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text(Path(NEWEST).read_text())
    stamp = 1_600_000_000
    os.utime(text, (stamp, stamp))
    journal = cclmark("import", "in.txt").journal
    assert journal.header.started_at == "2020-09-13T12:26:40.000+00:00"
    assert journal.header.imported.file_date == journal.header.started_at
    assert time.time() > stamp


def test_copies_of_another_tool_become_a_journal_of_copies(cclmark, tmp_path):
    told = cclmark("import", str(TEXTS / "nvbandwidth-0.8.txt"), "-o", "old.jsonl")
    assert "nvbandwidth, of nvbandwidth 0.8: 92 copies and 12 latencies between devices" in told.err
    assert read_journal(tmp_path / "old.jsonl").kind == "p2p"
    table = cclmark("export", "old.jsonl", "--format", "table").out
    assert "Bidirectional bandwidth, write, CE, 512 MiB [GB/s]" in table
    assert "one figure for each transfer" in table
    for name in ("json", "csv", "markdown", "parquet", "prometheus", "pccl"):
        cclmark("export", "old.jsonl", "--format", name, "-O", f"out.{name}")
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert any(",all-to-one," in row and ",,400.75," in row for row in rows)  # the total alone
    told = cclmark("compare", "old.jsonl", str(REAL / "p2p.jsonl"))
    assert "imported from nvbandwidth 0.8" in told.out
    assert "the total of both directions is the sum of two bandwidths" in told.out
    assert "one figure of nvbandwidth 0.8 before, without samples" in told.out
    # What --format pccl prints of it is a text of PCCL again.
    again = cclmark("import", "out.pccl", "-o", "again.jsonl")
    assert "60 copies and 12 latencies" in again.err
