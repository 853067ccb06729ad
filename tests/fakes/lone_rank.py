"""One rank on a runtime that has no library here: what a session does with its device.

``python lone_rank.py RUNTIME COPY ORDER``: COPY is the runtime's function for a copy on a stream,
ORDER its arguments after the size, such as ``5,stream``. It stands in for the library. Prints what
was found as JSON.
"""

import ctypes
import json
import math
import os
import sys

from cclmark import _engine as engine

COUNT = 1 << 16


class Copies:
    """With one rank every operation is a copy."""

    own_stream = None

    def __init__(self, path: str, copy: str, order: str) -> None:
        self._copy = getattr(ctypes.CDLL(path), copy)
        self._order = order.split(",")

    def bind(self, operation, stream):
        count = operation.count
        last = [ctypes.c_void_p(stream) if word == "stream" else int(word) for word in self._order]

        def enqueue(send: int, receive: int) -> None:
            size = ctypes.c_size_t(4 * count)
            code = self._copy(ctypes.c_void_p(receive), ctypes.c_void_p(send), size, *last)
            if code != 0:
                raise engine.EngineError(f"the copy failed with {code}")

        return lambda send, receive: None, enqueue

    def route(self, collective: str) -> str:
        return f"a copy for {collective}"


def main() -> None:
    """Measures and checks, out of place and with the input put aside."""
    runtime, copy, order = sys.argv[1:]
    device = engine.open_device(runtime, 1)
    rank_group = engine.RankGroup(
        engine.RankGroupOptions(
            fd=os.memfd_create("rank-group"), rank=0, size=1, oversubscribed=True
        )
    )
    communicator = engine.adapt(Copies(device.info.library_path, copy, order))
    session = engine.Session(device, rank_group, communicator)
    session.reserve(4 * COUNT, 4 * COUNT, engine.BufferKind())
    found: dict[str, object] = {
        "devices": engine.device_count(runtime),
        "name": device.info.name,
        "pci_bus_id": device.info.pci_bus_id,
        "memory_bytes": device.info.memory_bytes,
        "free_bytes": device.free_memory_bytes(),
        "reach": engine.devices_reach(runtime, 0, 1),
        "checked_on_host": session.checked_on_host,
    }
    operation = engine.Operation(collective="alltoall", dtype="float32", count=COUNT)
    for name, in_place in (("out of place", False), ("in place", True)):
        session.prepare(operation, in_place, 1)
        samples = session.run(engine.Batch(timing=engine.Timing.throughput, iterations=4))
        (device_s,), (host_s,) = samples.device_s[0], samples.host_s[0]
        verdict = session.verify(None)
        caught = session.verify(9)
        found[name] = {
            "device_s": None if math.isnan(device_s) else device_s,
            "host_s": host_s,
            "wrong": [one.wrong for one in verdict.findings],
            "caught": [one.wrong for one in caught.findings],
            "route": session.route,
        }
    try:
        session.reserve(1 << 40, 1 << 40, engine.BufferKind())
    except engine.OutOfMemoryError as error:
        found["too much"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
