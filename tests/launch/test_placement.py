"""Who started this process, from what real launchers set (tests/launchers/environments.json)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import MissingError, UsageError
from cclmark.launch.devices import choose_own_devices
from cclmark.launch.placement import (
    Placement,
    find_placement,
    first_host,
    is_primary,
    notices_alone,
)
from cclmark.work.runtimes import parse_devices
from places import TESTS

CAPTURED = json.loads((TESTS / "launchers" / "environments.json").read_text(encoding="utf-8"))
ALONE = ("none", "srun-1-task", "sbatch", "salloc")
FOUR_ON_ONE = {
    "srun": "srun",
    "openmpi": "Open MPI's mpirun",
    "openmpi-4": "Open MPI's mpirun",
    "mpich": "Hydra's mpirun",
    "torchrun": "torchrun",
    "torchrun-standalone": "torchrun",
}
ON_TWO = {
    "srun-2-nodes": "srun",
    "srun-uneven": "srun",
    "srun-cyclic": "srun",
    "srun-pmi2": "srun",
    "srun-pmix": "srun",
    "salloc-srun": "srun",
    "salloc-openmpi": "Open MPI's mpirun",
    "salloc-mpich": "Hydra's mpirun",
    "openmpi-2-hosts": "Open MPI's mpirun",
    "openmpi-4-2-hosts": "Open MPI's mpirun",
    "mpich-2-hosts": "Hydra's mpirun",
    "srun-torchrun": "torchrun",
}


def placements(name):
    return [
        (task["hostname"], find_placement(task["environment"])) for task in CAPTURED[name]["tasks"]
    ]


@pytest.mark.parametrize("name", ALONE)
def test_one_process_is_no_rank_of_a_launcher(name):
    assert [placement for _, placement in placements(name)] == [None]


@pytest.mark.parametrize(("name", "launcher"), [*FOUR_ON_ONE.items(), *ON_TWO.items()])
def test_every_process_knows_its_place(name, launcher):
    found = [placement for _, placement in placements(name)]
    assert {placement.launcher for placement in found} == {launcher}
    number = len(found)
    assert sorted(placement.process for placement in found) == list(range(number))
    assert {placement.processes for placement in found} == {number}
    assert len({placement.identity for placement in found}) == 1


@pytest.mark.parametrize("name", [*FOUR_ON_ONE, *ON_TWO])
def test_every_process_knows_who_is_beside_it(name):
    found = placements(name)
    for host in {host for host, _ in found}:
        here = [placement for other, placement in found if other == host]
        assert sorted(placement.local for placement in here) == list(range(len(here)))
        assert {placement.local_size for placement in here} == {len(here)}
    several = len({host for host, _ in found}) > 1
    assert {placement.on_one_host for _, placement in found} == {not several}
    assert several == (name in ON_TWO)


def test_a_torchrun_below_srun_counts_and_says_so():
    for _, placement in placements("srun-torchrun"):
        (notice,) = placement.notices
        assert "torchrun reports process" in notice
        assert "srun" in notice


def test_the_first_process_is_where_the_launcher_says():
    assert {placement.address for _, placement in placements("srun-2-nodes")} == {"alpha"}
    assert {placement.address for _, placement in placements("srun-torchrun")} == {"alpha"}


def test_starts_one_after_the_other_are_told_apart():
    env = CAPTURED["srun"]["tasks"][0]["environment"]
    first, again = find_placement(env), find_placement({**env, "SLURM_STEP_ID": "7"})
    step = find_placement({**env, "CCLMARK_STEP": "2"})
    assert len({first.identity, again.identity, step.identity}) == 3


PODS = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "job-0", "MASTER_PORT": "23456"}


def test_a_process_in_each_pod():
    placement = find_placement(PODS)
    assert (placement.process, placement.processes, placement.local) == (1, 3, None)
    assert placement.address == "job-0"
    assert not placement.on_one_host


def test_the_user_chooses_between_launchers():
    env = {**CAPTURED["srun-torchrun"]["tasks"][1]["environment"]}
    assert find_placement({**env, "CCLMARK_LAUNCHER": "slurm"}).launcher == "srun"
    assert find_placement({**env, "CCLMARK_LAUNCHER": "none"}) is None
    with pytest.raises(UsageError, match="choose from none, torchrun"):
        find_placement({**env, "CCLMARK_LAUNCHER": "ssh"})
    with pytest.raises(UsageError, match="variables are not set"):
        find_placement({**env, "CCLMARK_LAUNCHER": "hydra"})


STALE = {"RANK": "0", "WORLD_SIZE": "1"}


@pytest.mark.parametrize("name", ["openmpi", "openmpi-4", "mpich", "srun", "srun-2-nodes"])
def test_what_a_torchrun_of_one_process_left_behind_does_not_count(name):
    launcher = (FOUR_ON_ONE | ON_TWO)[name]
    for task in CAPTURED[name]["tasks"]:
        placement = find_placement({**task["environment"], **STALE, "LOCAL_RANK": "0"})
        assert (placement.launcher, placement.processes) == (launcher, 4)
        (notice,) = placement.notices
        assert notice.startswith(f"{launcher} reports process {placement.process} of 4, ")
        assert "a launcher like torchrun 0 of 1: the first is used" in notice


def test_a_torchrun_of_one_process_below_another_launcher_measures_alone_and_says_so():
    env = CAPTURED["srun"]["tasks"][2]["environment"]
    inner = {**env, **STALE, "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "none"}
    assert find_placement(inner) is None
    (notice,) = notices_alone(inner)
    number = env["SLURM_PROCID"]
    assert f"torchrun reports process 0 of 1, srun {number} of 4: the first is used" in notice
    assert "measures alone" in notice


def test_an_mpirun_of_one_process_is_no_task_of_the_srun_that_started_its_daemons():
    env = {**CAPTURED["srun"]["tasks"][2]["environment"], "PMI_SIZE": "1", "PMI_RANK": "0"}
    env |= {"MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
    assert find_placement(env) is None
    assert len(notices_alone(env)) == 1


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("none", {}),
        ("none", STALE),
        ("none", {**STALE, "LOCAL_RANK": "0"}),
        ("srun-1-task", {**STALE, "LOCAL_RANK": "0"}),
        ("srun-1-task", {}),
        ("sbatch", STALE),
    ],
)
def test_one_process_alone_is_nothing_odd(name, extra):
    (task,) = CAPTURED[name]["tasks"]
    env = {**task["environment"], **extra}
    assert find_placement(env) is None
    assert notices_alone(env) == ()


def test_a_launcher_of_one_process_that_starts_a_launcher_is_nothing_odd():
    """As the mpirun in the one pod of a job, or in a task of srun."""
    (outer,) = CAPTURED["srun-1-task"]["tasks"]
    for task in CAPTURED["openmpi"]["tasks"]:
        placement = find_placement({**outer["environment"], **STALE, **task["environment"]})
        assert placement.launcher == "Open MPI's mpirun"
        assert placement.notices == placement.others == ()


def test_pods_that_say_otherwise_are_told_of():
    found = [
        find_placement({**task["environment"], "RANK": "0", "WORLD_SIZE": "4"})
        for task in CAPTURED["openmpi"]["tasks"]
    ]
    assert [placement.launcher for placement in found] == ["Open MPI's mpirun"] * 4
    assert [len(placement.notices) for placement in found] == [
        int(placement.process > 0) for placement in found
    ]
    assert {placement.others for placement in found} == {("pods",)}


def test_what_to_try_names_the_variables_and_the_other_launchers():
    assert find_placement(PODS).doubts == (
        "RANK and WORLD_SIZE define these processes (PyTorchJob or the like): "
        "CCLMARK_LAUNCHER=none measures this host alone"
    )
    env = {**CAPTURED["openmpi"]["tasks"][0]["environment"], **PODS, "LOCAL_RANK": "1"}
    assert find_placement(env).doubts == (
        "RANK and WORLD_SIZE define these processes (a launcher like torchrun) and take "
        "precedence over the variables of openmpi: CCLMARK_LAUNCHER=openmpi uses the latter, "
        "CCLMARK_LAUNCHER=none measures this host alone"
    )


@pytest.mark.parametrize(
    ("name", "by_mpi"),
    [
        ("srun", False),
        ("srun-2-nodes", False),
        ("salloc-srun", False),
        ("srun-pmi2", True),
        ("srun-pmix", True),
        ("openmpi-2-hosts", True),
        ("mpich-2-hosts", True),
        ("srun-torchrun", False),
    ],
)
def test_who_starts_ranks_of_mpi(name, by_mpi):
    assert {placement.by_mpi for _, placement in placements(name)} == {by_mpi}


@pytest.mark.parametrize(
    "changes",
    [
        {"RANK": "3"},
        {"RANK": "-1"},
        {"RANK": "one"},
        {"WORLD_SIZE": "0"},
        {"WORLD_SIZE": "99999999"},
        {"RANK": "9" * 400},
        {"RANK": "٣"},
    ],
)
def test_numbers_that_cannot_be(changes):
    with pytest.raises(UsageError):
        find_placement({**PODS, **changes})


@given(st.dictionaries(st.sampled_from([*PODS, "LOCAL_RANK", "LOCAL_WORLD_SIZE"]), st.text()))
def test_whatever_the_environment_holds_is_told_apart_or_refused(env):
    try:
        placement = find_placement(env)
    except UsageError as error:
        assert str(error)
    else:
        assert placement is None or 0 <= placement.process < placement.processes


def test_only_the_first_speaks():
    assert is_primary({})
    assert is_primary({**PODS, "RANK": "0"})
    assert not is_primary(PODS)
    assert is_primary({**PODS, "RANK": "nonsense"})


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("alpha", "alpha"),
        ("alpha,beta", "alpha"),
        ("node[08-11,20],login", "node08"),
        ("rack[1-2]n[3,5]", "rack1n3"),
        ("", ""),
        ("node[", "node["),
    ],
)
def test_the_first_host_of_a_list(nodes, first):
    assert first_host(nodes) == first


def place(local, local_size, processes=8):
    return Placement("srun", local or 0, processes, local, local_size)


def eight(runtime):
    return {"cuda": 8, "host": 0}[runtime]


@pytest.mark.parametrize(
    ("text", "count", "local", "local_size", "expected"),
    [
        ("", None, 3, 8, ("cuda", (3,))),
        ("", 2, 1, 4, ("cuda", (2, 3))),
        ("cuda", None, 0, 8, ("cuda", (0,))),
        ("cuda:4-7", None, 1, 4, ("cuda", (5,))),
        ("cuda:4-7", 2, 1, 2, ("cuda", (6, 7))),
        ("", None, 0, 1, ("cuda", tuple(range(8)))),
        ("", 2, None, None, ("cuda", (0, 1))),
        ("host", None, 3, 4, ("host", (3,))),
        ("host", 2, 1, 4, ("host", (2, 3))),
        ("host", None, 0, 1, ("host", (0,))),
        ("host:2", None, 0, 1, ("host", (0, 1))),
        ("host", 3, None, None, ("host", (0, 1, 2))),
    ],
)
def test_a_process_takes_its_share(text, count, local, local_size, expected):
    chosen = choose_own_devices(place(local, local_size), parse_devices(text), count, eight)
    assert (chosen.runtime, chosen.indices) == expected


def test_a_process_that_sees_its_share_only_takes_it():
    chosen = choose_own_devices(place(3, 4), parse_devices("cuda"), None, lambda runtime: 1)
    assert chosen.indices == (0,)


def test_a_process_without_accelerators_takes_the_host_unless_a_number_is_given():
    assert choose_own_devices(place(3, 4), parse_devices(""), None, lambda runtime: 0).indices == (
        3,
    )
    for local, size in ((3, 4), (None, None)):
        with pytest.raises(MissingError, match="no accelerator was found"):
            choose_own_devices(place(local, size), parse_devices(""), 1, lambda runtime: 0)
    assert choose_own_devices(place(3, 4), parse_devices("host"), 1, lambda runtime: 0).indices == (
        3,
    )


def test_more_processes_than_devices():
    with pytest.raises(MissingError, match="require at least 9 cuda devices"):
        choose_own_devices(place(8, 9), parse_devices("cuda"), None, eight)


def test_a_launched_process_has_one_kind_of_devices():
    with pytest.raises(UsageError, match="one kind"):
        choose_own_devices(place(1, 2), parse_devices("cuda:0+host:1"), None, eight)
