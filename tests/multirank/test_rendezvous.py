"""The control plane in one process: only who has the run's secrets is heard; the run goes on."""

import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
from itertools import product

import msgspec
import pytest
import zmq
from msgspec.structs import replace

from cclmark.base.errors import RankError
from cclmark.rendezvous import server as rendezvous_server
from cclmark.rendezvous.client import Client, Connection
from cclmark.rendezvous.keys import Keys
from cclmark.rendezvous.messages import (
    Failed,
    Finished,
    Interrupted,
    Job,
    Memory,
    Notice,
    Put,
    Ready,
    Want,
)
from cclmark.rendezvous.server import Server, Strangers
from commands import wait_until
from patience import scaled
from samples import usual_job, usual_settings

SETTINGS = usual_settings(timeout_s=5)
BARE_JOB = usual_job(settings=SETTINGS)


def job_for(server: Server, **changes) -> Job:
    """What a rank of ``server`` is told."""
    access = server.keys.access(server.endpoint)
    known = {"access": access, "token": server.token}
    return replace(BARE_JOB, **known | changes)


@pytest.fixture
def server():
    with contextlib.closing(Server(ranks=3)) as running:
        yield running


@contextlib.contextmanager
def connected(job: Job):
    """A client that does not wait for a server that refuses it."""
    client = Client(job)
    try:
        yield client
    finally:
        client._socket.setsockopt(zmq.LINGER, 0)
        client.close()


@contextlib.contextmanager
def serving(server: Server):
    """Receives in a thread meanwhile."""
    stop = threading.Event()
    thread = threading.Thread(
        target=lambda: [server.receive(0.01) for _ in iter(stop.is_set, True)]
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(scaled(10))


def stranger_at(port: int) -> socket.socket:
    """A connection of another program."""
    return socket.create_connection(("127.0.0.1", port), timeout=scaled(5))


def hear(server: Server, enough, timeout_s: float = 10.0) -> list:
    """Receives until ``enough(messages)`` or the time is over."""
    messages: list = []
    deadline_s = time.monotonic() + scaled(timeout_s)
    while not enough(messages) and time.monotonic() < deadline_s:
        messages += server.receive(0.02)
    return messages


def still_works(server: Server) -> None:
    """A rank with the right secrets is heard."""
    with connected(job_for(server)) as client:
        client.send(Notice(0, server.token, "all is well"))
        heard = hear(server, bool)
    assert [message.text for message in heard] == ["all is well"]


def refuses(server: Server) -> None:
    """Nothing was heard, and the attempt was counted."""
    assert hear(server, lambda _: server.refused + server.dropped > 0) == []
    assert server.refused + server.dropped > 0, "the attempt was not counted"
    still_works(server)


def test_listens_on_loopback_only_with_secrets_of_its_own(server):
    assert server.endpoint.startswith("tcp://127.0.0.1:")
    with contextlib.closing(Server()) as other:
        for name in ("token", "server_public", "client_public", "client_secret"):
            assert getattr(server.keys, name) != getattr(other.keys, name)
    assert len(server.token) >= 16


def test_a_value_reaches_all_clients_that_request_it(server):
    """Before it is there, and afterwards."""
    values: list[bytes] = []

    def want(rank: int) -> None:
        with connected(job_for(server, rank=rank)) as client:
            values.append(client.get("id", 10))

    first, second = (threading.Thread(target=want, args=(rank,)) for rank in (1, 2))
    with serving(server), connected(job_for(server)) as client:
        first.start()
        time.sleep(0.05)
        client.put("id", b"\0\xff")
        first.join(scaled(20))
        second.start()
        second.join(scaled(20))
    assert values == [b"\0\xff"] * 2


def test_the_clock_of_the_first_process(server):
    """Both are on one host here, so that the clocks are the same one."""
    with serving(server), connected(job_for(server)) as client:
        ahead_ns, error_ns = client.clock_ahead_ns(10)
    assert 0 < error_ns < 10**9
    assert abs(ahead_ns) <= error_ns


def test_who_waits_in_vain_is_told_for_what(server):
    with connected(job_for(server)) as client:
        with pytest.raises(RankError, match="id of nccl"):
            client.get("id of nccl", 0.1)
        with pytest.raises(RankError, match=r"0\.2 s for the clock"):
            client.clock_ahead_ns(0.2)


@pytest.mark.parametrize("wrong", ["server", "client", "none"])
def test_a_client_with_other_keys_is_refused(server, wrong):
    """One that encrypts for another server, whose greeting cannot even be read, one that has only
    the server's public key, and so no token either, and one that does not encrypt.
    """
    public, secret = zmq.curve_keypair()
    keys = {"server_key": public} if wrong == "server" else {}
    access = replace(job_for(server).access, **keys, public_key=public, secret_key=secret)
    if wrong == "none":
        with zmq.Context() as context, context.socket(zmq.DEALER) as plain:
            plain.setsockopt(zmq.LINGER, 0)
            plain.connect(server.endpoint)
            plain.send(msgspec.msgpack.encode(Notice(0, server.token, "let me in")))
            refuses(server)
        return
    with connected(job_for(server, access=access)) as client:
        client.send(Notice(0, b"x" * 32, "let me in"))
        refuses(server)


def test_a_wrong_token_neither_puts_nor_gets(server):
    with connected(job_for(server)) as client:
        client.put("id", b"right")
        client.send(Put(0, b"wrong", "id", b"wrong"))
        client.send(Want(0, b"wrong", "id"))
        hear(server, lambda _: server.refused == 2)
        assert server.refused == 2
        assert not client._socket.poll(200), "the value went to a stranger"
        client.send(Want(0, server.token, "id"))
        hear(server, lambda _: client._socket.poll(0))
        assert client.get("id", 5) == b"right"


CROWDED = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from cclmark.rendezvous.keys import Keys
from cclmark.rendezvous.server import Server
server = Server(Keys.of(b"secret"), ranks=1)
print(server.port, flush=True)
deadline_s = time.monotonic() + 60
heard = []
while time.monotonic() < deadline_s and not (heard and server.dropped >= 200):
    heard += server.receive(0.02)
    open("/dev/null").close() if heard else None
print([message.text for message in heard], server.turned_away(), flush=True)
sys.stdin.read()
server.close()
"""


def test_idle_connections_do_not_keep_a_rank_out():
    """More of them than the first process may have descriptors; none ever says anything."""
    keys = Keys.of(b"secret")
    with (
        contextlib.ExitStack() as open_ones,
        subprocess.Popen(
            [sys.executable, "-c", CROWDED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        open_ones.callback(process.kill)
        port = int(process.stdout.readline())
        for _ in range(250):
            open_ones.enter_context(stranger_at(port))
        access = keys.access(f"tcp://127.0.0.1:{port}")
        job = replace(BARE_JOB, access=access, token=keys.token)
        with connected(job) as client:
            client.send(Notice(0, keys.token, "let me in"))
            said = process.stdout.readline()
        process.stdin.close()
        assert process.wait(scaled(30)) == 0
    assert "['let me in']" in said
    dropped = re.search(r"(\d+) connections that did not authenticate were dropped$", said)
    assert dropped, said
    assert 200 <= int(dropped[1]) <= 250


@pytest.mark.parametrize("text", [b"", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_connection_that_does_not_authenticate_is_dropped_in_time(monkeypatch, text):
    """Few of them, so that no limit of their number drops them."""
    monkeypatch.setattr(rendezvous_server, "_HANDSHAKE_MS", 200)
    with contextlib.closing(Server(ranks=3)) as server, stranger_at(server.port) as stranger:
        stranger.sendall(text)
        hear(server, lambda _: server.dropped == 1)
        assert server.turned_away() == "1 connection that did not authenticate was dropped"
        # It may have been the connection of a rank that was killed.
        assert server.unheard == 3
        assert server.turned_away(own=server.unheard) == ""
        stranger.settimeout(scaled(5))
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(1000):  # the server's greeting, then the end
                pass


def test_silent_connections_of_ranks_are_kept_beside_a_few_strangers():
    """More of them than strangers may be: each is heard when it speaks at last."""
    ranks = 40
    with contextlib.closing(Server(ranks=ranks)) as server, contextlib.ExitStack() as stack:
        server._strangers.most = 4
        access = job_for(server).access
        silent = [stack.enter_context(contextlib.closing(Connection(access))) for _ in range(ranks)]
        hear(server, lambda _: server._strangers.silent == ranks)
        hear(server, lambda _: False, timeout_s=0.5)
        for rank, connection in enumerate(silent):
            connection.send(Notice(rank, server.token, "hello"))
        heard = hear(server, lambda messages: len(messages) >= ranks)
        assert sorted(message.rank for message in heard) == list(range(ranks))
        assert server.dropped == 0


def test_a_descriptor_that_is_a_local_socket_by_now_is_left_alone():
    one, other = socket.socketpair()
    with one, other:
        strangers = Strangers(port=1, most=0)
        strangers.accepted(one.fileno())
        strangers.settle([], 0)
        one.send(b"still open")
        assert other.recv(20) == b"still open"


UNFINISHED = {"type": "measured", "rank": 0, "token": "text"}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xff" * 200, b"\x91" * 5000, msgspec.msgpack.encode(UNFINISHED)),
        *map(msgspec.msgpack.encode, (None, -(2**63), "hello", [1.5], {"a": {}}, {"type": "none"})),
    ],
)
def test_words_that_make_no_sense_are_refused(server, content):
    with connected(job_for(server)) as client:
        client._socket.send(content)
        assert hear(server, lambda _: server.refused > 0) == []
    assert server.refused == 1


def test_a_message_of_many_parts_is_refused_and_a_huge_one_is_not_read(server):
    with connected(job_for(server)) as client:
        client._socket.send_multipart([b"", b"", b"nonsense"])
        assert hear(server, lambda _: server.refused == 1) == []
        client._socket.send(bytes(65 << 20))
        assert hear(server, bool, 0.5) == []
    still_works(server)


def test_nothing_of_an_earlier_attempt_is_taken_for_the_new_one(server):
    earlier = job_for(server)
    with connected(earlier) as late:
        late.put("id", b"of old ranks")
        late.send(Notice(0, earlier.token, "measuring"))
        assert len(hear(server, bool)) == 1
        assert "id" in server._values
        server.forget_ranks()
        late.send(Failed(0, earlier.token, "error", "the others are gone", "timing", 3))
        with connected(job_for(server)) as fresh:
            fresh.send(Notice(0, server.token, "measuring again"))
            heard = hear(server, bool)
            late.send(Finished(0, earlier.token, {}))
            fresh.send(Want(0, server.token, "id"))
            fresh.send(Finished(0, server.token, {}))
            heard += hear(server, bool)
            assert not fresh._socket.poll(100)
    assert [type(message) for message in heard] == [Notice, Finished]
    assert server.refused == 0


def words_of(rank: int, token: bytes) -> list[msgspec.Struct]:
    """Of a rank, and of the process with this number."""
    return [
        Put(rank, token, "id", b"believed"),
        Want(rank, token, "id"),
        Notice(rank, token, "believed"),
        Failed(rank, token, "error", "believed", "timing", 0),
        Finished(rank, token, {"timing": 1.0}),
        Ready(rank, token, 1, 1e9, Memory(3, 4, 5)),
        Interrupted(rank, token, "believed"),
    ]


def test_words_of_others_for_ranks_and_processes_are_counted_and_that_is_all():
    """They have the run's secret, but speak for those who have spoken, or are not there."""
    with contextlib.closing(Server(ranks=2, processes=2)) as server:
        access = server.keys.access(server.endpoint)
        own, other = (Connection(access) for _ in range(2))
        own.send(Put(0, server.token, "id", b"right"))
        own.send(Notice(1, server.token, "here"))
        own.send(Ready(1, server.token, 0, 1e9, Memory(3, 4, 5)))
        assert len(hear(server, lambda messages: len(messages) == 2)) == 2
        senders = product(range(-1, 3), (server.token, bytes(32)))
        words = [word for sender in senders for word in words_of(*sender)]
        for word in words:
            other.send(word)
        assert hear(server, lambda _: server.refused == len(words)) == []
        assert server.refused == len(words)
        own.send(Want(0, server.token, "id"))
        server.receive(1.0)
        assert b"right" in own.socket.recv()
        for one in (own, other):
            one.close()


def test_endless_messages_do_not_keep_the_server_from_returning(server):
    connection = Connection(job_for(server).access)
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
        ("Measured message.result = other(message.result, type='overlap')", 3),
        ("Finished message.rank += 2", 4),
    ],
)
def test_a_rank_that_talks_nonsense_does_not_make_the_run_fall_over(cclmark, tmp_path, lie, code):
    """As one of another version might, or one whose memory is broken. Here all do."""
    (tmp_path / "sitecustomize.py").write_text(NONSENSE)
    env = {"PYTHONPATH": str(tmp_path), "LIE_OF_TEST": lie}
    sweep = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-n", "5", "-w", "1")
    run = cclmark(*sweep, "--journal", "run.jsonl", code=code, env=env)
    assert re.search(r"\d foreign messages? w(as|ere) refused", run.err)
    if code == 4:
        assert re.search(r"rank \d \(host:\d, pid \d+\) exited with status 0", run.err)
    if (tmp_path / "run.jsonl").exists():
        assert run.journal.footer.exit_code == code
