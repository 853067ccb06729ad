"""Logs of the NCCL plug-in as it writes them, see engine/plugin/event_log.hpp."""

import struct

HEADER_BYTES, RECORD_BYTES = 4096, 128
_LOSSES_AT = 3208
COMMUNICATOR, COLLECTIVE, MESSAGE, CALL = 1, 2, 3, 4
CHANNEL, PROXY, STEP, STOP, STATE, COSTS = 8, 9, 10, 11, 12, 13
ALL_REDUCE = ("AllReduce", "RING", "LL", "ncclFloat32")


def record(
    kind,
    *,
    rank=0,
    communicator=7,
    time_ns=0,
    parent=0,
    sequence=0,
    count=0,
    device_ns=0,
    root=0,
    channels=0,
    texts=("", "", "", ""),
):
    """An event. ``texts``: function, algorithm, protocol and type."""
    numbers = (rank, communicator, time_ns, parent, sequence, count, device_ns, root, channels, 16)
    return struct.pack("<Ii6QiHH20s16s12s16s", kind, *numbers, *(text.encode() for text in texts))


def log(
    *records,
    capacity=1 << 20,
    claimed=None,
    dropped=0,
    interface=5,
    library=22809,
    others=b"",
    losses=(0, 0),
    lost_parents=0,
    run=b"",
):
    """A file. ``losses``: the events that claimed no place, and why the file could not grow."""
    claimed = len(records) if claimed is None else claimed
    head = struct.pack(
        "<8sII6qI64s",
        *(b"CCLMLOG1", RECORD_BYTES, interface, capacity, claimed, dropped, 42, 5, 6, library),
        b"node",
    )
    head = (head + others).ljust(_LOSSES_AT, b"\0")
    head += struct.pack("<QiI40s", *losses, lost_parents, run)
    return head.ljust(HEADER_BYTES, b"\0") + b"".join(records)
