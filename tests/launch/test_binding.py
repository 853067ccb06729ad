"""What ``--bind`` says, what is planned from it, and what a rank does with it."""

import json
import os
import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark import _engine as engine
from cclmark.base.errors import MissingError, UsageError
from cclmark.journal.method import is_of_method, unusual_method
from cclmark.journal.resume import differing_settings
from cclmark.launch.attempt import one_of_each, plan_processors
from cclmark.launch.rank_messages import unbound_ranks
from cclmark.rank import rank_binding
from cclmark.rank.rank_binding import RankBinding
from cclmark.rendezvous.messages import Hello
from cclmark.work.binding import Binding, mode_of
from cclmark.work.islands import Island
from goldens import outline, refusal, require_golden, require_outcomes
from samples import header_of, usual_job, usual_settings

PROCESSORS = st.sets(st.integers(0, 300), min_size=1, max_size=20).map(frozenset)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a file, and goes to where it is."""
    monkeypatch.chdir(tmp_path)

    def write(content):
        (tmp_path / "b.txt").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
        return "b.txt"

    return write


def test_bindings_are_read(written):
    for text in ("", "none", "numa"):
        binding = Binding.parse(text, 4)
        assert (str(binding), binding.of_rank) == (text, ())
    binding = Binding.parse(written("\ufeff# two ranks\n\n 1 : 4-5, 8  # second\r\n0: 0-3\n"), 2)
    assert binding.of_rank == (frozenset({0, 1, 2, 3}), frozenset({4, 5, 8}))
    assert str(binding) == "ranks:0=0-3;1=4-5,8"
    assert mode_of(str(binding)) == "ranks"


@given(st.lists(PROCESSORS, min_size=1, max_size=12))
def test_a_journal_holds_all_of_a_binding(of_rank):
    binding = Binding("ranks", tuple(of_rank))
    assert Binding.parse(str(binding), len(of_rank)) == binding


def test_bad_files_are_refused_with_the_line(written, tmp_path):
    def message(line):
        return refusal(Binding.parse, written(json.loads(line)), 2)

    require_outcomes(Path(__file__).with_name("bindings.txt"), message)
    for content, reason in (
        (b"x" * 5000, "b.txt, line 1: expected RANK: PROCESSORS"),
        (b"0: \xff\n", "b.txt is not UTF-8 text"),
        (b"#" * ((1 << 20) + 1), "cannot read b.txt: larger than 1048576 bytes"),
    ):
        with pytest.raises(UsageError, match=re.escape(reason)):
            Binding.parse(written(content), 2)
    os.mkfifo(tmp_path / "pipe")
    for name, reason in {
        "pipe": "not a regular file",
        str(tmp_path): "Is a directory",
        "core": "Write none, numa or the name of a",  # neither a word nor a file
    }.items():
        with pytest.raises(UsageError, match=reason):
            Binding.parse(name, 2)


def plan(text, inherited, hosts=None, runtime="host"):
    number = len(inherited)
    names = [f"h{host}" for host in hosts or [0] * number]
    return plan_processors(
        Binding.parse(text, number), inherited, hosts or [0] * number, names, [runtime] * number
    )


FOUR = [0, 2, 1, 3]
# The binding, what each rank inherits, hosts and runtime.
PLANS = {
    "the default": ("", [FOUR] * 2),
    "none": ("none", [[0, 1]] * 2),
    "numa": ("numa", [[0, 1]] * 2),
    # Lists are cut to what processes inherit.
    "lists": ("ranks:0=0-3;1=2-9", [FOUR, [1, 2, 3]]),
    "lists for devices": ("ranks:0=0-3;1=2-9", [FOUR, [1, 2, 3]], None, "cuda"),
    "without its processors": ("ranks:0=0;1=4-5;2=6", [[0, 1], [2, 3], [2, 3]], [0, 1, 1]),
    "shared": ("ranks:0=1;1=1;2=0-3", [[0, 1, 2, 3]] * 3),
    "several hosts": ("", [[0, 1]] * 3, [0, 0, 1]),
    "nodes among those that inherit the same": ("numa", [[0, 1], [2, 3]] * 2),
}


def test_plans():
    found = {}
    for name, arguments in PLANS.items():
        try:
            made = plan(*arguments)
            found[name] = {**vars(made), "crowded": sorted(made.crowded)}
        except MissingError as error:
            found[name] = str(error)
    require_golden("processor_plans.txt", outline(found))


@given(
    usable=st.lists(st.lists(st.integers(0, 4), unique=True), min_size=1, max_size=5),
    on_second=st.integers(0, 5),
)
def test_a_host_is_crowded_only_where_no_choice_fits(usable, on_second):
    hosts = [int(rank < on_second) for rank in range(len(usable))]
    chosen, crowded = one_of_each(usable, hosts)
    for host in set(hosts):
        own = [usable[rank] for rank, one in enumerate(hosts) if one == host]
        fits = any(len(set(choice)) == len(own) for choice in product(*own))
        assert (host in crowded) == (not fits)
        taken = [chosen[rank] for rank, one in enumerate(hosts) if one == host]
        if fits:
            assert all(one and one[0] in can for one, can in zip(taken, own, strict=True))
            assert len({one[0] for one in taken}) == len(own)
        else:
            assert taken == [[] for _ in own]
    assert plan("ranks:0=0-1;1=0", [[0, 1]] * 2).crowded == set()


def test_a_binding_is_part_of_the_method_and_of_the_plan():
    def method(**changes):
        return unusual_method(header_of(usual_settings(**changes)))

    assert method() == []
    assert method(bind="numa") == ["binding numa"]
    (long,) = method(bind=f"ranks:{';'.join(f'{rank}={rank}' for rank in range(64))}")
    assert len(long) < 40
    assert is_of_method(long)
    islands = [Island(0, 1, "shm"), Island(2, 3, "nccl")]
    assert differing_settings(usual_settings(), usual_settings(bind="numa", islands=islands)) == [
        "--islands: none there, 0-1=shm 2-3=nccl here",
        "--bind: not given there, numa here",
    ]


@pytest.fixture
def bound(monkeypatch):
    """What ranks bind themselves to, on a machine with two nodes of four processors: ``bound(BIND,
    INHERITED, DEVICES, **JOB)`` returns the lists, and why it is not bound.
    """
    nodes = {0: {0, 1, 2, 3}, 1: {4, 5, 6, 7}}
    of_device = {"near": nodes[1], "far": nodes[0]}
    monkeypatch.setattr(rank_binding, "numa_nodes", lambda: nodes)
    monkeypatch.setattr(
        rank_binding, "processors_of_node_of", lambda bus: of_device.get(bus, set())
    )

    def bind(binding, inherited, pci_bus_ids=(), **changes):
        lists = []
        monkeypatch.setattr(rank_binding, "_bind_all_threads", lists.append)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(inherited))
        settings = usual_settings(bind=binding)
        found = RankBinding(usual_job(oversubscribed=False, settings=settings, **changes))
        found.bind_early()
        found.bind_to_devices(pci_bus_ids)
        assert found.is_default == (binding == "")
        return lists, found.unbound

    return bind


def test_a_rank_of_the_host_gets_a_node(bound):
    for place, own in (((0, 2), {1, 2, 3}), ((1, 2), {4, 5})):
        assert bound("numa", range(1, 6), [""], place_on_host=place) == ([own], "")


@pytest.mark.parametrize(
    ("buses", "inherited", "own", "reason"),
    [
        (["near"], [0, 5], [{5}], ""),
        (["near", "far"], range(6), [{0, 1, 2, 3, 4, 5}], ""),
        (["near", "unknown"], range(8), [], "does not report the NUMA node"),
        (["near"], [0, 1], [], "binding excludes the NUMA node"),
    ],
)
def test_a_rank_of_accelerators_gets_their_nodes(bound, buses, inherited, own, reason):
    lists, unbound = bound("numa", inherited, buses, runtime="cuda")
    assert lists == own
    assert reason in unbound
    assert bool(unbound) == bool(reason)


def test_a_rank_takes_from_a_list_what_it_may_use(bound):
    listed = {"processors": [1, 2, 3, 4], "runtime": "cuda"}
    assert bound("ranks:0=1-4;1=5", [3, 4, 5], ["near"], **listed)[0] == [{3, 4}]
    with pytest.raises(engine.MissingError, match="rank 0 cannot be bound to processors 6-7"):
        bound("ranks:0=6-7;1=5", [3, 4, 5], processors=[6, 7])
    for bind in ("", "none"):  # it stays as it is
        assert bound(bind, range(8), ["near"], runtime="cuda", processors=[0]) == ([], "")


def test_ranks_that_are_not_bound_are_named_once():
    unknown = "the system does not report the NUMA node of the device"
    hellos = [Hello(rank, b"", [], [], unbound=unknown if rank != 1 else "") for rank in range(4)]
    assert unbound_ranks(hellos) == [f"--bind numa: ranks 0,2-3 not bound: {unknown}"]
