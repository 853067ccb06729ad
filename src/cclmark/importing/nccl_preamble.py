"""The lines above the tables of one text of nccl-tests, which must all be of one run."""

from __future__ import annotations

from dataclasses import replace

from cclmark.importing.cleaned_text import Text
from cclmark.importing.nccl_told import Told, difference, same_version, spanned
from cclmark.importing.run import ForeignRun, ToolSettings
from cclmark.results.schema import DeviceDescription, LibraryDescription

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
