"""What makes no sense or is not there: one message, the right exit code, nothing half-written."""

import os
import re
import shlex
import struct
from functools import partial
from pathlib import Path

import pytest
import vendors

from examples import exhaustive
from goldens import require_outcomes
from in_process import run_here
from places import TESTS

USAGE, MISSING = 2, 3
HOST = ("--devices", "host:2")
JOURNAL, OTHER_JOURNAL = (TESTS / "journals" / f"{name}.jsonl" for name in ("collective", "soak"))
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


@pytest.mark.parametrize("command", ["sendrecv", "all_reduce"])
def test_the_root_0_of_nccl_tests_scripts_has_no_effect_without_roots(cclmark, request, command):
    run = cclmark(command, *HOST, *TINY, "--root", "0")
    request.node.kept_files = set(run.written())
    assert {it.status for it in run.journal.results} == {"ok"}
    notice = f"-r 0: {command} has no root, so the option has no effect"
    assert run.journal.header.notices.count(notice) == 1
    assert run.out.count(notice) == 1


@pytest.mark.parametrize(
    ("command", "given", "notice"),
    [
        ("barrier", TINY, "-b (--begin), -e (--end): without effect on barrier"),
        ("all_gather", (*TINY, "-o", "max"), "-o (--op): without effect on all_gather"),
        ("reduce", (*TINY, "-o", "max", "-r", "0"), ""),
    ],
)
def test_options_of_other_operations_are_accepted_with_a_notice(
    cclmark, request, command, given, notice
):
    run = cclmark(command, *HOST, *given)
    request.node.kept_files = set(run.written())
    found = [one for one in run.journal.header.notices if "without effect" in one]
    assert found == ([notice] if notice else [])


@pytest.mark.parametrize(
    "arguments", [("broadcast",), ("collectives", "--only", "sendrecv,reduce")]
)
def test_the_root_0_of_operations_with_roots_needs_no_notice(cclmark, request, arguments):
    run = cclmark(*arguments, *HOST, *TINY, "-r", "0")
    request.node.kept_files = set(run.written())
    assert "no root" not in "".join(run.journal.header.notices)


def test_sizes_that_are_no_whole_elements_are_rounded_with_one_notice(cclmark, request):
    run = cclmark("all_reduce", *HOST, "-n", "1", "-w", "0", "-b", "6", "-e", "30", "-i", "8")
    request.node.kept_files = set(run.written())
    assert {it.case.size_bytes for it in run.journal.results} == {4, 12, 20, 28}
    notice = "sizes are rounded down to whole elements, as in nccl-tests: 6 B is 4 B of float32"
    assert run.out.count("rounded down") == 1
    assert run.journal.header.notices.count(notice) == 1
    whole = cclmark("all_reduce", *HOST, "-n", "1", "-w", "0", "-b", "6", "-e", "6", "-d", "int8")
    request.node.kept_files |= set(whole.written())
    assert "rounded" not in whole.out


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


def test_devices_and_count_of_the_host_agree_or_are_refused(cclmark, request):
    """``host:4`` is four ranks; ``-g 2`` takes two of them, as it does of accelerators."""
    run = cclmark("all_reduce", *TINY, "--devices", "host:4", "-g", "2")
    request.node.kept_files = set(run.written())
    assert len(run.journal.header.devices) == 2


def _elf(elf_class, machine):
    """The beginning of a library for another machine."""
    ident = b"\x7fELF" + bytes([elf_class, 1, 1, 0]) + bytes(8)
    layout = "<HHIIIIIHHHHHH" if elf_class == 1 else "<HHIQQQIHHHHHH"
    sizes = (52, 32, 0, 0, 0, 0) if elf_class == 1 else (64, 56, 0, 0, 0, 0)
    content = ident + struct.pack(layout, 3, machine, 1, 0, 0, 0, 0, *sizes)
    return content.ljust(4096, b"\0")


class TestMissing:
    def refused_library(self, cclmark, fake_cuda, path, **extra):
        run = cclmark(
            *("all_reduce", "--ccl", "nccl", "--ccl-path", str(path), *TINY, "-g", "2"),
            code=MISSING,
            env=fake_cuda.env(**extra),
        )
        assert run.out == ""
        assert str(path) in run.err
        assert "\n\n" not in run.err.strip()
        return run.err

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"GROUP ( /usr/lib/libnccl.so.2.28 )\n" * 100, "ELF"),
            (b"", ""),
            # 32-bit x86, and 64-bit for processors that are none of ours.
            *((_elf(*one), "") for one in ((1, 3), (2, 21), (2, 8))),
        ],
    )
    def test_a_file_that_is_no_library(self, cclmark, fake_cuda, keep, content, words):
        path = keep("libnccl.so.2", content)
        assert words in self.refused_library(cclmark, fake_cuda, path)

    def test_nothing_printed_to_the_output_replaces_what_was_there(self, cclmark, fake_cuda, keep):
        """A run that cannot start must not wipe the results of the one before."""
        kept = keep("results.txt", b"of yesterday")
        cclmark(
            *("all_reduce", *TINY, "-g", "2", "--ccl-path", "/nonexistent", "-O", str(kept)),
            code=MISSING,
            env=fake_cuda.env(),
        )
        assert kept.read_bytes() == b"of yesterday"


class TestFiles:
    @pytest.mark.parametrize("option", ["-O", "--journal"])
    @pytest.mark.parametrize("place", ["absent/out", ".", "plain/out", "plain/deeper/out"])
    def test_a_file_that_cannot_be_created(self, here, keep, tmp_path, option, place):
        keep("plain", b"file")
        if (option, place) == ("--journal", "absent/out"):
            return  # its directory is created
        error = refused(here, "barrier", *HOST, *TINY, option, tmp_path / place)
        assert str(tmp_path / place) in error

    def test_no_place_for_the_journal_of_no_name(self, cclmark, keep):
        keep("cclmark-runs", b"is a file here")
        assert "--journal" in refused(cclmark, "barrier", *HOST, *TINY)

    def test_a_journal_that_exists_is_kept(self, cclmark, keep):
        kept = keep("run.jsonl", b"of yesterday")
        error = refused(cclmark, "barrier", *HOST, *TINY, "--journal", kept)
        assert "exists" in error
        assert kept.read_bytes() == b"of yesterday"

    def test_no_journal_no_output(self, cclmark, keep, tmp_path):
        """When the journal is refused, an earlier output is not wiped and no new one made."""
        journal, output = keep("run.jsonl", b"old"), keep("out.txt", b"of yesterday")
        refused(cclmark, "barrier", *HOST, *TINY, "--journal", journal, "-O", output)
        assert output.read_bytes() == b"of yesterday"
        refused(cclmark, "barrier", *HOST, *TINY, "--journal", journal, "-O", tmp_path / "new.txt")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
    @pytest.mark.parametrize("format_name", ["table", "json"])
    @pytest.mark.parametrize("target", ["-O", "standard output"])
    def test_output_on_a_full_disk(self, cclmark, no_leaks, request, target, format_name):
        """One message and code 3, wherever the output goes; the journal is on another disk."""
        arguments = ("all_reduce", *HOST, *TINY, "--format", format_name)
        if target == "-O":
            run = cclmark(*arguments, "-O", "/dev/full", code=MISSING)
        else:
            with Path("/dev/full").open("wb") as full:
                run = cclmark(*arguments, stdout=full, code=MISSING)
        request.node.kept_files = set(run.written())
        name = "/dev/full" if target == "-O" else target
        assert run.message == f"cclmark: cannot write {name}: No space left on device"
        assert len(run.journal.results) == 2
        assert run.journal.footer.exit_code == MISSING

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
    @pytest.mark.parametrize(
        "arguments",
        [
            ("plugin",),
            ("--version",),
            ("plugin", "--help"),
            ("info", "--json"),
            ("settings",),
            ("export", JOURNAL, "--format", "csv"),
            ("compare", JOURNAL, OTHER_JOURNAL),
            ("references", "check", JOURNAL),
        ],
        ids=lambda arguments: " ".join(str(one) for one in arguments[:2]),
    )
    @pytest.mark.parametrize("unbuffered", ["", exhaustive("1")])
    def test_commands_that_do_not_measure_on_a_full_disk(self, cclmark, arguments, unbuffered):
        with Path("/dev/full").open("wb") as full:
            env = {"PYTHONUNBUFFERED": unbuffered}
            run = cclmark(*arguments, env=env, stdout=full, code=MISSING)
        assert run.err.endswith("cclmark: cannot write standard output: No space left on device\n")

    @pytest.mark.started  # its output's other end is closed here
    def test_a_reader_that_goes_away(self, background, no_leaks, request):
        run = background("all_reduce", *HOST, "-b", "64", "-e", "64", "-n", "1", "-N", "0")
        request.node.kept_files = {run.journal_path.name}
        run.wait_for_ranks()
        run.process.stdout.close()
        run.process.stdout = None
        ended = run.finish()
        assert "Exception" not in ended.err
        assert ended.code == 130
        said = (
            f"cclmark: no process reads the output any more\ncclmark: journal {run.journal_path}\n"
        )
        assert ended.err == said
        assert ended.journal.footer.exit_code == 130

    def test_a_reader_that_goes_before_the_last_line(self, cclmark, request):
        """This format writes nothing before the only row may be whole, when all is measured."""
        reading, writing = os.pipe()
        os.close(reading)
        arguments = ("all_reduce", *HOST, *TINY, "--placement", "out-of-place")
        run = cclmark(*arguments, "--format", "flagcx", stdout=writing, code=130)
        request.node.kept_files = set(run.written())
        os.close(writing)
        assert run.message == "cclmark: no process reads the output any more"
        assert run.journal.footer.exit_code == 0


class TestMatrix:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            # Which other ones: tests/work/test_plan.py.
            (b"1 1\n1 1\n1 1\n", "2 x 2"),
            (b"1 x\n1 1\n", "numbers"),
            (b"\xff\xfe\x00", "read"),
        ],
        ids=lambda value: repr(value)[:24] if isinstance(value, bytes) else "",
    )
    def test_refuses_what_is_no_matrix_for_these_ranks(self, here, keep, content, words):
        path = keep("shares.txt", content)
        error = refused(here, "alltoallv", *HOST, *TINY, "--pattern", f"matrix:{path}")
        assert words in error
