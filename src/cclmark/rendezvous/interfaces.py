"""The addresses and network interfaces of this host."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct

_SIOCGIFADDR = 0x8915


def address_of(interface: str) -> str | None:
    """The IPv4 address of an interface, or the argument itself if it is an address of this host."""
    return interface if is_own(interface) else _ipv4_of(interface)


def interface_towards(address: str) -> str | None:
    """The interface to an IPv4 address, maybe of this host; None if unknown, and for others."""
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
    ):
        probe.connect((address, 9))  # sends nothing
        own = str(probe.getsockname()[0])
        return next((name for _, name in socket.if_nameindex() if _ipv4_of(name) == own), None)
    return None


def own_address_towards(address: str) -> str:
    """The address of this host from which packets to an address go; that itself if unknown."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # sends nothing
        return str(probe.getsockname()[0])
    return address


def is_own(address: str) -> bool:
    """Whether ``address`` is an address of this host."""
    try:
        family = socket.AF_INET if ipaddress.ip_address(address).version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except (OSError, ValueError):
        return False
    return True


def _ipv4_of(interface: str) -> str | None:
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control,
    ):
        asked = struct.pack("256s", interface.encode(errors="replace")[:15])
        return socket.inet_ntoa(fcntl.ioctl(control, _SIOCGIFADDR, asked)[20:24])
    return None
