"""Counts kernels in the plug-in's log while it is written."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cclmark.explain.plugin_log import KERNEL_STOP, KINDS, RECORD_BYTES

_COUNTED = struct.Struct("=Ii24xQ16xiH66x")  # kind, rank, sequence, peer, channels
_NUMBERS = {name: number for number, name in KINDS.items()}
_COLLECTIVE, _MESSAGE = _NUMBERS["collective"], _NUMBERS["point-to-point"]
_STATE = _NUMBERS["state"]


@dataclass
class KernelCount:
    """The kernels of operations, as far as they are reported.

    ``records``: those counted so far. ``channels``: of all operations, except messages of a rank to
    itself, of which NCCL reports no kernels. ``ended``: the kernels that have ended, one for each
    channel.
    """

    records: int = 0
    channels: int = 0
    ended: int = 0

    def add(self, content: bytes) -> None:
        """Counts the records that follow those counted so far, up to one that is incomplete."""
        whole = len(content) // RECORD_BYTES * RECORD_BYTES
        for kind, rank, sequence, peer, channels in _COUNTED.iter_unpack(
            memoryview(content)[:whole]
        ):
            if not kind:
                return
            self.records += 1
            if kind == _COLLECTIVE or (kind == _MESSAGE and peer != rank):
                self.channels += channels
            elif kind == _STATE and sequence == KERNEL_STOP:
                self.ended += 1

    @property
    def is_complete(self) -> bool:
        """Whether the kernels of all operations have ended."""
        return self.ended >= self.channels
