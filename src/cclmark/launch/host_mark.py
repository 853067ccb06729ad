"""The mark of a run on its host, by which other runs of the same user detect it."""

from __future__ import annotations

import os
import socket


class HostMark:
    """An abstract socket name, which the kernel releases when this process ends."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def place(self) -> bool:
        """Places the mark. Returns False if another run has placed it."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0cclmark-run-{os.getuid()}")
        except OSError:
            return False
        return True
