"""Network interfaces in a sysfs that is made here, and what pages show of them."""

import dataclasses
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.document.naming import NamedRun
from cclmark.document.page.drawings import places_of_devices
from cclmark.document.page.page import render
from cclmark.journal.network_interfaces import network_interfaces, pci_path
from cclmark.journal.schema import DeviceDescription, NetworkInterface
from cclmark.journal.topology import TOOLS, parse_matrix, relations_between
from cclmark.report.run_page import page_of
from places import TESTS
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
    assert by_name["NUMA node 1"].y < nodes["1"].y
    for one in drawn.boxes:
        assert one.y + one.height <= drawn.height
        assert one.x + one.width <= drawn.width
    journal = dataclasses.replace(COLLECTIVES, header=with_interfaces(sysfs))
    assert "mlx5_0 (ib0) InfiniBand 400 Gb/s" in render(page_of([NamedRun("", journal)]))


# How devices are connected, as vendors' programs print it.


#: What vendors' programs print.
PPU, LINKS, NPU, MX, ROCM = (
    (TESTS / "journal" / "topologies" / f"{name}.txt").read_text()
    for name in ("ppu", "ppu-links", "npu", "mx", "rocm")
)


def devices(runtime: str, indices: list[int]) -> list[DeviceDescription]:
    return [
        DeviceDescription(rank, "h", runtime, index, "device", 1 << 30)
        for rank, index in enumerate(indices)
    ]


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Installs a vendor's program that prints the texts by its last argument."""

    def install(name: str, texts: dict[str, str], code: int = 0) -> None:
        for argument, text in texts.items():
            (tmp_path / f"{name}.{argument}").write_text(text)
        file = tmp_path / name
        file.write_text(f'#!/bin/sh\nfor last; do :; done\ncat "$0.$last"\nexit {code}\n')
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return install


@pytest.mark.parametrize(
    ("text", "label", "pair", "sign", "number"),
    [
        (PPU, "PPU", (1, 2), "ICN1", 12),
        (NPU, "NPU", (1, 2), "SYS", 6),
        (MX, "GPU", (0, 1), "MX", 2),
        (ROCM, "GPU", (1, 0), "XGMI", 2),
        ("", "GPU", (0, 1), None, 0),
        ("GPU0 X MX\n", "GPU", (0, 1), None, 0),
    ],
)
def test_matrices_of_vendors(text, label, pair, sign, number) -> None:
    signs = parse_matrix(text, label)
    assert (signs.get(pair), len(signs)) == (sign, number)


def test_links_of_ppus_have_steps_and_limits(program, monkeypatch) -> None:
    program("ppu-smi", {"-m": PPU, "-s": LINKS})
    reach = {(one, other) for one in range(4) for other in range(4) if one != other}
    found = {
        (one.first, one.second): (one.kind, one.hops, one.limit_bytes_per_s)
        for one in relations_between(devices("cudart", [0, 1, 2, 3]), [], reach)
    }
    assert found[0, 1] == ("ICN2", 1, 100e9)
    assert found[1, 2] == ("ICN1", 1, 50e9)
    assert found[0, 2] == ("SYS", 2, 0.0)  # over another device's links
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,2")
    [one, _] = relations_between(devices("cudart", [0, 1]), [], {(0, 1), (1, 0)})
    assert one.kind == "ICN2"


@pytest.mark.parametrize(
    ("texts", "code"),
    [({"-m": PPU, "-s": LINKS}, 1), ({"-m": "no devices\n"}, 0), ({}, 0), ({"-m": PPU[:120]}, 0)],
)
def test_without_a_matrix_connections_are_unknown(program, texts, code) -> None:
    program("ppu-smi", texts, code)
    found = relations_between(devices("cudart", [0, 1]), [], {(0, 1)})
    assert [one.kind for one in found] == ["P2P", "?"]


@given(st.text(alphabet="GPUX0123 ICN\t|\n-:é", max_size=400))
def test_no_text_is_too_odd(text) -> None:
    for tools in TOOLS.values():
        for tool in tools:
            signs = parse_matrix(text, tool.device)
            assert all(one != other for one, other in signs)
