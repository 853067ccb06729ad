"""The bandwidth of a host's memory, measured as the limit of copies between host devices."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark import _engine as engine
from cclmark.results.host_processors import largest_cache_bytes

_SAMPLES = 5
_TIMES_THE_CACHE = 4  # as STREAM requires, so that copies go to memory
_LEAST_BYTES = 16 << 20  # of each device
_LIMIT_S = 30.0


def memory_bytes_per_s(
    devices: Sequence[engine.Device], rank_group: engine.RankGroup, seed: int
) -> float:
    """Copies within the memory of every host device at once; returns the best total bandwidth.

    A collective call of ``rank_group``, whose ranks are on one host and have one device each. A
    copied byte counts once, though it is read and written. Returns 0 if memory for that is missing
    or a copy does not end in time.
    """
    number = rank_group.size
    share = _TIMES_THE_CACHE * largest_cache_bytes() // number
    size_bytes = max(_LEAST_BYTES, share) // 4096 * 4096
    transfers = engine.Transfers(list(devices), rank_group, seed)
    free_bytes = min(rank_group.gather([float(transfers.free_memory_bytes())]))
    if 4 * size_bytes * number > free_bytes:
        return 0.0
    transfers.reserve(size_bytes, 1)
    transfers.prepare(
        engine.Transfer(
            flows=[
                engine.Flow(
                    from_device=rank,
                    to_device=rank,
                    runner=rank,
                    far=engine.FarEnd.device,
                    to_host=False,
                    landing=0,
                    delay_s=0.0,
                )
                for rank in range(number)
            ],
            engine=engine.Engine.copy_engine,
            size_bytes=size_bytes,
            offset_bytes=0,
            blocks=0,
            threads=0,
            one_launch=False,
            staged=False,
        )
    )
    samples_s = []
    for _ in range(_SAMPLES + 1):
        times = transfers.run(1, _LIMIT_S)
        if any(times.timed_out):
            return 0.0
        samples_s.append(max(times.device_s))
    return size_bytes * number / min(samples_s[1:])  # the first one touches the pages
