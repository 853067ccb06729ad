import json
import os
import signal
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cclmark.kinds.registry import read_journal
from commands import PROGRAM, environment, tagged_processes, wait_until
from examples import exhaustive
from patience import deadline_s, scaled
from transcripts import require_transcript, stored_commands

TINY = "--devices host:2 -b 1K -e 1K -n 5 -w 1"
ONE_RANK = TINY.replace("host:2", "host:1")
# Never ends, and sleeps most of the time.
ENDLESS = "all_reduce --devices host:1 -b 8 -e 8 -n 5 -N 0 --inject delay:rank=0,ms=10"


def suite_of(*commands):
    """The text of a suite: each command is what stands in its table, then its thresholds."""
    parts = []
    for table, *thresholds in commands:
        parts.append(f"[[command]]\n{table}\n")
        parts += [f"[[command.threshold]]\n{text}\n" for text in thresholds]
    return "\n".join(parts)


@pytest.fixture
def run(cclmark, tmp_path):
    """Runs a suite: ``run(suite, "--format", "json", code=0)``."""

    def start(suite, *arguments, **options):
        (tmp_path / "mine.toml").write_text(suite)
        return cclmark("suite", "mine.toml", "--journal-dir", "kept", *arguments, **options)

    return start


@pytest.fixture
def started(tag, tmp_path):
    """Starts a suite and returns at once. Whatever is left of it is killed with the test."""
    own_tag = f"{tag}-{uuid.uuid4().hex}"
    processes = []

    def start(suite, *arguments):
        (tmp_path / "mine.toml").write_text(suite)
        process = subprocess.Popen(
            [*PROGRAM, "suite", "mine.toml", "--journal-dir", "kept", *arguments],
            cwd=tmp_path,
            env=environment(own_tag, None),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process, lambda: tagged_processes(own_tag)

    yield start
    for pid in tagged_processes(own_tag):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in processes:
        process.communicate()


def wait_for_results(process, journal):
    """Returns when the journal has some, or the suite has ended."""
    wait_until(
        lambda: (
            process.poll() is not None
            or (journal.exists() and journal.read_bytes().count(b"\n") > 3)
        ),
        f"{journal} has results",
    )


def test_a_suite_that_passes(run, tmp_path):
    suite = suite_of(
        (
            f'name = "small <&"\nrun = "all_reduce {TINY}"\nrepeats = 2\ntags = ["quick"]',
            'size = "1K"\ntime_at_most = "10 s"\nbusbw_at_least = "1 B/s"',
        ),
        (
            'run = "p2p --devices host:2 -b 64K -t CE -p uniBw --max-time 0.05"',
            'pair = "0-1"\nbandwidth_at_least = "1 kB/s"',
        ),
    )
    ended = run(suite, "--junit", "j.xml")
    assert "FAIL" not in ended.out
    assert "7 pass; exit code 0" in ended.out
    assert "cclmark: journals kept" in ended.err
    assert ended.written() == [
        "j.xml",
        *(
            f"kept/01-small-.{run}.{kind}"
            for run in (1, 2)
            for kind in ("jsonl", "stderr.txt", "txt")
        ),
        *(f"kept/02-p2p.{kind}" for kind in ("jsonl", "stderr.txt", "txt")),
        "mine.toml",
    ]
    assert "all_reduce · shm" in (tmp_path / "kept/01-small-.1.txt").read_text()
    journal = read_journal(tmp_path / "kept/01-small-.2.jsonl")
    assert journal.footer.exit_code == 0
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("7", "0", "0")
    assert [one.get("name") for one in root] == ["small <&", "p2p"]


def test_wrong_data_is_code_1_whatever_the_thresholds_say(run, tmp_path):
    wrong = f'run = "all_reduce {TINY} --inject corrupt:rank=1,index=5"'
    suite = suite_of((wrong, 'time_at_most = "99 s"'))
    ended = run(suite, "--format", "markdown", "--junit", "j.xml", code=1)
    assert "rank 1: 1 wrong, the first at element 5" in ended.out
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (root.get("failures"), root.get("errors")) == ("2", "0")
    (suite,) = root
    assert suite.find("system-out").text.startswith("run 1: bad: Wrong data in 2 cases: all_reduce")


def test_what_only_running_shows_to_make_no_sense_is_code_2(run):
    suite = suite_of(
        (f'name = "size"\nrun = "all_reduce {ONE_RANK}"', 'dtype = "int8"\ntime_at_most = "1 s"'),
        ('name = "help"\nrun = "all_reduce --help"',),
    )
    out = run(suite, code=2).out
    assert "has no case" in out
    assert "exit code 0 and no journal" in out


def test_a_suite_for_accelerators_measures_no_host(run, fake_cuda):
    suite = 'needs = "cuda"\n' + suite_of(('run = "all_reduce -g 1 -b 1K -e 1K -n 1 -w 0"',))
    ended = run(suite, env=fake_cuda.env())
    header = read_journal(ended.directory / "kept/01-all_reduce.jsonl").header
    assert header.devices[0].runtime == "cuda"
    if any(any(Path("/dev").glob(name)) for name in ("nvidia[0-9]*", "davinci[0-9]*", "kfd")):
        pytest.skip("this machine has accelerators")
    written = ended.written()
    ended = run(suite, code=3)
    assert "accelerators on this machine, which the suite mine requires" in ended.message
    assert ended.out == ""
    assert ended.written() == written


def test_what_is_missing_is_code_3_unless_it_may_be(run, cclmark):
    missing = f'run = "all_reduce {TINY} --ccl-path /nowhere --ccl mpi"'
    env = {"CCLMARK_MPIRUN": "/nowhere/mpirun"}
    ended = run(suite_of((missing, 'time_at_most = "1 s"')), code=3, env=env)
    assert "skipped  ran" in ended.out
    good = (f'name = "good"\nrun = "all_reduce {ONE_RANK}"',)
    suite = suite_of((f"{missing}\noptional = true", 'time_at_most = "1 s"'), good)
    Path(ended.directory / "mine.toml").write_text(suite)
    assert "2 pass, 2 skipped; exit code 0" in cclmark("suite", "mine.toml", env=env).out


def test_a_rank_that_hangs_is_code_4_and_the_next_command_runs(run):
    suite = suite_of(
        (
            'name = "hangs"\nrun = "all_reduce --devices host:2 -b 8 -e 8 -n 1 -w 1 -T 1 '
            '--inject delay:rank=1,ms=40000"',
        ),
        (f'name = "good"\nrun = "all_reduce {ONE_RANK}"',),
    )
    out = run(suite, code=4).out
    assert "exit code 4: rank 1" in out
    assert "2 pass, 1 skipped, 1 ERROR; exit code 4" in out


def test_a_command_that_takes_too_long_is_ended_with_its_results_kept(run, tmp_path):
    limit = f"{deadline_s(4):g} s"
    suite = suite_of((f'run = "{ENDLESS}"\ntimeout = "{limit}"',))
    out = run(suite, code=4).out
    assert f"did not end within {limit}" in out
    journal = read_journal(tmp_path / "kept/01-all_reduce.jsonl")
    assert journal.results
    assert journal.footer.exit_code == 130


def test_figures_are_held_against_a_baseline(cclmark, tmp_path):
    cclmark("all_reduce", *TINY.split(), "--journal", "before.jsonl")
    table = f'name = "a=b"\nrun = "all_reduce {TINY}"\nbaseline = "before.jsonl"'
    (tmp_path / "mine.toml").write_text(suite_of((table, 'busbw_at_least = "1e-6 of baseline"')))
    out = cclmark("suite", "mine.toml", "--format", "json").out
    share = json.loads(out)["commands"][0]["verdicts"][2]
    assert share["status"] == "pass"
    known = {one.case: one for one in read_journal(tmp_path / "before.jsonl").results}
    (first,) = [one for case, one in known.items() if not case.in_place]
    bounds = {one["case"]: one["bound"] for one in share["judgements"]}
    (bound,) = [one for case, one in bounds.items() if "out-of-place" in case]
    assert bound == pytest.approx(first.summary.busbw_bytes_per_s * 1e-6)

    # A baseline that has not these cases.
    int8 = suite_of((f'run = "all_reduce {TINY} -d int8"', 'busbw_at_least = "0.1 of baseline"'))
    (tmp_path / "mine.toml").write_text(int8)
    told = cclmark("suite", "mine.toml", "--baseline", "all_reduce=before.jsonl", code=2)
    assert "the baseline has no figure for all_reduce 1 KiB int8" in told.out


def test_what_is_listed_or_refused_before_anything_runs(cclmark, tmp_path):
    """Other mistakes: tests/suites/mistakes.txt."""
    text = suite_of((f'run = "all_reduce {TINY}"', 'size = "8M-"\ntime_at_most = "1 s"'))
    (tmp_path / "sizes.toml").write_text(text)
    (tmp_path / "damaged.toml").write_text(f"[{text}")
    require_transcript("suites", stored_commands("suites"), cclmark, tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".toml"}


def test_with_v_the_output_of_commands_is_on_standard_error(run):
    suite = suite_of((f'run = "all_reduce {ONE_RANK}"',))
    ended = run(suite, "-v", "--format", "json")
    assert json.loads(ended.out)["exit_code"] == 0
    assert "all_reduce · shm" in ended.err
    assert "kept/01-all_reduce.txt" not in ended.written()
    # Journals are never written over.
    assert "already exists" in run(suite, code=2).message


# Each command of a suite takes as long as the suite says; unit tests hold all thresholds of the
# shipped suites against the cases of their commands.
@pytest.mark.parametrize(
    "chosen",
    [("--only", "p2p"), exhaustive(("--tag", "quick"))],
    ids=" ".join,
)
def test_the_shipped_suite_of_the_host_passes(cclmark, chosen):
    ended = cclmark("suite", "self-test", *chosen, timeout_s=110)
    assert "exit code 0" in ended.out
    assert any(name.startswith("cclmark-runs/") for name in ended.written())


@pytest.mark.parametrize("number", [signal.SIGTERM, exhaustive(signal.SIGINT)])
def test_an_interruption_reaches_the_command_and_what_was_done_is_judged(started, tmp_path, number):
    suite = suite_of(
        (f'name = "first"\nrun = "all_reduce {ONE_RANK}"', 'time_at_most = "10 s"'),
        (f'name = "endless"\nrun = "{ENDLESS}"\nrepeats = 2',),
        (f'name = "never"\nrun = "all_reduce {ONE_RANK}"', 'time_at_most = "10 s"'),
    )
    process, left = started(suite, "--junit", "j.xml")
    journal = tmp_path / "kept/02-endless.1.jsonl"
    wait_for_results(process, journal)
    process.send_signal(number)
    out, err = process.communicate(timeout=scaled(30))
    assert process.returncode == 130, err
    assert "Traceback" not in err
    kept = read_journal(journal)
    assert kept.results
    assert kept.footer.exit_code == 130
    assert "pass     time at most 10 s" in out
    assert "interrupted: skipped commands" in out
    assert not (tmp_path / "kept/03-never.jsonl").exists()
    wait_until(lambda: not left(), "all processes are gone")
    root = ElementTree.parse(tmp_path / "j.xml").getroot()
    by_name = {one.get("name"): one for one in root}
    assert by_name["first"].get("skipped") == "0"
    assert by_name["never"].get("skipped") == by_name["never"].get("tests") == "2"


def test_when_the_suite_is_killed_its_command_ends_with_its_results_kept(started, tmp_path):
    suite = suite_of((f'run = "{ENDLESS}"',))
    process, left = started(suite)
    journal = tmp_path / "kept/01-all_reduce.jsonl"
    wait_for_results(process, journal)
    process.kill()
    process.wait(scaled(10))
    wait_until(lambda: not left(), "all processes are gone")
    assert read_journal(journal).footer.exit_code == 130
