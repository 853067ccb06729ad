"""``cclmark import``: other tools' results on the way through the program."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from cclmark.kinds.registry import read_journal
from commands import PROGRAM, completed
from places import H200X4, TESTS

TEXTS = TESTS / "foreign"
NEWEST = str(TEXTS / "nccl-tests-2.19.txt")  # of two programs
OLD = str(TEXTS / "nccl-tests-2019.txt")


def test_it_says_what_it_took_the_file_for_and_writes_a_journal(cclmark):
    told = cclmark("import", OLD)
    assert "nccl-tests-2019.txt: nccl-tests: 6 cases of all_gather, 2 ranks" in told.err
    assert told.out == ""
    header = told.journal.header
    assert told.journal_path.parent.name == "cclmark-runs"
    assert header.imported.file == "nccl-tests-2019.txt"
    assert header.command[1:] == ["import", OLD]
    assert len(told.written()) == 1
    # Once more it is the same run in another file.
    again = cclmark("import", OLD)
    assert again.journal_path != told.journal_path
    assert again.journal.header.run_id == header.run_id


def test_old_results_compare_with_new_as_far_as_they_can(cclmark):
    cclmark("import", NEWEST, "-o", "old.jsonl")
    new = str(H200X4 / "all_reduce.jsonl")
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


def test_without_any_device_every_format_still_has_something_to_say(cclmark):
    cclmark("import", str(TEXTS / "all-reduce-bench.txt"), "-o", "old.jsonl")
    for name in ("table", "json", "csv", "markdown", "parquet", "prometheus", "nccl-tests"):
        cclmark("export", "old.jsonl", "--format", name, "-O", f"out.{name}")
    for name in ("flagcx", "hccl"):
        assert cclmark("export", "old.jsonl", "--format", name).out.count("\n") > 20
    assert "cclmark 0.1.0  32 ranks\n" in cclmark("export", "old.jsonl", "--format", "table").out


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
    assert "all.txt contains 4 runs: without -o each becomes a journal" in refused.message
    told = cclmark("import", "all.txt", "--directory", "runs")
    journals = [read_journal(path) for path in sorted((tmp_path / "runs").iterdir())]
    hosts = [one.header.devices[0].host for one in journals]
    assert hosts == ["h200-host", "h200-host", "other", "other"]
    assert f"all.txt, run 3 (lines {line} to {line + 34}): nccl-tests" in told.err


def test_a_log_of_several_runs_is_a_journal_for_each(cclmark, tmp_path):
    names = ("pccl-p2p.txt", "hccl-test.txt", "imb-mpi1.txt")
    log = "".join(f"==== {name} ====\n" + (TEXTS / name).read_text() for name in names)
    (tmp_path / "loop.log").write_text(log)
    told = cclmark("import", "loop.log", "--directory", "runs", code=2)
    refused = next(line for line in told.err.splitlines() if "not imported" in line)
    assert "loop.log, run 4 (lines 49 to 55) is not imported: loop.log:52: " in refused
    assert "number of ranks: set --ranks N" in refused
    assert "cclmark: 1 of 5 runs cannot be imported, see above" in told.err
    expected = [
        *("loop-01-pccl-unidirectional.jsonl", "loop-02-pccl-bidirectional.jsonl"),
        *("loop-03-pccl-latency.jsonl", "loop-05-imb-collective.jsonl"),
    ]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == expected
    before = {path: path.read_bytes() for path in (tmp_path / "runs").iterdir()}
    cclmark("import", "loop.log", "--directory", "runs", "--format", "pccl")
    assert all(path.read_bytes() == content for path, content in before.items())
    added = {path.name for path in (tmp_path / "runs").iterdir()} - set(expected)
    assert added == {name.replace(".jsonl", "-1.jsonl") for name in expected[:3]}
    assert "set one of them" in cclmark("import", OLD, *OUT, "--directory", "x", code=2).message


def test_a_log_that_is_cut_names_the_incomplete_run(cclmark, tmp_path):
    content = Path(NEWEST).read_text().splitlines()
    (tmp_path / "cut.log").write_text("\n".join(content[:-10]))
    told = cclmark("import", "cut.log", "--directory", "runs")
    assert "cut.log, run 2 (lines 36 to 57): nccl-tests" in told.err
    assert "  this run ends before its table is complete" in told.err
    assert told.err.count("before its table is complete") == 1
    whole, cut = sorted((tmp_path / "runs").iterdir())
    assert read_journal(whole).footer is not None
    assert read_journal(cut).footer is None


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
            "trace of a program (kineto, execution-trace, msprof, nccl-inspector). Check",
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
        (b"", (PCCL, "--size", "1M", *OUT), "the size is 268435456 bytes, not --size 1048576"),
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
    done = completed(["bash", "-c", 'ulimit -f 8; exec "$@"', "-", *command], cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "cannot write the journal out.jsonl: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_date_that_files_have_is_that_of_the_run(cclmark, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text(Path(OLD).read_text())
    stamp = 1_600_000_000
    os.utime(text, (stamp, stamp))
    journal = cclmark("import", "in.txt").journal
    assert journal.header.started_at == "2020-09-13T12:26:40.000+00:00"
    assert journal.header.imported.file_date == journal.header.started_at
    assert time.time() > stamp
