"""The noise of a case's median from run to run, used if there are too few runs to measure it.

Runs of one command differ by more than their samples do: a process keeps its initial level of
launches, and memory is placed elsewhere. The noise is a property of a machine. The values here were
measured on 4 × H200 of one host, and hold for such machines only: eleven runs of every operation in
two series, and four runs each of pairs, of copies, with torch, and timed one by one
(benchmarks/README.md, "Noise from run to run"; benchmarks/run_noise.py measures them again). For
another machine the noise is unknown, unless its history contains enough runs (OwnNoise).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cclmark.journal.schema import Header
from cclmark.work.cases import Case
from cclmark.work.operations import info_of
from cclmark.work.transfers import Transfer

LAUNCH_SHARE = 0.2  # of a time that launches determine: measured up to 18 %, with torch 12 to 31 %
LAUNCHES_UP_TO_S = 16e-6  # launches determine shorter times: operations follow no faster
# In-place operations of sends have two launches: one is a copy.
LAUNCHES_OF_SENDS_UP_TO_S = 24e-6
TORCH_LAUNCHES_UP_TO_S = 64e-6
# Of device times up to LAUNCHES_UP_TO_S, which contain no launch. Measured over 8 runs on each of
# two machines with 2 × H200: 0.2 to 1.3 % for single cases, at most 1.1 % for the cases of an
# operation together (root of the mean square), 1.2 % for a barrier.
SHARE_OF_DEVICE_TIMES = 0.01
SHARE = 0.006  # of any other time: measured up to 0.6 % from 20 us on
# Of operations composed of sends and receives, whose ranks get out of step: up to 2.5 %, once
# 4.1 %.
SHARE_OF_SENDS = 0.025
SHARE_OF_LATENCIES = 0.03  # of copies: below 1 %, a copy engine's reads 5 % from hour to hour
SHARE_OF_COPIES = 0.003  # measured below 0.05 %
# If the host launches each operation separately and waits for it, every time contains a launch.
LAUNCH_S = 1e-6
TORCH_LAUNCH_S = 5e-6
TORCH_BARRIER_S = 10e-6  # the delay between ranks after torch's barrier
SHARE_ONE_BY_ONE = 0.02
# The part of the variance that all cases of a run share: measured 47 and 66 % for times that
# launches determine, 3 to 26 % for most others.
SHARED_PART = 2 / 3

_ONE_BY_ONE = frozenset(("blocking", "per-op"))
_MEASURED_ON = "NVIDIA H200"
#: The largest size in bytes of each band of sizes, whose cases are judged together.
BANDS = ((32 << 10, "up to 32 KiB"), (1 << 20, "above 32 KiB to 1 MiB"), (math.inf, "above 1 MiB"))


@dataclass(frozen=True)
class RunNoise:
    """The standard deviation of a median from run to run.

    It is ``short_share`` of a time of up to ``short_up_to_s`` seconds. For a longer time it has two
    independent parts: ``share`` of the time, and ``launch_s`` seconds. ``freedom``: the degrees of
    freedom of a machine's own noise; None for the noise that is assumed.
    """

    share: float
    launch_s: float = 0.0
    short_share: float = 0.0
    short_up_to_s: float = 0.0
    freedom: int | None = None

    def variance(self, time_s: float) -> float:
        """The variance of the logarithm of a median of ``time_s`` seconds."""
        if time_s <= self.short_up_to_s:
            return self.short_share**2
        return self.share**2 + (self.launch_s / time_s) ** 2


LAUNCHES = RunNoise(LAUNCH_SHARE)  # of calls whose cost launches determine, however long


Clocked = Literal["call", "device"]  # the cost of a call, or the time of the device


class NoiseClass(NamedTuple):
    """The cases of a machine and method that have one noise: ``band`` is a name of BANDS."""

    clocked: Clocked
    operation: str
    ccl: str
    band: str


#: The noise that a history measured for the runs of one machine with one method.
OwnNoise = Mapping[NoiseClass, RunNoise]
OwnNoiseOf = Callable[[Header], OwnNoise]


def band_of(size_bytes: int) -> str:
    """The name of the band of a size."""
    return next(name for most, name in BANDS if size_bytes <= most)


def class_of(thing: Case | Transfer, *, device: bool) -> NoiseClass:
    """The class of a case or transfer; ``device``: of the time of the device."""
    clocked: Clocked = "device" if device else "call"
    return NoiseClass(clocked, thing.work, thing.library, band_of(thing.size_bytes))


def is_measured_machine(names: Iterable[str], hosts: int) -> bool:
    """Whether this module's values are of such a machine. ``names``: of its devices."""
    kinds = set(names)
    return kinds == {_MEASURED_ON} and hosts <= 1


def run_noise(
    thing: Case | Transfer, timing: str, barrier: str = "own", *, device: bool = False
) -> RunNoise:
    """The noise of ``thing`` on H200 of one host with the given timing and barrier.

    ``device``: the noise of the device's time, which contains no launch, instead of the cost of a
    call.
    """
    if isinstance(thing, Transfer):
        return RunNoise(SHARE_OF_LATENCIES if thing.measure == "latency" else SHARE_OF_COPIES)
    of_sends = info_of(thing.operation).of_sends
    of_torch = thing.ccl.startswith("torch:")
    if device:
        return RunNoise(
            SHARE_OF_SENDS if of_sends else SHARE,
            short_share=SHARE_OF_DEVICE_TIMES,
            short_up_to_s=LAUNCHES_UP_TO_S,
        )
    if timing in _ONE_BY_ONE:
        share = max(SHARE_ONE_BY_ONE, SHARE_OF_SENDS if of_sends else 0.0)
        torch_s = TORCH_BARRIER_S if barrier == "library" else TORCH_LAUNCH_S
        return RunNoise(share, launch_s=torch_s if of_torch else LAUNCH_S)
    up_to_s = LAUNCHES_OF_SENDS_UP_TO_S if of_sends else LAUNCHES_UP_TO_S
    return RunNoise(
        SHARE_OF_SENDS if of_sends else SHARE,
        short_share=LAUNCH_SHARE,
        short_up_to_s=TORCH_LAUNCHES_UP_TO_S if of_torch else up_to_s,
    )


def noise_in_words() -> str:
    """The assumed standard deviations in words."""
    return (
        f"{LAUNCH_SHARE:.0%} of times that launches set (up to {LAUNCHES_UP_TO_S * 1e6:g} µs, "
        f"{LAUNCHES_OF_SENDS_UP_TO_S * 1e6:g} µs of operations made of sends), "
        f"{SHARE_OF_DEVICE_TIMES:.0%} of device times as short as that, "
        f"else {SHARE:.1%}, or {SHARE_OF_SENDS:.1%} of operations made of sends, as seen on H200"
    )
