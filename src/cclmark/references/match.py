"""A figure compared with a reference: its share, and the description of the reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Header
from cclmark.references.reference import Reference, devices_text
from cclmark.work.libraries import title_of
from cclmark.work.library_settings import settings_of
from cclmark.work.operations import OPERATIONS

# Below this size a reference depends on processors as much as on devices: it decides nothing.
LEAST_JUDGED_BYTES = 1 << 20
_OWN_TOOL = "cclmark"
# All of them print the mean over their iterations.
_LIKE_NCCL_TESTS = frozenset({"nccl-tests", "rccl-tests", "hccl_test", "flagcx"})
_COMMON_WORDS = frozenset({"of", "the", "perf", "benchmarks", "micro-benchmarks"})
_LEAST_BUSBW = 1e9  # below, two decimals are less precise than the time


@dataclass(frozen=True)
class Match:
    """A figure compared with the nearest reference.

    ``reference`` is the figure that was used, the nearer one of two that were interpolated.
    ``share``: the measured over the expected bandwidth, or the expected over the measured latency,
    so that less than 1 is worse. ``bandwidth``: the expected bytes per second, 0 for a latency.
    ``time_s``: the expected time. ``size``: of the reference, in words. ``alike``: whether the
    reference has the same library and the same number of devices, as far as it reports them.
    ``differences``: the known differences. ``small``: whether the message has less than
    LEAST_JUDGED_BYTES. ``by_device``: whether both figures are times of the devices, without the
    launches that determine the cost of a call.
    """

    reference: Reference
    share: float
    bandwidth: float
    time_s: float
    size: str
    alike: bool
    differences: tuple[str, ...] = ()
    small: bool = False
    by_device: bool = False

    @property
    def judged(self) -> bool:
        """Whether the share decides whether a figure is normal."""
        return self.exact and (self.by_device or not self.small)

    @property
    def exact(self) -> bool:
        """Whether there is no known difference."""
        return not self.differences

    @property
    def name(self) -> str:
        """The reference without its size: the same for every point of a curve."""
        return reference_name(self.reference)

    @property
    def name_and_differences(self) -> str:
        """The name with the known differences."""
        return "; differs: ".join(filter(None, [self.name, "; ".join(self.differences)]))

    @property
    def words(self) -> str:
        """The full words: ``4 × H200, nccl-tests 2.19.6, …, 1 GiB: 354 GB/s (differs: …)``."""
        place = f", {self.size}" if self.size else ""
        but = f" (differs: {'; '.join(self.differences)})" if self.differences else ""
        return f"{self.name}{place}: {self.figure}{but}"

    @property
    def figure(self) -> str:
        """The expected figure with its unit: a time for latencies and small bandwidths."""
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


def tool_difference(reference: Reference, header: Header) -> list[str]:
    """Returns the two tools of figures that different tools measured, none if this is unknown.

    Only for imported runs: another tool defines its figures in another way, except for programs
    derived from nccl-tests. The names of one tool may differ in their versions and additions, so
    one common word is enough.
    """
    imported = header.imported
    if imported is None or not reference.tool or imported.tool == _OWN_TOOL:
        return []
    there, here = _words_of(reference.tool), _words_of(imported.tool)
    if there & here or (there & _LIKE_NCCL_TESTS and here & _LIKE_NCCL_TESTS):
        return []
    return [f"a figure of {reference.tool} there, of {imported.source} here"]


def _words_of(tool: str) -> set[str]:
    words = re.findall(r"[\w.-]+", tool.lower())
    return {word for word in words if re.search(r"[a-z]", word)} - _COMMON_WORDS


def bandwidth_of(reference: Reference) -> float | None:
    """Bytes per second on the bus (of a copy: of all flows), from the figures of the source.

    None without the required figures. Small bandwidths are computed from the time, which has more
    digits.
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


def device_bandwidth_of(reference: Reference) -> float | None:
    """Bytes per second on the bus by the time of the devices; None if it is unknown."""
    if not reference.device_s or not reference.count or reference.operation not in OPERATIONS:
        return None
    factor = OPERATIONS[reference.operation].bus_factor(reference.count)
    return reference.size_bytes / reference.device_s * factor or None


_MOST_TIMES_CALL = 2.0  # the reference's time, for the cost of a call
_MOST_TIMES_DEVICE = 1.5  # for the device's own time beside the cost of a call
_MOST_TIMES_DEVICES = 1.1  # if both are times of devices


@dataclass(frozen=True)
class LatencyVerdict:
    """A small message compared with its reference.

    ``ratio`` is the judged time over the reference's, ``most`` the largest plausible ratio.
    ``time_s`` is the judged time, ``by_device`` whether it is the device's own time.
    """

    match: Match
    time_s: float
    ratio: float
    most: float
    by_device: bool

    @property
    def slow(self) -> bool:
        """Whether the time is longer than the band allows."""
        return self.ratio > self.most


def latency_verdict(
    result: CaseResult, time_s: float, match: Match | None
) -> LatencyVerdict | None:
    """Judges ``time_s`` of ``result`` by its reference, ``match``.

    None for a message that is large enough to be judged by bandwidth, and without a reference that
    was measured under the same conditions.
    """
    if match is None or not match.small or not match.exact or not match.alike or match.time_s <= 0:
        return None
    by_device = match.by_device or result.device is not None
    most = _MOST_TIMES_DEVICE if by_device else _MOST_TIMES_CALL
    return LatencyVerdict(
        match=match,
        time_s=time_s,
        ratio=time_s / match.time_s,
        most=_MOST_TIMES_DEVICES if match.by_device else most,
        by_device=by_device,
    )


_MULTICAST = "NCCL_NVLS_ENABLE"


@dataclass(frozen=True)
class Restriction:
    """A restriction, in ``words``, and its ``setting``, for example ``NCCL_NVLS_ENABLE=0``."""

    words: str
    setting: str

    def beside(self, match: Match) -> str:
        """Whether the reference was measured under the same restriction, in words."""
        if not self.setting.startswith(_MULTICAST) or match.reference.multicast is None:
            return "the reference does not report this setting"
        if match.reference.multicast:
            return "the reference was measured with it on"
        return "the reference was measured with it off too"


def restrictions(header: Header, operation: str, ccl: str) -> list[Restriction]:
    """The restrictions of a library's operation by the environment on any host of the run."""
    environments: list[Mapping[str, str]] = [
        header.environment,
        *(host.environment for host in header.hosts),
    ]
    found: dict[Restriction, None] = {}
    for setting in settings_of(ccl):
        if setting.between_hosts and len(header.hosts) < 2:
            continue
        for restricts in setting.restricts:
            if restricts.operations and operation not in restricts.operations:
                continue
            for environment in environments:
                value = environment.get(setting.name, "")
                if value and (value.upper() in restricts.values or not restricts.values):
                    found[Restriction(restricts.words, f"{setting.name}={value}")] = None
    return list(found)
