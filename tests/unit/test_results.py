import pytest

from cclmark.errors import UsageError
from cclmark.results.journal import JournalWriter, read_journal
from cclmark.results.machine import (
    describe_machine,
    kept_environment,
    parse_processor_list,
    processors_near,
    spread_over_cores,
)


def test_only_variables_that_matter_are_kept_and_never_secrets():
    kept = kept_environment(
        {
            "NCCL_ALGO": "Ring",
            "CUDA_VISIBLE_DEVICES": "0",
            "NCCL_AUTH_TOKEN": "hunter2",
            "CCLMARK_SECRET": "hunter2",
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "HOME": "/root",
        }
    )
    assert kept == {"NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize(
    ("text", "processors"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("5", {5}), ("\n", set())]
)
def test_processor_lists(text, processors):
    assert parse_processor_list(text) == processors


def test_a_device_that_the_system_does_not_know_has_no_near_processors():
    assert processors_near("ffff:ff:1f.7") == set()


def test_the_machine_is_described():
    machine = describe_machine()
    assert machine.processors >= 1
    assert machine.memory_bytes > 1 << 28


def test_a_journal_is_never_written_over(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("mine")
    with pytest.raises(UsageError, match=r"run\.jsonl"):
        JournalWriter(path)
    assert path.read_text() == "mine"


def test_a_journal_that_never_began_is_taken_away(tmp_path):
    path = tmp_path / "run.jsonl"
    JournalWriter(path).close(keep=False)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"\n\n", b"hello", b'{"type":"footer"}', b"\xff\xfe"])
def test_files_that_are_no_journals_are_refused(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        read_journal(path)


def test_ranks_take_one_processor_of_every_core_first(tmp_path):
    for processor, siblings in {0: "0-1", 1: "0-1", 2: "2,6", 3: "3", 6: "2,6"}.items():
        topology = tmp_path / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert spread_over_cores({0, 1, 2, 3, 6}, tmp_path) == [0, 2, 3, 1, 6]
    assert spread_over_cores({1, 6}, tmp_path) == [1, 6]  # alone on their cores
    assert spread_over_cores({4, 9}, tmp_path) == [4, 9]  # the system does not say
