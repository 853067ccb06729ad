"""An operation that a library reports: what ran, without its time."""

from __future__ import annotations

import msgspec

#: The kind of kernel of messages, which differ between ranks by nature.
MESSAGES = "send/recv"
#: The kind of kernel of collectives that consist of copies.
COPY_ENGINE = "copy engine"

_FP8 = {"float8e4m3": "fp8e4m3", "float8e5m2": "fp8e5m2"}


class Operation(msgspec.Struct, frozen=True):
    """What ran in a communicator.

    ``count`` is in elements, or in bytes if ``datatype`` is empty. ``peer`` is -1 except for
    messages. ``kernel``: the algorithm's name, symmetric, copy engine, send/recv, or words for a
    library of the engine. ``channels``: 0 if unknown.
    """

    function: str
    datatype: str
    count: int
    peer: int
    kernel: str
    algorithm: str
    protocol: str
    channels: int

    @property
    def choice(self) -> str:
        """What the library chose, for a sentence: ``ring LL on 1 channel``."""
        how = f"{self.kernel} {self.protocol}".strip()
        if not self.channels:
            return how
        plural = "s" * (self.channels != 1)
        return f"{how} on {self.channels} channel{plural}"


def dtype_of(datatype: str) -> str:
    """cclmark's name of a type as NCCL names it, ``ncclFloat8e4m3`` or ``Float8e4m3``.

    A type that cclmark does not have keeps its name, in lower case.
    """
    name = datatype.removeprefix("nccl").lower()
    return _FP8.get(name, name)
