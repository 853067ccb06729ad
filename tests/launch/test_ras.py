"""RAS is asked as NCCL's own client asks it, and may answer anything."""

import json
import re
import socket
import threading
import time
from pathlib import Path

import pytest

from cclmark.launch import ras
from cclmark.launch.ras import ask_ras
from goldens import outline, require_golden
from patience import scaled

TEXT = "Job summary\n===========\n\n  #0-0 (27a079b8) MISMATCH\n"


def communicator(counts, *, missing=(), key="0x1", first_pid=100):
    """As RAS writes it: ``counts`` of all-reduce by rank, ``missing`` ranks and whether dead."""

    def entry(rank, status, **more):
        pid, devices = first_pid + rank, {"cuda_dev": rank, "nvml_dev": rank}
        return {"rank": rank, "host": "10.0.0.1", "pid": pid, **devices, "status": status, **more}

    alive = {"init_state": 0, "async_error": 0, "finalize_called": False}
    return {
        "hash": key,
        "secondary_hash": "0x2:0x3",
        "size": len(counts) + len(missing),
        "ranks_count": len(counts),
        "missing_ranks_count": len(missing),
        "ranks": [
            entry(rank, alive, collective_counts={"Broadcast": 2, "AllReduce": count})
            for rank, count in counts.items()
        ],
        "missing_ranks": [
            entry(rank, {"unresponsive": True, "considered_dead": dead}) for rank, dead in missing
        ],
    }


def document(*communicators):
    return json.dumps(
        {
            "nccl_version": "2.28.9",
            "communicators_count": len(communicators),
            "communicators": communicators,
            "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
        },
        indent=2,
    )


class Server:
    """Speaks RAS's protocol as src/ras/client_support.cc does, or badly.

    ``answers``: JSON documents, the last one for ever; none for a server that is too old for them.
    ``greet`` says whether connection number N is answered at all.
    """

    def __init__(self, answers=(), *, text=TEXT, send=None, greet=lambda number: True, hello=None):
        self.answers = list(answers)
        self.text = text
        self.send = send or (lambda connection, answer: connection.sendall(answer))
        self.greet = greet
        self.hello = hello or b"SERVER PROTOCOL 2\n"
        self.heard: list[list[str]] = []
        self.queries = 0
        self._lock = threading.Lock()
        self._closing = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._kept: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def environment(self):
        return {"NCCL_RAS_ADDR": f"127.0.0.1:{self._socket.getsockname()[1]}"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()
        for connection in self._kept:
            connection.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            number = len(self._kept)
            self._kept.append(connection)
            if self.greet(number):
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        commands: list[str] = []
        self.heard.append(commands)
        as_json = False
        try:
            for line in connection.makefile("r"):
                command = line.rstrip("\r\n")
                commands.append(command)
                low = command.lower()
                if low.startswith("client protocol "):
                    connection.sendall(self.hello)
                elif low.startswith("timeout "):
                    connection.sendall(b"OK\n" if low.split()[1].isdecimal() else b"ERROR: no\n")
                elif low == "set format json" and self.answers:
                    as_json = True
                    connection.sendall(b"OK\n")
                elif low == "verbose status":
                    self.send(connection, self._answer(as_json).encode())
                    connection.close()
                    return
                else:
                    connection.sendall(f"ERROR: Unknown command {command}\n".encode())
        except OSError:
            pass
        connection.close()

    def _answer(self, as_json):
        if not as_json:
            return self.text
        with self._lock:
            self.queries += 1
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_the_protocol_is_spoken_and_the_laggard_found():
    hung = document(communicator({0: 17, 1: 17, 2: 16, 3: 17}))
    with Server([hung]) as server:
        report = ask_ras([101, 102], server.environment)
    assert report.text == TEXT
    assert report.still is True
    assert report.reason == ""
    assert report.sentences() == [
        "rank 2 (10.0.0.1, pid 102) launched 16 AllReduce, others 17",
        "the counts of all ranks do not change",
    ]
    assert server.queries == 2
    greeting = ["CLIENT PROTOCOL 2", "TIMEOUT 1"]
    as_json = [*greeting, "SET FORMAT json", "VERBOSE STATUS"]
    assert sorted(server.heard) == sorted([[*greeting, "VERBOSE STATUS"], as_json, as_json])


OWN = communicator({0: 3, 1: 2}, key="0xa")
TWO_JOBS = document(communicator({0: 9, 1: 1}, key="0xb", first_pid=900), OWN)
MOVING = [document(communicator({0: first, 1: first - 1})) for first in (17, 40)]
STOPPED = Path(__file__).with_name("ras_stopped.json")
# The processes that ask, and what RAS answers.
ANSWERS = {
    # Not a hang: the calls of the ranks advance between the two queries.
    "counts that move": ((), MOVING),
    "missing ranks": ([100], [document(communicator({0: 5}, missing=[(1, False), (2, True)]))]),
    # As NCCL 2.28.9 wrote it of a process that was stopped: a comma is missing.
    "a missing comma": ({929, 930}, [STOPPED.read_text()]),
    "many laggards": ((), [document(communicator(dict.fromkeys(range(100), 16) | {0: 17}))]),
    "two jobs": ([100, 101], [TWO_JOBS]),
    "other jobs": ([55], [TWO_JOBS]),
    "any job": ((), [TWO_JOBS]),
    "no JSON": ([100], []),
}


def told(report):
    """A report without the port of the server."""
    fields = {**vars(report), "sentences": report.sentences()}
    return re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", outline(fields))


def test_what_is_told_of_answers():
    found = []
    for name, (pids, answers) in ANSWERS.items():
        with Server(answers) as server:
            found += [f"# {name}\n", told(ask_ras(pids, server.environment))]
    require_golden("ras.txt", "".join(found))


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("ENABLE", "0", "RAS is off: NCCL_RAS_ENABLE=0"),
        ("ADDR", "nowhere", "cannot read NCCL_RAS_ADDR=nowhere"),
        ("ADDR", "127.0.0.1:1", "127.0.0.1:1: Connection refused"),
    ],
)
def test_an_address_without_a_server_is_reported(variable, value, reason):
    report = ask_ras([1], {f"NCCL_RAS_{variable}": value}, deadline_s=1.0)
    assert reason in report.reason
    assert (report.text, report.still) == ("", None)


def test_a_process_that_is_stopped_is_passed_over_for_one_that_answers():
    """All processes of a job listen at the same port, and the system picks one of them."""
    with Server([document(communicator({0: 1}))], greet=lambda number: number > 1) as server:
        report = ask_ras((), server.environment, deadline_s=4.0)
    assert report.text == TEXT
    assert report.still is True


def slowly(connection, answer):
    for place in range(0, len(answer), 16):
        connection.sendall(answer[place : place + 16])
        time.sleep(0.3)


def for_ever(connection, answer):
    while True:
        connection.sendall(answer * 100)


WHOLE = document(communicator({0: 1, 1: 2}))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"hello": b"x" * 100_000}, "the process at this address is not NCCL RAS"),
        ({"hello": b"\xff\xfe\n"}, "the process at this address is not NCCL RAS"),
        ({"greet": lambda number: False}, "no answer in time"),
        ({"send": slowly}, "no answer in time"),
        ({"send": for_ever}, "the answer is too long"),
        ({"answers": ["[" * 100_000]}, "the answer of RAS is not valid"),
        ({"answers": ['{"communicators": [{"ranks": 3}]}']}, "the answer of RAS is not valid"),
    ],
)
def test_whatever_goes_wrong_is_a_short_reason_in_time(monkeypatch, options, reason):
    monkeypatch.setattr(ras, "_MOST_BYTES", 1 << 20)
    deadline_s = 0.3 if reason == "no answer in time" else 0.8
    with Server(**{"answers": [WHOLE], **options}) as server:
        begin_s = time.monotonic()
        report = ask_ras([100], server.environment, deadline_s=deadline_s)
        assert time.monotonic() - begin_s < scaled(10)
    assert reason in report.reason
    assert len(report.reason) < 300
    assert not report.laggards
    assert report.still is None
