"""The MPIs of the tests span two hosts, and what they make of processes between them and MPI."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from patience import scaled

PROGRAMS = Path(__file__).parent / "programs"
MESSAGE_BYTES = 4 << 20  # as in programs/mpi.py
# Starts its arguments as a child, which inherits the way to the mpirun, and does not call MPI.
BETWEEN = """
import os, subprocess, sys, time
ways = [int(os.environ[name]) for name in ("PMI_FD",) if name in os.environ]
child = subprocess.Popen(sys.argv[2:], pass_fds=ways)
if sys.argv[1] == os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")):
    time.sleep(2)
    child.kill()
    child.wait()
    time.sleep(2)
    print("two seconds later", flush=True)
    sys.exit(4)
sys.exit(child.wait())
"""


def ended(command, mpi, directory):
    return subprocess.run(
        command,
        env={"PATH": "/usr/bin:/bin", "HOME": "/root", **mpi.environment},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )


def program(mpi, *ending):
    return [sys.executable, str(PROGRAMS / "mpi.py"), str(mpi.library), *ending]


def between(mpi, killed, *ending):
    return [sys.executable, "-c", BETWEEN, str(killed), *program(mpi, *ending)]


def test_messages_go_round_two_hosts_by_tcp(mpi, hosts, tmp_path):
    before = hosts.second.received_bytes()
    done = ended([*hosts.first.entrance, *mpi.across(hosts), *program(mpi)], mpi, tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "0 4 alpha 10",
        "1 4 alpha 10",
        "2 4 beta 10",
        "3 4 beta 10",
    ]
    assert hosts.second.received_bytes() - before > 2 * MESSAGE_BYTES


def test_a_child_of_what_mpirun_starts_is_a_rank(mpi, tmp_path):
    done = ended([str(mpi.mpirun), "-np", "2", *between(mpi, None)], mpi, tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"{rank} 2 {socket.gethostname()} 3" for rank in (0, 1)
    ]


def test_no_mpirun_sees_that_such_a_child_is_killed(mpi, tmp_path):
    begin_s = time.monotonic()
    done = ended([str(mpi.mpirun), "-np", "2", *between(mpi, 1, "wait", "30")], mpi, tmp_path)
    assert "two seconds later" in done.stdout
    assert done.returncode != 0
    assert time.monotonic() - begin_s < scaled(25)


def test_leaving_without_finalize_is_an_error_to_open_mpi_only(mpi, tmp_path):
    done = ended([str(mpi.mpirun), "-np", "2", *between(mpi, None, "exit", "0")], mpi, tmp_path)
    if mpi.name == "openmpi":
        assert done.returncode == 1
        assert 'exited without calling "finalize"' in done.stderr
    else:
        assert done.returncode == 0
