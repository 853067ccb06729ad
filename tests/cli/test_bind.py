"""Ranks that are bound with ``--bind``: what the kernel says of them is what the journal says.

Also in ``scenarios/bind.txt``.
"""

import os
from pathlib import Path

import pytest

from mpis import mpirun_of

ALLOWED = sorted(os.sched_getaffinity(0))
if len(ALLOWED) < 2:
    pytest.skip("takes two processors", allow_module_level=True)
FIRST, SECOND = ALLOWED[:2]
SMALL = ("--devices", "host:2", "-b", "64", "-e", "64", "-n", "2", "-w", "0")


def bound(journal):
    """The processors of each rank, as the journal has them."""
    return [device.processors for device in journal.header.devices]


def of_threads(pid):
    """What the kernel lets each thread of a process run on."""
    found = set()
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        line = next(it for it in status.read_text().splitlines() if "Cpus_allowed_list" in it)
        found.add(line.split()[1])
    return found


def test_every_thread_of_a_rank_is_bound(background):
    """Those of its connection to the first process too."""
    run = background("all_reduce", *SMALL, "-N", "0", "--bind", f"ranks:0={SECOND};1={FIRST}")
    run.wait_for_ranks(results=2)
    devices = run.read().header.devices
    assert bound(run.read()) == [str(SECOND), str(FIRST)]
    assert [of_threads(device.pid) for device in devices] == [{str(SECOND)}, {str(FIRST)}]
    assert len([*Path(f"/proc/{devices[0].pid}/task").iterdir()]) > 1


def test_numa_takes_nodes_as_far_as_ranks_may_use_them(background):
    run = background(
        *("all_reduce", *SMALL, "--bind", "numa"), prefix=["taskset", "-c", str(SECOND)]
    )
    journal = run.finish(60).journal
    assert bound(journal) == [str(SECOND)] * 2
    assert journal.header.settings.bind == "numa"


def test_an_inherited_binding_that_excludes_a_list_starts_nothing(background):
    binding = ("--bind", f"ranks:0={SECOND};1={FIRST}")
    prefix = ["taskset", "-c", str(FIRST)]
    ended = background("all_reduce", *SMALL, *binding, prefix=prefix).finish(60, code=3)
    assert f"--bind: rank 0 cannot be bound to processors {SECOND}: its process on" in ended.err
    assert f"may use only {FIRST}." in ended.err
    assert ended.written() == []


def test_the_binding_of_a_launcher_stands(background):
    """Of an mpirun of two processes, each on one processor."""
    script = (
        'case "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" in '
        f'0) p={FIRST};; *) p={SECOND};; esac; exec taskset -c $p "$@"'
    )
    allowed = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    env = {**dict.fromkeys(allowed, "1"), "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    prefix = [str(mpirun_of("openmpi")), "-np", "2", "sh", "-c", script, "sh"]
    words = ("all_reduce", *SMALL[2:], "--ccl", "shm", "--bind", "numa")
    numa = background(*words, prefix=prefix, env=env)
    assert bound(numa.finish(90).journal) == [str(FIRST), str(SECOND)]
