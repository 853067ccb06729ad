"""Who started this process, from what real launchers set (tests/launchers/environments.json).

Which library goes with host devices of several hosts then, and which interface leads to them.
"""

import importlib.util
import json
import socket
from ast import literal_eval
from pathlib import Path
from types import SimpleNamespace

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
from cclmark.options.case_request import libraries_of
from cclmark.options.groups import CaseOptions
from cclmark.rendezvous.interfaces import address_of, interface_towards, is_own
from cclmark.work.runtimes import parse_devices
from goldens import outline, refusal, require_golden, require_outcomes
from places import TESTS

HERE = Path(__file__).parent
CAPTURED = json.loads((TESTS / "launchers" / "environments.json").read_text(encoding="utf-8"))


def placed(task):
    """Where a captured process is, without what is different in each start."""
    placement = find_placement(task["environment"])
    if placement is None:
        return [task["hostname"], "alone"]
    fields = {name: getattr(placement, name) for name in placement.__dataclass_fields__}
    del fields["identity"]
    return [task["hostname"], {**fields, "on_one_host": placement.on_one_host}]


def test_every_process_knows_its_place():
    found = {}
    for name, captured in CAPTURED.items():
        found[name] = sorted(map(placed, captured["tasks"]), key=str)
        identities = {
            placement and placement.identity
            for task in captured["tasks"]
            for placement in [find_placement(task["environment"])]
        }
        assert len(identities) == 1
    require_golden("placements.txt", outline(found))


def test_starts_one_after_the_other_are_told_apart():
    env = CAPTURED["srun"]["tasks"][0]["environment"]
    first, again = find_placement(env), find_placement({**env, "SLURM_STEP_ID": "7"})
    step = find_placement({**env, "CCLMARK_STEP": "2"})
    assert len({first.identity, again.identity, step.identity}) == 3


PODS = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "job-0", "MASTER_PORT": "23456"}


SHOWN = ("launcher", "process", "processes", "local", "address", "notices", "others", "doubts")


def test_environments_of_processes():
    """Each line: the captured launcher, if any, its process, and more variables."""

    def told(line):
        name, task, more = json.loads(line)
        captured = CAPTURED[name]["tasks"][task]["environment"] if name else {}
        placement = find_placement(env := {**captured, **more})
        if placement is None:
            return outline({"alone": notices_alone(env) or "nothing odd"})
        shown = {name: getattr(placement, name) for name in SHOWN}
        return outline({**shown, "on_one_host": placement.on_one_host})

    require_outcomes(HERE / "environments.txt", lambda line: refusal(told, line))


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


def test_the_first_host_of_a_list():
    lists = ["alpha", "alpha,beta", "node[08-11,20],login", "rack[1-2]n[3,5]", "", "node["]
    assert [*map(first_host, lists)] == ["alpha", "alpha", "node08", "rack1n3", "", "node["]


def place(local, local_size, processes=8):
    return Placement("srun", local or 0, processes, local, local_size)


def eight(runtime):
    return {"cuda": 8, "host": 0}[runtime]


def test_a_process_takes_its_share():
    def share(line):
        text, count, *places = literal_eval(line)
        return refusal(
            lambda: outline(choose_own_devices(place(*places), parse_devices(text), count, eight))
        )

    require_outcomes(HERE / "shares.txt", share)


def test_a_process_without_accelerators_takes_the_host_unless_a_number_is_given():
    def own(text, count, *places):
        chosen = choose_own_devices(place(*places), parse_devices(text), count, lambda runtime: 0)
        return chosen.indices

    assert own("", None, 3, 4) == own("host", 1, 3, 4) == (3,)
    for places in ((3, 4), (None, None)):
        with pytest.raises(MissingError, match="no accelerator was found"):
            own("", 1, *places)


def coordinator(launcher, *, by_mpi, devices_each=1):
    """As much of one as is looked at: two processes, a host each."""
    join = SimpleNamespace(indices=list(range(devices_each)))
    return SimpleNamespace(
        placement=Placement(launcher, 0, 2, 0, 1, by_mpi=by_mpi),
        joins=[join, join],
        hosts=["alpha", "beta"],
        devices=SimpleNamespace(runtime="host"),
    )


@pytest.mark.parametrize(
    ("launcher", "by_mpi", "devices_each", "ccl"),
    [
        ("srun", True, 1, "mpi"),
        ("torchrun", False, 1, "torch:gloo"),
        ("Open MPI's mpirun", True, 1, "mpi"),
        ("Open MPI's mpirun", True, 2, "torch:gloo"),
    ],
)
def test_mpi_where_it_is_possible(launcher, by_mpi, devices_each, ccl, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    run = coordinator(launcher, by_mpi=by_mpi, devices_each=devices_each)
    assert libraries_of(CaseOptions(), run) == [ccl]


@pytest.mark.parametrize(("launcher", "hint"), [("srun", True), ("torchrun", False)])
def test_neither_of_both_says_what_to_do(launcher, hint, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingError, match="pip install torch") as caught:
        libraries_of(CaseOptions(), coordinator(launcher, by_mpi=False))
    assert ("srun --mpi=pmix" in str(caught.value)) == hint


def test_addresses_of_ours_are_reached_from_here():
    assert interface_towards("127.0.0.1") == "lo"
    assert address_of("lo") == "127.0.0.1"
    assert is_own("127.0.0.1")
    addresses = {name: address_of(name) for _, name in socket.if_nameindex()}
    for address in filter(None, addresses.values()):
        # An address of one's own is reached through the kernel, from that address.
        assert addresses[interface_towards(address)] == address
