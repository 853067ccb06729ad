"""Readings of a device's clock for a trace."""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.trace.rank_trace import ClockPair

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
