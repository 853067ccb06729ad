"""Ranks that are bound with ``--bind``: what the kernel says of them is what the journal says."""

import os
import sys
from pathlib import Path

import pytest

from examples import exhaustive
from mpis import mpi_environment, mpirun_of

ALLOWED = sorted(os.sched_getaffinity(0))
if len(ALLOWED) < 2:
    pytest.skip("takes two processors", allow_module_level=True)
FIRST, SECOND = ALLOWED[:2]
SMALL = ("--devices", "host:2", "-b", "64", "-e", "64", "-n", "2", "-w", "0")
ENDLESS = ("--devices", "host:2", "-b", "64", "-e", "64", "-n", "2", "-N", "0")


@pytest.fixture
def swapped(tmp_path):
    """A file that binds rank 0 to the second processor and rank 1 to the first."""
    (tmp_path / "b.txt").write_text(f"# two ranks\n1: {FIRST}\n0: {SECOND}\n")
    return "b.txt"


def listed(processors):
    from cclmark.work.binding import format_processors

    return format_processors(processors)


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


@pytest.mark.parametrize(
    ("bind", "expected"),
    [
        (("--bind", "none"), [listed(ALLOWED)] * 2),
        (("--bind", f"ranks:0={SECOND};1={FIRST}"), [str(SECOND), str(FIRST)]),
    ],
)
def test_the_journal_has_what_each_rank_has(cclmark, bind, expected):
    run = cclmark("all_reduce", *SMALL, *bind)
    assert bound(run.journal) == expected
    assert run.journal.header.settings.bind == bind[1]
    assert "\n  binding    " in run.out


def test_by_default_each_rank_of_the_host_has_a_processor(cclmark):
    run = cclmark("all_reduce", *SMALL)
    first, second = bound(run.journal)
    assert first != second
    assert {int(first), int(second)} <= set(ALLOWED)
    assert run.journal.header.settings.bind == ""
    assert "\n  binding " not in run.out


@pytest.mark.usefixtures("torch")
def test_ranks_of_a_library_with_threads_keep_all_processors(cclmark):
    """Gloo has three threads in each rank, which would share one processor."""
    run = cclmark("all_reduce", *SMALL, "--ccl", "torch:gloo")
    assert bound(run.journal) == [listed(ALLOWED)] * 2


# One rank that imports torch takes two seconds of a processor, and has threads without another.
@pytest.mark.parametrize(
    ("ccl", "processors"), [("shm", (SECOND, FIRST)), ("torch:gloo", (SECOND,))]
)
def test_every_thread_of_a_rank_is_bound(background, ccl, processors, request):
    if ccl != "shm":
        request.getfixturevalue("torch")
    bind = "ranks:" + ";".join(f"{rank}={number}" for rank, number in enumerate(processors))
    ranks = ("--devices", f"host:{len(processors)}")
    run = background("all_reduce", *ENDLESS, *ranks, "--ccl", ccl, "--bind", bind)
    run.wait_for_ranks(results=2)
    devices = run.read().header.devices
    assert [device.processors for device in devices] == [str(number) for number in processors]
    assert [of_threads(device.pid) for device in devices] == [
        {str(number)} for number in processors
    ]
    if ccl != "shm":
        assert len([*Path(f"/proc/{devices[0].pid}/task").iterdir()]) > 1


def test_numa_takes_nodes_as_far_as_ranks_may_use_them(background):
    run = background(
        *("all_reduce", *SMALL, "--bind", "numa"), prefix=["taskset", "-c", str(SECOND)]
    )
    journal = run.finish(60).journal
    assert bound(journal) == [str(SECOND)] * 2
    assert journal.header.settings.bind == "numa"


class TestAnInheritedBinding:
    def test_that_excludes_a_list_starts_nothing(self, background, swapped):
        prefix = ["taskset", "-c", str(FIRST)]
        ended = background("all_reduce", *SMALL, "--bind", swapped, prefix=prefix).finish(60)
        assert ended.code == 3
        assert f"--bind: rank 0 cannot be bound to processors {SECOND}: its process on" in ended.err
        assert f"may use only {FIRST}." in ended.err
        assert ended.written() == ["b.txt"]


class TestKinds:
    def test_p2p(self, cclmark, swapped):
        run = cclmark("p2p", "--devices", "host:2", "-b", "64K", "-p", "uniBw", "--bind", swapped)
        assert bound(run.journal) == [str(SECOND), str(FIRST)]
        assert "\n  binding    listed: rank 0 → " in run.out

    def test_checks_of_torch(self, cclmark, swapped, torch):
        run = cclmark(
            "torch", "check", "--devices", "host:2", "--only", "barrier", "--bind", swapped
        )
        assert bound(run.journal) == [str(SECOND), str(FIRST)]

    def test_accelerators(self, cclmark, fake_cuda, swapped):
        arguments = ("all_reduce", "-g", "2", *SMALL[2:])
        run = cclmark(*arguments, "--bind", swapped, env=fake_cuda.env())
        assert bound(run.journal) == [str(SECOND), str(FIRST)]
        run = cclmark(*arguments, "--bind", "numa", env=fake_cuda.env())
        assert len(bound(run.journal)) == 2

    def test_one_process_of_all_devices_is_one_rank(self, cclmark, fake_cuda, swapped, tmp_path):
        arguments = ("p2p", "-g", "2", "-b", "64K", "-p", "uniBw", "-t", "CE", "--bind")
        run = cclmark(*arguments, swapped, env=fake_cuda.env(), code=2)
        assert "b.txt, line 2: rank 1 is not in this run, which has only rank 0" in run.err
        (tmp_path / "one.txt").write_text(f"0: {SECOND}")
        run = cclmark(*arguments, "one.txt", env=fake_cuda.env())
        assert bound(run.journal) == [str(SECOND)] * 2

    @pytest.mark.parametrize("name", ["mpich", exhaustive("openmpi")])
    def test_ranks_of_an_mpirun(self, cclmark, swapped, name):
        run = cclmark(
            *("all_reduce", *SMALL, "--ccl", "mpi", "--bind", swapped),
            env=mpi_environment(name),
        )
        assert bound(run.journal) == [str(SECOND), str(FIRST)]


@pytest.mark.parametrize("command", ["pairs", "p2p"])
def test_bad_files_are_usage_errors(cclmark, tmp_path, command):
    """Which ones: tests/launch/test_binding.py."""
    (tmp_path / "b.txt").write_text("0: 0\n0: 1\n")
    run = cclmark(command, "--devices", "host:2", "--bind", "b.txt", code=2)
    assert "b.txt, line 2: rank 0 is bound twice" in run.err
    assert [name for name in run.written() if name.endswith(".jsonl")] == []


def test_a_run_again_binds_as_then_without_the_file(cclmark, swapped, tmp_path):
    first = cclmark("all_reduce", *SMALL, "--bind", swapped, "--journal", "a.jsonl")
    (tmp_path / swapped).unlink()
    again = cclmark("rerun", "a.jsonl")
    assert bound(again.journal) == bound(first.journal) == [str(SECOND), str(FIRST)]
    assert again.journal.header.settings == first.journal.header.settings
    other = cclmark("rerun", "a.jsonl", "--", "--bind", "none")
    assert other.journal.header.settings.bind == "none"


def test_a_run_that_goes_on_has_to_be_bound_alike(cclmark, swapped):
    cclmark("all_reduce", *SMALL, "--bind", swapped, "--journal", "a.jsonl")
    refused = cclmark("all_reduce", *SMALL, "--bind", "none", "--resume", "a.jsonl", code=2)
    assert f"--bind: ranks:0={SECOND};1={FIRST} in the journal, none in this command" in refused.err
    same = cclmark("all_reduce", *SMALL, "--bind", swapped, "--resume", "a.jsonl")
    assert "already complete" in same.err


def under(name, request):
    """The command line of a launcher of two processes, each on one processor, and its variables."""
    script = (
        'case "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$RANK}}" in '
        f'0) p={FIRST};; *) p={SECOND};; esac; exec taskset -c $p "$@"'
    )
    if name == "torchrun":
        request.getfixturevalue("torch")
        start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--no-python"]
        return [*start, "sh", "-c", script, "sh"], {}
    allowed = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    env = {**dict.fromkeys(allowed, "1"), "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    return [str(mpirun_of(name)), "-np", "2", "sh", "-c", script, "sh"], env


class TestUnderALauncher:
    ARGUMENTS = ("all_reduce", *SMALL[2:], "--ccl", "shm")

    @pytest.mark.parametrize("name", ["openmpi", *map(exhaustive, ("mpich", "torchrun"))])
    def test_its_binding_stands(self, background, name, request):
        prefix, env = under(name, request)
        numa = background(*self.ARGUMENTS, "--bind", "numa", prefix=prefix, env=env)
        assert bound(numa.finish(90).journal) == [str(FIRST), str(SECOND)]

    @pytest.mark.parametrize("name", ["mpich", *map(exhaustive, ("openmpi", "torchrun"))])
    def test_a_list_beyond_it_is_an_error(self, background, swapped, name, request):
        prefix, env = under(name, request)
        run = background(*self.ARGUMENTS, "--bind", swapped, prefix=prefix, env=env).finish(90)
        assert run.code != 0
        assert f"--bind: rank 0 cannot be bound to processors {SECOND}: its process on" in (
            run.err + run.out
        )
