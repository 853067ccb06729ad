"""``cclmark import``: other tools' results on the way through the program.

What commands print is in tests/golden/transcripts.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from cclmark.kinds.registry import read_journal
from commands import PROGRAM
from places import H200X4, TESTS
from transcripts import require_transcript, stored_commands, stored_names

TEXTS = TESTS / "foreign"
NEWEST = str(TEXTS / "nccl-tests-2.19.txt")  # of two programs
OLD = str(TEXTS / "nccl-tests-2019.txt")


def test_it_says_what_it_took_the_file_for_and_writes_a_journal(cclmark):
    told = cclmark("import", OLD)
    assert "nccl-tests-2019.txt: nccl-tests: 6 cases of all_gather, 2 ranks" in told.err
    assert told.out.startswith("  verdict ")
    header = told.journal.header
    assert told.journal_path.parent.name == "cclmark-runs"
    assert header.imported.file == "nccl-tests-2019.txt"
    assert header.command[1:] == ["import", OLD]
    assert len(told.written()) == 1


def of(name):
    return (TEXTS / f"{name}.txt").read_bytes()


def loop():
    return b"".join(b"==== %s ====\n" % name.encode() + of(name) for name in LOOPED)


LOOPED = ("pccl-p2p", "hccl-test", "imb-mpi1")
#: Texts by name, besides the stored ones.
MADE = {
    "empty": lambda: b"",
    "binary": lambda: b"\x00\x01\x02",
    "hello": lambda: b"hello\n",
    "protobuf": lambda: b"\x07\n\x050.0.4\x06\x08\x01\x12\x02ab",
    "words": lambda: b"#  size  count  type  time  algbw  busbw\n  8  2  float  fast  1  1\n",
    "50-iterations": lambda: of("nccl-tests-2.19").replace(b" iters: 20", b" iters: 50"),
    "again": lambda: of("nccl-tests-2.19"),
    "again-c550": lambda: of("flagcx-p800").replace(b"Kunlunxin P800", b"Muxi C550"),
    "longer": lambda: of("nccl-tests-2.19") + b"\n",
    "second-half": lambda: b"".join(of("pccl-p2p").partition(b"\n(Enabled")[1:]),
    "two-nodes": lambda: (
        of("nccl-tests-2.19") + of("nccl-tests-2.19").replace(b"h200-host", b"other")
    ),
    "loop": loop,
    "cut": lambda: b"\n".join(of("nccl-tests-2.19").splitlines()[:-10]),
}


@pytest.mark.parametrize("name", stored_names("import-"))
def test_what_commands_print(cclmark, tmp_path, name):
    for file, make in MADE.items():
        (tmp_path / f"{file}.txt").write_bytes(make())
    for path in (*TEXTS.glob("*.txt"), TESTS / "traces" / "gloo-0.json.gz"):
        shutil.copy(path, tmp_path / path.name)
    shutil.copy(H200X4 / "all_reduce.jsonl", tmp_path / "new.jsonl")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    require_transcript(name, stored_commands(name), cclmark, tmp_path)
    assert all(path.read_bytes() == content for path, content in before.items())
    assert name != "import-refused" or before.keys() == {*tmp_path.iterdir()}


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


def test_a_date_that_files_have_is_that_of_the_run(cclmark, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text(Path(OLD).read_text())
    stamp = 1_600_000_000
    os.utime(text, (stamp, stamp))
    journal = cclmark("import", "in.txt").journal
    assert journal.header.started_at == "2020-09-13T12:26:40.000+00:00"
    assert journal.header.imported.file_date == journal.header.started_at
    assert time.time() > stamp
