"""A figure beside a reference: what share it is, and what it is compared with in words."""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.plan.libraries import title_of
from cclmark.plan.operations import OPERATIONS
from cclmark.references.reference import Reference, devices_text

# Below, a reference is of other processors as much as of other devices: it decides nothing.
LEAST_JUDGED_BYTES = 1 << 20
_LEAST_BUSBW = 1e9  # below, two digits behind the point say less than the time


@dataclass(frozen=True)
class Match:
    """A figure beside the reference that is nearest to it.

    ``reference`` is the figure that was taken, the nearer one of two that were interpolated.
    ``share``: what was measured over what was expected, in bandwidth; of latencies the other way
    round, so that less than 1 is worse. ``bandwidth``: what was expected, in bytes per second, 0
    of a latency; ``time_s``: how long that takes. ``size``: of the reference, in words.
    ``alike``: whether it is of the same library on as many devices, as far as it tells.
    ``differences``: what is known not to be the same. ``small``: whether it is of a message of less
    than LEAST_JUDGED_BYTES.
    """

    reference: Reference
    share: float
    bandwidth: float
    time_s: float
    size: str
    alike: bool
    differences: tuple[str, ...] = ()
    small: bool = False

    @property
    def judged(self) -> bool:
        """Whether the share says whether a figure is normal."""
        return self.exact and not self.small

    @property
    def exact(self) -> bool:
        """Whether nothing is known to differ."""
        return not self.differences

    @property
    def name(self) -> str:
        """What it is compared with, without the size: the same for every point of a curve."""
        return reference_name(self.reference)

    @property
    def name_and_differences(self) -> str:
        """The same with what is known to differ."""
        return "; differs: ".join(filter(None, [self.name, "; ".join(self.differences)]))

    @property
    def words(self) -> str:
        """The whole of it: ``4 × H200, nccl-tests 2.19.6, …, 1 GiB: 354 GB/s (differs: …)``."""
        place = f", {self.size}" if self.size else ""
        but = f" (differs: {'; '.join(self.differences)})" if self.differences else ""
        return f"{self.name}{place}: {self.figure}{but}"

    @property
    def figure(self) -> str:
        """What was expected, with its unit: of what takes no bandwidth the time."""
        if self.bandwidth < _LEAST_BUSBW:
            return f"{self.time_s * 1e6:.4g} µs"
        return f"{self.bandwidth / 1e9:.4g} GB/s"


def reference_name(reference: Reference, *, with_source: bool = True) -> str:
    """A reference in words, without its size and its figure."""
    hosts = f" on {reference.hosts} hosts" if reference.hosts > 1 else ""
    library = title_of(reference.library)
    multicast = {True: "multicast on", False: "multicast off", None: ""}[reference.multicast]
    own = reference.source.own
    words = [
        f'"{reference.source.title}"' if own and with_source else "",
        f"{devices_text(reference.devices)}{hosts}",
        reference.tool,
        f"{library} {reference.version}".strip(),
        multicast,
        "a floor" if reference.kind == "floor" else "",
        reference.source.title if with_source and not reference.tool and not own else "",
    ]
    return ", ".join(word for word in words if word)


def bandwidth_of(reference: Reference) -> float | None:
    """Bytes per second on the bus (of a copy: of all flows), from what the source gives.

    None where it gives too little. Small bandwidths come from the time, which has more digits.
    """
    given = reference.busbw_bytes_per_s
    if given is not None and (given >= _LEAST_BUSBW or reference.time_s is None):
        return given or None
    if reference.operation not in OPERATIONS or not reference.count:
        return given or None
    factor = OPERATIONS[reference.operation].bus_factor(reference.count)
    if reference.algbw_bytes_per_s is not None and reference.time_s is None:
        return reference.algbw_bytes_per_s * factor or None
    if reference.time_s and reference.size_bytes:
        return reference.size_bytes / reference.time_s * factor
    return given or None
