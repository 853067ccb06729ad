"""What differs between hosts is told before anything is measured."""

import json

import pytest
from msgspec.structs import replace

from cclmark.analysis.hosts import differences_between, unlike_devices
from cclmark.journal.machine import kept_environment
from cclmark.journal.schema import DeviceDescription, HostDescription, Machine
from places import TESTS

MACHINE = Machine("a", "Debian", "6.1", "EPYC", 8, 1 << 30, vendor_driver="580.1")
HOST = HostDescription(MACHINE, "id-a", {"NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "0"})
OWN = {**HOST.environment, "CUDA_VISIBLE_DEVICES": "1", "CCLMARK_INTERFACE": "eth1"}


def other(**changes):
    of_machine = {name: text for name, text in changes.items() if hasattr(MACHINE, name)}
    rest = {name: value for name, value in changes.items() if name not in of_machine}
    machine = replace(MACHINE, hostname="b", **of_machine)
    return replace(HOST, machine=machine, identity="id-b", **rest)


def test_hosts_that_are_alike_differ_in_nothing():
    assert differences_between([HOST, other(), other(clock_ahead_s=0.5)]) == []
    assert differences_between([HOST]) == []
    assert differences_between([HOST, other(environment=OWN)]) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vendor_driver": "570.2"}, "hosts differ in drivers: 580.1 on a, 570.2 on b"),
        ({"vendor_driver": ""}, "none on b"),
        ({"kernel": "5.15"}, "kernels"),
        ({"environment": {"NCCL_ALGO": "Tree"}}, "values of NCCL_ALGO: Ring on a, Tree"),
        ({"environment": {}}, "unset on b"),
        ({"clock_ahead_s": -7.0}, "clocks differ from a's: b by -7.0 s"),
    ],
)
def test_a_difference_is_told_once(changes, words):
    (text,) = differences_between([HOST, other(**changes)])
    assert words in text


@pytest.mark.parametrize("name", ["openmpi-4-2-hosts", "openmpi-2-hosts", "mpich-2-hosts"])
def test_what_a_launcher_tells_its_hosts_is_no_difference(name):
    captured = json.loads((TESTS / "launchers" / "environments.json").read_text())
    hosts = {one["hostname"]: one["environment"] for one in reversed(captured[name]["tasks"])}

    def differences(**more):
        here = replace(HOST, environment=kept_environment(hosts["alpha"]))
        there = other(environment=kept_environment({**hosts["beta"], **more}))
        return differences_between([here, there])

    assert differences() == []
    assert len(differences(OMPI_MCA_pml="ob1")) == 1


def test_many_hosts_are_told_by_number():
    hosts = [HOST, *(other(kernel="5.15") for _ in range(9))]
    assert differences_between(hosts) == ["hosts differ in kernels: 6.1 on a, 5.15 on hosts 1-9"]


def of_rank(rank, runtime="cuda", name="H200", max_clock_hz=1.98e9):
    device = DeviceDescription(rank, "a", runtime, 0, name, 150 << 30, driver_version="13.0")
    return replace(device, max_clock_hz=max_clock_hz)


def test_devices_that_differ_as_far_as_that_is_known():
    slower = of_rank(1, max_clock_hz=1.5e9, name="H20")
    assert unlike_devices([of_rank(0), slower, of_rank(2)]) == [
        "devices differ in names: H200 of ranks 0,2, H20 of ranks 1",
        "devices differ in highest clocks: 1980 MHz of ranks 0,2, 1500 MHz of ranks 1",
    ]
    for unknown in (of_rank(1, max_clock_hz=0.0), of_rank(1, "host", "EPYC")):
        assert unlike_devices([of_rank(0), unknown]) == []
