"""Rates of vendors' own links between devices, from their management libraries and programs.

Sources: the header of MetaX's mxSML (mxSmlGetMetaXLinkInfo_v2, mxSmlGetMetaXLinkRemoteInfo), of
Moore Threads' MTML (MtmlMtLinkSpec, mtmlDeviceCountMtLinkLayouts) and of Cambricon's CNDev
(cndevMLULinkSpeed_t, cndevMLULinkRemoteInfo_t), and the output of ``rocm-smi --shownodesbw``.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

#: Bytes per second of all links from one device to another, by the numbers that the vendor's
#: library gives devices.
Limits = Mapping[tuple[int, int], float]

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


_CNDEV_VERSION = 5


def link_limits(runtime: str, numbers: Sequence[int]) -> Limits:
    """The limits of links between these devices of ``runtime``; pairs without are left out.

    Empty if the vendor has no such library, or if it is not installed or fails. A process of its
    own reads it: a vendor's library may crash, exit or hang.
    """
    if runtime not in _LIBRARIES:
        return {}
    command = [sys.executable, "-m", __name__, runtime, *map(str, numbers)]
    with suppress(OSError, subprocess.SubprocessError, msgspec.DecodeError):
        read = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=True
        )
        rows = msgspec.json.decode(read.stdout, type=list[tuple[int, int, float]])
        return {(one, other): limit for one, other, limit in rows if 0 < limit < math.inf}
    return {}


def _read(runtime: str, numbers: Sequence[int]) -> Limits:
    for name, read in _LIBRARIES[runtime]:
        with suppress(OSError, AttributeError):  # no such library, or an older one
            return read(ctypes.CDLL(name), numbers)
    return {}


def _metaxlinks(library: ctypes.CDLL, numbers: Sequence[int]) -> Limits:
    limits: Counter[tuple[int, int]] = Counter()
    if library.mxSmlInit() != 0:
        return limits
    for number in numbers:
        count, links = ctypes.c_uint(_MOST_LINKS), (_MetaXLink * _MOST_LINKS)()
        if library.mxSmlGetMetaXLinkInfo_v2(number, ctypes.byref(count), links) != 0:
            continue
        for place, link in enumerate(links[: count.value]):
            peer = _MetaXPeer()
            if library.mxSmlGetMetaXLinkRemoteInfo(number, place, ctypes.byref(peer)) == 0:
                limits[number, peer.device] += link.gigatransfers_per_s * 1e9 * link.lanes / 8
    return limits


def _mtlinks(library: ctypes.CDLL, numbers: Sequence[int]) -> Limits:
    limits: dict[tuple[int, int], float] = {}
    opened, devices = ctypes.c_void_p(), {number: ctypes.c_void_p() for number in numbers}
    if library.mtmlLibraryInit(ctypes.byref(opened)) != 0:
        return limits
    for number, device in devices.items():
        if library.mtmlLibraryInitDeviceByIndex(opened, number, ctypes.byref(device)) != 0:
            return limits
    for number, device in devices.items():
        links = _MtLinks()
        if library.mtmlDeviceGetMtLinkSpec(device, ctypes.byref(links)) != 0:
            continue
        for other, peer in devices.items():
            count = ctypes.c_uint()
            found = library.mtmlDeviceCountMtLinkLayouts(device, peer, ctypes.byref(count))
            if other != number and found == 0:
                limits[number, other] = count.value * links.gigabytes_per_s * 1e9
    return limits


def _mlulinks(library: ctypes.CDLL, numbers: Sequence[int]) -> Limits:
    limits: Counter[tuple[int, int]] = Counter()
    if library.cndevInit(0) != 0:
        return limits
    devices = {number: ctypes.c_int(number) for number in numbers}
    if hasattr(library, "cndevGetDeviceHandleByIndex"):  # older ones take the index itself
        for number, device in devices.items():
            if library.cndevGetDeviceHandleByIndex(number, ctypes.byref(device)) != 0:
                return limits
    names = {}
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
                limits[number, other] += link.gigabytes_per_s * 1e9
    return limits


_Reader = Callable[[ctypes.CDLL, Sequence[int]], Limits]
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
}

if __name__ == "__main__":
    found = _read(sys.argv[1], [int(word) for word in sys.argv[2:]])
    rows = [(*pair, limit) for pair, limit in found.items()]
    sys.stdout.buffer.write(msgspec.json.encode(rows))
