"""The description of a table's run in a text, and whether two tables are of the same run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cclmark.importing.header import how
from cclmark.importing.run import ToolSettings
from cclmark.results.schema import DeviceDescription


@dataclass(frozen=True)
class Told:
    """A run's description. ``line``: where it begins. Unknown fields are empty, or None."""

    line: int
    tool: str
    devices: tuple[DeviceDescription, ...]
    facts: ToolSettings | None


def difference(there: Told, here: Told, *, ours: bool) -> str:
    """Describes contradictions between two descriptions; empty if both may be of one run.

    ``ours``: a text of cclmark, which lists the devices that took part, the first of the run's.
    """
    first, second = there.devices, here.devices
    if ours:
        shortest = min(len(first), len(second))
        first, second = first[:shortest], second[:shortest]
    if first and second and _places(first) != _places(second):
        return f"devices {_described(first, second)}"
    if there.tool and here.tool and there.tool != here.tool:
        return f"the tool {there.tool} there, {here.tool} here"
    if there.facts and here.facts and how(there.facts) != how(here.facts):
        return f"settings {how(there.facts)} there, {how(here.facts)} here"
    return ""


def spanned(before: ToolSettings | None, now: ToolSettings | None) -> ToolSettings | None:
    """Combines two tables' settings of one run: all sizes, and a step only if both have it."""
    if before is None or now is None:
        return before or now
    begins = [one.begin_bytes for one in (before, now) if one.begin_bytes is not None]
    ends = [one.end_bytes for one in (before, now) if one.end_bytes is not None]
    checks = [one.check for one in (before, now) if one.check is not None]
    alike = (before.step_bytes, before.factor) == (now.step_bytes, now.factor)
    return replace(
        now,
        begin_bytes=min(begins, default=None),
        end_bytes=max(ends, default=None),
        step_bytes=now.step_bytes if alike else 0,
        factor=now.factor if alike else 0.0,
        check=max(checks, default=None),
    )


def same_version(one: str, other: str) -> bool:
    """Whether two version numbers may be equal, one of which may be shorter."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _places(devices: Sequence[DeviceDescription]) -> list[tuple[object, ...]]:
    return [(one.rank, one.host, one.index, one.name, one.pci_bus_id) for one in devices]


def _described(first: Sequence[DeviceDescription], second: Sequence[DeviceDescription]) -> str:
    """Describes both lists, as short as possible but distinguishable."""
    there, here = _kinds(first), _kinds(second)
    if there != here:
        return f"{there} there, {here} here"
    pairs = zip(_places(first), _places(second), strict=True)
    rank, was, now = next((one[0], one[1:], other[1:]) for one, other in pairs if one != other)
    words = (" ".join(str(word) for word in place if word != "") for place in (was, now))
    return f"rank {rank} on {next(words)} there, on {next(words)} here"


def _kinds(devices: Sequence[DeviceDescription]) -> str:
    found = Counter((one.name, one.host) for one in devices)
    return ", ".join(f"{number} × {name} on {host}" for (name, host), number in found.items())
