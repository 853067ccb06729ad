"""The log of NCCL, and of libraries derived from it, in a file in memory."""

from __future__ import annotations

import os

from cclmark.explain.paths import (
    COLLECTIVE_CHANNELS,
    MESSAGE_CHANNELS,
    MESSAGE_CHANNELS_PER_PEER,
)
from cclmark.explain.paths_log import paths_in
from cclmark.kinds.memory.result import LibraryChannels

_VARIABLES = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")
_MOST_BYTES = 1 << 22


class ChannelLog:
    """Makes the library log the creation of communicators; created before it is loaded.

    Variables that the user has set stay unchanged: the channels are then unknown.
    """

    def __init__(self) -> None:
        self._file = -1
        if any(name in os.environ for name in _VARIABLES):
            return
        self._file = os.memfd_create("NCCL's log")
        os.environ["NCCL_DEBUG"] = "INFO"
        os.environ["NCCL_DEBUG_SUBSYS"] = "INIT"
        os.environ["NCCL_DEBUG_FILE"] = f"/proc/{os.getpid()}/fd/{self._file}"

    def channels(self) -> LibraryChannels | None:
        """The channels of the first communicator, None if the log does not contain them."""
        if self._file < 0:
            return None
        return channels_in(os.pread(self._file, _MOST_BYTES, 0).decode(errors="replace"))


def channels_in(text: str) -> LibraryChannels | None:
    """The channels of a communicator in its log, None without the line that has them."""
    facts = paths_in(text).parameters
    if COLLECTIVE_CHANNELS not in facts:
        return None
    return LibraryChannels(
        collective=int(facts[COLLECTIVE_CHANNELS]),
        p2p=int(facts[MESSAGE_CHANNELS]),
        p2p_per_peer=int(facts[MESSAGE_CHANNELS_PER_PEER]),
    )
