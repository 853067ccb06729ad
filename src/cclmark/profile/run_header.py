"""The header of a journal whose operations cclmark did not run itself."""

from __future__ import annotations

from cclmark.results.schema import Settings


def unmeasured_settings(timing: str) -> Settings:
    """The settings of a run without a timed loop. ``timing``: how times were obtained."""
    return Settings(
        begin_bytes=0,
        end_bytes=0,
        step_bytes=0,
        factor=0.0,
        timing=timing,
        across_ranks="",
        precision=0.0,
        max_time_s=0.0,
        timeout_s=0.0,
        iterations=None,
        warmup=None,
        group=1,
        graph_launches=1,
        check=0,
        cycles=1,
        registration="",
        seed=0,
        barrier="",
        clock="device",
    )
