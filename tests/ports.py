"""Ports that are free, and unlikely to be taken before a test uses them."""

import random
import socket
from contextlib import ExitStack

# Below the ports that Linux by default gives to programs which ask for any (from 32768 on):
# clients of other tests do not get one of these between this choice and its use.
_PORTS = range(12_000, 32_000)
_TRIES = 1000


def free_port() -> int:
    """A port without a listener on any address of this host."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many different ports."""
    found: list[int] = []
    with ExitStack() as taken:
        for _ in range(_TRIES):
            if len(found) == count:
                return found
            one = taken.enter_context(socket.socket())
            port = random.SystemRandom().choice(_PORTS)  # other workers choose at the same time
            try:
                one.bind(("", port))
            except OSError:
                continue
            found.append(port)
    raise AssertionError(f"no {count} free ports in {_PORTS}")
