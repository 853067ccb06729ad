"""Finds library features that the environment of a run switches off or limits.

The variables are from NCCL's documentation (Environment Variables). RCCL reads them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cclmark.references.match import Match
from cclmark.references.matching import BY_MULTICAST
from cclmark.results.schema import Header

_READ_BY = ("nccl", "rccl", "flagcx")  # FlagCX calls the vendor's library
_MULTICAST = "NCCL_NVLS_ENABLE"


@dataclass(frozen=True)
class _Switch:
    """A variable that restricts a library. ``values``: the restricting values, empty for any value.
    ``operations``: the restricted operations, empty for all.
    """

    variable: str
    values: tuple[str, ...]
    words: str
    operations: tuple[str, ...] = ()
    between_hosts: bool = False


_SWITCHES = (
    _Switch(_MULTICAST, ("0",), "NVLink multicast (NVLS) is off", BY_MULTICAST),
    _Switch("NCCL_P2P_DISABLE", ("1",), "direct access between devices (P2P) is off"),
    _Switch("NCCL_P2P_LEVEL", ("LOC", "0"), "direct access between devices (P2P) is off"),
    _Switch("NCCL_SHM_DISABLE", ("1",), "shared memory between processes is off"),
    _Switch("NCCL_IB_DISABLE", ("1",), "InfiniBand and RoCE are off", between_hosts=True),
    _Switch("NCCL_NET_GDR_LEVEL", ("LOC", "0"), "GPUDirect RDMA is off", between_hosts=True),
    _Switch("NCCL_MAX_NCHANNELS", (), "the number of channels is limited"),
    _Switch("NCCL_MAX_CTAS", (), "the number of thread blocks is limited"),
    _Switch("NCCL_ALGO", (), "the choice of algorithms is limited"),
    _Switch("NCCL_PROTO", (), "the choice of protocols is limited"),
)


@dataclass(frozen=True)
class Restriction:
    """A restriction, in ``words``, and its ``setting``, for example ``NCCL_NVLS_ENABLE=0``."""

    words: str
    setting: str

    def beside(self, match: Match) -> str:
        """Whether the reference was measured under the same restriction, in words."""
        if not self.setting.startswith(_MULTICAST) or match.reference.multicast is None:
            return "the reference does not report this setting"
        if match.reference.multicast:
            return "the reference was measured with it on"
        return "the reference was measured with it off too"


def restrictions(header: Header, operation: str, ccl: str) -> list[Restriction]:
    """The restrictions of a library's operation by the environment on any host of the run."""
    if ccl.rpartition(":")[2] not in _READ_BY:
        return []
    environments: list[Mapping[str, str]] = [
        header.environment,
        *(host.environment for host in header.hosts),
    ]
    found: dict[Restriction, None] = {}
    for switch in _SWITCHES:
        if switch.operations and operation not in switch.operations:
            continue
        if switch.between_hosts and len(header.hosts) < 2:
            continue
        for environment in environments:
            value = environment.get(switch.variable, "")
            if value and (value.upper() in switch.values or not switch.values):
                found[Restriction(switch.words, f"{switch.variable}={value}")] = None
    return list(found)
