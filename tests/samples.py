"""Values that several tests begin from."""

from __future__ import annotations

import msgspec

from cclmark.results.schema import Settings

_USUAL = Settings(
    begin_bytes=8,
    end_bytes=8,
    step_bytes=0,
    factor=2,
    timing="throughput",
    across_ranks="max",
    precision=0.02,
    max_time_s=1,
    timeout_s=60,
    iterations=None,
    warmup=None,
    group=1,
    graph_launches=1,
    check=1,
    cycles=1,
    registration="none",
    seed=1,
)


def usual_settings(**changes) -> Settings:
    """How a command without options measures, but for the sizes, with ``changes``."""
    return msgspec.structs.replace(_USUAL, **changes)
