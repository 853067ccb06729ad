"""A port that is free, and unlikely to be taken before a test uses it."""

import random
import socket
from contextlib import suppress

# Below the ports that Linux by default gives to programs which ask for any (from 32768 on):
# clients of other tests do not get one of these between this choice and its use.
_PORTS = range(12_000, 32_000)
_TRIES = 1000


def free_port() -> int:
    """A port without a listener on any address of this host."""
    for _ in range(_TRIES):
        with socket.socket() as one:
            port = random.SystemRandom().choice(_PORTS)  # other workers choose at the same time
            with suppress(OSError):
                one.bind(("", port))
                return port
    raise AssertionError(f"no free port in {_PORTS}")
