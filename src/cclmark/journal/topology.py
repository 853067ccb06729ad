"""The connections between devices, pair by pair."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from msgspec import structs

from cclmark.journal.link_libraries import LinksByPair, PairLinks, links_between
from cclmark.journal.schema import DeviceDescription, Link, Relation
from cclmark.work.runtimes import ACCELERATOR_RUNTIMES

UNKNOWN_LINK = "?"

# The meaning of each symbol, nearest first, in the words of nvidia-smi topo.
LEGEND = {
    "X": "the device itself",
    "NV#": "# NVLinks between the two, or from each to a switch",
    "ICN#": "# ICN links between the two, or from each to a switch",
    "MX": "MetaXLink between the two",
    "MT#": "# MTLinks between the two",
    "HCCS": "HCCS between the two",
    "HCCS_SW": "HCCS through a switch",
    "SIO": "the link between two dies of a chip",
    "MLK": "MLU-Links between the two",
    "XGMI": "xGMI links between the two",
    "XL": "XPULinks between the two",
    "ESL#": "# ESL links between the two",
    "PCIE": "PCIe",
    "PIX": "at most one PCIe bridge between them",
    "PXB": "several PCIe bridges, not the processor's",
    "PHB": "the processor's PCIe host bridge",
    "NODE": "several host bridges of one NUMA node",
    "SYS": "the link between NUMA nodes",
    "MEM": "the memory of one host",
    "NET": "the network between two hosts",
    "P2P": "peer access over an unknown path",
    UNKNOWN_LINK: "unknown",
}


@dataclass(frozen=True)
class TopologyTool:
    """A vendor's program that prints a matrix of how devices are connected.

    ``directories``: where it may be, besides PATH. ``matrix``: its arguments for the matrix.
    ``device``: the label of a device before its number. ``link``: the sign of the vendor's own
    links, which a number of links may follow. ``rates``: its arguments for a list of links with
    their rates in GB/s; ``bandwidths``: for a matrix of the least and the greatest bandwidth of
    pairs in MB/s; ``speeds``: for the speeds of the links of the device whose number follows, in
    Gb/s. All are empty if it has none. ``routed``: a copy between devices without a link takes all
    routes over one other device at once.
    """

    program: str
    matrix: tuple[str, ...]
    device: str
    link: str
    directories: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    bandwidths: tuple[str, ...] = ()
    speeds: tuple[str, ...] = ()
    routed: bool = False


# Hygon's program is one of rocm-smi's form; its newer versions call a device HCU.
_HYGON = [
    TopologyTool("hy-smi", ("--showtopotype",), label, "XGMI", ("/opt/hyhal/bin",))
    for label in ("HCU", "DCU")
]
#: By runtime; the first one that is found tells.
TOOLS = {
    "cudart": (
        TopologyTool("ppu-smi", ("topo", "-m"), "PPU", "ICN", rates=("icn", "-s"), routed=True),
        TopologyTool("ixsmi", ("topo", "-m"), "GPU", "IX", ("/usr/local/corex/bin",)),
        TopologyTool("xpu-smi", ("topo", "-m"), "XPU", "XL", ("/usr/local/xpu/bin",)),
        *_HYGON,
    ),
    "maca": (TopologyTool("mx-smi", ("topo", "-m"), "GPU", "MX", ("/opt/maca/bin",)),),
    "musa": (TopologyTool("mthreads-gmi", ("topo", "-m"), "GPU", "MT"),),
    "acl": (
        TopologyTool(
            *("npu-smi", ("info", "-t", "topo"), "NPU", "HCCS", ("/usr/local/sbin",)),
            speeds=("info", "-t", "hccs", "-c", "0", "-i"),
        ),
    ),
    "cnrt": (TopologyTool("cnmon", ("topo", "-m"), "MLU", "MLK", ("/usr/local/neuware/bin",)),),
    "hip": (
        TopologyTool(
            *("rocm-smi", ("--showtopotype",), "GPU", "XGMI", ("/opt/rocm/bin",)),
            bandwidths=("--shownodesbw",),
        ),
        *_HYGON,
    ),
}
_TOOL_LIMIT_S = 10.0
_MOST_OUTPUT = 1 << 20
_RATE = re.compile(r"^\s*Link\s+\d+:\s+([\d.]+)\s*GB/s\s*$", re.MULTILINE)
_SIGN = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,15}")
_BANDWIDTHS = re.compile(r"\d{1,9}-\d{1,9}")
_SPEEDS = re.compile(r"^\s*(?:hccs|xlink) link speed\s*:\s*\[([\d ]{1,400})\]", re.MULTILINE)
#: Links that only a vendor's library knows, by runtime.
_LIBRARY_LINKS = {"tops": "ESL"}

PciAddress = tuple[int, int, int]  # PCI domain, bus, device

_SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH


def relations_between(
    devices: Sequence[DeviceDescription],
    links: Sequence[Link],
    reach: set[tuple[int, int]] | None,
) -> list[Relation]:
    """Returns one relation for each ordered pair of ``devices``, by their numbers in the run.

    The devices are those of one host. ``reach``: the pairs with peer access, as the driver reports;
    None if unknown.
    """
    pairs = list(permutations((device.rank for device in devices), 2))
    if all(device.runtime == "host" for device in devices):
        return [Relation(*pair, "MEM", 1) for pair in pairs]
    if told := _from_tool(devices):
        if reach is None:
            return told
        if all(one.hops is None for one in told):
            return with_hops(told, reach)
        # A route over other devices' links may be accessible, too: it has several steps.
        for one in told:
            if not one.hops and (one.first, one.second) in reach:
                one.hops = 1  # not over the vendor's links
                one.kind = "P2P" if one.kind == UNKNOWN_LINK else one.kind
        return told
    try:
        relations = _from_nvml(devices, links)
    except Exception:  # the measurement can go on after any failure of NVML
        relations = [
            Relation(*pair, "P2P" if pair in (reach or ()) else UNKNOWN_LINK) for pair in pairs
        ]
    return relations if reach is None else with_hops(relations, reach)


def _from_tool(devices: Sequence[DeviceDescription]) -> list[Relation]:
    """The relations that a vendor's program or library tells, with the steps over its own links.

    Empty if there is none for these devices, or it does not tell all of them.
    """
    runtime = devices[0].runtime
    if any(device.runtime != runtime for device in devices):
        return []
    numbers = _numbers_of(devices, ACCELERATOR_RUNTIMES[runtime].visible_variables)
    if len({*numbers.values()}) < len(devices):
        return []  # each process sees one device, or devices are chosen by their UUIDs
    for tool in TOOLS.get(runtime, ()):
        places = os.pathsep.join([os.environ.get("PATH", os.defpath), *tool.directories])
        program = shutil.which(tool.program, path=places)
        if program is None:
            continue
        signs = parse_matrix(_output(program, tool.matrix), tool.device)
        if not signs.keys() >= {*permutations(numbers.values(), 2)}:
            continue
        linked = {
            pair: int(links[1] or 0)
            for pair, sign in signs.items()
            if (links := re.fullmatch(rf"{tool.link}(\d*)", sign))
        }
        rates = [float(text) for text in _RATE.findall(_output(program, tool.rates))]
        rate = min(rates, default=0.0) * 1e9
        found = _bandwidths(_output(program, tool.bandwidths), tool.device)
        found = found or _links_by_speed(program, tool, [*linked], {*numbers.values()})
        found = found or links_between(runtime, sorted({one for one, _ in signs}))
        own = {pair: found.get(pair, PairLinks(of, of * rate)) for pair, of in linked.items()}
        return _relations(numbers, signs, own, routed=tool.routed)
    if sign := _LIBRARY_LINKS.get(runtime):
        own = {**links_between(runtime, sorted(numbers.values()))}
        signs = {pair: f"{sign}{links.number}" for pair, links in own.items()}
        return _relations(numbers, signs, own) if own else []
    return []


def _relations(
    numbers: Mapping[int, int],
    signs: Mapping[tuple[int, int], str],
    links: Mapping[tuple[int, int], PairLinks],
    *,
    routed: bool = False,
) -> list[Relation]:
    """The relations of ranks, from those of all devices of the host by their ``numbers``.

    Steps, and limits of ``routed`` copies, are over all devices, used or not. Without links they
    are unknown.
    """
    everyone = {*numbers.values(), *(one for pair in signs for one in pair)}
    none = PairLinks(0, 0.0)
    of_all = []
    for pair in permutations(sorted(everyone), 2):
        number, bytes_per_s = links.get(pair, none)
        of_all.append(Relation(*pair, signs.get(pair, UNKNOWN_LINK), None, bytes_per_s, number))
    if links:
        of_all = with_hops(of_all, {*links})
    if routed:
        of_all = _with_routes(of_all)
    own = {(one.first, one.second): one for one in of_all}
    relations = []
    for first, second in permutations(numbers, 2):
        found = own[numbers[first], numbers[second]]
        relations.append(structs.replace(found, first=first, second=second))
    return relations


def _links_by_speed(
    program: str, tool: TopologyTool, linked: Sequence[tuple[int, int]], used: Collection[int]
) -> LinksByPair:
    """The links of pairs of ``used`` devices: one each, as in the meshes of Ascend's servers.

    The program tells the speeds of a device's links, but not where they end. Unknown if they
    differ, or are fewer than the peers.
    """
    if not tool.speeds:
        return {}
    peers = Counter(one for one, _ in linked)
    own: dict[int, int] = {}
    for device in sorted(peers.keys() & used):
        text = _SPEEDS.search(_output(program, (*tool.speeds, str(device))))
        if text is None:
            break  # a program that hangs would do so for each device
        speeds = [int(word) for word in text[1].split() if int(word)]
        if len({*speeds}) == 1 and len(speeds) >= peers[device]:
            own[device] = speeds[0]
    return {
        (one, other): PairLinks(1, min(own[one], own[other]) / 8 * 1e9)
        for one, other in linked
        if {one, other} <= own.keys()
    }


def _bandwidths(text: str, device: str) -> LinksByPair:
    """The greatest bandwidths of pairs, as rocm-smi prints those of links without a step."""
    cells = parse_matrix(text, device, _BANDWIDTHS)
    return {pair: PairLinks(0, float(cell.partition("-")[2]) * 1e6) for pair, cell in cells.items()}


def _output(program: str, arguments: Sequence[str]) -> str:
    """What the program prints, empty if it fails, hangs, or has no such arguments."""
    if not arguments:
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TOOL_LIMIT_S,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout[:_MOST_OUTPUT].decode(errors="replace")
    return ""


def parse_matrix(
    text: str, device: str, cell: re.Pattern[str] = _SIGN
) -> dict[tuple[int, int], str]:
    """The cells between devices in the matrix of a vendor's program, by their numbers.

    ``device``: the label of a device before its number, ``GPU`` of ``GPU0``. ``cell``: the pattern
    of cells. Other columns, of network interfaces and processors, are left out. Empty if there is
    no such matrix.
    """
    label = re.compile(rf"{re.escape(device)}(\d{{1,4}})")
    columns: list[int | None] = []
    signs: dict[tuple[int, int], str] = {}
    for line in text.splitlines():
        words = line.replace("|", " ").split()
        found = [label.fullmatch(word) for word in words]
        if not words or found[0] is None:
            continue
        if len(words) > 1 and found[1] is not None:  # the head, before columns of processors
            columns = [None if one is None else int(one[1]) for one in found]
            continue
        row = int(found[0][1])
        for column, word in zip(columns, words[1:], strict=False):
            if column is not None and column != row and cell.fullmatch(word):
                signs[row, column] = word
    return signs


def _numbers_of(
    devices: Sequence[DeviceDescription], variables: Sequence[str]
) -> Mapping[int, int]:
    """The numbers by which a vendor's program names devices: it ignores which are visible."""
    visible: list[int] = []
    for name in variables:
        if not (text := os.environ.get(name, "").strip()):
            continue
        entries = [entry.strip() for entry in text.split(",")]
        if not all(entry.isdecimal() for entry in entries):
            return {}  # by their UUIDs, which no matrix contains
        visible = [int(entry) for entry in entries]
        break
    return {
        device.rank: visible[device.index] if device.index < len(visible) else device.index
        for device in devices
    }


def relations_across(
    devices: Sequence[DeviceDescription], by_host: Sequence[Sequence[Relation]]
) -> list[Relation]:
    """Returns the relations of each host, and those between devices of different hosts.

    ``by_host``: relations of hosts; those of a host that did not describe them are unknown.
    """
    within = {(one.first, one.second): one for relations in by_host for one in relations}
    found = []
    for one, other in permutations(devices, 2):
        pair = (one.rank, other.rank)
        if one.host != other.host:
            found.append(Relation(*pair, "NET", 0))
        else:
            found.append(within.get(pair) or Relation(*pair, UNKNOWN_LINK))
    return found


def _from_nvml(devices: Sequence[DeviceDescription], links: Sequence[Link]) -> list[Relation]:
    """Returns the relations without hops."""
    import pynvml

    pynvml.nvmlInit()
    try:
        handles = {
            device.rank: pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id.encode())
            for device in devices
        }
        neighbours = {number: _nvlinks(pynvml, handle) for number, handle in handles.items()}
        places = {
            number: _place(pynvml.nvmlDeviceGetPciInfo(handle))
            for number, handle in handles.items()
        }
        relations = []
        for (first, one), (second, other) in permutations(handles.items(), 2):
            count = _links_between(neighbours, places, first, second)
            kind = f"NV{count}" if count else _ancestor(pynvml, one, other)
            limit = _limit(links, first, second, count)
            relations.append(Relation(first, second, kind, None, limit, count))
    finally:
        pynvml.nvmlShutdown()
    return relations


def with_hops(relations: Sequence[Relation], direct: set[tuple[int, int]]) -> list[Relation]:
    """Returns the relations with the number of steps over direct connections, 0 without a path."""
    numbers = sorted({one.first for one in relations})
    steps: dict[tuple[int, int], int] = {}
    for start in numbers:
        frontier, seen, distance = [start], {start}, 0
        while frontier:
            distance += 1
            frontier = [
                end
                for end in numbers
                if end not in seen and any((at, end) in direct for at in frontier)
            ]
            seen.update(frontier)
            steps.update({(start, end): distance for end in frontier})
    for one in relations:
        one.hops = steps.get((one.first, one.second), 0)
    return list(relations)


def _with_routes(relations: list[Relation]) -> list[Relation]:
    """Returns the relations with limits of pairs whose path has one device between them: the sum
    of those of the routes, one over each device that has links to both.
    """
    direct = {(one.first, one.second): one.limit_bytes_per_s for one in relations if one.hops == 1}
    numbers = {one.first for one in relations}
    for one in relations:
        if one.hops == 2:
            one.limit_bytes_per_s = sum(
                min(direct.get((one.first, at), 0.0), direct.get((at, one.second), 0.0))
                for at in numbers
            )
    return relations


def _place(information: Any) -> PciAddress:
    return int(information.domain), int(information.bus), int(information.device)


def _nvlinks(nvml: Any, handle: Any) -> list[PciAddress | None]:
    """Returns the other end of each active NVLink: a device's place, or None for a switch."""
    ends: list[PciAddress | None] = []
    for index in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, index) != nvml.NVML_FEATURE_ENABLED:
                continue
        except nvml.NVMLError:
            break
        try:
            if nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, index) == _SWITCH:
                ends.append(None)
                continue
        except nvml.NVMLError:
            pass
        ends.append(_place(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, index)))
    return ends


def _links_between(
    neighbours: dict[int, list[PciAddress | None]],
    places: dict[int, PciAddress],
    first: int,
    second: int,
) -> int:
    to_switch = min(neighbours[first].count(None), neighbours[second].count(None))
    return to_switch + neighbours[first].count(places[second])


def _ancestor(nvml: Any, first: Any, second: Any) -> str:
    level = nvml.nvmlDeviceGetTopologyCommonAncestor(first, second)
    signs = {
        nvml.NVML_TOPOLOGY_INTERNAL: "PIX",
        nvml.NVML_TOPOLOGY_SINGLE: "PIX",
        nvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
        nvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
        nvml.NVML_TOPOLOGY_NODE: "NODE",
        nvml.NVML_TOPOLOGY_SYSTEM: "SYS",
    }
    return signs.get(level, UNKNOWN_LINK)


def _limit(links: Sequence[Link], first: int, second: int, nvlinks: int) -> float:
    """Returns a pair's capacity in one direction: its NVLinks, else the narrower PCIe slot."""
    kind = "NVLink" if nvlinks else "PCIe"
    own = [link for link in links if link.kind == kind and link.device in (first, second)]
    if len(own) < 2:
        return 0.0
    if nvlinks:
        return nvlinks * min(link.rate_bytes_per_s for link in own)
    return min(link.count * link.rate_bytes_per_s for link in own)
