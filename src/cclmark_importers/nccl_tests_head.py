"""Reads the lines above a table of nccl-tests: its settings, devices and columns, of all versions.

Columns. 2017: ``bytes N type op``, times in milliseconds, ``res``. 2019: ``size count type``, with
``redop`` and ``root`` only if the operation has them, microseconds, ``error``. Since 2.13: ``size
count type redop root`` always, and ``#wrong``. 2024 had another bandwidth for a while, 2.19 has
columns of single iterations (-I) and a time of day (-S). rccl-tests can leave the out-of-place half
out, and ends rows with the algorithm, the protocol and the number of channels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cclmark.journal.schema import DeviceDescription, LibraryDescription
from cclmark_importers.cleaned_text import Text
from cclmark_importers.line_reader import LineReader
from cclmark_importers.run import RankCount, ToolSettings, how, listed_device

FIGURE = "the mean of the tool's iterations"
_DEVICE = re.compile(
    r"#\s*Rank\s+(\d{1,7})(?:\s+Group\s+(\d{1,7}))?(?:\s+Pid\s+(\d{1,9}))? on\s+(\S+) "
    r"device\s+(\d{1,4}) \[([^\]]*)\] ?(.*)"
)
_BUS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?")
_SETUP = re.compile(
    r"# nThread (\d{1,4}) nGpus (\d{1,4}) minBytes (\d{1,18}) maxBytes (\d{1,18}) (.*)"
)
_STEP = re.compile(r"step: (\d{1,18}(?:\.\d{1,9})?)\((factor|bytes)\)")
_WORD = re.compile(r"([a-z]+(?: [a-z]+)?): (\d{1,9})(?=\s|$)")


def read_device(line: str) -> tuple[str, DeviceDescription] | None:
    """Returns a device and its group, empty without groups; None for any other line.

    The runtime is derived from the device's name.
    """
    found = _DEVICE.match(line)
    if found is None:
        return None
    rank, group, pid, host, index, bus, name = found.groups()
    device = listed_device(
        int(rank),
        name.strip(),
        host=host,
        runtime="hip" if "AMD" in name or "Instinct" in name else "cuda",
        index=int(index),
        pid=int(pid or 0),
        pci_bus_id=bus if _BUS.fullmatch(bus) else "",
    )
    return group or "", device


def read_facts(line: str) -> ToolSettings | None:
    """Returns the settings of a run from the line that contains them."""
    setup = _SETUP.match(line)
    if setup is None:
        return None
    threads, devices, begin, end, rest = setup.groups()
    step = _STEP.search(rest)
    words = {name: int(value) for name, value in _WORD.findall(rest)}
    graph = words.get("graph", 0)
    size = float(step[1]) if step else 0.0
    return ToolSettings(
        begin_bytes=int(begin),
        end_bytes=int(end),
        step_bytes=int(size) if step and step[2] == "bytes" else 0,
        factor=size if step and step[2] == "factor" else 0.0,
        warmup=words.get("warmup iters") or None,
        iterations=words.get("iters") or None,
        ranks_per_process=max(1, int(threads) * int(devices)),
        group=words.get("agg iters", 1),
        graph_launches=max(1, graph),
        check=words.get("validation"),
        timing="graph" if graph else "throughput",
    )


_HEAD = re.compile(
    r"#\s+(?:size\s+count|bytes\s+N)\s+type\b.*\btime\b.*|#\s+size\s+count\s+.*cputime.*"
)
_PLACEMENTS = re.compile(r"\b(out-of-place|in-place)\b")
_GAP = re.compile(r"\s{24,}")  # in place of a missing out-of-place half
_MILLISECOND_S = 1e-3
_TAIL = ("algo", "proto", "nchannels")
_UNITS = re.compile(r"#?\s*(?:\([^()]{1,24}\)\s*)+")
_UNIT = re.compile(r"\((?P<unit>[munpµμ]?s|[mun]?sec|[KMGT]i?B|[KMGT]?i?[Bb](?:/s|ps))\)")
_NAMES = {"bytes": "size", "N": "count", "op": "redop", "cputime": "time", "#wrong": "wrong"}


@dataclass(frozen=True)
class NcclTestsLayout:
    """The columns before the figures, the columns of each placement, and the present placements.

    ``tail``: the number of columns after them. ``time_unit_s``: the unit of times.
    """

    lead: tuple[str, ...]
    part: tuple[str, ...]
    in_place: tuple[bool, ...]
    time_unit_s: float
    tail: int = 0

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return len(self.lead) + len(self.part) * len(self.in_place) + self.tail

    def words(self, line: str) -> list[str]:
        """Returns the columns of the row on ``line``; a blank reduction is ``none``."""
        words = line.split()
        if "redop" in self.lead:
            place = self.lead.index("redop")
            if len(words) > place and not words[place][:1].isalpha():
                words.insert(place, "none")
        return words

    def halves(self, line: str) -> tuple[bool, ...]:
        """Returns the placements of the row on ``line``, which may lack its out-of-place half."""
        short = len(self.words(line)) == self.columns - len(self.part)
        if short and len(self.in_place) == 2 and _GAP.search(line.lstrip()):
            return self.in_place[1:]
        return self.in_place


def other_unit(line: str, layout: NcclTestsLayout) -> tuple[str, str] | None:
    """Returns a unit on the line below a head, and the unit that the rows are read with.

    Returns None if all units are the same, and for any other line.
    """
    if _UNITS.fullmatch(line.strip()) is None:
        return None
    time = "ms" if layout.time_unit_s == _MILLISECOND_S else "us"
    for found in _UNIT.finditer(line):
        unit = found["unit"].replace("µ", "u").replace("μ", "u")
        due = "GB/s" if unit.endswith(("/s", "ps")) else "B" if unit.endswith("B") else time
        if unit != due:
            return unit, due
    return None


def read_layout(line: str, before: str) -> NcclTestsLayout | None:
    """Reads the layout from the head on ``line``, with the placements from the line before it.

    Returns None if it is not a head, has no times, or has unequal halves.
    """
    if _HEAD.fullmatch(line.strip()) is None:
        return None
    names = [_NAMES.get(name, name) for name in line.strip().removeprefix("#").split()]
    if names[-1] == "timestamp":
        names.pop()
    starts = [number for number, name in enumerate(names) if name == "time"]
    if not starts:
        return None
    first, end = starts[0], len(names)
    while end > first and names[end - 1] in _TAIL:
        end -= 1
    size = (end - first) // len(starts)
    part = tuple(names[first : first + size])
    lead = names[:first]
    if names[first:end] != list(part) * len(starts) or len(set(lead)) < first:
        return None
    if not {"size", "count", "type"} <= set(lead):
        return None
    placements = [found == "in-place" for found in _PLACEMENTS.findall(before)]
    if len(placements) != len(starts):
        placements = [False, True][: len(starts)]
    unit_s = _MILLISECOND_S if "res" in part else 1e-6
    return NcclTestsLayout(tuple(lead), part, tuple(placements), unit_s, len(names) - end)


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


class Preamble:
    """Collects descriptions line by line; ``open_table`` compares them with the earlier ones.

    Until a first row was read, they describe a run without results.
    """

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader
        self._run = reader.run
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
            raise self._reader.split(
                self._begins or line,
                f"the results above are of {name} {known.version}, but line {line} reports "
                f"{version}",
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
                raise self._reader.split(
                    here.line, f"different from the results above (from line {there.line}): {what}"
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


class RankList:
    """Reads the list line by line; it must begin with rank 0 and contain every rank once."""

    def __init__(self) -> None:
        self._devices: dict[int, tuple[str, DeviceDescription]] = {}  # by rank, with the group
        self._line = 0
        self._shortened = False  # by an ellipsis at its end
        self._ellipsis = False  # between two ranks

    @property
    def groups(self) -> int:
        """The number of communicators."""
        return len({group for group, _ in self._devices.values()})

    def add(self, text: Text, line: int, group: str, device: DeviceDescription) -> bool:
        """Adds the rank on ``line``; returns whether it is new.

        Raises UsageError for a rank that is too large, or was listed before with another device.
        """
        text.ranks(line, str(device.rank + 1))
        known = self._devices.get(device.rank)
        if known == (group, device):
            return False
        if known is not None:
            raise text.refuse(
                line,
                f"rank {device.rank} is listed twice, with different devices: the list is damaged, "
                "or of several runs. Correct it, or split the text and import the parts one by one",
            )
        self._line = self._line or line
        self._ellipsis = self._ellipsis or self._shortened
        self._shortened = False
        self._devices[device.rank] = (group, device)
        return True

    def shorten(self) -> None:
        """Notes an ellipsis in place of the following ranks."""
        self._shortened = bool(self._devices)

    def count(self, ranks_per_process: int) -> RankCount | None:
        """The number of ranks of a communicator, the largest of several; None without a list.

        ``ranks_per_process``: the number of ranks must be a multiple of it.
        """
        if not self._devices:
            return None
        total = 1 + max(self._devices)
        missing = [rank for rank in range(total) if rank not in self._devices]
        sizes: dict[str, int] = {}
        for group, _ in self._devices.values():
            sizes[group] = sizes.get(group, 0) + 1
        number = total if len(sizes) == 1 else max(sizes.values())
        if self._shortened:
            return RankCount(number, self._line, "is shortened")
        if missing and (len(sizes) > 1 or not self._ellipsis):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            return RankCount(number, self._line, f"does not contain rank {missing[0]}{more}")
        if total % ranks_per_process:
            return RankCount(
                number,
                self._line,
                f"ends with rank {total - 1}, but each process has {ranks_per_process} ranks",
            )
        return RankCount(number, self._line)
