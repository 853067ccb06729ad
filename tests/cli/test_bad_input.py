"""What makes no sense or is not there: one message, the right exit code, nothing half-written."""

import os
import shlex
from pathlib import Path

import pytest

from goldens import require_outcomes
from in_process import run_here
from places import TESTS

USAGE, MISSING = 2, 3
HOST = ("--devices", "host:2")
JOURNAL = TESTS / "journals" / "collective.jsonl"
TINY = ("-b", "64", "-e", "64", "-n", "1", "-w", "0")


@pytest.fixture
def refused(tag, tmp_path):
    """Runs what is refused before a rank starts: a short message in the process of the tests."""

    def error(*arguments):
        run = run_here(tag, tmp_path, *arguments, code=USAGE)
        assert run.out == ""
        # What click refuses comes with two lines on how the command is used.
        usage, _, error = run.err.strip().rpartition("\n\n")
        assert error, "there is no message"
        assert usage.startswith("Usage: cclmark") or not usage, "more than one paragraph"
        assert len(error.splitlines()) <= 5
        return error

    return error


@pytest.fixture(autouse=True)
def nothing_written(tmp_path, request):
    """Whatever is refused leaves no journal and no empty output."""
    yield
    kept = getattr(request.node, "kept_files", set())
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written <= kept, "something was left behind"


def test_commands_that_make_no_sense_are_refused(refused):
    def error(line):
        command, *words = shlex.split(line)
        return refused(command, *HOST, *(() if command == "p2p" else TINY), *words)

    require_outcomes(Path(__file__).with_name("refused_commands.txt"), error)


def test_a_matrix_that_is_no_text(refused, tmp_path, request):
    path = tmp_path / "shares.txt"
    path.write_bytes(b"\xff\xfe\x00")
    request.node.kept_files = {path.name}
    assert "read" in refused("alltoallv", *HOST, *TINY, "--pattern", f"matrix:{path}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_on_a_full_disk(cclmark, no_leaks, request):
    """One message and code 3, wherever the output goes; the journal is on another disk."""
    arguments = ("all_reduce", *HOST, *TINY)
    run = cclmark(*arguments, "--format", "json", "-O", "/dev/full", code=MISSING)
    assert run.message == "cclmark: cannot write /dev/full: No space left on device"
    with Path("/dev/full").open("wb") as full:
        for others in (("--version",), ("export", JOURNAL, "--format", "csv"), arguments):
            run = cclmark(*others, stdout=full, code=MISSING)
            assert "cclmark: cannot write standard output: No space left on device" in run.err
    request.node.kept_files = set(run.written())
    assert len(run.journal.results) == 2
    assert run.journal.footer.exit_code == MISSING


@pytest.mark.started  # its output's other end is closed here
def test_a_reader_that_goes_away(background, no_leaks, request):
    delays = (f"--inject=delay:rank={rank},ms=5" for rank in (0, 1))  # ranks mostly sleep
    run = background("all_reduce", *HOST, *TINY, "-N", "0", *delays)
    request.node.kept_files = {run.journal_path.name}
    run.wait_for_ranks()
    run.process.stdout.close()
    run.process.stdout = None
    ended = run.finish()
    assert ended.code == 130
    said = f"cclmark: no process reads the output any more\ncclmark: journal {run.journal_path}\n"
    assert ended.err == said
    assert ended.journal.footer.exit_code == 130


def test_a_reader_that_goes_before_the_last_line(cclmark, request):
    """This format writes nothing before the only row may be whole, when all is measured."""
    reading, writing = os.pipe()
    os.close(reading)
    arguments = ("all_reduce", *HOST, *TINY, "--placement", "out-of-place")
    run = cclmark(*arguments, "--format", "flagcx", stdout=writing, code=130)
    request.node.kept_files = set(run.written())
    os.close(writing)
    assert run.message == "cclmark: no process reads the output any more"
    assert run.journal.footer.exit_code == 0
