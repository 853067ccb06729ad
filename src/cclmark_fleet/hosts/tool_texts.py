"""Texts of tools and of the kernel as values. What a text does not have is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_MOST_DEPTH = 8


_NO_VALUE = ("N/A", "Not Supported")
_LOST = ("GPU requires reset", "GPU is lost")
_FAULTS = ("Unknown Error", "ERR!", *_LOST)


def _is_fault(value: str) -> bool:
    return value.strip("[]") in _FAULTS


class SmiSection(dict[str, str]):
    """Keys and values of one level of an indented text; ``parts``: the levels below, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, SmiSection] = {}

    def at(self, *names: str) -> str:
        """The value at a path of names; empty if it is missing or not available."""
        *sections, key = names
        own: SmiSection | None = self
        for name in sections:
            own = None if own is None else own.parts.get(name)
        value = "" if own is None else own.get(key, "")
        return "" if value.strip("[]") in _NO_VALUE or _is_fault(value) else value

    def fault(self, key: str) -> str:
        """What the driver answers in place of a value that it failed to read, else empty."""
        value = self.get(key, "")
        return value.strip("[]") if _is_fault(value) else ""

    def faults(self) -> list[str]:
        """The names of this section and of those below it whose value could not be read."""
        return [name for name, value in _flat(self) if _is_fault(value)]

    @property
    def is_lost(self) -> bool:
        """Whether the driver says so, or failed to read values of three or more sections."""
        if any(value.strip("[]") in _LOST for _, value in _flat(self)):
            return True
        return sum(bool(one.faults()) for one in self.parts.values()) >= 3

    def part(self, *names: str) -> SmiSection:
        """The first section of ``names`` that exists; an empty one without any."""
        return next((self.parts[name] for name in names if name in self.parts), SmiSection())


def parse_smi(text: str) -> dict[str, SmiSection]:
    """The GPUs of ``nvidia-smi -q`` by PCI address (0000:1b:00.0); the head is at ``""``.

    The meaning is by indentation, four columns for each level; keys recur on several levels.
    """
    head = SmiSection()
    found = {"": head}
    levels: list[tuple[int, SmiSection]] = [(-1, head)]
    for line in text.expandtabs().splitlines():
        depth = len(line) - len(line.lstrip())
        name, separator, value = (part.strip() for part in line.partition(" : "))
        if line.rstrip().endswith(" :"):
            name, separator, value = line.rstrip()[:-1].strip(), ":", ""
        if not name or name.startswith("="):
            continue
        if (gpu := re.fullmatch(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)", name)) and depth == 0:
            own = found.setdefault(pci_address(gpu[1]), SmiSection())
            levels = [(-1, head), (0, own)]
            continue
        while len(levels) > 1 and levels[-1][0] >= depth:
            levels.pop()
        if separator:
            levels[-1][1].setdefault(name, value)
        elif len(levels) < _MOST_DEPTH:
            levels.append((depth, levels[-1][1].parts.setdefault(name, SmiSection())))
    return found


def pci_address(text: str) -> str:
    """An address as sysfs has it: four digits of the domain, lower case."""
    domain, _, rest = text.strip().lower().rpartition(":")[0].partition(":")
    last = text.strip().lower().rpartition(":")[2]
    if not rest:  # 01:00, or 01:00.0 without a domain
        return f"0000:{domain}:{last}"
    return f"{domain[-4:].rjust(4, '0')}:{rest}:{last}"


class NvLink(NamedTuple):
    """A link of a GPU. ``rate_gbps``: 0 for an inactive one."""

    gpu: int
    link: int
    rate_gbps: float


_OF_GPU = re.compile(r"GPU (\d{1,3}): ")
_LINK = re.compile(r"\s*Link (\d{1,3}): (?:([\d.]{1,8}) GB/s|(<inactive>|inactive))")


def parse_nvlinks(text: str) -> list[NvLink]:
    """The links of ``nvidia-smi nvlink -s``; GPUs whose links are all inactive may have none."""
    found, gpu = [], -1
    for line in text.splitlines():
        if (head := _OF_GPU.match(line)) is not None:
            gpu = int(head[1])
        elif (link := _LINK.match(line)) is not None and gpu >= 0:
            found.append(NvLink(gpu, int(link[1]), _decimal(link[2] or "0")))
    return found


_NONE_ACTIVE = re.compile(r"all links are inactive", re.IGNORECASE)


def is_without_links(text: str) -> bool:
    """Whether ``nvidia-smi nvlink -s`` says that all links are inactive, of a GPU or of all."""
    return _NONE_ACTIVE.search(text) is not None


def inactive_gpus(text: str) -> list[int]:
    """The numbers of the GPUs of which it says so."""
    found, gpu = [], -1
    for line in text.splitlines():
        if (head := _OF_GPU.match(line)) is not None:
            gpu = int(head[1])
        if gpu >= 0 and is_without_links(line):
            found.append(gpu)
    return found


_LINK_ERROR = re.compile(r"\s*Link (\d{1,3}): ([A-Z][\w ]{1,40}): (\d{1,18})")


def parse_link_errors(text: str) -> dict[tuple[str, str], int]:
    """The counters of ``nvidia-smi nvlink -e``, by link (``GPU 0 link 3``) and name."""
    found: dict[tuple[str, str], int] = {}
    gpu = ""
    for line in text.splitlines():
        if (head := _OF_GPU.match(line)) is not None:
            gpu = head[1]
        elif (error := _LINK_ERROR.match(line)) is not None and gpu:
            found[f"GPU {gpu} link {error[1]}", error[2].strip()] = int(error[3])
    return found


def parse_smi_counters(gpus: Mapping[str, SmiSection]) -> dict[tuple[str, str], int]:
    """What grows in ``nvidia-smi -q``, by the GPU's address: replays, corrected errors, and
    µs of slowdowns.

    A reason of the clocks is 1 while it is active, as ``active/HW Thermal Slowdown``.
    """
    found: dict[tuple[str, str], int] = {}
    for address, own in gpus.items():
        pci = own.part("PCI")
        counts = {name: pci.at(name) for name in ("Replays Since Reset", "Replay Number Rollovers")}
        times = own.part("Clocks Event Reasons Counters", "Clocks Throttle Reasons Counters")
        counts |= {f"time/{name}": value for name, value in times.items()}
        volatile = own.part("ECC Errors").part("Volatile")
        names = ("SRAM Correctable", "DRAM Correctable")
        counts |= {f"volatile/{name}": volatile.at(name) for name in names}
        for name, text in counts.items():
            if (number := re.match(r"(\d{1,18})(?: us)?$", text)) is not None:
                found[address, name] = int(number[1])
        reasons = own.part("Clocks Event Reasons", "Clocks Throttle Reasons")
        for name, value in _flat(reasons):
            if value in ("Active", "Not Active"):
                found[address, f"active/{name}"] = int(value == "Active")
    return found


def _flat(section: SmiSection) -> Iterator[tuple[str, str]]:
    """Keys and values of a section and of those below it."""
    yield from section.items()
    for part in section.parts.values():
        yield from _flat(part)


_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,4}|(?:mlx|bnxt|irdma|rocep|ibp)\w{1,16}")
_TITLES = ("CPU", "NUMA", "GPU")  # of the columns of affinity


def parse_topology(text: str) -> dict[tuple[str, str], str]:
    """The cells of a matrix of ``nvidia-smi topo``, by the names of row and column.

    Columns of processors and of NUMA nodes are left out. Cells are separated by tabs and blanks.
    """
    columns: list[str] = []
    found: dict[tuple[str, str], str] = {}
    for line in re.sub("\x1b\\[[0-9;]*m", "", text).splitlines():
        words = line.split()
        if not words or not _DEVICE.fullmatch(words[0]):
            continue
        if all(_DEVICE.fullmatch(word) or word in _TITLES for word in words[1:2]):
            columns = columns or [word for word in words if _DEVICE.fullmatch(word)]
            if len(words) > 1 or len(columns) == 1:
                continue
        cells = zip(columns, words[1:], strict=False)
        found.update({(words[0], name): cell for name, cell in cells if cell != "X"})
    return found


class PortText(NamedTuple):
    """A port of ibstat, ibv_devinfo or rdma. Empty texts are unknown."""

    device: str
    port: str
    state: str = ""
    physical: str = ""
    rate: str = ""
    layer: str = ""
    active_mtu: str = ""
    max_mtu: str = ""


_FIELDS = {
    **{"state": "state", "physical state": "physical", "rate": "rate", "link layer": "layer"},
    **{"link_layer": "layer", "active_mtu": "active_mtu", "max_mtu": "max_mtu"},
}


def parse_ports(text: str) -> list[PortText]:
    """The ports of ``ibstat`` or ``ibv_devinfo``, also of an output that ends in an error."""
    device, port = "", ""
    fields: dict[str, str] = {}
    found: list[PortText] = []

    def complete() -> None:
        if device and port:
            found.append(PortText(device, port, **fields))

    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        head = re.match(r"\s*(?:CA '([^']{1,64})'|hca_id:\s*(\S{1,64}))", line)
        number = re.fullmatch(r"\s*(?:Port (\d{1,3}):|port:\s*(\d{1,3}))\s*", line)
        if head or number:
            complete()
            port, fields = "", {}
            device = (head[1] or head[2]) if head else device
            port = (number[1] or number[2]) if number else ""
        elif port and key.lower() in _FIELDS:
            fields[_FIELDS[key.lower()]] = value
    complete()
    return found


_RDMA_LINK = re.compile(
    r"(?:link\s+)?(?:\d+/\d+:\s+)?(?P<device>[\w.-]{1,64})/(?P<port>\d{1,3}):?\s+(?P<rest>.*)"
)


def parse_rdma_links(text: str) -> list[PortText]:
    """The ports of ``rdma link``, in the form of any version of iproute2."""
    found = []
    for line in text.splitlines():
        if (link := _RDMA_LINK.match(line.strip())) is not None:
            words = link["rest"].split()
            named = dict(zip(words[::2], words[1::2], strict=False))
            if state := named.get("state", ""):
                physical = named.get("physical_state", "")
                found.append(PortText(link["device"], link["port"], state, physical))
    return found


def parse_counters(text: str) -> dict[str, int]:
    """The counters of ``ethtool -S`` or ``hccn_tool``; names may have colons and brackets."""
    found = {}
    for line in text.splitlines():
        name, separator, value = (part.strip() for part in line.rpartition(":"))
        if separator and value.isascii() and value.isdecimal() and len(value) < 24:
            found[name] = int(value)
    return found


class LspciDevice(NamedTuple):
    """What ``lspci -vvv`` says of a device. ``capabilities``: a text by the name of a register."""

    address: str
    is_denied: bool
    registers: Mapping[str, str]


def parse_lspci(text: str) -> dict[str, LspciDevice]:
    """The devices of ``lspci -D -vvv``, with the registers of PCI Express."""
    found: dict[str, LspciDevice] = {}
    for block in re.split(r"\n(?=[0-9a-f]{2,8}:[0-9a-f.:]+ )", f"\n{text}"):
        first = block.strip().split("\n")[0].partition(" ")[0]
        if not re.fullmatch(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", first):
            continue
        registers: dict[str, str] = {}
        last = ""
        for line in block.splitlines()[1:]:
            name, separator, value = line.strip().partition(":")
            if separator and re.fullmatch(r"(?:Lnk|ACS|ATS|Dev)\w{2,8}", name):
                last = name
                registers.setdefault(name, value.strip())
            elif last:  # a register continues below
                registers[last] += f" {line.strip()}"
        address = pci_address(first)
        found[address] = LspciDevice(address, "access denied" in block, registers)
    return found


class KernelEvent(NamedTuple):
    """A line of the kernel's log. ``at_s``: since boot, None if the line has no time."""

    at_s: float | None
    text: str


_MOST_LINE = 512
_STAMP = re.compile(r"\[\s*(\d{1,12}\.\d{1,9})\]\s*(.*)")
# Of an instance of MIG: (PCI:0000:13:00 GPU-I:05 GPU-CI:00).
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,16})(?: [^)]{1,40})?\): (\d{1,4}),?\s*(.*)"
)
_SXID = re.compile(r"SXid \((?:PCI:)?([0-9a-fA-F:.]{4,16})\): (\d{1,6}),?\s*(.*)")
_RECOVERY = re.compile(r"changed from 0x\w{1,4} \([^)]*\) to (0x\w{1,4}) \(([^)]*)\)")
_LIMITED = re.compile(
    r"(\w{4,8}:\w\w:\w\w\.\d): ([\d.]{1,8}) Gb/s available PCIe bandwidth, limited by "
    r"([\d.]{1,5} GT/s \w{0,8} ?x\d{1,2}) link at (\S{1,16}) \(capable of ([\d.]{1,8}) Gb/s"
)


def parse_kernel_log(text: str) -> list[KernelEvent]:
    """The lines of ``dmesg`` or ``journalctl -k``, with the time since boot where they have it."""
    found = []
    for line in (one[:_MOST_LINE] for one in text.splitlines()):
        if (stamp := _STAMP.match(line.strip())) is not None:
            found.append(KernelEvent(float(stamp[1]), re.sub(r"^kernel: ", "", stamp[2])))
        elif line.strip():
            found.append(KernelEvent(None, line.strip()))
    return found


class XidEvent(NamedTuple):
    """An Xid or SXid. ``recovery``: of Xid 154, the code of the new action, else empty."""

    at_s: float | None
    address: str
    code: int
    text: str
    recovery: str = ""


def xids_of(events: list[KernelEvent]) -> Iterator[XidEvent]:
    """The errors of GPUs in the log."""
    for event in events:
        if (found := _XID.search(event.text)) is not None:
            changed = _RECOVERY.search(found[3]) if found[2] == "154" else None
            recovery = changed[1] if changed else ""
            address = found[1] if "." in found[1] else f"{found[1]}.0"
            yield XidEvent(event.at_s, pci_address(address), int(found[2]), found[3], recovery)


_FATAL = re.compile(r"(?<!non[ -])\bfatal\b", re.IGNORECASE)


def is_fatal(text: str) -> bool:
    """Whether an SXid, or an Xid of NVLink, says that it is fatal; ``Nonfatal`` is not."""
    return _FATAL.search(text) is not None


def sxids_of(events: list[KernelEvent]) -> Iterator[XidEvent]:
    """The errors of NVSwitches in the log."""
    for event in events:
        if (found := _SXID.search(event.text)) is not None:
            yield XidEvent(event.at_s, found[1], int(found[2]), found[3])


class LimitedPath(NamedTuple):
    """A device whose PCIe bandwidth the kernel reported as limited, in Gb/s."""

    address: str
    gbit: float
    link: str
    bridge: str
    capable_gbit: float


def limited_of(events: list[KernelEvent]) -> Iterator[LimitedPath]:
    """The devices that the kernel reported as limited; of several reports the last one."""
    found = {}
    for event in events:
        if (one := _LIMITED.search(event.text)) is not None:
            address = pci_address(one[1])
            found[address] = LimitedPath(
                address, _decimal(one[2]), one[3], pci_address(one[4]), _decimal(one[5])
            )
    yield from found.values()


def _decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
