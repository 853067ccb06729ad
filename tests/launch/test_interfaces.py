"""Which interface leads where on this machine."""

import socket

import pytest

from cclmark.rendezvous.interfaces import address_of, interface_towards, is_own


def test_loopback_is_reached_by_loopback():
    assert interface_towards("127.0.0.1") == "lo"
    assert address_of("lo") == "127.0.0.1"
    assert is_own("127.0.0.1")


def test_every_address_of_ours_is_reached_from_here():
    addresses = {name: address_of(name) for _, name in socket.if_nameindex()}
    for address in filter(None, addresses.values()):
        # An address of one's own is reached through the kernel, from that address.
        assert addresses[interface_towards(address)] == address


@pytest.mark.parametrize("address", ["::1", "no-such-host.invalid", "300.1.1.1"])
def test_what_is_no_ipv4_address_leads_nowhere(address):
    assert interface_towards(address) is None


def test_a_name_that_is_no_interface_has_no_address():
    assert address_of("no-such-interface-of-any-host") is None
    assert not is_own("192.0.2.1")
