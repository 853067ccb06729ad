import os
import re
import struct
import time
from ast import literal_eval
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cclmark.base.errors import MissingError, UnreadError
from cclmark.explain.operation import Operation
from cclmark.kinds.registry import KINDS
from cclmark.launch.attempt import Attempt, ProcessWatch, RankWatch
from cclmark.launch.coordinator import Coordinator, name_apart
from cclmark.launch.devices import choose_devices
from cclmark.launch.diagnosis import RankState, StallWatch, diagnose, exit_kind, verdict
from cclmark.launch.rank_messages import explanation_of
from cclmark.launch.ranks import _early_runtime
from cclmark.launch.request import Request, ResultDelivery
from cclmark.rendezvous.board import PHASES, Board, Operations, Status
from cclmark.rendezvous.messages import Explained, Failed, Interrupted, Job, RankStatus
from cclmark.work.cases import Case
from cclmark.work.items import COLLECTIVE
from cclmark.work.runtimes import ACCELERATOR_RUNTIMES, parse_devices
from goldens import outline, refusal, require_golden, require_outcomes
from places import REPOSITORY

HERE = Path(__file__).parent
ENGINE = REPOSITORY / "engine"
CASE = Case("all_reduce", "nccl", 2, "float32", 8, 2, False, reduction="sum")
DEVICES = "cclmark.launch.devices"
NODES = [Path("/dev/nvidia0"), Path("/dev/nvidia1")]


def chosen(text, count, probe, **settings):
    return choose_devices(parse_devices(text), count, probe, **settings)


def four(runtime):
    return 4


def none(runtime):
    raise MissingError("no driver")


def test_devices_are_chosen_or_refused(monkeypatch):
    """Each line: the devices, their number, and how the machine is where it has no four of each.

    ``driver``: the runtimes whose driver finds two devices, no driver at all without any.
    ``nodes``: whether there are NVIDIA device nodes. ``environment``: variables.
    """

    def outcome(line):
        text, count, *more = literal_eval(line)
        (machine,) = more or [{"driver": None}]
        runtimes = machine.pop("driver")
        probe = four if runtimes is None else only(*runtimes) if runtimes else none
        with monkeypatch.context() as patch:
            patch.delenv("CCLMARK_CUDA_LIBRARY", raising=False)
            patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
            for name, value in machine.pop("environment", {}).items():
                patch.setenv(name, value)
            nodes = {"nvidia[0-9]*": NODES} if machine.pop("nodes", False) else {}
            patch.setattr(f"{DEVICES}._device_nodes", lambda pattern: nodes.get(pattern, []))
            return refusal(lambda: outline(chosen(text, count, probe, **machine)))

    require_outcomes(HERE / "devices.txt", outcome)


def only(*present):
    def probe(runtime):
        return 2 if runtime in present else 0

    return probe


def test_the_engine_reads_the_variables_of_the_table():
    """The engine has a table of the runtimes too: names, files, functions."""
    texts = [path.read_text() for path in (ENGINE / "device").glob("*.cpp")]
    variables = {name for text in texts for name in re.findall(r"CCLMARK_\w+_LIBRARY", text)}
    compilers = ("NVRTC", "HIPRTC", "MCRTC", "MTRTC")
    of_compiler = {f"CCLMARK_{name}_LIBRARY" for name in compilers}
    known = {runtime.library_variable for runtime in ACCELERATOR_RUNTIMES.values()}
    assert variables - of_compiler == known
    for name in ACCELERATOR_RUNTIMES:
        assert any(f'"{name}"' in text for text in texts)


@pytest.mark.parametrize("runtime", list(ACCELERATOR_RUNTIMES.values()), ids=lambda one: one.name)
def test_devices_that_cannot_be_used_are_not_replaced_by_the_host(monkeypatch, runtime):
    assert runtime.nodes, "without device nodes such devices would not be missed"
    monkeypatch.setenv(runtime.library_variable, "/nowhere/lib.so")
    for count in (None, 2):
        with pytest.raises(MissingError, match="devices of this machine cannot be used: no driver"):
            chosen("", count, none)
    with pytest.raises(MissingError, match="its driver finds no device"):
        chosen("", None, only())
    assert chosen("host", 2, none).runtime == "host"


def state(rank, **changes):
    values = {"exit_status": None, "stopped": False, "failure": None}
    values["status"] = Status("timing", 0, 3, 10.0, 70.0)
    return RankState(rank=rank, device=f"cuda:{rank}", pid=100 + rank, **{**values, **changes})


def test_what_was_received_is_passed_on_once_also_where_printing_it_fails():
    """As when the reader of standard output leaves, or a signal comes, at that moment."""
    passed = []

    class Listener:
        def started(self, surroundings):
            assert passed == []

        def result(self, result):
            passed.append(result)
            if len(passed) == 2:
                raise UnreadError

    delivery = ResultDelivery(Listener())
    for result in (1, 2, 3):
        delivery.add(result)
    delivery.pass_on()
    assert passed == []
    with pytest.raises(UnreadError):
        delivery.begin(None)
    delivery.pass_on()
    delivery.pass_on()
    assert passed == [1, 2, 3]


def test_reports_of_ranks_are_waited_for_until_a_signal_arrives(monkeypatch):
    """An mpirun that ends the job sends SIGKILL soon after it."""
    signals, looks = [], []
    attempt = object.__new__(Attempt)
    attempt._coordinator = SimpleNamespace(agents=[])
    attempt._ranks = SimpleNamespace(any_can_report=lambda _: True, look=lambda **_: None)
    attempt._processes = SimpleNamespace(lost_ranks=set)
    attempt._messages = SimpleNamespace(receive=lambda _: looks.append(None))
    monkeypatch.setattr("cclmark.launch.attempt.noted", lambda: signals)
    since_s = time.monotonic()
    attempt._abort_and_gather(set(), 0.02)
    assert time.monotonic() - since_s >= 0.02
    assert looks
    signals.append(15)
    attempt._messages = None  # not looked at any more
    attempt._abort_and_gather(set(), 1000.0)


@pytest.mark.parametrize(("why", "waits"), [("its connection broke", False), ("", True)])
def test_the_ranks_of_a_lost_process_are_not_waited_for(why, waits):
    """Nothing more is heard of them: the report must not come later for that."""
    request = Request(chosen("host:2", None, four), None, {}, KINDS[COLLECTIVE])
    agent = SimpleNamespace(lost=lambda cut_s: why, ranks={1})
    coordinator = SimpleNamespace(present=[agent])
    messages = SimpleNamespace(has_reported_end=lambda rank: False)
    ranks = RankWatch(request, coordinator, None, messages)
    ranks.rank_statuses = {1: RankStatus(1, 101, "timing", 0, 0, 0.1, False, None, False)}
    processes = ProcessWatch(coordinator, messages, ranks)
    assert ranks.any_can_report(processes.lost_ranks()) is waits


def test_a_process_that_died_goes_before_those_that_a_launcher_ended_for_it():
    host = SimpleNamespace(machine=SimpleNamespace(hostname="here"))
    joins = [SimpleNamespace(rank=rank, pid=100 + rank, host=host) for rank in range(3)]
    server = SimpleNamespace(cut_off_s=lambda process: 10.0)
    coordinator = Coordinator(None, SimpleNamespace(server=server), joins, None, None, [0, 0, 0])
    for agent in coordinator.remote:
        agent.heard_s -= 5.0
        agent.ranks = {agent.process}
    coordinator.hear(Interrupted(1, b"", "ended by SIGTERM"))
    coordinator.remote[0].heard_s -= 5.0
    assert coordinator.lost() == (
        "process 2 (pid 102 on here) is lost with rank 2: its connection broke"
    )
    coordinator.hear(Interrupted(2, b"", ""))
    coordinator.remote[1].heard_s -= 5.0
    assert coordinator.lost(0.1) == "process 1 (pid 101 on here) has exited: ended by SIGTERM"


def test_different_hosts_of_one_name_are_told_apart():
    """A third host has another name, and two processes of the first one are on the same host."""
    joins = [
        SimpleNamespace(
            host=SimpleNamespace(identity=identity, machine=SimpleNamespace(hostname=name))
        )
        for identity, name in [("a", "node"), ("a", "node"), ("b", "other"), ("c", "node")]
    ]
    (notice,) = name_apart(joins)
    assert [one.host.machine.hostname for one in joins] == ["node#1", "node#1", "other", "node#2"]
    assert notice.startswith("2 hosts have the name node: they are named node#1 to node#2 here")
    assert name_apart(joins) == []


def failed(rank, kind, message="text"):
    return Failed(rank, b"", kind, message, "timing", 0)


@pytest.fixture
def memory():
    descriptor = os.memfd_create("board")
    yield descriptor
    os.close(descriptor)


ABORTED = state(0, failure=failed(0, "aborted"))
TOO_LARGE = state(0, failure=failed(0, "refused", "it does not fit: use less"))
KILLED = state(1, exit_status=-9)
ECC = state(1, failure=failed(1, "error", "ECC"))
CLOSED, OUT_OF_LUCK = (
    state(rank, failure=failed(rank, "error", words), heard=1 - rank)
    for rank, words in enumerate(("connection closed", "out of luck"))
)
BEHIND = state(1, status=Status("preparing", 0, 0, 5.0, 65.0))
WAITED = state(0, failure=failed(0, "timeout", "waited 3 s"))
BY_CLOCK = (
    replace(CLOSED, heard=0, failed_at_s=7.002),
    replace(OUT_OF_LUCK, heard=1, failed_at_s=7.001),
    state(2, failure=failed(2, "aborted"), heard=2, failed_at_s=7.0),
)


def test_the_board_says_where_a_rank_is(memory):
    writer, reader = Board(memory, 3), Board(memory, 3)
    assert reader.read(2).phase == PHASES[0]
    writer.enter(2, "timing", 7, 5, 60.0)
    status = reader.read(2)
    assert (status.phase, status.case_index, status.batches) == ("timing", 7, 5)
    assert status.deadline_s == pytest.approx(status.since_s + 60)
    assert reader.read(1).phase == PHASES[0]
    # The operations of a communicator, if there are any.
    assert reader.read(1).operations is None
    for words in ((1, 0, 0, 0), (2, 17, 16, 9)):
        os.pwrite(memory, struct.pack("@QQQQ", *words), Board.counts_at(1))
        assert reader.read(1).operations == Operations(*words[1:])
    assert reader.read(0).operations is None
    assert reader.read(2).operations is None


OTHER = Case("broadcast", "nccl", 4, "float32", 8, 2, False, root=0)


def at(entered=None, complete=None, *, phase="timing", case=0, batches=3, before_batch=0):
    counts = None if entered is None else Operations(entered, complete, before_batch)
    return Status(phase, case, batches, 10.0, 70.0, counts)


def told(*statuses):
    return verdict(dict(enumerate(statuses)), [CASE, OTHER])


def test_the_verdict_names_who_is_behind():
    def sentence(line):
        counts = [[] if one == "-" else map(int, one.split("/")) for one in line.split()]
        return told(*(at(*one) for one in counts)) or "-"

    require_outcomes(HERE / "verdicts.txt", sentence)


RESTING = at(3, 3, phase="waiting for other pairs", case=-1)
SHUTDOWN, FINISHED = (at(phase=phase, case=-1) for phase in ("shutdown", "finished"))
EARLIER = at(9, 9, batches=4)
PLACES = {
    # Counts are not compared.
    "another phase": [at(9, 9), at(9, 9), at(8, 8, phase="verification"), at(9, 9)],
    "another case": [at(9, 9, case=1), at(9, 9, case=1), at(8, 8)],
    "start-up": [
        at(phase="loading the library", case=-1),
        at(phase="opening the device", case=-1),
    ],
    # No place has the most ranks.
    "two each": [SHUTDOWN, FINISHED, FINISHED, SHUTDOWN],
    # It has not come to the barrier at which the others meet before they go on.
    "an earlier batch": [EARLIER, at(9, 9), EARLIER],
    "fewer calls in one of them": [EARLIER, at(8, 8), at(9, 8, batches=4)],
    # Ranks that rest have no part in a hang.
    "rest": [RESTING, at(17, 16), RESTING, at(16, 16)],
}


def test_ranks_that_are_elsewhere_are_named():
    found = {name: told(*statuses) or "nothing" for name, statuses in PLACES.items()}
    require_golden("places_of_ranks.txt", outline(found))


def late(rank, entered, since_s):
    """A rank whose time was over; the clocks of hosts have nothing to do with each other."""
    status = Status("timing", 0, 3, since_s, since_s + 60, Operations(entered, 16, 10))
    return state(rank, status=status, failure=failed(rank, "timeout"), in_phase_s=60.0)


def silent(rank, since_s, in_phase_s):
    status = Status("timing", 0, 3, since_s, since_s + 60)
    return state(rank, status=status, in_phase_s=in_phase_s)


IN_VERIFICATION = Failed(2, b"", "aborted", "text", "verification", 1)
POLL, BELOW = "poll+0x10 (libc.so.6)", "libnccl.so.2+0x77"
DIAGNOSES = {
    "a killed rank": [ABORTED, KILLED],
    "a stopped rank": [WAITED, state(1, stopped=True)],
    "a rank that failed": [ABORTED, ECC],
    "one in an earlier phase": [WAITED, BEHIND],
    # The first to report, and without a common clock only one of the first.
    "first ranks without a clock": [CLOSED, OUT_OF_LUCK],
    # The first by the clock: the report of a later failure may be read first.
    "first ranks by a clock": BY_CLOCK,
    # In the words of all ranks alone.
    "refused": [TOO_LARGE, state(1, failure=failed(1, "aborted"))],
    "missing": [state(0, failure=failed(0, "missing"))],
    "fewer operations": [late(0, 17, 5.0), late(1, 16, 9e6), late(2, 17, 700.0)],
    # Of ranks whose process is lost none is blamed: what was heard last of some is older.
    "a lost process": [
        state(0, status=Status("timing", 1, 3, 10.0, 70.0), in_phase_s=1.5),
        state(1, in_phase_s=0.1, silent_s=20.4, stack=["poll"]),
        state(2, silent_s=20.4, failure=IN_VERIFICATION),
    ],
    "longest without a move": [silent(0, 1.0, 30.0), silent(1, 9e6, 31.5), silent(2, 5.0, 30.5)],
    # The culprit's come first, and the same ones once.
    "stacks": [
        state(0, stack=[POLL, BELOW]),
        state(1, stack=[POLL.replace("10", "14"), BELOW]),
        state(2, stack=["nanosleep+0x1 (libc.so.6)"], stopped=True),
    ],
}


def test_a_pause_of_this_process_explains_what_took_most_of_it(monkeypatch):
    join = SimpleNamespace(pid=7, host=SimpleNamespace(machine=SimpleNamespace(hostname="here")))
    watch = StallWatch(SimpleNamespace(remote=[], joins=[join]))
    for now_s in (100.0, 102.9, 106.2):
        monkeypatch.setattr(time, "monotonic", lambda now_s=now_s: now_s)
        watch.note()
    for in_phase_s, failed_s, explained in (
        (6.5, 107.0, True),
        (6.7, 107.0, False),  # it waited for longer before
        (6.5, 116.3, False),  # it failed long afterwards
    ):
        said = watch.explanation(silent(1, 1.0, in_phase_s), failed_s)
        assert said.startswith("process 0 (pid 7 on here), which supervises the run") is explained
        assert bool(said) is explained


def test_the_diagnosis_begins_with_the_rank_to_blame():
    found = {
        f"{name} ({exit_kind(states)})": diagnose(states, [CASE, CASE]).splitlines()
        for name, states in DIAGNOSES.items()
    }
    require_golden("diagnoses.txt", outline(found))


RING = Operation("AllReduce", "Float32", 256, -1, "ring", "RING", "LL", 4)
SEND = Operation("Send", "Float32", 64, 1, "send/recv", "", "", 2)


def part(rank, *operations, source="plug-in", reason="", is_silent=False):
    return Explained(
        *(source, reason, list(operations), {"RING LL": 7e-6}),
        **{"rank": rank, "token": b"", "index": 3, "is_silent": is_silent},
    )


TREE = Operation("AllReduce", "Float32", 256, -1, "tree", "TREE", "LL", 1)
RECEIVED = Operation("Recv", "Float32", 64, 0, "send/recv", "", "", 4)
LOGGED = [Operation("allreduce", "", 0, -1, one, one, "", 0) for one in ("ring", "tree")]
IGNORED = part(0, source="unknown", reason="r"), part(1, source="unknown", reason="r")
IGNORED[0].ignored = {"A": "it requires B", "C": "no file"}
IGNORED[1].ignored = {"A": "it requires B"}
PARTS = {
    "ranks that agree": [part(0, RING), part(1, RING)],
    "a rank that ran something else": [part(0, RING), part(1, TREE)],
    "a rank that reported nothing": [part(0, RING), part(1, reason="the log is full")],
    # The log lines of rank 0 do not hide that only the plug-in of rank 1 has reported.
    "a silent first rank": [
        part(0, RING, source="log", is_silent=True),
        *(part(1, RING), part(2, RING)),
    ],
    "settings that no rank uses": IGNORED,
    "silent ranks": [part(0, reason="other"), part(1, reason="no event", is_silent=True)],
    "messages, which may differ": [part(0, SEND), part(1, RECEIVED)],
    "the log of one rank": [
        part(0, RING, source="log"),
        part(1, source="unknown", reason="none"),
    ],
    "logs that differ": [part(rank, one, source="log") for rank, one in enumerate(LOGGED)],
    "nothing known": [part(rank, source="unknown", reason="no interface") for rank in (0, 1)],
}


def test_explanations():
    found = {name: explanation_of(parts) for name, parts in PARTS.items()}
    doubtful = [name for name, one in found.items() if one.is_doubtful]
    require_golden("explanations.txt", outline({**found, "doubtful": doubtful}))


REQUIRED = [one.name for one in msgspec.structs.fields(Job) if one.required]


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({"runtime": "cuda"}, ["--runtime", "cuda"]),
        ({"runtime": "host"}, []),
        # The rank sets variables first, which a driver may read when it is initialised.
        ({"runtime": "cuda", "environment": {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}}, []),
        ({"runtime": "cuda", "traced_operations": 3}, []),
    ],
)
def test_a_runtime_loads_early_only_if_the_rank_sets_no_variables(fields, arguments):
    assert _early_runtime(Job(**(dict.fromkeys(REQUIRED) | fields))) == arguments
