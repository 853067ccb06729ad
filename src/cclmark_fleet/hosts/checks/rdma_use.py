"""What programs need for RDMA: devices with drivers, libraries, the selection, limits, plug-ins."""

from __future__ import annotations

import re
from collections import Counter

from cclmark_fleet.hosts.check import (
    CannotTellError,
    HostCheck,
    Judged,
    NotApplicableError,
    reboot,
    reset,
    service,
    setting,
)
from cclmark_fleet.hosts.host import NET, PCI, RDMA, Host, RdmaPort, amount, settings_of
from cclmark_fleet.hosts.host_probe import whole


def _devices(host: Host) -> Judged:
    _ = host.active_ports
    found = Judged()
    names = host.probe.entries("/dev/infiniband")
    has_verbs = any(name.startswith("uverbs") for name in names)
    found.see(
        "/dev/infiniband", "uverbs present" if has_verbs else "no uverbs", "uverbs", ok=has_verbs
    )
    if has_verbs:
        lines = host.probe.run("ibv_devinfo").text.splitlines()
        denied = [line.strip() for line in lines if "Failed to open device" in line]
        if denied:
            found.see("ibv_devinfo", denied[0][:80], "devices open", ok=False)
        library = _library(host, "libibverbs.so.1")
        found.see("libibverbs.so.1", library or "not found", "installed", ok=bool(library))
    return found


LIBRARY_PLACES = (
    *(
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/lib64",
        "/usr/lib",
    ),
    *("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/local/lib", "/opt/amazon/efa/lib"),
)


def _library(host: Host, name: str, others: tuple[str, ...] = ()) -> str:
    own = [part for part in host.probe.environment.get("LD_LIBRARY_PATH", "").split(":") if part]
    for place in (*own, *LIBRARY_PLACES, *others):
        if place.startswith("/") and host.probe.exists(f"{place}/{name}"):
            return f"{place}/{name}"
    return ""


DEVICES = HostCheck(
    "rdma-devices",
    "access to RDMA in this environment",
    _devices,
    "NCCL uses TCP without an error: 22 times slower between two nodes of 4 (CSCS, Alps)",
    (
        setting(
            "container: --device /dev/infiniband --ulimit memlock=-1, and libibverbs1 with "
            "ibverbs-providers in the image; where devices do not open: the mode of "
            "/dev/infiniband/uverbs*, and the cgroup's devices",
        ),
    ),
    "the host has active RDMA ports, so /dev/infiniband/uverbs* and libibverbs should be here",
)


def _driver(host: Host) -> Judged:
    """Devices on the bus that are no RDMA devices, although those of their type are."""
    if host.container:
        raise NotApplicableError("a container may see some of the devices")
    if host.ports and not host.probe.entries(RDMA):
        raise NotApplicableError("/sys/class/infiniband is not readable")
    found = Judged()
    own = {(one.vendor, one.device) for one in host.rdma_pci if one.vendor and one.device}
    known = {one.address for one in host.rdma_pci}
    for one in host.pci.values():
        is_fabric = one.kind.startswith("0207")  # InfiniBand; RoCE devices are Ethernet ones, too
        if not is_fabric and (one.vendor, one.device) not in own:
            continue
        driver = host.probe.resolved(f"{PCI}/{one.address}/driver").rpartition("/")[2]
        if driver == "vfio-pci" or host.probe.exists(f"{PCI}/{one.address}/physfn"):
            continue  # of a virtual machine, or a function that is not in use
        text = "an RDMA device" if one.address in known else f"no RDMA device{_by(driver)}"
        is_there = host.probe.text(f"{PCI}/{one.address}/revision") != "0xff"
        text = text if is_there else "does not answer on the bus"
        found.see(one.address, text, "an RDMA device", ok=is_there and one.address in known)
    if not found.signals:
        raise NotApplicableError("no RDMA device on the PCI bus")
    return found


def _by(driver: str) -> str:
    return f" of {driver}" if driver else ", no driver is bound"


DRIVER = HostCheck(
    "rdma-driver",
    "RDMA devices that are missing",
    _driver,
    "a rail is lost: one of eight costs 12.5 % of a host, and ring all-reduce up to 57 % (OptCC)",
    (
        setting("read the kernel's log of the address; modprobe mlx5_ib, or the vendor's module"),
        reset("echo 1 > /sys/bus/pci/devices/ADDRESS/remove, then /sys/bus/pci/rescan, as root"),
        reboot("drain the host and power it off and on"),
        service("replace the network device"),
    ),
    "the PCI bus beside /sys/class/infiniband",
    certainty="likely",
)


def _firmware(host: Host) -> Judged:
    boards: dict[str, dict[str, str]] = {}
    for port in host.rdma_ports:
        if version := host.probe.text(f"{RDMA}/{port.device}/fw_ver"):
            boards.setdefault(port.board, {})[port.device] = version
    found = Judged()
    for own in boards.values():
        usual = Counter(own.values()).most_common(1)[0][0]
        for device, version in own.items():
            text = f"firmware {version}"
            found.see(device, text, f"{usual}, as others of its board", ok=version == usual)
    if not found.signals:
        raise NotApplicableError("the devices report no firmware")
    return found


FIRMWARE = HostCheck(
    "rdma-firmware",
    "equal firmware of equal RDMA devices",
    _firmware,
    "the rails of a host differ in speed and in faults; collectives wait for the slowest",
    (setting("flint or mlxfwmanager: install one firmware on all devices, then restart them"),),
    "fw_ver in sysfs of devices with one board",
    grade="look",
    certainty="likely",
)


def _selected(wanted: str, ports: list[RdmaPort]) -> list[str]:
    """The devices of which a value of NCCL_IB_HCA selects a port."""
    is_out = wanted.startswith("^")
    chosen = [one.device for one in ports if _matches(wanted, one) != is_out]
    return sorted({*chosen})


def _matches(wanted: str, port: RdmaPort) -> bool:
    """Whether a port is one of those that a value names, each with or without its number."""
    is_exact = wanted.lstrip("^").startswith("=")
    for word in _names(wanted):
        name, _, number = word.partition(":")
        is_named = port.device == name if is_exact else port.device.startswith(name)
        if is_named and number in ("", port.port):
            return True
    return False


def _names(wanted: str) -> list[str]:
    return [one.strip() for one in wanted.lstrip("^=").split(",") if one.strip()]


def _hcas(host: Host) -> Judged:
    ports = host.active_ports
    devices = sorted({port.device for port in ports})
    own = settings_of(host)
    found = Judged()
    if wanted := own.get("NCCL_IB_HCA", ("", ""))[0].strip():
        used = _selected(wanted, ports)
        text = f"{wanted[:60]}: {len(used)} of {amount(len(devices), 'active device')}"
        least = _least(host, ports)
        is_ok = len(used) >= least
        limit = f"≥ {least}: one near each accelerator" if least > 1 else "≥ 1"
        found.see("NCCL_IB_HCA", text, limit, ok=is_ok)
        if used and not is_ok:
            found.grade, found.certainty = "look", "likely"
            found.cost = "accelerators share the selected devices; the other rails are not used"
        if wanted.startswith("="):
            for one in _names(wanted):
                is_there = any(_matches(f"={one}", port) for port in ports)
                text = f"{one[:40]} is {'active' if is_there else 'no active port'}"
                found.see("NCCL_IB_HCA", text, "active", ok=is_there)
    present = {*devices, *(port.device for port in host.ports), *host.probe.entries(NET)}
    present |= {f"{port.device}:{port.port}" for port in host.ports}
    for variable in ("UCX_NET_DEVICES", "NVSHMEM_HCA_LIST"):
        value = own.get(variable, ("", ""))[0].strip()
        names = [one for one in _names(value) if re.fullmatch(r"[\w.:-]+", one) and one != "all"]
        if names and not value.startswith("^"):
            is_there = any(one in present for one in names)
            text = f"{value[:60]}: {'exists' if is_there else 'no such device'}"
            found.see(variable, text, "a device of the host", ok=is_there)
    if not found.signals:
        raise NotApplicableError("no variable selects RDMA devices: all are used")
    return found


def _least(host: Host, ports: list[RdmaPort]) -> int:
    """How many devices a selection has to leave: those of the largest type, one per accelerator."""
    boards = Counter(port.board for port in {port.device: port for port in ports}.values())
    return max(1, min(max(boards.values()), host.visible_devices))


HCAS = HostCheck(
    "rdma-selection",
    "devices that variables select",
    _hcas,
    "rails are not used, or NCCL uses TCP: 22 times slower (CSCS, Alps)",
    (setting("unset NCCL_IB_HCA, or name devices that cclmark info lists as active"),),
    "documentation of NCCL_IB_HCA, UCX_NET_DEVICES; active ports in sysfs",
)


def _locked(host: Host) -> Judged:
    _ = host.rdma_ports
    row = re.search(
        r"^Max locked memory\s+(\S+)", host.probe.text("/proc/self/limits"), re.MULTILINE
    )
    if row is None:
        raise CannotTellError("/proc/self/limits is not readable")
    found = Judged()
    if host.may_lock_memory:
        found.see("this process", f"{row[1]}, with CAP_IPC_LOCK")
    else:
        size = whole(row[1])
        text = "unlimited" if size is None else f"{size >> 10} KiB"
        found.see(
            "this process", text, "unlimited", ok=row[1] == "unlimited" or (size or 0) >= 1 << 36
        )
    return found


LOCKED = HostCheck(
    "memlock",
    "limit of locked memory",
    _locked,
    "memory cannot be registered: NCCL fails or uses TCP",
    (
        setting(
            "ulimit -l unlimited: * soft/hard memlock unlimited in limits.conf, LimitMEMLOCK="
            "infinity of slurmd, --ulimit memlock=-1 of docker",
        ),
    ),
    "documentation of NCCL, troubleshooting; own limit: 64 GiB where it is not unlimited",
)


_PLUGIN_PLACES = (
    *("/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu", "/opt/amazon/ofi-nccl/lib/aarch64-linux-gnu"),
    *("/opt/amazon/ofi-nccl/lib", "/opt/aws-ofi-nccl/lib", "/usr/local/nvidia/lib64"),
    *("/usr/local/tcpx/lib64", "/usr/local/fastrak/lib64", "/usr/local/gib/lib64"),
)
_FABRIC_PLACES = ("/opt/amazon/efa/lib", "/opt/amazon/efa/lib64", "/usr/lib64", "/opt/cray/lib64")


def _efa(host: Host) -> Judged:
    fabrics = [one for one in host.ports if one.is_efa]
    has_slingshot = bool(host.probe.entries("/sys/class/cxi"))
    is_tcpx = _has_tcpx(host)
    if not fabrics and not has_slingshot and not is_tcpx:
        raise NotApplicableError(
            "no network that NCCL requires a plug-in for (EFA, Slingshot, GPUDirect-TCPX)"
        )
    found = Judged()
    name = "EFA" if fabrics else "Slingshot" if has_slingshot else "gVNIC"
    named = settings_of(host).get("NCCL_NET_PLUGIN", ("", ""))[0]
    if named.lower() == "none":
        found.see("NCCL_NET_PLUGIN", "none: NCCL loads no plug-in", "not set", ok=False)
        return found
    files = ["libnccl-net.so", "libnccl-net-ofi.so", "libnccl-net-aws-ofi.so"]
    if named:
        files = [named if named.endswith(".so") else f"libnccl-net-{named}.so", *files]
    places = [place for file in files if (place := _library(host, file) or _absolute(host, file))]
    folders = [f"{folder}/libnccl-net.so" for folder in _PLUGIN_PLACES]
    places += [path for path in folders if host.probe.exists(path)]
    text = places[0] if places else "no plug-in of NCCL found"
    found.see(name, text, "GPUDirect-TCPX" if is_tcpx else "aws-ofi-nccl", ok=bool(places))
    if fabrics and places:
        library = _library(host, "libfabric.so.1", _FABRIC_PLACES)
        found.see("libfabric.so.1", library or "not found", "installed", ok=bool(library))
    return found


def _has_tcpx(host: Host) -> bool:
    """Whether it is a machine of Google with a network interface for each of many GPUs."""
    cards = [one for one in host.pci.values() if one.vendor == "1ae0" and one.kind[:2] == "02"]
    return len(host.gpus) >= 4 and len(cards) >= 5 and not host.ports


def _absolute(host: Host, name: str) -> str:
    return name if name.startswith("/") and host.probe.exists(name) else ""


PLUGIN = HostCheck(
    "network-plugin",
    "NCCL's plug-in for the network",
    _efa,
    "NCCL uses TCP without an error: 22 times slower between two nodes of 4 (CSCS, Alps)",
    (
        setting(
            "install aws-ofi-nccl (EFA, Slingshot) or the provider's plug-in, and add its "
            "folder to LD_LIBRARY_PATH; NCCL_DEBUG=INFO shows "
            "the plug-in that NCCL loads",
        ),
    ),
    "EFA, Slingshot and GPUDirect-TCPX have no verbs that NCCL itself uses",
    certainty="likely",
)
