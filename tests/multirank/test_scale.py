"""The first process of a run with 64 others, which are lightweight: their connections are real."""

import resource
import sys
import time

import pytest

from cclmark.base.errors import MissingError
from cclmark.launch.coordinator import LaunchedProcess, gather_processes
from cclmark.launch.devices import DeviceChoice
from cclmark.rendezvous.messages import Hello
from commands import REPOSITORY
from patience import scaled

PEERS = 64
HOST = DeviceChoice("host", (0,))


@pytest.fixture
def peers(monkeypatch, tmp_path):
    """The module of the benchmark, which measures with what is tested here."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks" / "control_plane"))
    monkeypatch.setenv("CCLMARK_SHARED_DIR", str(tmp_path / "shared"))
    import peers

    return peers


@pytest.fixture
def fleet(peers, tmp_path):
    made = peers.Fleet(PEERS, tmp_path.name)
    yield made
    made.close()


@pytest.fixture
def coordinator(peers, fleet, tmp_path):
    """All have joined, and their ranks have said hello. In the end all are sent home."""
    arguments = sys.argv[1:]
    fleet.begin("join", arguments)
    placement = peers.placement(0, PEERS + 1, tmp_path.name)
    with gather_processes(LaunchedProcess(placement, HOST, 30, arguments)) as made:
        fleet.ended_s()
        made.meeting.server.ranks = PEERS + 1
        heard = serve(made, fleet, "connect")
        while len(heard) < PEERS:
            heard += made.meeting.server.receive(0.02)
        assert {message.rank for message in heard if isinstance(message, Hello)} == set(
            range(1, PEERS + 1)
        )
        yield made
        fleet.begin("await_leave")
    fleet.ended_s()


def serve(coordinator, fleet, name, *arguments):
    """Has the peers do something and serves them meanwhile. Returns what was heard."""
    heard = []
    fleet.begin(name, *arguments)
    while not fleet.is_done():
        for message in coordinator.meeting.server.receive(0.02):
            coordinator.hear(message)
            heard.append(message)
    fleet.ended_s()
    return heard


def test_all_learn_meet_beat_and_are_told_to_abort(coordinator, fleet):
    """One that vanishes at last is named, and the others go on."""
    server = coordinator.meeting.server
    assert coordinator.host_of == list(range(PEERS + 1))
    assert coordinator.devices.indices == (0,) * (PEERS + 1)
    serve(coordinator, fleet, "learn", "id", bytes(128))
    for doubles in (0, 64, 0):
        serve(coordinator, fleet, "meet", doubles)
    beats = serve(coordinator, fleet, "beat")
    assert sorted(message.rank for message in beats) == list(range(1, PEERS + 1))
    for agent in coordinator.agents:
        agent.abort()
    serve(coordinator, fleet, "await_abort")
    assert coordinator.lost() == ""
    assert server.refused == 0
    serve(coordinator, fleet, "vanish", 17)
    deadline_s = time.monotonic() + scaled(20)
    while not coordinator.lost() and time.monotonic() < deadline_s:
        for message in coordinator.meeting.server.receive(0.02):
            coordinator.hear(message)
    serve(coordinator, fleet, "beat")
    assert coordinator.lost().startswith("process 17 (pid ")
    assert coordinator.lost().endswith("is lost: its connection broke")


@pytest.fixture
def few_files():
    """As many open files as a shell usually grants, beside the ranks of this test."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (PEERS + 32, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_more_connections_than_files_may_be_open(fleet, few_files, coordinator):
    serve(coordinator, fleet, "meet", 0)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 2 * PEERS


def test_fewer_files_than_it_takes_by_any_means(peers, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    with pytest.raises(
        MissingError, match=r"300 connections, .* 256: raise the limit .*ulimit -Hn"
    ):
        gather_processes(LaunchedProcess(peers.placement(0, 300, "x"), HOST, 1, ()))
