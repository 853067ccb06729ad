"""Counters, judged by their growth in an interval alone: errors, retransmissions, pauses."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence

from cclmark_fleet.hosts.check import (
    CannotTellError,
    Grade,
    HostCheck,
    Judged,
    NotApplicableError,
    Remedy,
    reboot,
    reset,
    service,
    setting,
)
from cclmark_fleet.hosts.host import Counters, Host
from cclmark_fleet.hosts.shipped_data import CounterLimit, table

_Z_99 = 2.326


def least_rate(count: int, interval_s: float) -> float:
    """The lower end of the one-sided 99 % interval of a Poisson rate, in 1/s (Wilson, Hilferty)."""
    if count <= 0 or interval_s <= 0:
        return 0.0
    root = 1 - 1 / (9 * count) - _Z_99 / (3 * math.sqrt(count))
    return count * max(root, 0.0) ** 3 / interval_s


def _excess(growth: int, limit: CounterLimit, interval_s: float) -> bool:
    """Whether a counter certainly grows faster than its limit; one event may be chance."""
    if limit.is_gauge:
        return False
    if limit.most == 0:
        return growth > 0
    return least_rate(growth, interval_s) > limit.most / limit.per_s


def _limit_text(limit: CounterLimit) -> str:
    if limit.is_gauge:
        return f"≤ {limit.most:g}"
    if limit.most == 0:
        return "no growth"
    if limit.name.startswith("time/"):  # µs, which are printed as a share
        return f"≤ {limit.most / 1e6 / limit.per_s:.0%} of the time"
    unit = {1.0: "s", 60.0: "min", 3600.0: "h"}.get(limit.per_s, f"{limit.per_s:g} s")
    return f"≤ {limit.most:,.10g}{_of(limit)}/{unit}"


def _of(limit: CounterLimit) -> str:
    """The unit behind a number; empty for counts."""
    return f" {limit.unit}" if limit.unit else ""


def _family(family: str, absent: str) -> Callable[[Host], Judged]:
    """Judges the counters of a family. ``absent``: why a host has none of them."""

    def judge(host: Host) -> Judged:
        counters = host.counters
        known = [key for key in counters.first if _limit_of(key[1], family)]
        if not known:
            raise NotApplicableError(absent)
        if not counters.interval_s or not any(key in counters.later for key in known):
            raise CannotTellError("counters were read once", "cclmark doctor --watch 10s")
        found = Judged()
        grades: set[Grade] = set()
        for limit, where, text in _exceeding(counters, family):
            grades.add(limit.grade)
            least = "not active" if text.endswith("active") else _limit_text(limit)
            found.see(where, text, least, ok=False)
            found.source = limit.source
        if not grades:
            found.see(f"{len(known)} counters", f"within limits over {counters.interval_s:.3g} s")
        found.grade = "bad" if "bad" in grades else "look"
        return found

    return judge


def _exceeding(counters: Counters, family: str) -> Iterator[tuple[CounterLimit, str, str]]:
    """The limit, the place and the text of each counter that grows too fast."""
    seconds = counters.interval_s
    for where, name, growth in counters.grown():
        limit = _limit_of(name, family)
        if limit is not None and _excess(growth, limit, seconds):
            kind, _, own = name.rpartition("/")
            if kind == "active":
                text = f"{own} became active"
            elif kind == "time":
                text = f"{own}: {min(growth / 1e6 / seconds, 1):.0%} of {seconds:.3g} s"
            else:
                text = f"{own} +{growth}{_of(limit)} in {seconds:.3g} s"
            yield limit, where, text
    for (where, name), first in counters.first.items():
        limit = _limit_of(name, family)
        if limit is not None and limit.is_gauge:
            least = min(first, counters.later.get((where, name), 0))
            if least > limit.most:
                yield limit, where, f"{name} {least} at both moments"


@functools.lru_cache(1 << 14)  # a host with 8 ports has thousands of counters with the same names
def _limit_of(name: str, family: str) -> CounterLimit | None:
    limits = (one for one in table("counters") if one.family == family)
    return next((one for one in limits if re.fullmatch(one.name, name)), None)


def _check(
    family: str, title: str, absent: str, cost: str, *fix: Remedy, certain: bool = True
) -> HostCheck:
    return HostCheck(
        *(family, title, _family(family, absent), cost, fix),
        "limits of growth: cclmark_fleet/hosts/data/counters.toml",
        certainty="certain" if certain else "likely",
        counters=True,
    )


_CABLE: Sequence[Remedy] = (
    reset("take the port down and up; clean and reseat the cable or the transceiver"),
    service("replace the cable, then the transceiver, then the port"),
)
_NO_RDMA = "no RDMA device with counters"
RDMA_ERRORS = _check(
    "rdma-errors",
    "errors of RDMA ports",
    _NO_RDMA,
    "packets are lost and sent again; the link may go down under load",
    *_CABLE,
)
RETRANSMISSIONS = _check(
    "rdma-retransmissions",
    "retransmissions of RDMA",
    _NO_RDMA,
    "each lost packet costs a timeout or sends a window again: RoCE loses most of its rate",
    setting("check PFC and ECN on the switches and the class of the traffic (NCCL_IB_TC)"),
    *_CABLE,
    certain=False,
)
CONGESTION = _check(
    "congestion",
    "congestion of RDMA (ECN, CNP)",
    _NO_RDMA,
    "senders are throttled: other jobs, incast, or routes that collide (C4: 30 % at 512 GPUs)",
    setting("adaptive routing or more queue pairs (NCCL_IB_QPS_PER_CONNECTION); move the job"),
    certain=False,
)
PAUSE = _check(
    "pause-frames",
    "pause frames of priorities (PFC)",
    "no counters of pause frames",
    "the port stands still: received pauses mean a slow peer, sent ones that this host is behind",
    setting("check PCIe and the class of the traffic on the host that sends the pauses"),
    certain=False,
)
GLOBAL_PAUSE = _check(
    "global-pause",
    "global pause frames (802.3x)",
    "no counters of global pause",
    "all traffic of the port stands still: 21.7 % of a 400 GbE port with every drop counter at 0 "
    "(NVIDIA/daqiri issue 250)",
    setting("ethtool -A INTERFACE rx off tx off, and PFC for the class of RDMA"),
)
STALLS = _check(
    "pcie-stalls",
    "requests of the network device that wait for PCIe",
    "no counters outbound_pci_stalled (mlx5)",
    "the path to memory is slower than the port",
    setting("check acs, iommu, pcie-width, pcie-bridges and gpu-network"),
    certain=False,
)
PCIE_ERRORS = _check(
    "pcie-errors",
    "errors of PCIe links (AER)",
    "no device with counters of AER",
    "packets are sent again; an uncorrectable error removes the device",
    reboot("drain the host and power it off and on"),
    service("reseat the device or its riser, then replace it"),
)
FLAPS = _check(
    "port-flaps",
    "network interfaces that go down and up",
    "no network device",
    "each flap interrupts connections: collectives time out after 20 s and more",
    *_CABLE,
)
NET_ERRORS = _check(
    "net-errors",
    "errors of Ethernet frames",
    "no network device",
    "frames are dropped and sent again",
    *_CABLE,
)
NVLINK_ERRORS = _check(
    "nvlink-errors",
    "errors of NVLinks",
    "no counters of NVLinks",
    "data is sent again; a recovery interrupts the link",
    reset("stop all programs and reset all GPUs together"),
    service("replace the GPU"),
)
THROTTLING = _check(
    "cpu-throttling",
    "throttling by the cgroup's quota",
    "no cgroup with counters",
    "ranks and proxies stand still for up to 100 ms: the slowest rank delays all",
    setting("raise the quota of the cgroup (the container's CPU limit), or remove it"),
)
GPU_SLOWDOWN = _check(
    "gpu-slowdown",
    "time that GPUs are slowed down",
    "nvidia-smi reports no times of slowdowns",
    "the GPU and with it every collective slows down, for moments that a snapshot misses",
    setting("check fans, inlet temperature, power supplies and the power cap of the rack"),
    reboot("drain and reboot the host"),
    service("replace the heat sink's paste, the power supply or the GPU"),
)
CPU_HEAT = _check(
    "cpu-heat",
    "throttling of processors by heat",
    "no counters of thermal throttling",
    "the clock falls: launches and proxies slow down and times vary",
    setting("check fans and the inlet temperature"),
    service("renew the thermal paste"),
)
MEMORY_ERRORS = _check(
    "memory-errors",
    "errors of host memory (EDAC)",
    "no counters of EDAC",
    "corrections take time; an uncorrectable error ends the host",
    reboot("drain the host and test its memory"),
    service("replace the module"),
)
CORRECTIONS = _check(
    "gpu-ecc-corrections",
    "corrected errors of accelerators' memory",
    "no counters of corrected errors",
    "memory that needs many corrections fails next: programs end",
    reset("stop all programs of the accelerator and reset it"),
    reboot("drain and reboot the host"),
    service("replace the accelerator"),
    certain=False,
)
MEMORY_PRESSURE = _check(
    "memory-pressure",
    "limit of the cgroup's memory",
    "no cgroup with counters",
    "allocations wait for pages to be freed, or processes are killed",
    setting("raise memory.max of the cgroup; /dev/shm counts, too"),
)
