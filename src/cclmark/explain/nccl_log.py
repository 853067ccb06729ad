"""NCCL's own log lines about its choices: NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=TUNING.

NCCL writes them on rank 0 of a communicator. Their format is not documented;
these expressions match the versions 2.18 to 2.32.
"""

from __future__ import annotations

import re

from cclmark.explain.operation import COPY_ENGINE, Operation
from cclmark.explain.plugin_log import ALGORITHMS, PROTOCOLS

_NAMED = re.compile(
    r"NCCL INFO (?P<function>\w+): (?P<bytes>\d+) Bytes -> Algo (?P<algorithm>\w+) proto "
    r"(?P<protocol>\w+) channel\{Lo\.\.Hi\}=\{(?P<low>\d+)\.\.(?P<high>\d+)\}"
)
_NUMBERED = re.compile(
    r"NCCL INFO (?:(?P<function>\w+): )?(?P<bytes>\d+) Bytes -> Algo (?P<algorithm>\d+) proto "
    r"(?P<protocol>\d+) time"
)
_SYMMETRIC = re.compile(
    r"NCCL INFO (?P<function>\w+) \[Symmetric\]: (?P<bytes>\d+) Bytes -> Kernel (?P<kernel>\w+) "
    r"nchannels (?P<channels>\d+)"
)
_COPY_ENGINE = re.compile(
    r"NCCL INFO (?P<function>\w+) \[Copy Engine\]: (?P<bytes>\d+) Bytes -> (?P<copies>\w+)"
)


_REGISTRATION = re.compile(
    r"NCCL INFO .*\brank \d+ - (?:IPC|NET|NVLS|COLLNET) (?:reuse|register(?:ing)?) "
)
#: Words for schema.Explanation.registered: buffers that the program registered, that the library
#: registered itself while a graph was captured, and neither.
BY_CALL, BY_GRAPH, NOT_REGISTERED = "by call", "by graph", "no"


def has_registration(text: str) -> bool:
    """Whether NCCL registered buffers, or used registered ones (NCCL_DEBUG_SUBSYS=REG)."""
    return _REGISTRATION.search(text) is not None


def operations_in(text: str) -> list[Operation]:
    """The operations in lines of NCCL's log, in their order; ``count`` is in bytes."""
    return [one for one in map(_operation, text.splitlines()) if one is not None]


def _operation(line: str) -> Operation | None:
    if found := _NAMED.search(line):
        channels = int(found["high"]) - int(found["low"]) + 1
        return _chosen(found, found["algorithm"].upper(), found["protocol"].upper(), channels)
    if found := _NUMBERED.search(line):
        algorithm, protocol = int(found["algorithm"]), int(found["protocol"])
        if algorithm < len(ALGORITHMS) and protocol < len(PROTOCOLS):
            return _chosen(found, ALGORITHMS[algorithm], PROTOCOLS[protocol], 0)
    if found := _SYMMETRIC.search(line):
        return Operation(
            function=found["function"],
            datatype="",
            count=int(found["bytes"]),
            peer=-1,
            kernel="symmetric",
            algorithm=found["kernel"],
            protocol="",
            channels=int(found["channels"]),
        )
    if found := _COPY_ENGINE.search(line):
        return Operation(
            function=found["function"],
            datatype="",
            count=int(found["bytes"]),
            peer=-1,
            kernel=COPY_ENGINE,
            algorithm=found["copies"],
            protocol="",
            channels=0,
        )
    return None


def _chosen(found: re.Match[str], algorithm: str, protocol: str, channels: int) -> Operation:
    return Operation(
        function=found["function"] or "",
        datatype="",
        count=int(found["bytes"]),
        peer=-1,
        kernel=algorithm.lower().replace("_", " "),
        algorithm=algorithm,
        protocol=protocol,
        channels=channels,
    )
