"""Transfers between real accelerators: ``pytest -m device tests/device``."""

import pytest

pytestmark = pytest.mark.device


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_every_means_moves_the_right_data(measured, processes):
    flags = ["-b", "12345K", "-k", "all", "-d", "write,read", "--max-time", "0.05"]
    results = measured("p2p", "-m", processes, *flags)[1].transfers
    assert {one.status for one in results} == {"ok"}
    checked = [one.verification for one in results if one.verification is not None]
    assert {one.where for one in checked} == {"device"}
    assert {one.wrong for one in checked} == {0}


@pytest.mark.usefixtures("two_devices")
def test_odd_sizes_and_offsets(measured):
    for size, offset in (("4", "4"), ("20", "12"), ("1000004", "8")):
        flags = ["-b", size, "--buffer-offset", offset, "-k", "all", "-p", "uniBw", "-j", "1"]
        results = measured("p2p", *flags, "--max-time", "0.02")[1].transfers
        assert {one.status for one in results} == {"ok"}


@pytest.mark.usefixtures("two_devices")
def test_many_at_once_share_what_a_link_carries(measured):
    """More than a device's links carry in one direction would mean that times are wrong."""
    flags = ["-b", "128M", "-p", "uniBw", "--scope", "one-to-all,all-to-one", "--max-time", "0.1"]
    results = measured("p2p", *flags)[1].transfers
    limits = {}
    for one in results:
        limits.setdefault(one.transfer.scope, []).append(one.summary.bytes_per_s)
    assert max(max(values) for values in limits.values()) < 450e9


@pytest.mark.usefixtures("two_devices")
def test_a_corrupted_element_is_caught(measured):
    flags = ["-b", "64M", "-p", "uniBw", "--inject", "corrupt:pair=1-0,index=1000003"]
    results = measured("p2p", *flags, code=1)[1].transfers
    wrong = [one for one in results if one.status == "wrong"]
    assert {one.transfer.flows[0] for one in wrong} == {(1, 0)}
    assert wrong[0].verification.findings[0].first_element == 1000003


@pytest.mark.usefixtures("two_devices")
def test_copies_without_peer_access_and_with_the_host(measured):
    results = measured("p2p", "-a", "1", "-t", "CE", "-b", "16M", "--max-time", "0.05")[1].transfers
    assert {one.status for one in results} == {"ok"}
    results = measured("p2p", "--scope", "host", "-b", "16M", "-p", "uniBw")[1].transfers
    assert {one.status for one in results if one.transfer.numa == "near"} == {"ok"}


@pytest.mark.usefixtures("two_devices")
def test_latencies_are_those_of_the_links(measured):
    results = measured("p2p", "-p", "latency", "-d", "write,read", "-t", "SM")[1].transfers
    for one in results:
        assert 100e-9 < one.summary.time_s < 10e-6
