import os

import pytest
from msgspec.structs import replace

from cclmark.document.page.drawings import places_of_devices
from cclmark.journal.network_interfaces import network_interfaces, pci_path
from cclmark.journal.schema import NetworkInterface
from reports import COLLECTIVES

SWITCH = "pci0000:15/0000:15:01.0/0000:16:00.0"
HCA, GPU = "0000:18:00.0", "0000:19:00.0"
NIC = "0000:e1:00.1"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Sysfs:
    """A tree in which devices have their real paths, and classes and the bus refer to them."""

    def __init__(self, root):
        self.root = root

    def pci(self, path, numa_node):
        device = self.root / "devices" / path
        device.mkdir(parents=True)
        write(device / "numa_node", f"{numa_node}\n")
        self.link(f"bus/pci/devices/{device.name}", device)
        return device

    def link(self, name, target):
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(target, place.parent))

    def interface(self, name, device, **files):
        own = (device or self.root / "devices" / "virtual") / "net" / name
        for file, text in {"type": "1", "operstate": "up", **files}.items():
            write(own / file, f"{text}\n")
        if device is not None:
            (own / "device").symlink_to("../..")
        self.link(f"class/net/{name}", own)

    def rdma(self, name, device, *ports):
        own = device / "infiniband" / name
        for number, (state, rate, layer) in enumerate(ports, start=1):
            port = own / "ports" / str(number)
            write(port / "state", f"{state}\n")
            write(port / "rate", f"{rate}\n")
            write(port / "link_layer", f"{layer}\n")
        (own / "device").symlink_to("../..")
        self.link(f"class/infiniband/{name}", own)


@pytest.fixture
def sysfs(tmp_path):
    """A GPU and an InfiniBand device below one switch, a RoCE device, an Ethernet one, a VM's."""
    made = Sysfs(tmp_path)
    hca = made.pci(f"{SWITCH}/0000:17:02.0/{HCA}", 0)
    made.pci(f"{SWITCH}/0000:17:03.0/{GPU}", 0)
    roce = made.pci("pci0000:e0/0000:e0:01.0/0000:e1:00.0", 1)
    nic = made.pci(f"pci0000:e0/0000:e0:02.0/{NIC}", 1)
    virtio = made.pci("pci0000:00/0000:00:03.0", -1)
    made.rdma("mlx5_0", hca, ("4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"))
    made.rdma("mlx5_1", roce, *[("1: DOWN", "2.5 Gb/sec (1X SDR)", "Ethernet")] * 2)
    made.interface("ib0", hca, type="32", speed="400000")
    made.interface("eno1", nic, speed="25000")
    made.interface("eth0", virtio / "virtio2", speed="-1")
    made.interface("lo", None, type="772", operstate="unknown")
    made.interface("docker0", None, speed="10000")
    (tmp_path / "class/net/bonding_masters").write_text("")
    return tmp_path


def test_ports_with_rdma_come_first_and_virtual_interfaces_are_left_out(sysfs):
    assert network_interfaces(sysfs) == [
        NetworkInterface(
            *("mlx5_0", "InfiniBand", HCA, 0, 400e9, "active", ["ib0"]),
            ["pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:02.0"],
        ),
        *(
            NetworkInterface(
                *(name, "RoCE", "0000:e1:00.0", 1, 2.5e9, "down", []),
                ["pci0000:e0", "0000:e0:01.0"],
            )
            for name in ("mlx5_1", "mlx5_1:2")
        ),
        NetworkInterface(
            *("eno1", "Ethernet", NIC, 1, 25e9, "up", []), ["pci0000:e0", "0000:e0:02.0"]
        ),
        NetworkInterface("eth0", "Ethernet", "0000:00:03.0", -1, 0.0, "up", [], ["pci0000:00"]),
    ]
    assert pci_path(GPU, sysfs) == ["pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:03.0"]


def test_what_cannot_be_read_is_unknown(sysfs, tmp_path):
    assert network_interfaces(tmp_path / "absent") == []
    assert pci_path("0000:99:00.0", sysfs) == []
    for path in sysfs.rglob("rate"):
        path.unlink()
        path.mkdir()  # as unreadable as files of other users, also for root
    for path in [*sysfs.rglob("speed"), *sysfs.rglob("numa_node")]:
        path.write_text("\xff?")
    found = network_interfaces(sysfs)
    assert len(found) == 5
    assert {(one.rate_bits_per_s, one.numa_node) for one in found} == {(0.0, -1)}


def with_interfaces(sysfs):
    header = COLLECTIVES.header
    machine = replace(header.machine, interfaces=network_interfaces(sysfs), numa_nodes=2)
    devices = [
        replace(one, pci_bus_id=GPU, pci_path=pci_path(GPU, sysfs), numa_node=0)
        if one.rank == 0
        else replace(one, numa_node=1)
        for one in header.devices
    ]
    return replace(header, machine=machine, devices=devices)


def test_pages_draw_them_beside_the_devices_of_their_switch_and_node(sysfs):
    (drawn,) = places_of_devices(with_interfaces(sysfs))
    by_name = {one.label: one for one in drawn.boxes}
    assert list(by_name) == [
        *("NUMA node unknown", "eth0 Ethernet", "NUMA node 0", "PCIe switch 0000:16:00.0"),
        *("mlx5_0 (ib0) InfiniBand 400 Gb/s", "NUMA node 1"),
        *("mlx5_1 RoCE 2.5 Gb/s, down", "mlx5_1:2 RoCE 2.5 Gb/s, down"),
        "eno1 Ethernet 25 Gb/s",
    ]

    switch, node = by_name["PCIe switch 0000:16:00.0"], by_name["NUMA node 0"]
    assert node.x < switch.x < switch.x + switch.width < node.x + node.width
    assert switch.y + switch.height < node.y + node.height
    nodes = {one.label: one for one in drawn.nodes}
    assert len(nodes) == len(COLLECTIVES.header.devices)
    assert switch.y < nodes["0"].y < switch.y + switch.height
    for one in drawn.boxes:
        assert one.y + one.height <= drawn.height
        assert one.x + one.width <= drawn.width
