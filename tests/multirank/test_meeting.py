"""Processes of a launcher find each other and no other processes: real processes, as pods.

Their ranks agree on settings and libraries.
"""

import signal
import socket
import sys
import time

import pytest
from pods import SWEEP

from cclmark.base.errors import MissingError, UsageError
from cclmark.launch.meeting import find_meeting, open_meeting
from cclmark.launch.placement import Placement
from cclmark_fleet.scan.result import ScanResult
from commands import tagged_processes, wait_until
from patience import scaled, waits
from ports import free_port


@pytest.mark.started
def test_only_the_first_prints_and_writes(pods):
    """The note by which they meet is private, and goes when all have come."""
    first = pods.start(0, 3)
    note = pods.note()
    assert note.stat().st_mode & 0o077 == 0
    assert note.parent.stat().st_mode & 0o077 == 0
    others = [pods.start(rank, 3) for rank in (2, 1)]
    code, out, _ = pods.end(first)
    assert code == 0
    assert "3 ranks" in out
    assert [pods.end(process) for process in others] == [(0, "", "")] * 2
    assert len(list(pods.directory.rglob("*.jsonl"))) == 1
    assert list(note.parent.iterdir()) == []


def test_pairs_of_ranks_that_a_launcher_started(pods):
    """Two ranks in each process. What is ignored is said once."""
    pairs = ("pairs", "--devices", "host", "-b", "64", "-e", "64", "-n", "2", "-w", "1")
    first, second = pods.run(2, *pairs, "--only", "all_reduce", "-g", "2", "-p", "1")
    assert (first[0], second) == (0, (0, "", ""))
    assert first[2].count("-p 1 is ignored") == 1
    results = pods.journal().results
    found = {result.case.pair for result in results}
    assert found == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    assert {result.status for result in results} == {"ok"}


def test_settings_are_compared_by_new_ranks_of_all_processes(pods):
    name = "CCLMARK_SHM_INLINE_BYTES"
    command = ("experiment", "all_reduce", "-b", "1K", "-e", "1K", "-n", "2", "-w", "1")
    first, second = pods.run(2, *command, "--ccl", "shm", "--vary", f"{name}=64", "--rounds", "2")
    assert (first[0], second) == (0, (0, "", ""))
    found = {}
    for result in pods.journal().results:
        found.setdefault(result.trial.variant.value_of(name), []).append(result.status)
    # The default, and the default again.
    assert found == {"": ["ok"] * 4, "64": ["ok"] * 2}


def test_missing_processes_are_named_during_and_after_the_wait(pods):
    first = pods.start(0, 4, *SWEEP, "-T", "5")
    second = pods.start(2, 4, *SWEEP, "-T", "5")
    code, _, err = pods.end(first)
    assert code == 4
    (said,) = [line for line in err.splitlines() if "have connected to" in line]
    assert "cclmark: 2 of 4 processes have connected to tcp://" in said
    assert "of 5 s (-T); missing: 1,3" in said
    assert "2 of 4 processes connected within 5 s; missing: 1,3. See" in err
    assert "RANK and WORLD_SIZE define these processes" in err
    assert "CCLMARK_LAUNCHER=none" in err
    assert pods.end(second)[0] == 4
    assert list(pods.directory.rglob("*.jsonl")) == []


def test_only_the_first_tells_of_its_host(pods):
    first, second = pods.run(2, "info")
    assert first[0] == 0
    assert first[1].startswith("Machine")
    assert "started 2 processes; this output describes the host of the first one" in first[2]
    assert second == (0, "", "")


def test_a_first_process_that_never_comes(pods):
    code, _, err = pods.end(pods.start(1, 2, *SWEEP, "-T", "1"))
    assert code == 4
    assert "process 1 of 2 did not find the note of the first process" in err
    assert "CCLMARK_SHARED_DIR" in err


def test_a_first_process_that_takes_its_time_to_answer(pods):
    first = pods.start(0, 2)
    pods.note()
    first.send_signal(signal.SIGSTOP)
    second = pods.start(1, 2)
    time.sleep(3.5)  # longer than until a second look at the note
    first.send_signal(signal.SIGCONT)
    assert pods.end(first)[0] == 0
    assert pods.end(second) == (0, "", "")


def test_two_that_say_they_are_the_same(pods):
    started = [pods.start(rank, 3, *SWEEP, *waits(2)) for rank in (0, 1, 1)]
    code, _, err = pods.end(started[0])
    assert code == 4
    assert "two processes have the number 1" in err
    assert all(pods.end(process)[0] == 4 for process in started[1:])


NO_CUDA = {"CUDA_VISIBLE_DEVICES": "", "CCLMARK_CUDA_LIBRARY": ""}


@pytest.mark.parametrize(
    ("of_second", "code", "word"),
    [
        (("all_reduce", "--devices", "cuda"), 3, ""),
        ((*SWEEP, "-c", "0"), 2, "other arguments"),
    ],
    ids=["a missing device", "other arguments"],
)
def test_what_is_wrong_with_a_command_is_said_once(pods, of_second, code, word):
    """What one process lacks, and other arguments, the first one says."""
    started = pods.start(0, 2, **NO_CUDA), pods.start(1, 2, *of_second)
    (code_of_first, _, err), second = (pods.end(process) for process in started)
    assert code_of_first == second[0] == code
    assert "process 1 on " in err
    assert word in err
    assert err.count("cclmark:") == 1


def test_by_a_secret_of_the_environment(pods):
    env = {
        "CCLMARK_SECRET": "correct horse battery staple",
        "CCLMARK_ADDRESS": f"127.0.0.1:{free_port()}",
        "CCLMARK_SHARED_DIR": "",
        "HOME": "/nonexistent",
    }
    first = pods.start(0, 2, **env)
    stranger = pods.start(1, 2, *SWEEP, "-T", "2", **{**env, "CCLMARK_SECRET": "x" * 32})
    code, _, err = pods.end(stranger)
    assert code == 4
    assert "received no answer from the first process at " in err
    assert "is CCLMARK_SECRET the same for that process" in err
    second = pods.start(1, 2, **env)
    assert pods.end(second)[0] == 0
    code, out, err = pods.end(first)
    assert code == 0
    assert "did not authenticate" in out + err
    written = b"".join(path.read_bytes() for path in pods.directory.rglob("*.jsonl"))
    assert b"correct horse" not in written


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_killed_before_all_have_come(pods, rank):
    started = [pods.start(0, 3, *SWEEP, "-T", "30"), pods.start(1, 3, *SWEEP, "-T", "30")]
    pods.note()
    time.sleep(1.5)
    begin_s = time.monotonic()
    started[rank].kill()
    code, _, err = pods.end(started[1 - rank], 20)
    assert time.monotonic() < begin_s + scaled(10)
    assert code == 4
    lost = "the connection to the first process is lost"
    assert ("exited before all processes were connected" if rank else lost) in err


@pytest.mark.parametrize("rank", [0, 2])
def test_a_process_killed_while_it_measures(pods, rank):
    started = [pods.start(one, 3, *SWEEP, "-N", "0") for one in range(3)]
    wait_until(lambda: pods.results() > 3, "there are results")
    begin_s = time.monotonic()
    killed = started.pop(rank)
    killed.kill()
    ended = [pods.end(process, 20) for process in started]
    assert time.monotonic() < begin_s + scaled(10)
    assert [code for code, _, _ in ended] == [4, 4]
    assert rank == 0 or f"process {rank} (pid {killed.pid}" in ended[0][2]
    assert pods.journal()


# What stands before processes: a program that a launcher starts, which dies without a word.
PARENT = [
    *(sys.executable, "-c"),
    "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:]).wait())",
]


def test_the_parent_of_a_launched_process_is_killed(pods):
    """The process receives no message, as when a launcher is killed by SIGKILL."""
    started = [pods.start(one, 2, *SWEEP, "-N", "0", prefix=PARENT) for one in range(2)]
    wait_until(lambda: pods.results() > 3, "there are results")
    begin_s = time.monotonic()
    started[0].kill()
    ended = [pods.end(process, 20) for process in started]  # their output is open until then
    wait_until(lambda: not tagged_processes(pods.tag), "all of it is gone")
    assert time.monotonic() - begin_s < scaled(20)
    footer = pods.journal().footer
    assert "the launcher of this process has exited" in footer.message
    assert footer.exit_code == ended[1][0] == 130


def test_the_parent_is_killed_before_the_first_process_has_come(pods):
    second = pods.start(1, 2, *SWEEP, "-N", "0", "-T", "100", prefix=PARENT)
    wait_until(lambda: len(tagged_processes(pods.tag)) == 2, "the process was started")
    time.sleep(2.0)  # until it waits for the note
    second.kill()
    pods.end(second, 20)
    wait_until(lambda: not tagged_processes(pods.tag), "it is gone", 20)


@pytest.mark.started
def test_a_rank_that_dies_is_left_out_and_named(pods):
    """Its process goes on, so the others are new ranks of the same processes."""
    scan = ("scan", "--devices", "host", "-e", "64K", "--max-time", "0.2", "-T", "60")
    started = [pods.start(rank, 3, *scan, "--topology", "fat-tree:3x1") for rank in (2, 1, 0)]
    wait_until(lambda: pods.results() > 1, "the first round is measured")
    started[0].kill()
    started[0].wait()
    ends = [pods.end(process, 240) for process in started[1:]]
    code, out, _ = ends[-1]
    assert code == 1, ends
    assert "stopped answering: process 2" in " ".join(out.split())
    journal = pods.journal()
    results = [one for one in journal.results if isinstance(one, ScanResult)]
    assert len({one.index for one in results}) == len(results) == journal.header.planned_cases
    late = [one for one in results if one.failed]
    assert all(2 not in test.devices for one in late for test in one.tests)
    assert {one.device for one in late[-1].failed} == {2}


TWO = Placement("srun", 0, 2, None, None, "")


def test_notes_of_other_users_are_neither_written_nor_read(tmp_path):
    env = {"CCLMARK_SHARED_DIR": str(tmp_path), "CCLMARK_INTERFACE": "lo"}
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="writable for other users"):
        open_meeting(TWO, env)
    tmp_path.chmod(0o700)
    meeting = open_meeting(TWO, env)
    try:
        assert meeting.server.endpoint.startswith("tcp://127.0.0.1:")
        assert find_meeting(TWO, env, time.monotonic())[0] == meeting.server.endpoint
        meeting.note.chmod(0o644)
        with pytest.raises(UsageError, match="not private to this user"):
            find_meeting(TWO, env, time.monotonic())
    finally:
        meeting.close()
    assert list(tmp_path.iterdir()) == []


SECRET = {"CCLMARK_SECRET": "a secret that is long enough"}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({**SECRET, "CCLMARK_ADDRESS": "host:port"}, "is not a port"),
        ({**SECRET, "CCLMARK_ADDRESS": "host:0"}, "is not a port"),
        ({**SECRET, "CCLMARK_ADDRESS": "host:70000"}, "is not a port"),
        (SECRET, "CCLMARK_ADDRESS"),
        ({"CCLMARK_SECRET": "12345", "CCLMARK_ADDRESS": "127.0.0.1"}, "SECRET has 5 characters"),
        ({"CCLMARK_INTERFACE": "wormhole0"}, "choose from"),
        ({"CCLMARK_INTERFACE": "lo", "CCLMARK_SHARED_DIR": "/dev/null/x"}, "CCLMARK_SHARED_DIR"),
    ],
)
def test_invalid_variables_are_refused(env, message):
    with pytest.raises((UsageError, MissingError), match=message):
        open_meeting(TWO, env)


def test_a_name_that_is_known_later(monkeypatch):
    """As that of a pod, whose service begins after it."""
    answers = [socket.gaierror(socket.EAI_NONAME, "unknown")] * 2
    resolved = socket.getaddrinfo

    def look_up(host, *rest, **more):
        if host != "cclmark-master-0":
            return resolved(host, *rest, **more)
        if answers:
            raise answers.pop()
        return resolved("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    named = {**SECRET, "CCLMARK_ADDRESS": f"cclmark-master-0:{free_port()}"}
    with pytest.raises(MissingError, match="unknown host 'cclmark-master-0'"):
        open_meeting(TWO, named)
    meeting = open_meeting(TWO, named, 20.0)
    meeting.close()
    assert meeting.server.address == "127.0.0.1"
    assert answers == []


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(MissingError, match=r"cannot listen on 127\.0\.0\.1 port"):
            open_meeting(TWO, {**SECRET, "CCLMARK_ADDRESS": where})


def test_ranks_with_different_values_end_with_a_message(pods):
    """The default depends on the group."""
    name = "CCLMARK_BRIDGE_WHOLE_BYTES"
    first, second = (
        pods.start(rank, 2, *SWEEP, "--ccl", "bridge", "--islands", "0,1", **{name: value})
        for rank, value in enumerate(("256K", ""))
    )
    code, _, err = pods.end(first)
    assert code == 2
    assert f"{name} differs between ranks: 262144 on rank 0, the default on rank 1" in err
    assert pods.end(second)[0] == 2
