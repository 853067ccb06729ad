"""Transfers between real accelerators: ``pytest -m device tests/device``."""

import pytest

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("two_devices")]


@pytest.mark.parametrize("processes", ["0", "1"])
def test_every_means_moves_the_right_data(measured, processes):
    flags = ["-b", "12345K", "-k", "all", "-d", "write,read", "--max-time", "0.05"]
    results = measured("p2p", "-m", processes, *flags)[1].transfers
    assert {one.status for one in results} == {"ok"}
    checked = [one.verification for one in results if one.verification is not None]
    assert {(one.where, one.wrong) for one in checked} == {("device", 0)}


@pytest.mark.parametrize(
    "flags",
    [
        *(
            ["-b", size, "--buffer-offset", offset, "-k", "all", "-p", "uniBw", "-j", "1"]
            for size, offset in (("20", "12"), ("1000004", "8"))
        ),
        ["-a", "1", "-t", "CE", "-b", "16M"],  # without peer access
        ["--scope", "host", "-b", "16M", "-p", "uniBw"],
    ],
    ids=" ".join,
)
def test_odd_sizes_and_offsets_and_copies_by_way_of_the_host_are_right(measured, flags):
    results = measured("p2p", *flags, "--max-time", "0.02")[1].transfers
    assert {one.status for one in results if one.transfer.numa in ("", "near")} == {"ok"}


def test_times_are_those_of_the_links(measured):
    """More than a device's links carry in one direction would mean that times are wrong."""
    results = measured("p2p", "-p", "latency", "-d", "write,read", "-t", "SM")[1].transfers
    assert all(100e-9 < one.summary.time_s < 10e-6 for one in results)
    flags = ["-b", "128M", "-p", "uniBw", "--scope", "one-to-all,all-to-one", "--max-time", "0.1"]
    results = measured("p2p", *flags)[1].transfers
    assert max(one.summary.bytes_per_s for one in results) < 450e9


def test_a_corrupted_element_is_caught(measured):
    flags = ["-b", "64M", "-p", "uniBw", "--inject", "corrupt:pair=1-0,index=1000003"]
    results = measured("p2p", *flags, code=1)[1].transfers
    wrong = [one for one in results if one.status == "wrong"]
    assert {one.transfer.flows[0] for one in wrong} == {(1, 0)}
    assert wrong[0].verification.findings[0].first_element == 1000003
