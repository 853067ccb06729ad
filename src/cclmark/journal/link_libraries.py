"""Vendors' own links between devices, their number and rates, from their management libraries.

Sources: the headers of MetaX's mxSML (mxSmlGetMetaXLinkInfo_v2, mxSmlGetMetaXLinkRemoteInfo), of
Moore Threads' MTML (MtmlMtLinkSpec, mtmlDeviceCountMtLinkLayouts), of Cambricon's CNDev
(cndevMLULinkSpeed_t, cndevMLULinkRemoteInfo_t) and of Enflame's EFML (efmlEslPortInfo_t,
efmlEslLinkInfo_t).
"""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec


class PairLinks(NamedTuple):
    """All links from one device to another. ``number``: 0 if only their rate is known."""

    number: int
    bytes_per_s: float


#: By the numbers that the vendor's library gives devices.
LinksByPair = Mapping[tuple[int, int], PairLinks]
_Rows = Iterator[tuple[int, int, int, float]]  # two devices, links and bytes per second of each

_MOST_LINKS = 64
_LIMIT_S = 10.0


class _MetaXLink(ctypes.Structure):
    _fields_ = (("gigatransfers_per_s", ctypes.c_float), ("lanes", ctypes.c_uint))


class _MetaXPeer(ctypes.Structure):
    _fields_ = (("device", ctypes.c_int), ("bdf", ctypes.c_char * 32))


class _MtLinks(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("gigabytes_per_s", ctypes.c_uint),
        ("most", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 4),
    )


class _MluLink(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("gigabytes_per_s", ctypes.c_float),
        ("format", ctypes.c_int),
    )


class _MluName(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("uuid", ctypes.c_ubyte * 37),
        ("board", ctypes.c_uint64),
    )


class _MluState(ctypes.Structure):
    _fields_ = (("version", ctypes.c_int), ("active", ctypes.c_int), ("rest", ctypes.c_int * 8))


class _MluPeer(ctypes.Structure):
    # The end is longer in some versions of the library, which writes the whole structure.
    _fields_ = (
        ("version", ctypes.c_int),
        ("serial_numbers", ctypes.c_uint64 * 2),
        ("slot_and_port", ctypes.c_uint32 * 2),
        ("address", ctypes.c_ubyte * 16),
        ("uuid", ctypes.c_ubyte * 37),
        ("rest", ctypes.c_ubyte * 1024),
    )


class _EslPort(ctypes.Structure):
    _fields_ = (
        ("connected", ctypes.c_uint32),
        ("uuid", ctypes.c_char * 16),
        ("vendor_and_device", ctypes.c_uint32 * 2),
        ("address", ctypes.c_uint32 * 4),  # PCI domain, bus, device, function
        ("port", ctypes.c_uint32 * 2),
        ("remote_card", ctypes.c_uint32),
        ("remote_uuid", ctypes.c_char * 16),
        ("remote_vendor_and_device", ctypes.c_uint32 * 2),
        ("remote_address", ctypes.c_uint32 * 4),
        ("remote_port", ctypes.c_uint32 * 2),
    )


class _EslLink(ctypes.Structure):
    _fields_ = (
        ("speed", ctypes.c_int),
        ("most_speed", ctypes.c_int),
        ("lanes", ctypes.c_int),
        ("most_lanes", ctypes.c_int),
    )


_CNDEV_VERSION = 5
#: Gigatransfers per second of a lane: of PCIe's generations, then of CCIX's extended speeds.
_ESL_SPEEDS = dict(enumerate((2.5, 5, 8, 16, 32), start=1))
_ESL_SPEEDS |= dict(enumerate((2.5, 5, 8, 16, 20, 25), start=0x10))


def links_between(runtime: str, numbers: Sequence[int]) -> LinksByPair:
    """The links between these devices of ``runtime``; pairs without are left out.

    Empty if the vendor has no such library, or if it is not installed or fails. A process of its
    own reads it: a vendor's library may crash, exit or hang.
    """
    if runtime not in _LIBRARIES:
        return {}
    command = [sys.executable, "-m", __name__, runtime, *map(str, numbers)]
    found: dict[tuple[int, int], PairLinks] = {}
    with suppress(OSError, subprocess.SubprocessError, msgspec.DecodeError):
        read = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=True
        )
        rows = msgspec.json.decode(read.stdout, type=list[tuple[int, int, int, float]])
        for one, other, number, rate in rows:
            if number > 0 and 0 < rate < math.inf and one != other:
                links, limit = found.get((one, other), (0, 0.0))
                found[one, other] = PairLinks(links + number, limit + number * rate)
    return found


def _read(runtime: str, numbers: Sequence[int]) -> list[tuple[int, int, int, float]]:
    for name, read in _LIBRARIES[runtime]:
        with suppress(OSError, AttributeError):  # no such library, or an older one
            return list(read(ctypes.CDLL(name), numbers))
    return []


def _metaxlinks(library: ctypes.CDLL, numbers: Sequence[int]) -> _Rows:
    if library.mxSmlInit() != 0:
        return
    for number in numbers:
        count, links = ctypes.c_uint(_MOST_LINKS), (_MetaXLink * _MOST_LINKS)()
        if library.mxSmlGetMetaXLinkInfo_v2(number, ctypes.byref(count), links) != 0:
            continue
        for place, link in enumerate(links[: count.value]):
            peer = _MetaXPeer()
            if library.mxSmlGetMetaXLinkRemoteInfo(number, place, ctypes.byref(peer)) == 0:
                yield number, peer.device, 1, link.gigatransfers_per_s * 1e9 * link.lanes / 8


def _mtlinks(library: ctypes.CDLL, numbers: Sequence[int]) -> _Rows:
    opened, devices = ctypes.c_void_p(), {}
    if library.mtmlLibraryInit(ctypes.byref(opened)) != 0:
        return
    for number in numbers:
        device = ctypes.c_void_p()
        if library.mtmlLibraryInitDeviceByIndex(opened, number, ctypes.byref(device)) == 0:
            devices[number] = device
    for number, device in devices.items():
        links = _MtLinks()
        if library.mtmlDeviceGetMtLinkSpec(device, ctypes.byref(links)) != 0:
            continue
        for other, peer in devices.items():
            count = ctypes.c_uint()
            if library.mtmlDeviceCountMtLinkLayouts(device, peer, ctypes.byref(count)) == 0:
                yield number, other, count.value, links.gigabytes_per_s * 1e9


def _mlulinks(library: ctypes.CDLL, numbers: Sequence[int]) -> _Rows:
    if library.cndevInit(0) != 0:
        return
    has_handles = hasattr(library, "cndevGetDeviceHandleByIndex")  # older ones take the index
    devices, names = {}, {}
    for number in numbers:
        device = ctypes.c_int(number)
        handle = ctypes.byref(device)
        if not has_handles or library.cndevGetDeviceHandleByIndex(number, handle) == 0:
            devices[number] = device
    for number, device in devices.items():
        name = _MluName(version=_CNDEV_VERSION)
        if library.cndevGetUUID(ctypes.byref(name), device) == 0:
            names[bytes(name.uuid)] = number
    for number, device in devices.items():
        for port in range(min(library.cndevGetMLULinkPortNumber(device), _MOST_LINKS)):
            state, link = _MluState(version=_CNDEV_VERSION), _MluLink(version=_CNDEV_VERSION)
            peer = _MluPeer(version=_CNDEV_VERSION)
            known = library.cndevGetMLULinkStatus(ctypes.byref(state), device, port) == 0
            known &= library.cndevGetMLULinkSpeedInfo(ctypes.byref(link), device, port) == 0
            known &= library.cndevGetMLULinkRemoteInfo(ctypes.byref(peer), device, port) == 0
            other = names.get(bytes(peer.uuid))
            if known and state.active and other is not None:
                yield number, other, 1, link.gigabytes_per_s * 1e9


def _esl(library: ctypes.CDLL, numbers: Sequence[int]) -> _Rows:
    if library.EfmlInit(ctypes.c_bool(False)) != 0:
        return
    addresses, ports = {}, []
    count = ctypes.c_uint32()
    if library.EfmlGetDevCount(ctypes.byref(count)) != 0 or count.value <= max(numbers):
        return
    for number in range(count.value):
        if library.EfmlGetEslPortNum(number, ctypes.byref(count)) != 0:
            continue
        for place in range(min(count.value, _MOST_LINKS)):
            port, link = _EslPort(), _EslLink()
            known = library.EfmlGetEslPortInfo(number, place, ctypes.byref(port)) == 0
            known &= library.EfmlGetEslLinkInfo(number, place, ctypes.byref(link)) == 0
            if known and port.connected:
                addresses[tuple(port.address)] = number
                ports.append((number, tuple(port.remote_address), link))
    for number, address, link in ports:
        speed = _ESL_SPEEDS.get(link.speed, 0.0)
        encoding = 0.8 if speed < 8 else 128 / 130  # PCIe's: 8b/10b, 128b/130b
        if address in addresses:
            yield number, addresses[address], 1, speed * encoding * link.lanes / 8 * 1e9


_Reader = Callable[[ctypes.CDLL, Sequence[int]], _Rows]
#: By runtime, the places of its management library in the order in which they are tried.
_LIBRARIES: dict[str, tuple[tuple[str, _Reader], ...]] = {
    "maca": (
        ("libmxsml.so", _metaxlinks),
        ("/opt/mxdriver/lib/libmxsml.so", _metaxlinks),
        ("/opt/maca/lib/libmxsml.so", _metaxlinks),
    ),
    "musa": (("libmtml.so", _mtlinks),),
    "cnrt": (
        ("libcndev.so", _mlulinks),
        ("/usr/local/neuware/lib64/libcndev.so", _mlulinks),
    ),
    "tops": (("libefml.so", _esl), ("/usr/lib/libefml.so", _esl)),
}

if __name__ == "__main__":
    found = _read(sys.argv[1], [int(word) for word in sys.argv[2:]])
    sys.stdout.buffer.write(msgspec.json.encode(found))
