"""A user's library under a launcher: every process reads its file, every rank calls it."""

from pathlib import Path

import pytest

from fake_libraries import fake_library

REPOSITORY = Path(__file__).parents[2]
COMMAND = (
    *("all_reduce", "--ccl-file", "mine.toml", "--ccl", "mine"),
    *("-b", "64", "-e", "64", "-n", "2", "-w", "1", "--journal", "run.jsonl"),
)
DESCRIPTION = """
name = "mine"
shape = "nccl"
devices = ["tang"]
prefix = "pccl"
files = ["libmine.so"]
[types]
float32 = 7
[reductions]
sum = 0
"""


@pytest.fixture
def env(tmp_path):
    fakes = fake_library("tang/libpccl.so").parent
    return {
        "CCLMARK_TANG_LIBRARY": str(fakes / "libtangrt_shared.so"),
        "CCLMARK_MINE_LIBRARY": str(fakes / "libpccl.so"),
        "CCLMARK_FAKE_DEVICES": "2",
    }


def test_ranks_of_all_processes_call_it(pods, env, tmp_path):
    from cclmark.kinds.registry import read_journal

    (tmp_path / "mine.toml").write_text(DESCRIPTION)
    second = pods.start(1, 2, *COMMAND, LOCAL_RANK="1", LOCAL_WORLD_SIZE="2", **env)
    first = pods.start(0, 2, *COMMAND, LOCAL_RANK="0", LOCAL_WORLD_SIZE="2", **env)
    code, _, err = pods.end(first)
    assert (code, pods.end(second)[0]) == (0, 0), err
    journal = read_journal(tmp_path / "run.jsonl")
    assert len(journal.header.devices) == 2
    assert {(it.case.ccl, it.status) for it in journal.results} == {("mine", "ok")}


def test_a_file_that_one_process_lacks_ends_all(pods, env, tmp_path):
    (tmp_path / "mine.toml").write_text(DESCRIPTION)
    elsewhere = [it if it != "mine.toml" else "absent.toml" for it in COMMAND]
    second = pods.start(1, 2, *elsewhere, LOCAL_RANK="1", LOCAL_WORLD_SIZE="2", **env)
    first = pods.start(0, 2, *COMMAND, LOCAL_RANK="0", LOCAL_WORLD_SIZE="2", **env)
    code, _, err = pods.end(first, timeout_s=30)
    assert code == 2
    assert "--ccl-file absent.toml: cannot read it: No such file or directory" in err
    assert pods.end(second, timeout_s=30)[0] == 2
