"""``cclmark profile``: programs that use a fake NCCL, which loads the plug-in as NCCL does."""

import csv
import io
import os
import re
import signal
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from cclmark.explain.plugin_log import plugin_path
from commands import completed, wait_until
from in_process import run_here
from places import TESTS
from refusals import require_refusals

PROFILE = [sys.executable, "-m", "cclmark", "profile"]
PROGRAM, DETACHING = (TESTS / "programs" / f"{name}.py" for name in ("nccl_job", "detaching"))
STEPS = 4
# (operation, type, size): calls of each rank in a step.
EXPECTED = {
    ("all_reduce", "float32", 1024): 2,
    ("all_reduce", "float32", 1 << 20): 1,
    ("all_gather", "bfloat16", 256): 1,
    ("send", "float32", 256): 1,
    ("recv", "float32", 256): 1,
}


@pytest.fixture
def job(fake_cuda):
    """The command of a job and its environment."""

    def command(*options, steps=STEPS, has_clock=True, **more):
        more.setdefault("CCLMARK_FAKE_NCCL_VERSION", "22809")
        if has_clock:
            more["CCLMARK_FAKE_DEVICE_CLOCK_AHEAD_NS"] = "0"
        words = [sys.executable, str(PROGRAM), str(fake_cuda.cuda), str(fake_cuda.nccl)]
        return [*words, "--steps", str(steps), *options], fake_cuda.env(**more)

    return command


@pytest.fixture
def profiled(cclmark, job):
    """Profiles a job. ``options``: of the profile."""

    def profile(*of_job, options=(), code=0, **more):
        words, env = job(*of_job, **more)
        return cclmark("profile", *options, "--", *words, env=env, code=code)

    return profile


def counts(journal):
    """The calls of each process by operation, type and size."""
    found = {}
    for result in journal.profiled:
        one = result.profiled
        key = (one.operation, one.dtype, one.size_bytes)
        found[key] = [figures.calls for figures in result.figures]
    return found


@pytest.fixture
def read(tag, tmp_path):
    """Reads logs in this process: ``read("logs", "--run", name)``."""
    numbers = count()

    def reading(directory, *options, code=0):
        journal = ("--journal", f"read-{next(numbers)}.jsonl")
        words = ("profile", "--read", directory, *options, *journal)
        return run_here(tag, tmp_path, *words, code=code)

    return reading


def times(number):
    return {key: [calls * number] * 2 for key, calls in EXPECTED.items()}


@pytest.mark.parametrize("version", [22300, 22700, 22809, 23102])
def test_every_interface_counts_the_same(profiled, version):
    run = profiled(CCLMARK_FAKE_NCCL_VERSION=str(version))
    assert counts(run.journal) == times(STEPS)
    profile = run.journal.profile
    assert [one.rank for one in profile.processes] == [0, 1]
    assert profile.groups[0].ranks == [0, 1]
    assert profile.program_exit_code == 0
    assert run.out == ""
    choices = {
        one.profiled.size_bytes: (one.choices[0].kernel, one.choices[0].protocol)
        for one in run.journal.profiled
        if one.profiled.operation == "all_reduce"
    }
    assert choices == {1024: ("tree", "LL"), 1 << 20: ("ring", "SIMPLE")}
    for result in run.journal.profiled:
        # The fake reports kernels of messages from the fifth version of the interface on.
        is_message = result.profiled.operation in ("send", "recv")
        has_times = version >= (22803 if is_message else 22700)
        for one in result.figures:
            assert one.bytes == one.calls * result.profiled.size_bytes
            assert one.timed == (one.calls if has_times else 0)
            assert (one.total_s is not None) == has_times
    assert ("median µs" in run.err) == (version >= 22700)


def test_steps_and_waits(profiled, cclmark, read):
    run = profiled(steps=12, options=("--logs", "logs"))
    for process in run.journal.profile.processes:
        assert process.step_calls == 6
        assert process.steps >= 10
        assert process.step_s > 0
        assert process.listed == process.calls == 6 * 12
    operations = [run.journal.results[one.index].profiled for one in run.journal.profile.window[0]]
    assert len(operations) == 6
    assert {one.operation for one in operations} == {one for one, *_ in EXPECTED}
    compared = {
        one.profiled.operation: {figures.compared for figures in one.figures}
        for one in run.journal.profiled
    }
    assert (compared["all_gather"], compared["send"]) == ({12}, {0})
    # The plug-in sees no compute: the columns of `train` exist, and the reason is stated once.
    assert "step ms (95 %)  compute  exposed  idle  hidden  communication" in run.err
    assert run.err.count("the plug-in sees the kernels of communication only") == 1
    export = ("export", "--format", "csv", "--table", "steps", str(run.journal_path))
    (row, *_) = csv.DictReader(io.StringIO(cclmark(*export).out))
    assert float(row["step_ms"]) > 0
    assert float(row["communication_ms"]) > 0
    assert (row["compute_ms"], row["exposed_ms"], row["idle_ms"]) == ("", "", "")
    assert row["work"].startswith(sys.executable[:20])
    assert counts(read("logs").journal) == counts(run.journal)


def test_counts_alone_and_the_exit_code_of_the_program(profiled):
    run = profiled("--exit", "9", options=("--no-kernel-times", "-O", "-", "--wait"), code=9)
    assert "waiting for" not in run.err  # nothing is left behind
    assert counts(run.journal) == times(STEPS)
    assert all(one.timed == 0 for each in run.journal.profiled for one in each.figures)
    assert "tree LL × 1" in run.out
    assert "total ms" not in run.out
    # The result may be read by another program: standard error has the reason, too.
    for text in (run.out, run.message):
        above_verdict = text.partition("\n  verdict ")[0]
        assert above_verdict.count("the program ended with exit code 9") == 1
    assert run.journal.footer.exit_code == 9


def test_a_killed_rank_leaves_its_calls(profiled):
    run = profiled("--kill", "1:2", code=1)
    found = counts(run.journal)
    assert found["all_gather", "bfloat16", 256][1] == 2
    assert run.journal.profile.program_exit_code == 1
    above_verdict = run.err.partition("\n  verdict ")[0]
    assert above_verdict.count("the program ended with exit code 1") == 1
    assert "in group 0: rank 1 called it" in run.err


def test_kernels_on_symmetric_windows_have_times(profiled):
    """The kernel of a group is reported by its first collective."""
    run = profiled("--group", CCLMARK_FAKE_NCCL_VERSION="23102", CCLMARK_FAKE_SYMMETRIC="1")
    timed = {
        (one.profiled.operation, one.profiled.size_bytes): {
            (figures.calls / STEPS, figures.timed / STEPS, figures.unreported)
            for figures in one.figures
        }
        for one in run.journal.profiled
        if one.profiled.operation.startswith("all_")
    }
    once = (("all_reduce", 1 << 20), ("all_gather", 256), ("all_reduce", 400))
    assert timed == {
        ("all_reduce", 1024): {(2, 2, 0)},
        ("all_reduce", 800): {(1, 0, 0)},
        **{key: {(1, 1, 0)} for key in once},
    }
    kernels = {choice.kernel for one in run.journal.profiled for choice in one.choices}
    assert kernels == {"symmetric", "send/recv"}


@pytest.mark.parametrize(
    ("options", "version", "steps", "problem"),
    [
        (["--only-communicator"], 22809, 400, "called no operation on more than one rank"),
        # Long enough for looks at the processes of the program, which are 0.25 s apart.
        ([], 22100, 4000, "NCCL did not load the plug-in"),
    ],
)
def test_nccl_without_operations(profiled, options, version, steps, problem):
    run = profiled(*options, CCLMARK_FAKE_NCCL_VERSION=str(version), steps=steps, code=3)
    assert problem in run.message
    assert run.journal.results == []
    assert run.journal.kind == "profile"


def test_what_cannot_be_run(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, ["profile"])


@pytest.mark.started
def test_signals_reach_the_program_once(tmp_path):
    number = int(signal.SIGTERM)
    script = (
        "import signal, sys, time\n"
        "def note(number, frame): print(number, flush=True)\n"
        f"signal.signal({number}, note)\n"
        "print('ready', flush=True)\n"
        "[time.sleep(0.1) for _ in range(8)]\n"
        "sys.exit(5)\n"
    )
    words = [*PROFILE, "--", sys.executable, "-c", script]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(words, cwd=tmp_path, text=True, **pipes)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == f"{number}\n"
    assert process.returncode == 5, err


_RUN = """
import os, signal, sys
from cclmark_programs.profile import request as program
from cclmark.base.signals import interrupt, on_ending_signals

on_ending_signals(interrupt)
parent = os.getpid()
set_mask = signal.pthread_sigmask

def mask(how, signals):
    if os.getpid() != parent:  # between fork and exec
        os.kill(os.getpid(), signal.SIGTERM)
    return set_mask(how, signals)

def observe(at_s):
    if sys.argv[1] == "raises":
        raise RuntimeError("no such process")
    return 1.0

if sys.argv[1] == "signal":
    program.signal.pthread_sigmask = mask
try:
    end = program.run_program(["sleep", "60"], os.environ, observe)
    print("end", end.code)
except RuntimeError as error:
    print("raised", error)
print("children", open(f"/proc/{parent}/task/{parent}/children").read().split())
"""


@pytest.mark.started
@pytest.mark.parametrize(
    ("case", "printed"),
    [("signal", f"end {-signal.SIGTERM}"), ("raises", "raised no such process")],
)
def test_a_program_is_ended_whatever_happens(tmp_path, case, printed):
    """A signal before the program replaces its process, and an error while it runs."""
    done = completed([sys.executable, "-c", _RUN, case], cwd=tmp_path)
    assert done.stdout.splitlines() == [printed, "children []"], done.stderr


@pytest.mark.started
def test_a_killed_profile_leaves_nothing_that_stays(tmp_path):
    """The journal without a header and the temporary logs go with the next run."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    options = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    words = [*PROFILE, "--", "sh", "-c", "echo ready; exec sleep 60"]
    process = subprocess.Popen(words, cwd=tmp_path, env=environment, **options)
    assert process.stdout.readline() == "ready\n"
    (left,) = temporary.iterdir()
    (journal,) = (tmp_path / "cclmark-runs").iterdir()
    process.kill()
    process.wait()
    again = partial(completed, [*PROFILE, "--", "true"], cwd=tmp_path, env=environment)
    again()  # the program still runs, and may write logs
    assert left.exists()
    assert not journal.exists()
    os.killpg(process.pid, signal.SIGKILL)
    wait_until(lambda: f"removed {left}" in again().stderr, "its directory is removed")
    assert not left.exists()


@pytest.mark.started
def test_a_program_that_a_signal_ends(tmp_path):
    done = completed([*PROFILE, "--", "sh", "-c", "kill -KILL $$"], cwd=tmp_path)
    assert done.returncode == 128 + signal.SIGKILL
    assert "the program was ended by SIGKILL" in done.stderr


def test_several_runs_in_one_directory_are_separated(cclmark, job, read):
    words, env = job()
    runs = [cclmark("profile", "--logs", "logs", "--", *words, env=env) for _ in range(2)]
    for run in runs:  # each profile is that of its own run
        assert counts(run.journal) == times(STEPS)
    refused = read("logs", code=2)
    assert "contains logs of 2 runs, which are no profile together" in refused.message
    for run in runs:
        name = run.journal.header.run_id[:12]
        assert f"{name} (begun 20" in refused.message
        chosen = read("logs", "--run", name)
        own, whole = ({one.pid for one in it.journal.profile.processes} for it in (chosen, run))
        assert own == whole
        assert counts(chosen.journal) == times(STEPS)
    unknown = read("logs", "--run", "nonsense", code=2)
    assert "contains no logs of such a run, but of" in unknown.message


def test_logs_of_the_other_kind_are_named(cclmark, job, read, tmp_path):
    words, env = job()
    cclmark("profile", "--logs", "counted", "--", *words, env=env)
    log = next(tmp_path.glob("counted/*.cclmlog"))
    assert "cclmark profile --read" in cclmark("plugin", log, code=3).message
    (tmp_path / "listed").mkdir()
    own = {"NCCL_PROFILER_PLUGIN": str(plugin_path()), "CCLMARK_PLUGIN_LOG": "listed/log"}
    subprocess.run(words, env=os.environ | env | own, cwd=tmp_path, check=True, timeout=60)
    listed = read("listed", code=3)
    assert "lists events instead of counting calls: cclmark plugin" in listed.message


def test_no_program_is_run_again_from_a_journal(cclmark, tmp_path):
    run = cclmark("profile", "--", "touch", "ran", code=3)
    (tmp_path / "ran").unlink()
    again = cclmark("rerun", run.journal_path, code=2)
    assert "no program is read from a journal" in again.message
    assert not (tmp_path / "ran").exists()


def test_processes_that_the_program_detaches_from_are_waited_for(cclmark, job):
    words, env = job()
    detached = (sys.executable, str(DETACHING), "3", *words)
    run = cclmark("profile", "--wait", "--", *detached, env=env)
    assert counts(run.journal) == times(STEPS)
    assert "the program has ended; waiting for process " in run.err
    assert run.journal.profile.wall_s > 3


def test_the_logs_of_detached_processes_remain(cclmark, job, read, tmp_path):
    words, env = job()
    detached = (sys.executable, str(DETACHING), "3", *words)
    env = {**env, "TMPDIR": str(tmp_path)}
    run = cclmark("profile", "--", *detached, env=env, code=3)
    found = re.search(
        r"process (\d+) \(python\S*\) still runs after the program has ended.*"
        r"--wait waits for them; or keep the logs with --logs DIR, and read them when the "
        r"processes have ended: cclmark profile --read (\S+)",
        run.err,
    )
    assert found is not None, run.err
    pid, directory = int(found[1]), found[2]
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the detached process has ended")
    assert counts(read(directory).journal) == times(STEPS)
