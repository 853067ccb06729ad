"""Messages at the control port, by the thousand: real ones that were bent.

They have the run's secret, but speak for ranks and processes for which others have spoken: they are
refused one by one, so that all can be counted.
"""

import contextlib
import random
import re
import threading
import time
from collections.abc import Callable

import msgspec
import pytest
import zmq
from pods import SWEEP

from cclmark.journal.item_results import CaseResult
from cclmark.journal.machine import describe_host
from cclmark.journal.schema import Condition, DeviceDescription, LibraryDescription, Link
from cclmark.rendezvous import messages as said_by
from cclmark.rendezvous.client import Connection
from cclmark.rendezvous.keys import Keys
from cclmark.rendezvous.messages import Notice, Put, Ready, Want
from cclmark.rendezvous.server import Server
from cclmark.work.cases import Case
from commands import wait_until
from examples import examples
from patience import scaled

STREAMS = examples(2400)
RANKS = 2
OF_PROCESSES = (said_by.Join, Ready, said_by.Seen, said_by.Described, said_by.Interrupted)
pytestmark = pytest.mark.usefixtures("no_leaks")


def every_message(rank: int, token: bytes) -> list[msgspec.Struct]:
    """One of each kind that ranks and processes send."""
    case = Case("all_reduce", "shm", RANKS, "float32", 64, 16, False, reduction="sum")
    device = DeviceDescription(rank, "here", "host", rank, "processor", 1 << 30, 1)
    library = LibraryDescription("shm", "1", "built in")
    wrong = msgspec.Raw(msgspec.msgpack.encode(CaseResult(0, case, "wrong", "believed")))
    look = said_by.RankStatus(rank, 1, "timing", 0, 1, 0.1, True, -9, True)
    return [
        said_by.Hello(rank, token, [device], [library], [(0, 1)]),
        Put(rank, token, "id", b"believed"),
        Want(rank, token, "id"),
        said_by.Gather(rank, token, "all", rank, RANKS, b"believed"),
        said_by.Measured(rank, token, wrong),
        said_by.Observed(rank, token, Condition(rank, 0, 0, 0.0)),
        Notice(rank, token, "believed"),
        said_by.Failed(rank, token, "error", "believed", "timing", 0),
        said_by.Finished(rank, token, {"timing": 1.0}),
        said_by.Join(
            rank, token, "1", ["believed"], describe_host({}), 1, 3, 4, [0], ["host"], [0]
        ),
        Ready(rank, token, 1, 1e9, 3, 4),
        said_by.Seen(rank, token, [look]),
        said_by.Described(
            rank, token, [device], [Link(0, "PCIe", 1, 1e9)], "believed", ["believed"]
        ),
        said_by.Interrupted(rank, token, "believed"),
    ]


def bent(content: bytes, chance: random.Random) -> bytes:
    """``content`` with bytes changed, left out, put in, or said twice; now and then as it was."""
    text = bytearray(content)
    for _ in range(chance.choice((0, 1, 1, 2, 8))):
        place = chance.randrange(len(text) + 1)
        end = min(len(text), place + chance.randrange(1, 16))
        kind = chance.randrange(4)
        if kind == 0 and place < len(text):
            text[place] = chance.randrange(256)
        elif kind == 1:
            del text[place:end]
        elif kind == 2:
            text[place:place] = chance.randbytes(end - place)
        else:
            text[place:place] = text[place:end]
    return bytes(text)


def speak(endpoint: str, keys: Keys) -> Connection:
    """A connection with the run's secrets that leaves without waiting."""
    made = Connection(keys.access(endpoint))
    made.socket.setsockopt(zmq.LINGER, 5000)
    return made


def false_friends(endpoint: str, keys: Keys, number: int) -> None:
    """Says ``number`` things of every kind over five connections, with the right token and wrong
    ones.
    """
    chance = random.Random(2)
    known = []
    for token in (keys.token, keys.token, bytes(32)):
        for rank in range(-1, RANKS + 1):
            known += [msgspec.msgpack.encode(one) for one in every_message(rank, token)]
    with contextlib.ExitStack() as stack:
        connections = [speak(endpoint, keys) for _ in range(5)]
        for connection in connections:
            stack.callback(connection.close)
        for place in range(number):
            connections[place % 5].socket.send(bent(chance.choice(known), chance))


def received_beside(server: Server, doing: Callable[[], None]) -> list:
    """What ``server`` takes for words of ranks while ``doing`` is done, and a moment longer."""
    working = threading.Thread(target=doing, daemon=True)
    working.start()
    heard: list = []
    while working.is_alive():
        heard += server.receive(0.01)
    before = -1
    while before != server.refused:
        before = server.refused
        heard += server.receive(0.3)
    return heard


def test_words_for_those_who_have_spoken_are_counted_and_that_is_all():
    with contextlib.closing(Server(ranks=RANKS, processes=RANKS)) as server:
        own = speak(server.endpoint, server.keys)
        own.send(Put(0, server.token, "id", b"right"))
        own.send(Notice(1, server.token, "here"))
        own.send(Ready(1, server.token, 0, 1e9, 3, 4))
        heard: list = []
        wait_until(lambda: heard.extend(server.receive(0.01)) or len(heard) == 2, "all are heard")
        friends = lambda: false_friends(server.endpoint, server.keys, STREAMS)  # noqa: E731
        assert received_beside(server, friends) == []
        assert server.refused == STREAMS
        own.send(Want(0, server.token, "id"))
        server.receive(1.0)
        assert b"right" in own.socket.recv()
        own.close()


def test_endless_messages_do_not_keep_the_server_from_returning():
    with contextlib.closing(Server(ranks=1)) as server:
        connection = speak(server.endpoint, server.keys)
        stop = threading.Event()

        def talk() -> None:
            while not stop.is_set():
                connection.send(Notice(0, b"wrong", "x"))

        talking = threading.Thread(target=talk, daemon=True)
        talking.start()
        try:
            wait_until(lambda: server.receive(0.01) or server.refused > 10_000, "it goes on")
        finally:
            stop.set()
            talking.join(scaled(10))
            connection.close(0)


@pytest.mark.parametrize("rank", [-1, RANKS])
def test_who_is_not_there_does_not_speak(rank):
    with contextlib.closing(Server(ranks=RANKS, processes=RANKS)) as server:
        connection = speak(server.endpoint, server.keys)
        words = every_message(rank, server.token)
        words += [one for one in every_message(0, server.token) if isinstance(one, OF_PROCESSES)]
        for one in words:
            connection.send(one)
        assert received_beside(server, lambda: time.sleep(0.1)) == []
        assert server.refused == len(words)
        connection.close()


NONSENSE = """
import os, sys
import msgspec

if "cclmark.rank_process" in sys.orig_argv:
    from cclmark.rendezvous.client import Client

    send = Client.send

    def other(result, **changes):
        pack = msgspec.msgpack
        return msgspec.Raw(pack.encode(pack.decode(result) | changes))

    def lie(client, message):
        kind, change = os.environ["LIE_OF_TEST"].split(" ", 1)
        if type(message).__name__ == kind:
            exec(change, {"message": message, "other": other})
        send(client, message)

    Client.send = lie
"""


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        ("Measured message.result = other(message.result, index=1 << 40)", 3),
        ("Measured message.result = other(message.result, type='overlap')", 3),
        ("Hello message.devices.clear()", 4),
        ("Finished message.rank += 2", 4),
    ],
)
def test_a_rank_that_talks_nonsense_does_not_make_the_run_fall_over(cclmark, tmp_path, lie, code):
    """As one of another version might, or one whose memory is broken. Here all do."""
    (tmp_path / "sitecustomize.py").write_text(NONSENSE)
    env = {"PYTHONPATH": str(tmp_path), "LIE_OF_TEST": lie}
    arguments = (*SWEEP[:2], "host:2", *SWEEP[3:])
    run = cclmark(*arguments, "--journal", "run.jsonl", code=code, env=env)
    assert re.search(r"\d foreign messages? w(as|ere) refused", run.err)
    if code == 4:
        assert re.search(r"rank \d \(host:\d, pid \d+\) exited with status 0", run.err)
    if (tmp_path / "run.jsonl").exists():
        assert run.journal.footer.exit_code == code
