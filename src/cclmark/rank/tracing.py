"""Readings of a device's clock for a trace."""

from __future__ import annotations

import cclmark._engine as engine
from cclmark.trace.rank_trace import ClockPair

_BATCHES = 9
_MOST_S = 2.0  # for those that are not in the trace

#: The phase in which they run.
PHASE = "tracing more batches"


def more_batches(agreement: engine.RankGroup, alike: int, batch_s: float) -> int:
    """The number of batches besides the ``alike`` ones of the trace; the same on all ranks.

    ``batch_s``: the time of one on this rank. Long batches are not repeated.
    """
    longest_s = max(agreement.gather([batch_s]))
    return max(0, min(_BATCHES - alike, int(_MOST_S / max(longest_s, 1e-9))))


_ROUNDS = 256


def read_clock(device: engine.Device) -> tuple[list[ClockPair], str]:
    """Readings of the device's clock; none with the reason. Raises AbortedError."""
    try:
        samples = engine.sample_clock(device, _ROUNDS)
    except engine.AbortedError:
        raise
    except engine.EngineError as error:
        return [], str(error)
    return [ClockPair(one.before_ns, one.device_ns, one.after_ns) for one in samples], ""
