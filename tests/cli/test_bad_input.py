"""What makes no sense or is not there: one message, the right exit code, nothing half-written."""

import os
import struct
from functools import partial
from pathlib import Path

import pytest

from examples import exhaustive
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nonsense",), "--nonsense"),
        (("-d", "float31"), "float31"),
        (("-d", ","), "dtype"),
        (("-o", "median"), "median"),
        (("--format", "yaml"), "yaml"),
        (("--timing", "guess"), "guess"),
        (("--placement", "upside-down"), "upside-down"),
        (("--ccl", "mpx"), "mpx"),
        (("--register", "twice"), "twice"),
        (("-b", "1M", "-e", "1K"), "-b"),
        (("-b", "32M", "-e", "16M"), "-b"),
        (("-f", "1"), "-f"),
        (("-f", "0.5"), "-f"),
        (("-f", "-2"), "-f"),
        (("-f", "nan"), "-f"),
        (("-f", "inf"), "-f"),
        (("-f", "two"), "two"),
        (("-b", "0"), "Error: Invalid value for '-b' / "),
        (("-b", "-8"), "-8"),
        (("-b", "8X"), "Error: Invalid value for '-b' / "),
        (("-b", "1.3"), "Error: Invalid value for '-b' / "),
        (("-b", "nan"), "nan"),
        (("-b", "1", "-e", "9999999T"), "9999999T"),
        (("-b", "9" * 400), "size"),
        (("-e", "999999999999999999999999"), "too large"),
        (("--minbytes", "8X"), "Error: Invalid value for '-b' / "),
        (("-e", "0"), "Error: Invalid value for '-e' / "),
        (("-i", "1.3"), "Error: Invalid value for '-i' / "),
        (("-i", "0"), "0"),
        (("-i", "-4"), "-4"),
        (("-i", "4", "-f", "2"), "-i"),
        (("-b", "1", "-e", "1G", "-i", "1"), "sizes"),
        (("-b", "1", "-e", "2", "-d", "float64"), "float64"),
        (("-r", "2"), "'2'"),
        (("-r", "-2"), "-2"),
        (("-r", "first"), "first"),
        (("-r", "²"), "²"),
        (("-n", "0"), "-n"),
        (("-n", "-1"), "-n"),
        (("-n", "many"), "many"),
        (("-w", "-1"), "-w"),
        (("-m", "0"), "-m"),
        (("-c", "-1"), "-c"),
        (("-N", "-1"), "-N"),
        (("-R", "3"), "-R"),
        (("-R", "1", "--register", "symmetric"), "-R"),
        (("-m", "2", "-z", "1"), "-m"),
        (("-z", "1", "--timing", "per-op"), "--timing"),
        (("--seed", "-1"), "--seed"),
        (("--precision", "0"), "--precision"),
        (("--precision", "nan"), "--precision"),
        (("--max-time", "-1"), "--max-time"),
        (("--max-time", "nan"), "--max-time"),
        (("--timeout", "0"), "--timeout"),
        (("--timeout", "nan"), "--timeout"),
        (("--pattern", "skew:4"), "--pattern"),
        (("--inject", "explode:rank=1"), "explode"),
        (("--inject", "corrupt:rank=1"), "corrupt"),
        (("--inject", "corrupt:rank=2,index=0"), "rank 2"),
        (("--inject", "corrupt:rank=1,index=99"), "rank 1's largest output has"),
        (("--inject", "corrupt:rank=0,index=nan"), "nan"),
        (("--inject", "corrupt:rank=0,index=inf"), "inf"),
        (("--inject", "delay:rank=0,ms=inf"), "inf"),
        (("--inject", "delay:rank=0,ms=-1"), "-1"),
        (("--inject", "delay:rank=0.5,ms=1"), "0.5"),
        (("surplus",), "surplus"),
        (("-r", "1"), "all_reduce has no root"),
        (("-r", "all"), "all_reduce has no root"),
        (("--devices", ""), "'--devices': the value is empty"),
        (("--devices", "gpu:0"), "'--devices': unknown runtime 'gpu'"),
        (("--ccl=",), "'--ccl': the value is empty"),
        (("-e", ""), "'-e' / '--end'"),
        (("--ccl", "nccl"), "cuda"),
        (("--ccl-path", "/nonexistent/libshm.so"), "--ccl-path"),
    ],
    ids=lambda value: " ".join(word[:24] for word in value) if isinstance(value, tuple) else "",
)
def test_refuses_flags_that_make_no_sense(here, arguments, words):
    assert words in refused(here, "all_reduce", *HOST, *TINY, *arguments)


@pytest.mark.parametrize("command", ["sendrecv", "all_reduce"])
def test_the_root_0_of_nccl_tests_scripts_has_no_effect_without_roots(cclmark, request, command):
    run = cclmark(command, *HOST, *TINY, "--root", "0")
    request.node.kept_files = set(run.written())
    assert {it.status for it in run.journal.results} == {"ok"}
    notice = f"-r 0: {command} has no root, so the option has no effect"
    assert run.journal.header.notices.count(notice) == 1
    assert run.out.count(notice) == 1


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


@pytest.mark.parametrize("flag", ["--begin", "--end", "--buffer-offset"])
def test_a_size_of_transfers_that_makes_no_sense_is_refused_with_its_flag(here, flag):
    error = refused(here, "p2p", *HOST, flag, "8X")
    assert error.startswith("Error: Invalid value for ")
    assert f"'{flag}'" in error


@pytest.mark.parametrize(
    ("flag", "instead"),
    [
        (("-t", "2"), "-g N"),
        (("-t2",), "--devices"),
        (("--nthreads=2",), "-g N"),
        (("-a", "1"), "0, 1, 2, 3 is --across-ranks rank0, mean, min, max"),
        (("--average", "1"), "--across-ranks"),
        (("-C", "1"), "--clock host"),
        (("--report_cputime", "1"), "--clock host"),
        (("-J", "out.json"), "--format json -O FILE"),
        (("--output_file", "out.json"), "--format json -O FILE"),
        (("-S", "1"), "started_at_s"),
        (("-u", "1"), "cclmark p2p --buffer-offset"),
    ],
)
def test_flags_of_nccl_tests_are_refused_with_what_to_use_instead(here, flag, instead):
    command = "collectives" if flag[0] == "-u" else "all_reduce"  # which have the same list
    error = refused(here, command, *HOST, *TINY, *flag)
    assert instead in error
    assert flag[0].split("=")[0][:2] in error


@pytest.mark.parametrize(
    ("ccl", "words"),
    [
        ("hccl", "the ACL runtime (libascendcl) was not found"),
        ("rccl", "AMD's runtime (libamdhip64) was not found"),
    ],
)
def test_a_library_without_named_devices_says_what_is_missing(cclmark, ccl, words):
    assert words in refused(cclmark, "all_reduce", "--ccl", ccl, code=MISSING)
    named = refused(cclmark, "all_reduce", "--ccl", ccl, *HOST)
    assert "devices, not host devices: see --devices" in named


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("allreduce", "all_reduce"),
        ("all-reduce", "all_reduce"),
        ("all_reduse", "all_reduce"),
        ("AllReduce", "all_reduce"),
        ("all_reduce_perf", "all_reduce"),
        ("test_allreduce", "all_reduce"),
        ("reducescatter", "reduce_scatter"),
        ("all2all", "alltoall"),
        ("collective", "collectives"),
        ("hypercube", ""),
    ],
)
def test_an_unknown_command_is_refused_with_the_most_similar_one(here, typed, meant):
    error = refused(here, typed, *HOST)
    assert error.endswith(f"'{typed}': did you mean {meant}?" if meant else f"'{typed}'.")


def test_refuses_an_unknown_operation_among_the_collectives(here):
    error = refused(here, "collectives", *HOST, "--only", "all_reduce,all_redoce")
    assert "all_redoce" in error
    assert "all_gather" in error, "the message does not say what there is"


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
    def test_more_devices_than_there_are(self, cclmark, fake_cuda):
        error = refused(cclmark, "all_reduce", *TINY, "-g", "5", code=MISSING, env=fake_cuda.env())
        assert "5 devices" in error
        assert "4 cuda devices" in error

    def test_a_device_that_is_not_there(self, cclmark, fake_cuda):
        arguments = ("all_reduce", *TINY, "--devices", "cuda:3,4")
        error = refused(cclmark, *arguments, code=MISSING, env=fake_cuda.env())
        assert "device 4" in error

    @pytest.mark.parametrize("number", [(), ("-g", "2")])
    def test_no_driver_for_devices_that_are_not_named(self, cclmark, number):
        env = {"CCLMARK_CUDA_LIBRARY": "/nonexistent/libcuda.so.1"}
        error = refused(cclmark, "all_reduce", *TINY, *number, code=MISSING, env=env)
        assert "the NVIDIA devices of this machine cannot be used" in error
        assert "/nonexistent/libcuda.so.1" in error
        assert "use --devices host" in error

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

    @pytest.mark.parametrize("path", ["/nonexistent/libnccl.so.2", "/"])
    def test_no_library_at_the_path(self, cclmark, fake_cuda, path):
        self.refused_library(cclmark, fake_cuda, path)

    def test_a_library_that_is_another(self, cclmark, fake_cuda):
        error = self.refused_library(cclmark, fake_cuda, fake_cuda.nvrtc.resolve())
        assert "ncclGetVersion" in error

    def test_a_version_that_is_too_old(self, cclmark, fake_cuda):
        path = fake_cuda.nccl.resolve()
        error = self.refused_library(cclmark, fake_cuda, path, CCLMARK_FAKE_NCCL_VERSION="21000")
        assert "2.10.0" in error
        assert "2.18" in error

    def test_a_library_by_the_environment(self, cclmark, fake_cuda):
        arguments = ("all_reduce", *TINY, "-g", "2")
        env = {**fake_cuda.env(), "CCLMARK_NCCL_LIBRARY": "/nonexistent/libnccl.so.2"}
        error = refused(cclmark, *arguments, code=MISSING, env=env)
        assert "/nonexistent/libnccl.so.2" in error

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
        assert "Traceback" not in run.err

    @pytest.mark.started  # its output's other end is closed here
    def test_a_reader_that_goes_away(self, background, no_leaks, request):
        run = background("all_reduce", *HOST, "-b", "64", "-e", "64", "-n", "1", "-N", "0")
        request.node.kept_files = {run.journal_path.name}
        run.wait_for_ranks()
        run.process.stdout.close()
        run.process.stdout = None
        ended = run.finish()
        assert "Traceback" not in ended.err
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

    @pytest.mark.parametrize(
        "pattern",
        [
            *("matrix:/nonexistent/shares", "matrix:/", "matrix:"),
            *(f"skew:{number}" for number in ("0", "x", "inf", "nan")),
            "random",
        ],
    )
    def test_refuses_what_is_no_pattern(self, here, pattern):
        error = refused(here, "alltoallv", *HOST, *TINY, "--pattern", pattern)
        assert pattern.split(":")[-1] in error
