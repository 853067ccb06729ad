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
        """The library's choice, for a sentence: ``ring LL on 1 channel``."""
        how = f"{self.kernel} {self.protocol}".strip()
        return f"{how} on {self._channels}" if self.channels else how

    @property
    def choice_with_channels(self) -> str:
        """The same for a list: ``ring LL, 1 channel``; with the name of a symmetric kernel."""
        name = self.algorithm if self.kernel == "symmetric" else ""
        words = " ".join(filter(None, (self.kernel, name, self.protocol)))
        return f"{words}, {self._channels}" if self.channels else words

    @property
    def _channels(self) -> str:
        return f"{self.channels} channel{'s' * (self.channels != 1)}"


def dtype_of(datatype: str) -> str:
    """cclmark's name of a type as NCCL names it, ``ncclFloat8e4m3`` or ``Float8e4m3``.

    A type that cclmark does not have keeps its name, in lower case.
    """
    name = datatype.removeprefix("nccl").lower()
    return _FP8.get(name, name)
