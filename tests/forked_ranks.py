"""Forks the ranks of a forked program.

A forked rank runs the code of ``python -m cclmark.rank_process`` in a separate process, with the
job, environment, descriptors, session and parent of a started rank. Modules, torch among them, are
then imported once for all ranks.

Ranks are not forked from the program itself, which has threads and may have opened devices, but
from a copy of it that is made before it begins. ``CLONE_PARENT`` makes them its children, so that
it waits for them and they end with it.
"""

import ctypes
import os
import pickle
import platform
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

_CLONE_PARENT = 0x8000
_CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220}  # of the system call
_MOST_BYTES = 1 << 20
_HIGH = 500  # no descriptor of a job has such a number
_WORKER = [sys.executable, "-m", "cclmark.rank_process"]


def are_possible() -> bool:
    return platform.machine() in _CLONE_NUMBERS


def fork_ranks_of_this_program() -> None:
    """Makes the copy, before the program begins; its launcher starts ranks by the copy."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    if os.fork() == 0:
        ours.close()
        _serve(theirs)
    theirs.close()

    from cclmark.launch import attempt, ranks
    from cclmark.rendezvous.messages import Job

    def start(
        command: Sequence[str],
        *,
        stdin: IO[bytes],
        stdout: int,
        pass_fds: Sequence[int],
        start_new_session: bool,
        env: Mapping[str, str],
    ) -> subprocess.Popen[bytes]:
        assert (list(command[:3]), stdout, start_new_session) == (_WORKER, 2, True)
        words = (list(command), dict(env), [*pass_fds], str(Path.cwd()), os.sched_getaffinity(0))
        socket.send_fds(ours, [pickle.dumps(words)], [stdin.fileno(), 2, *pass_fds])
        return _as_popen(command, int(ours.recv(32)))

    def patient_job(**fields: Any) -> Job:
        # The runs of other tests have the same processors: waiting ranks soon sleep, as where a
        # host has more ranks than processors, instead of polling as long as they wait.
        return Job(**{**fields, "oversubscribed": True})

    attempt.Job = patient_job
    ranks.subprocess = types.SimpleNamespace(Popen=start, TimeoutExpired=subprocess.TimeoutExpired)


def _as_popen(command: Sequence[str], pid: int) -> subprocess.Popen[bytes]:
    """A child of this process as subprocess would have it."""
    made = subprocess.Popen.__new__(subprocess.Popen)
    made.args, made.pid, made.returncode = command, pid, None
    made.stdin = made.stdout = made.stderr = None
    made._child_created, made._waitpid_lock = True, threading.Lock()
    return made


def _serve(connection: socket.socket) -> NoReturn:
    """Forks a rank for every job, until the program has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the program
    while True:
        content, descriptors, _, _ = socket.recv_fds(connection, _MOST_BYTES, 64)
        if not content:
            os._exit(0)
        pid = _sibling()
        if pid == 0:
            try:
                connection.close()
                signal.signal(signal.SIGINT, signal.default_int_handler)
                _become(pickle.loads(content), descriptors)
            finally:
                os._exit(1)
        for one in descriptors:
            os.close(one)
        connection.send(b"%d" % pid)


def _sibling() -> int:
    """As os.fork; the parent of the new process is the parent of this one."""
    python, call = ctypes.pythonapi, ctypes.PyDLL(None).syscall
    number = _CLONE_NUMBERS[platform.machine()]
    python.PyOS_BeforeFork()
    pid = call(number, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    assert pid >= 0, "no process could be made"
    return pid


def _become(
    job: tuple[list[str], dict[str, str], list[int], str, set[int]], descriptors: Sequence[int]
) -> NoReturn:
    command, environment, numbers, directory, processors = job
    os.setsid()
    # Moved to high numbers first, so that none is overwritten before it has its own number.
    moved = [os.dup2(one, _HIGH + place) for place, one in enumerate(descriptors)]
    for one in descriptors:
        os.close(one)
    for one, number in zip(moved, (0, 2, *numbers), strict=True):
        os.dup2(one, number)
        os.close(one)
    os.dup2(2, 1)
    os.environ.clear()
    os.environ.update(environment)
    with suppress(OSError):
        os.chdir(directory)
    os.sched_setaffinity(0, processors)
    sys.stdin = os.fdopen(0, closefd=False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)
    sys.argv = command[2:]
    sys.orig_argv = command

    from cclmark.rank_process import main

    main()
    os._exit(0)
