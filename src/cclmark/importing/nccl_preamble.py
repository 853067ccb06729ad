"""The lines above the tables of one text of nccl-tests, which must all be of one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cclmark.importing.cleaned_text import Text
from cclmark.importing.header import how
from cclmark.importing.run import ForeignRun, ToolSettings
from cclmark.results.schema import DeviceDescription, LibraryDescription


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


_SPLIT = "so this is another run. Split the text before this line and import the parts one by one"


class Preamble:
    """Collects descriptions line by line; ``open_table`` compares them with the earlier ones.

    Until a first row was read, they describe a run without results.
    """

    def __init__(self, text: Text, run: ForeignRun) -> None:
        self._text = text
        self._run = run
        self._begins = 0
        self._set_up: ToolSettings | None = None
        self._told: Told | None = None
        self._libraries: dict[str, LibraryDescription] = {}
        self._tool = ""  # with its version
        self.devices: list[DeviceDescription] = []
        self.devices_open = False  # whether devices were listed since the last table

    @property
    def begins(self) -> int:
        """The line by which a run began since the last table, 0 if none did."""
        return self._begins

    @property
    def set_up(self) -> bool:
        """Whether a run was set up since the last table."""
        return self._set_up is not None

    def begin(self, line: int) -> None:
        """Notes that ``line`` is above a table."""
        self._begins = self._begins or line

    def version(self, line: int, tool: str, version: str) -> None:
        """Records the tool's version."""
        self.begin(line)
        self._tool, self._run.version = f"{tool} {version}", version

    def facts(self, line: int, facts: ToolSettings) -> None:
        """Records the settings of the run."""
        self.begin(line)
        self._set_up = facts

    def blocking(self) -> None:
        """Records that the run waits after each operation."""
        if self._set_up is not None:
            self._set_up = replace(self._set_up, timing="blocking")

    def device(self, line: int, device: DeviceDescription) -> None:
        """Records a device of the next table."""
        self.begin(line)
        if not self.devices_open:
            self.devices = []
            self.devices_open = True
        self.devices.append(device)

    def library(self, line: int, name: str, version: str, path: str = "") -> None:
        """Records a library, before a table or within it. Raises UsageError for another version."""
        known = self._libraries.get(name)
        if known is not None and same_version(known.version, version):
            return
        if known is not None and self._run.rows:
            raise self._text.refuse(
                self._begins or line,
                f"the results above are of {name} {known.version}, but line {line} reports "
                f"{version}, {_SPLIT}",
            )
        self._libraries[name] = LibraryDescription(name, version, path)
        self._run.libraries = list(self._libraries.values())

    def open_table(self, line: int) -> None:
        """Begins a table. Raises UsageError if it is of another run than the tables above it."""
        here = Told(
            self._begins or line,
            self._tool,
            tuple(self.devices if self.devices_open else ()),
            self._set_up,
        )
        self._begins, self._set_up, self.devices_open = 0, None, False
        there = self._told if self._run.rows else None
        if there is not None:
            what = difference(there, here, ours=self._run.tool == "cclmark")
            if what:
                raise self._text.refuse(
                    here.line,
                    f"different from the results above (from line {there.line}): {what}; {_SPLIT}",
                )
            here = Told(
                there.line,
                here.tool or there.tool,
                max(there.devices, here.devices, key=len),
                spanned(there.facts, here.facts),
            )
        self._told = here
        self._run.devices = list(here.devices)
        self._run.facts = here.facts or ToolSettings()
