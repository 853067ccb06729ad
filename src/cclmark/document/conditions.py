"""What every kind of run says about the conditions of its devices, if they were read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cclmark.analysis.device_conditions import DeviceConditions, Range, Traffic
from cclmark.document.blocks import (
    SEVERITY_ORDER,
    Document,
    Evidence,
    Finding,
    RunContent,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.text import BYTES_PER_GB

_IDLE_SHARE = 0.10  # of the time: below, kernels of a library do not move the data
# Below, links carry what checks and messages between processes need.
_LEAST_TRAFFIC_BYTES = 1 << 28
_FAR_MORE = 10  # traffic over PCIe in relation to that over NVLink, where the host takes part

_NOTE = (
    "busy: share of the time since the reading before in which kernels ran (not copies), or in "
    "which a processor was not idle"
)


def with_conditions(document: Document, run: RunContent) -> Document:
    """The document of a whole run with what was read from its devices."""
    if not run.is_whole or not run.conditions.devices:
        return document
    idle = [*_idle(run)]
    findings = [one for one in document.findings if not (idle and one.id == "nothing-found")]
    findings += idle
    return replace(
        document,
        closing=[*document.closing, _table(run.conditions.devices)],
        findings=sorted(findings, key=lambda one: SEVERITY_ORDER[one.severity]),
    )


def _table(found: Mapping[int, DeviceConditions]) -> Table:
    """The ranges of what was read, and the shares of the readings with a limited clock."""

    def of(text: Callable[[DeviceConditions], str]) -> Callable[[int], str]:
        return lambda number: text(found[number])

    return table_of(
        "conditions of the devices",
        [
            TableColumn("device", str, ">"),
            TableColumn("clock MHz", of(lambda one: _range(one.clock_hz, 1e6)), ">"),
            TableColumn("memory MHz", of(lambda one: _range(one.memory_clock_hz, 1e6)), ">"),
            TableColumn("°C", of(lambda one: _range(one.temperature_c)), ">"),
            TableColumn("W", of(lambda one: _range(one.power_w)), ">"),
            TableColumn("busy %", of(lambda one: _range(one.busy_share, 0.01)), ">"),
            TableColumn("NVLink GB out/in", of(lambda one: _traffic(one.nvlink)), ">"),
            TableColumn("PCIe GB out/in", of(lambda one: _traffic(one.pcie)), ">"),
            TableColumn("limited by", of(_reasons)),
        ],
        sorted(found),
        notes=[_NOTE] if any(one.busy_share.most is not None for one in found.values()) else [],
    )


def _sent(carried: Iterable[Traffic]) -> int | None:
    """What all devices sent, which others received; None if that of none is known."""
    known = [one.sent_bytes for one in carried if one.sent_bytes is not None]
    return sum(known) if known else None


def _range(values: Range, unit: float = 1.0) -> str:
    if values.least is None or values.most is None:
        return ""
    least, most = f"{values.least / unit:.0f}", f"{values.most / unit:.0f}"
    return least if least == most else f"{least}–{most}"


def _traffic(carried: Traffic) -> str:
    if carried.sent_bytes is None or carried.received_bytes is None:
        return ""
    return f"{carried.sent_bytes / BYTES_PER_GB:.1f}/{carried.received_bytes / BYTES_PER_GB:.1f}"


def _reasons(seen: DeviceConditions) -> str:
    texts = [
        f"{reason} {number / seen.readings:.0%}" for reason, number in seen.reasons.most_common()
    ]
    if seen.throttle_count.width:
        texts.append(f"{seen.throttle_count.width:.0f} throttle events of its processors")
    return ", ".join(texts)


def _idle(run: RunContent) -> Iterator[Finding]:
    """The libraries of which no device ran kernels while they moved data between devices."""
    if all(device.runtime == "host" for device in run.header.devices):
        return
    items: dict[str, list[DeviceConditions]] = {}
    for result in run.results:
        found: Any = result
        if found.item.ccl and found.index in run.conditions.items:
            items.setdefault(found.item.ccl, []).append(run.conditions.items[found.index])
    for library, readings in items.items():
        shares = [one.busy_share.most for one in readings if one.busy_share.most is not None]
        if shares and max(shares) < _IDLE_SHARE:
            yield _idle_with(library, max(shares), readings, _on_nvlink(run))


def _on_nvlink(run: RunContent) -> bool:
    """Whether all devices are on one host, and connected by NVLink."""
    links = {link.device for link in run.header.links if link.kind == "NVLink"}
    devices = run.header.devices
    return len({one.host for one in devices}) == 1 and {one.rank for one in devices} <= links


def _idle_with(
    library: str, share: float, readings: Sequence[DeviceConditions], on_nvlink: bool
) -> Finding:
    nvlink = _sent(one.nvlink for one in readings)
    pcie = _sent(one.pcie for one in readings)
    evidence = [Evidence.of("busy_percent", share, library, _IDLE_SHARE)]
    sentence = f"devices idle: kernels ran in at most {share:.0%} of the time with {library}"
    known = {"NVLink": ("nvlink_bytes", nvlink), "PCIe": ("pcie_bytes", pcie)}
    carried = {name: (key, total) for name, (key, total) in known.items() if total is not None}
    if carried:
        evidence += [Evidence.of(key, total, library) for key, total in carried.values()]
        words = [
            f"{total / BYTES_PER_GB:.1f} GB over {name}" for name, (_, total) in carried.items()
        ]
        sentence += f", and the devices sent {' and '.join(words)} (checks included)"
    is_known = on_nvlink and nvlink is not None and pcie is not None
    if is_known and (pcie or 0) >= max(_LEAST_TRAFFIC_BYTES, _FAR_MORE * (nvlink or 0)):
        sentence += ": the library moves data through the host"
    else:
        sentence += ": copies move the data, by copy engines, the host or a network adapter"
    return Finding(
        "idle-devices",
        "look",
        sentence,
        advice="Compare with a library that works on the devices: add it to `--ccl`.",
        evidence=tuple(evidence),
    )
