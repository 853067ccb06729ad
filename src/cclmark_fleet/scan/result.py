"""The results of scans in journals, and what rank 0 has to know of a fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cclmark.journal.item_results import Result, UncheckedResult
from cclmark.work.counts import Count, Elapsed, NotNegative
from cclmark.work.items import Status
from cclmark_fleet.scan.fleet_shape import FleetShape
from cclmark_fleet.scan.plan import ScanRound


class GroupTest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pair, or a larger group. ``devices``: their numbers in the run.

    ``rates_bps``: by size, 0 where nothing was measured: of a pair what it sends in each direction
    at once, of a group its bus bandwidth. ``forward_bps``, ``back_bps``: of a pair, one direction
    alone. ``latency_s``, ``latency_p99_s``: of a message of 8 bytes. ``spread`` and ``tail``: the
    95th and the 99th percentile of the times of the largest size over their median, less 1.
    ``low_bps``, ``high_bps``: the slowest and the fastest sample. ``is_wrong``: data were.
    """

    devices: list[Count]
    rates_bps: list[NotNegative]
    forward_bps: NotNegative = 0.0
    back_bps: NotNegative = 0.0
    latency_s: NotNegative = 0.0
    latency_p99_s: NotNegative = 0.0
    spread: NotNegative | None = None
    tail: NotNegative | None = None
    low_bps: NotNegative = 0.0
    high_bps: NotNegative = 0.0
    is_wrong: bool = False

    @property
    def rate_bps(self) -> float:
        """Of the largest size."""
        return self.rates_bps[-1]


class DeviceState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What slowed a device down during a round, as its host says. ``is_thermal``: heat or power."""

    device: Count
    text: str
    is_thermal: bool = False


class FailedDevice(msgspec.Struct, frozen=True):
    """A device that was left out, and why."""

    device: Count
    reason: str


class ScannedFleet(msgspec.Struct, omit_defaults=True):
    """``floors_bps``: see FleetEvidence. ``accepted_at``: when, empty if they were not accepted.

    ``rates_bps``: of the nodes at that time, by name.
    """

    shape: FleetShape
    floors_bps: dict[str, NotNegative] = {}
    floor_source: str = ""
    accepted_at: str = ""
    rates_bps: dict[str, NotNegative] = {}

    @property
    def is_consistent(self) -> bool:
        """Whether the groups of all devices have names."""
        shape = self.shape
        parts = [(shape.node_of, shape.node_names)]
        parts += [(one.of, one.names) for one in shape.groupings]
        return shape.devices > 0 and all(
            len(of) == shape.devices and all(0 <= one < len(names) for one in of)
            for of, names in parts
        )


class ScanResult(UncheckedResult[ScanRound], tag="scan", omit_defaults=True):
    """A round. ``failed``: the devices that were left out of it.

    ``fleet``: its nodes, racks and switches, and its floors, of the first round. ``reason``: also
    the verdict, in the last round, whose status is failed if it blames something.
    """

    index: Count
    scanned: ScanRound
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: Elapsed = 0.0
    tests: list[GroupTest] = []
    states: list[DeviceState] = []
    failed: list[FailedDevice] = []
    fleet: ScannedFleet | None = None
    report: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether there are figures, or a verdict of figures."""
        return bool(self.tests) or self.status in ("ok", "failed")

    @property
    def is_consistent(self) -> bool:
        """Whether tests have two devices or more and a rate of each size."""
        sizes = len(self.scanned.sizes)
        return all(
            len({*one.devices}) == len(one.devices) > 1 and len(one.rates_bps) == sizes
            for one in self.tests
        ) and (self.fleet is None or self.fleet.is_consistent)


class KnownFleet(msgspec.Struct):
    """What rank 0 has to know. ``budget_s``: 0 for none. ``network_gbit``: 0 if unknown.

    ``is_complete``: all rounds are measured, also once the verdict is certain.
    ``devices``: the number in the run of the device of each rank. ``earlier``: results so far.
    """

    fleet: ScannedFleet
    budget_s: float = 0.0
    network_gbit: float = 0.0
    is_complete: bool = False
    devices: list[Count] = []
    failed: list[FailedDevice] = []
    earlier: list[ScanResult] = []


def carried(
    attachment: bytes, devices: Sequence[int], failed: Mapping[int, str], results: Sequence[Result]
) -> bytes:
    """What rank 0 of an attempt has to know, see Kind.carry."""
    known = msgspec.msgpack.decode(attachment, type=KnownFleet)
    known.devices = list(devices)
    known.failed = [FailedDevice(device, reason) for device, reason in failed.items()]
    known.earlier = [one for one in results if isinstance(one, ScanResult)]
    return msgspec.msgpack.encode(known)
