"""The conditions of the devices of a run, in constant memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cclmark.journal.schema import Condition


@dataclass
class Range:
    """The smallest and the largest of values; None before the first value."""

    least: float | None = None
    most: float | None = None

    def add(self, value: float | None) -> None:
        """Adds a value unless it is None."""
        if value is not None:
            self.least = value if self.least is None else min(self.least, value)
            self.most = value if self.most is None else max(self.most, value)

    @property
    def width(self) -> float:
        """The largest minus the smallest value."""
        return 0.0 if self.least is None or self.most is None else self.most - self.least


@dataclass
class Traffic:
    """What links carried, in bytes; None if it was not counted."""

    sent_bytes: int | None = None
    received_bytes: int | None = None

    def add(self, sent_bytes: int | None, received_bytes: int | None) -> None:
        """Adds what was counted."""
        if sent_bytes is not None:
            self.sent_bytes = (self.sent_bytes or 0) + sent_bytes
        if received_bytes is not None:
            self.received_bytes = (self.received_bytes or 0) + received_bytes


@dataclass
class DeviceConditions:
    """The observed conditions of one device."""

    readings: int = 0
    clock_hz: Range = field(default_factory=Range)
    memory_clock_hz: Range = field(default_factory=Range)
    temperature_c: Range = field(default_factory=Range)
    power_w: Range = field(default_factory=Range)
    throttle_count: Range = field(default_factory=Range)
    busy_share: Range = field(default_factory=Range)
    nvlink: Traffic = field(default_factory=Traffic)
    pcie: Traffic = field(default_factory=Traffic)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, condition: Condition) -> None:
        """Adds a reading."""
        self.readings += 1
        self.clock_hz.add(condition.clock_hz)
        self.memory_clock_hz.add(condition.memory_clock_hz)
        self.temperature_c.add(condition.temperature_c)
        self.power_w.add(condition.power_w)
        self.throttle_count.add(condition.throttle_count)
        self.busy_share.add(condition.busy_share)
        self.nvlink.add(condition.nvlink_sent_bytes, condition.nvlink_received_bytes)
        self.pcie.add(condition.pcie_sent_bytes, condition.pcie_received_bytes)
        self.reasons.update(condition.reasons)


@dataclass
class ConditionFigures:
    """The observed conditions by device, and over all devices and cycles by the index of an item.

    ``devices``: by their numbers.
    """

    devices: dict[int, DeviceConditions] = field(default_factory=dict)
    items: dict[int, DeviceConditions] = field(default_factory=dict)

    def add(self, condition: Condition) -> None:
        """Adds the condition of a device."""
        self.devices.setdefault(condition.rank, DeviceConditions()).add(condition)
        self.items.setdefault(condition.index, DeviceConditions()).add(condition)
