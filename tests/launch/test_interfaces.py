"""Which interface leads where on this machine."""

import socket

from cclmark.rendezvous.interfaces import address_of, interface_towards, is_own


def test_addresses_of_ours_are_reached_from_here():
    assert interface_towards("127.0.0.1") == "lo"
    assert address_of("lo") == "127.0.0.1"
    assert is_own("127.0.0.1")
    addresses = {name: address_of(name) for _, name in socket.if_nameindex()}
    for address in filter(None, addresses.values()):
        # An address of one's own is reached through the kernel, from that address.
        assert addresses[interface_towards(address)] == address


def test_what_is_no_address_or_interface_leads_nowhere():
    for address in ("::1", "no-such-host.invalid", "300.1.1.1"):
        assert interface_towards(address) is None
    assert address_of("no-such-interface-of-any-host") is None
    assert not is_own("192.0.2.1")
