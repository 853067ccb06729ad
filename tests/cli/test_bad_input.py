"""What makes no sense or is not there: one message, the right exit code, nothing half-written."""

import os
import re
import shlex
from functools import partial
from pathlib import Path

import pytest
import vendors

from goldens import require_outcomes
from in_process import run_here
from places import TESTS

USAGE, MISSING = 2, 3
HOST = ("--devices", "host:2")
JOURNAL = TESTS / "journals" / "collective.jsonl"
TINY = ("-b", "64", "-e", "64", "-n", "1", "-w", "0")


def refused(cclmark, *arguments, code=USAGE, env=None, **options):
    """Runs what must be refused: a short message and no file but those that were there."""
    run = cclmark(*arguments, code=code, env=env, **options)
    assert run.out == ""
    # What click refuses comes with two lines on how the command is used.
    usage, _, error = run.err.strip().rpartition("\n\n")
    assert error, "there is no message"
    assert usage.startswith("Usage: cclmark") or not usage, "more than one paragraph"
    assert len(error) < 1500
    # Any program may connect to the port of a run, and is reported.
    foreign = "1 connection that did not authenticate was dropped" in error
    assert len(error.splitlines()) <= 5 + foreign
    return error


@pytest.fixture
def here(tag, tmp_path):
    """Runs what is refused before a rank starts in the process of the tests."""
    return partial(run_here, tag, tmp_path)


@pytest.fixture(autouse=True)
def nothing_written(tmp_path, request):
    """Whatever is refused leaves no journal and no empty output."""
    yield
    kept = getattr(request.node, "kept_files", set())
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written <= kept, "something was left behind"


@pytest.fixture
def keep(request, tmp_path):
    """Makes a file that may be there at the end."""
    request.node.kept_files = set()

    def write(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        request.node.kept_files.add(name)
        return tmp_path / name

    return write


def test_commands_that_make_no_sense_are_refused(here):
    def error(line):
        command, *words = shlex.split(line)
        return refused(here, command, *HOST, *(() if command == "p2p" else TINY), *words)

    require_outcomes(Path(__file__).with_name("refused_commands.txt"), error)


def test_what_is_missing_or_unsuitable_is_refused(cclmark, fake_cuda):
    """Files, versions and devices of fake libraries."""
    flagcx = fake_cuda.nccl.parent / "libflagcx.so"
    found = {"CUDA": fake_cuda.env(CCLMARK_FLAGCX_LIBRARY=str(flagcx))}

    def file(word):
        name, _, runtime = word.removeprefix("@").partition(".")
        if not word.startswith("@"):
            return word
        vendor = getattr(vendors, name, None)
        path = fake_cuda.nvrtc if vendor is None else vendor.file()
        return str(path.with_name(vendor.runtime_file) if runtime else path)

    def error(line):
        given, _, words = line.removeprefix("[").partition("] ")
        env = {}
        for word in given.split():
            name, is_variable, value = word.partition("=")
            own = name.startswith("FAKE_") or name.endswith("_LIBRARY")
            if is_variable:
                env[f"CCLMARK_{name}" if own else name] = file(value)
            else:
                vendor, _, variant = name.partition(":")
                env |= found.get(vendor) or getattr(vendors, vendor).env(variant)
        command, *arguments = map(file, words.split())
        tiny = () if command.startswith("p2p") else TINY
        run = cclmark(command, *tiny, *arguments, env=env, code=(USAGE, MISSING))
        journals = [*run.directory.rglob("*.jsonl")]  # of what ranks refuse
        for journal in journals:
            journal.unlink()
        # Which rank is the first one, and what the others did, is different in each run.
        lines = [it for it in run.message.splitlines() if not re.match(r"  (rank \d+ \(|\d )", it)]
        text = re.sub(r"rank \d+ \(\S+ pid \d+\)", "a rank", "\n".join(lines))
        text = re.sub(r"on rank \d+", "on a rank", re.sub(r"(?<=[\s=(])/\S+/", "", text))
        return f"{run.code}{' with a journal' if journals else ''}: {text}"

    require_outcomes(Path(__file__).with_name("refused_on_fakes.txt"), error)


def test_a_matrix_that_is_no_text(here, keep):
    path = keep("shares.txt", b"\xff\xfe\x00")
    assert "read" in refused(here, "alltoallv", *HOST, *TINY, "--pattern", f"matrix:{path}")


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
    run = background("all_reduce", *HOST, *TINY, "-N", "0")
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
