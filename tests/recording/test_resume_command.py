import signal

import pytest

from cclmark.kinds.registry import read_journal
from patience import scaled

SWEEP = ("--devices", "host:2", "-n", "1", "-w", "0", "--inject", "delay:rank=1,ms=30")


def places(results):
    return [(result.cycle, result.index) for result in results]


def complete(cclmark, path, *arguments, **options):
    return cclmark(*arguments, "--resume", str(path), **options)


@pytest.fixture
def cut_of(tmp_path):
    def cut(run, change):
        path = tmp_path / "cut.jsonl"
        lines = run.journal_path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(change(lines)))
        return path

    return cut


def test_a_run_that_was_killed(cclmark, background, no_leaks):
    command = ("all_reduce", "-b", "64", "-e", "1K", "-d", "int32,float32", "-N", "2")
    run = background(*command, *SWEEP)
    run.wait_for_ranks(results=20)
    run.signal(run.process.pid, signal.SIGKILL)
    run.process.wait(scaled(30))
    cut = read_journal(run.journal_path)
    assert 20 <= len(cut.results) < 40

    resumed = complete(cclmark, run.journal_path, *command, *SWEEP)
    journal = resumed.journal
    assert journal.results[: len(cut.results)] == cut.results
    assert places(journal.results) == [(cycle, case) for cycle in range(2) for case in range(20)]
    assert journal.header.continues.run_id == cut.header.run_id
    assert journal.header.continues.path == str(run.journal_path)
    assert journal.header.continues.carried == len(cut.results)
    assert "40 of 40 cases checked, 0 wrong" in resumed.out
    assert f"{len(cut.results)} results of {run.journal_path}" in resumed.out
    assert [it.case for it in journal.results] == [
        it.case for it in cclmark(*command, *SWEEP).journal.results
    ]


def rows(text):
    """The rows of a table by their sizes, with how many of their cells are filled."""
    found = [line.split() for line in text.splitlines() if " fp32 " in line]
    return [(" ".join(words[:2]), len(words)) for words in found]


def test_a_line_that_was_lost_is_measured_and_stands_in_its_row(cclmark, cut_of):
    """A changed environment is reported; another plan is refused."""
    command = ("all_reduce", "-b", "64", "-e", "1K", *SWEEP)
    whole = cclmark(*command, env={"NCCL_ALGO": "Ring\x1b[31m"})
    cut = cut_of(whole, lambda all: [*all[:3], all[3][:50] + b"?" + all[3][51:], *all[4:]])
    resumed = complete(cclmark, cut, *command, env={"NCCL_ALGO": "Tree"})
    assert "9 results of" in resumed.out
    assert places(resumed.journal.results)[-1] == (0, 2)
    assert rows(resumed.out) == rows(whole.out)
    assert len(rows(whole.out)) == 5
    assert "NCCL_ALGO: Ring\\x1b[31m before, Tree now" in resumed.out
    assert "\x1b" not in resumed.out + resumed.err
    # The journal of both, printed again.
    again = complete(cclmark, resumed.journal_path, *command)
    assert rows(again.out) == rows(whole.out)
    other = ("all_reduce", "-b", "64", "-e", "2K", "-d", "int8", *SWEEP)
    written = again.written()
    refused = complete(cclmark, whole.journal_path, *other, code=2)
    assert "types (-d): float32 only in the journal, int8 only in this command" in refused.message
    assert "2KiB only in this command" in refused.message
    assert ". Repeat its options, or start a new run without --resume" in refused.message
    assert refused.written() == written


def test_what_was_wrong_stays_wrong(cclmark, cut_of):
    command = ("all_reduce", "-b", "64", "-e", "64", "--inject", "corrupt:rank=1,index=0", *SWEEP)
    whole = cclmark(*command, code=1)
    resumed = complete(cclmark, cut_of(whole, lambda lines: lines[:2]), *command, code=1)
    assert resumed.journal.results[0] == whole.journal.results[0]
    assert complete(cclmark, resumed.journal_path, *command, code=1).written()


def test_the_journal_is_not_written_over_with_its_table(cclmark, tmp_path):
    size = ("-b", "64", "-e", "64", "-n", "2", "-w", "1", "--devices", "host:2")
    path = cclmark("all_reduce", *size).journal_path
    before = path.read_bytes()
    told = cclmark("all_reduce", *size, "--resume", str(path), "-O", str(path), code=2)
    assert "would be overwritten" in told.message
    told = cclmark("rerun", str(path), "--", "-O", str(path), code=2)
    assert "would be overwritten" in told.message
    assert path.read_bytes() == before


def test_a_header_that_was_cut_off(cclmark, tmp_path):
    whole = cclmark("barrier", *SWEEP).journal_path.read_bytes()
    path = tmp_path / "cut.jsonl"
    suite = '[[command]]\nrun = "barrier"\n[[command.threshold]]\ntime_at_most = "1 of baseline"'
    (tmp_path / "s.toml").write_text(suite)
    path.write_bytes(whole[:500])
    for command in (
        ("barrier", *SWEEP, "--resume", path),
        ("rerun", path),
        ("suite", "s.toml", "--baseline", f"barrier={path}"),
    ):
        said = cclmark(*command, code=2).err
        assert "its first line, the header, is incomplete: cut off after 500" in said
