"""Lightweight ranks: what the first process of a run hears from them is what real ones would say.

Each has the two connections of a real rank, one of the process that a launcher started (Follower)
and one of the rank that this process starts (Connection): sockets of their own, CURVE handshakes of
their own. What they share is a Python, and the thread that ZeroMQ moves their bytes with. Each says
that it is alone on its host, so every meeting goes through the first process, as between hosts.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from array import array
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe

import msgspec
import zmq

from cclmark.base.version import VERSION
from cclmark.journal.machine import describe_host
from cclmark.journal.schema import DeviceDescription
from cclmark.launch.meeting import find_meeting
from cclmark.launch.placement import Placement
from cclmark.rendezvous.client import Connection, Follower
from cclmark.rendezvous.messages import (
    Abort,
    Clear,
    Gather,
    Heartbeat,
    Hello,
    Join,
    Leave,
    Memory,
    Met,
    Put,
    RankStatus,
    Ready,
    Seen,
    Start,
    ToProcess,
    ToRank,
    Value,
    Want,
)

TIMEOUT_S = 60.0
_SOCKETS_PER_PEER = 4  # two connections, and both ends of the follower's monitor


def placement(process: int, processes: int, identity: str) -> Placement:
    """Of one among lightweight ranks and their first process, all on this machine."""
    return Placement("a benchmark", process, processes, process, processes, identity=identity)


class Peers:
    """Some of the processes of a run, 1 and up, that obey its first."""

    def __init__(self, numbers: Sequence[int], processes: int, identity: str) -> None:
        self._numbers = numbers
        self._processes = processes
        self._placement = placement(numbers[0], processes, identity)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, _SOCKETS_PER_PEER * len(numbers) + 16)
        self._followers: dict[int, Follower] = {}
        self._ranks: dict[int, Connection] = {}
        self._decoder: msgspec.msgpack.Decoder[Value | Met] = msgspec.msgpack.Decoder(ToRank)
        self._host = describe_host(os.environ)

    def join(self, arguments: list[str]) -> None:
        """All come at once; returns when each has been told to begin, and has said it is ready."""
        deadline_s = time.monotonic() + TIMEOUT_S
        self._endpoint, self._keys = find_meeting(self._placement, os.environ, deadline_s)
        for number in self._numbers:
            follower = Follower(self._endpoint, self._keys, self._context)
            follower.send(self._join_of(number, arguments))
            self._followers[number] = follower
        for number, follower in self._followers.items():
            _expect(follower, Clear)
            follower.send(Ready(number, self._keys.token, 0, time.time(), Memory(-1, -1, -1)))

    def _join_of(self, number: int, arguments: list[str]) -> Join:
        return Join(
            rank=number,
            token=self._keys.token,
            cclmark_version=VERSION,
            arguments=arguments,
            host=msgspec.structs.replace(self._host, identity=f"{number:016x}"),
            pid=os.getpid(),
            memory=Memory(-1, -1, -1),
            processors=[0],
            runtimes=["host"],
            indices=[0],
        )

    def connect(self) -> None:
        """Their ranks start: each connects and says hello."""
        keys = self._keys
        for number in self._numbers:
            rank = Connection(keys.access(self._endpoint), self._context)
            device = DeviceDescription(
                rank=number,
                host=self._host.machine.hostname,
                pid=os.getpid(),
                runtime="host",
                index=0,
                name="host",
                memory_bytes=1 << 30,
            )
            rank.send(Hello(number, keys.token, [device], []))
            self._ranks[number] = rank

    def learn(self, key: str, value: bytes) -> None:
        """All ranks wait for a value, such as a communicator's id. The first of them gives it."""
        for number, rank in self._ranks.items():
            rank.send(Want(number, self._keys.token, key))
        if 1 in self._ranks:
            self._ranks[1].send(Put(1, self._keys.token, key, value))
        for rank in self._ranks.values():
            answer = self._answer(rank)
            assert isinstance(answer, Value) and (answer.key, answer.value) == (key, value)

    def meet(self, doubles: int) -> None:
        """All ranks come to a meeting, each with so many values; none makes it a barrier."""
        parts = self._processes - 1
        for number, rank in self._ranks.items():
            values = array("d", [float(number)] * doubles).tobytes()
            rank.send(Gather(number, self._keys.token, "all", number, parts, values))
        for rank in self._ranks.values():
            met = self._answer(rank)
            assert isinstance(met, Met) and len(met.values) == parts
            assert array("d", met.values[number]).count(number) == doubles

    def beat(self) -> None:
        """Every process says how its rank is, and hears that the first one is still there."""
        for number, follower in self._followers.items():
            look = RankStatus(number, os.getpid(), "timing", 3, 17, 0.25, False, None, False)
            follower.send(Seen(number, self._keys.token, [look]))
        for follower in self._followers.values():
            _expect(follower, Heartbeat)

    def await_start(self) -> None:
        """Every process is told what its rank is to measure."""
        for follower in self._followers.values():
            _expect(follower, Start)

    def await_abort(self) -> None:
        """Every process is told to abort."""
        for follower in self._followers.values():
            _expect(follower, Abort)

    def vanish(self, number: int) -> None:
        """One process is gone without a word."""
        if number not in self._numbers:
            return
        self._followers.pop(number).close(linger_ms=0)
        self._ranks.pop(number).close(linger_ms=0)

    def await_leave(self) -> None:
        """Every process is sent home."""
        for follower in self._followers.values():
            _expect(follower, Leave)

    def _answer(self, rank: Connection) -> Value | Met:
        if not rank.socket.poll(int(TIMEOUT_S * 1000)):
            raise TimeoutError("no answer of the first process")
        return self._decoder.decode(rank.socket.recv())


class Fleet:
    """Peers in processes beside this one, which do the same thing at the same time."""

    def __init__(self, peers: int, identity: str, processes: int = 2) -> None:
        context = mp.get_context("spawn")
        self._pipes: list[Pipe] = []
        self._processes = []
        for share in range(processes):
            numbers = range(1 + share, peers + 1, processes)
            here, there = context.Pipe()
            process = context.Process(
                target=_obey, args=(there, numbers, peers + 1, identity), daemon=True
            )
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)
        self.ended_s()

    def begin(self, name: str, *arguments: object) -> float:
        """Has all peers do what the method ``name`` of Peers does. Returns when that began."""
        for pipe in self._pipes:
            pipe.send((name, arguments))
        return time.monotonic()

    def is_done(self) -> bool:
        """Whether all have done it, or one process of them has failed."""
        return all(pipe.poll() for pipe in self._pipes)

    def ended_s(self) -> float:
        """Waits for the last of them to be done: when that was. Raises what went wrong."""
        ends_s = []
        for pipe in self._pipes:
            if not pipe.poll(TIMEOUT_S):
                raise TimeoutError("a process of peers does not answer")
            answer = pipe.recv()
            if isinstance(answer, Exception):
                raise answer
            ends_s.append(answer)
        return max(ends_s)

    def close(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            process.kill()
            process.join()


def _obey(pipe: Pipe, numbers: Sequence[int], processes: int, identity: str) -> None:
    peers = Peers(numbers, processes, identity)
    pipe.send(time.monotonic())
    while True:
        name, arguments = pipe.recv()
        try:
            getattr(peers, name)(*arguments)
            pipe.send(time.monotonic())
        except Exception as error:
            pipe.send(error)


def _expect(follower: Follower, kind: type[ToProcess]) -> None:
    """Waits for an order, which must be the only one that comes."""
    orders = follower.receive(TIMEOUT_S)
    if [type(order) for order in orders] != [kind]:
        raise TimeoutError(f"waited for {kind.__name__}, there came {orders}")
