"""The settings of the timed loop that the options of a command request."""

from __future__ import annotations

from cclmark.analysis.summary import usual_clock
from cclmark.cli import like
from cclmark.cli.communicator_options import parse_config
from cclmark.cli.option_values import check_limits, duration_of, size_of
from cclmark.cli.options import Flags
from cclmark.errors import UsageError
from cclmark.plan.libraries import AUTO_MEMORY, require_torch_devices
from cclmark.results.schema import Settings

_DEFAULT_END = {"host": "16M"}
_DEFAULT_END_OF_ACCELERATORS = "128M"
_REGISTRATIONS = ("none", "local", "symmetric")


def settings_of(
    flags: Flags, runtime: str, usual_factor: float = 2.0, usual_timing: str = "auto"
) -> Settings:
    """Creates the settings that the flags request. Raises UsageError."""
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    registration = flags.register or _REGISTRATIONS[0]
    if flags.register_number is not None:
        if flags.register and registration != _REGISTRATIONS[flags.register_number]:
            raise UsageError("-R and --register contradict each other")
        registration = _REGISTRATIONS[flags.register_number]
    if registration != "none" and runtime == "host":
        raise UsageError("buffers of the host require no registration: remove -R and --register")
    if flags.memory not in (None, "plain") and runtime == "host":
        raise UsageError(f"--memory {flags.memory}: buffers of the host are plain memory")
    if flags.memory == "torch":
        require_torch_devices(runtime)
    duration_s = duration_of("--duration", flags.duration)
    if duration_s and flags.cycles != 1:
        raise UsageError("--duration and -N exclude each other")
    if flags.summary_every and not duration_s:
        raise UsageError("--summary-every requires --duration")
    timing = _timing(flags, usual_timing, runtime)
    if flags.group > 1 and timing in ("blocking", "per-op"):
        raise UsageError(f"-m groups operations, but --timing {timing} times each operation alone")
    begin_bytes = size_of("-b", flags.begin)
    usual_end = like.largest_size(flags.like, runtime) or _DEFAULT_END.get(
        runtime, _DEFAULT_END_OF_ACCELERATORS
    )
    end_bytes = size_of("-e", flags.end or usual_end)
    if flags.step and flags.factor is not None:
        raise UsageError("-i (step) and -f (factor) exclude each other")
    factor = usual_factor if flags.factor is None else flags.factor
    return Settings(
        begin_bytes=begin_bytes,
        end_bytes=end_bytes if flags.end else max(begin_bytes, end_bytes),
        step_bytes=size_of("-i", flags.step) if flags.step else 0,
        factor=0.0 if flags.step else factor,
        timing=timing,
        across_ranks=flags.across,
        precision=flags.precision_percent / 100,
        max_time_s=flags.max_time_s,
        timeout_s=flags.timeout_s,
        iterations=flags.iterations,
        warmup=flags.warmup,
        group=flags.group,
        graph_launches=flags.graph or 1,
        check=flags.check,
        cycles=0 if duration_s else flags.cycles,
        duration_s=duration_s,
        registration=registration,
        memory="" if runtime == "host" else flags.memory or AUTO_MEMORY,
        cache=flags.cache,
        barrier=flags.barrier,
        # The host has one clock.
        clock="auto" if runtime == "host" or flags.clock == usual_clock(timing) else flags.clock,
        seed=flags.seed,
        inject=list(flags.inject),
        pattern=flags.pattern,
        config=parse_config(flags.config),
    )


def _timing(flags: Flags, usual: str, runtime: str) -> str:
    """Returns the timing that ``--timing``, ``-z`` and ``-G`` select together.

    ``auto`` is ``throughput`` on the host, which has no graphs.
    """
    asked = {
        flags.timing,
        "blocking" if flags.blocking else None,
        "graph" if flags.graph else None,
    } - {None}
    if len(asked) > 1:
        named = " and ".join(sorted(map(str, asked)))
        raise UsageError(f"--timing, -z and -G request different timings: {named}")
    timing = next(iter(asked), None) or usual
    return "throughput" if timing == "auto" and runtime == "host" else timing
