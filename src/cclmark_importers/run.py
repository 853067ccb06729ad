"""What an importer is given and returns: the user's information; rows as they were printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cclmark.base.grouping import abridged
from cclmark.journal.schema import DeviceDescription, LibraryDescription, Relation, Settings
from cclmark.work.transfers import Transfer
from cclmark_importers.cleaned_text import PrintedFigure


@dataclass(frozen=True)
class Given:
    """Information from the user that a text lacks."""

    operation: str | None = None
    ccl: str | None = None
    ranks: int | None = None
    device: str | None = None
    dtype: str | None = None
    reduction: str | None = None
    hosts: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True)
class Origin:
    """The origin of a text. ``written_s``: in seconds since 1970, None for a pipe.

    ``digest`` is of the content and of the user's information: the same file is the same run,
    however often it is imported.
    """

    file: str
    digest: str
    written_s: float | None
    command: list[str]
    version: str


@dataclass(frozen=True)
class Spread:
    """Statistics of single iterations, if a tool prints them.

    Seconds. ``times_s``: of each iteration.
    """

    median_s: float
    min_s: float
    p95_s: float
    p99_s: float
    max_s: float
    times_s: Sequence[float]


@dataclass(frozen=True)
class RankCount:
    """The number of ranks, from ``line`` of the text.

    ``gap``: the defect of an incomplete list of ranks, for example "lacks rank 3"; ``number`` is a
    lower bound then.
    """

    number: int
    line: int
    gap: str = ""


@dataclass(frozen=True)
class ImportedRow:
    """One measurement as printed on ``line``. Fields that were not printed are None.

    ``time`` is in seconds, bandwidths are in bytes per second. ``wrong``: wrong elements, None if
    nothing was checked, or if only ``failed`` reports that some are. ``deviation``: the largest of
    any element, for tools that print it. ``ranks``: the number of ranks, from the text.
    ``rounds_up``: the tool measured the next size that gives each rank the same number of elements.
    ``is_part``: ``size_bytes`` is the part of one rank, where cclmark's size is that of all ranks.
    ``begins``: the first line of its table and its description in the text, 0 if unknown.
    """

    line: int
    size_bytes: int
    in_place: bool = False
    operation: str | None = None
    dtype: str | None = None
    reduction: str | None = None
    root: int | None = None
    count: int | None = None
    time: PrintedFigure | None = None
    algbw: PrintedFigure | None = None
    busbw: PrintedFigure | None = None
    wrong: int | None = None
    failed: bool = False
    deviation: PrintedFigure | None = None
    ranks: RankCount | None = None
    ccl: str | None = None
    rounds_up: bool = False
    is_part: bool = False
    begins: int = 0
    spread: Spread | None = None


@dataclass(frozen=True)
class ImportedTransfer:
    """One measurement of copies as printed on ``line``.

    ``transfer``: its ``size_bytes`` is None in ``size_bytes`` if the text does not contain it.
    ``rates_bytes_per_s``: the bandwidth of each flow, empty if only the total is known.
    ``total_bytes_per_s``: the bandwidth of all flows by the tool's own definition. For a latency
    ``time_s`` is set instead; ``call_s``: the time of the host's call. ``range_s``: the least and
    the largest of ``samples`` times, if the tool prints them. ``is_wrong``: the tool reports wrong
    data in place of a figure.
    """

    line: int
    transfer: Transfer
    size_bytes: int | None = None
    rates_bytes_per_s: tuple[float, ...] = ()
    total_bytes_per_s: float = 0.0
    time_s: float = 0.0
    call_s: float | None = None
    range_s: tuple[float, float] | None = None
    samples: int = 1
    is_wrong: bool = False


@dataclass(frozen=True)
class UsualSize:
    """The size that a tool copies by default. ``words``: its options, for a notice."""

    size_bytes: int
    words: str


@dataclass(frozen=True)
class ToolSettings:
    """The tool's settings, None for those that it does not print."""

    begin_bytes: int | None = None
    end_bytes: int | None = None
    step_bytes: int = 0
    factor: float = 0.0
    warmup: int | None = None
    iterations: int | None = None
    ranks_per_process: int = 1
    group: int = 1
    graph_launches: int = 1
    check: int | None = None
    timing: str = "throughput"
    across_ranks: str = ""
    barrier: str = ""


@dataclass
class ForeignRun:
    """The content of a text about a run: ``rows`` of collectives, or ``copies`` between devices.

    ``figure``: describes its times. ``clock``: the clock of the times, empty if unknown. ``usual``:
    the tool's default type and reduction, for texts that contain neither. ``whole``: whether the
    text appears complete. ``failed``: whether it reports wrong data anywhere; ``exit_code`` (0:
    unknown) and ``message``: how the run ended. ``device_of_each_rank``: whether ``devices`` are of
    ranks, not of processes; ``names_devices``: whether the text's author named them, so that other
    names are refused. ``usual_size``: the size of copies that a text does not contain;
    ``no_usual_size``: the reason why it is unknown. ``vendor_driver``: the version of the devices'
    driver. ``on_one_host``: whether all devices are of one host, which the tool does not name.
    ``unknown_hosts``: whether they may be of several, which the text does not contain.
    ``relations``: of every two devices, or empty.
    """

    tool: str
    figure: str
    clock: str
    ccl: str
    version: str = ""
    rows: list[ImportedRow] = field(default_factory=list)
    copies: list[ImportedTransfer] = field(default_factory=list)
    devices: list[DeviceDescription] = field(default_factory=list)
    device_of_each_rank: bool = False
    names_devices: bool = False
    libraries: list[LibraryDescription] = field(default_factory=list)
    facts: ToolSettings = ToolSettings()
    notices: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    started_at: str = ""
    usual: tuple[str, str] | None = None
    usual_size: UsualSize | None = None
    no_usual_size: str = ""
    vendor_driver: str = ""
    on_one_host: bool = False
    unknown_hosts: bool = False
    relations: list[Relation] = field(default_factory=list)
    whole: bool = True
    failed: bool = False
    exit_code: int = 0
    message: str = ""


_MOST_NAMED = 8


def left_out(what: str, lines: Sequence[int]) -> str:
    """Returns the notice about figures that are left out, one for each of ``lines``.

    A matrix has several on a line. ``what``: for example ``figures of 0``.
    """
    distinct = sorted(set(lines))
    shown = abridged([*map(str, distinct)], _MOST_NAMED)
    place = "lines" if len(distinct) > 1 else "line"
    return f"{what} are left out: {len(lines)}, on {place} {shown}"


@dataclass
class Notices:
    """Notices about rows, each with the first line and the number of rows."""

    found: dict[str, list[int]] = field(default_factory=dict)

    def add(self, kind: str, line: int) -> None:
        """Adds a notice about ``line``."""
        self.found.setdefault(kind, []).append(line)

    def sentences(self) -> list[str]:
        """Returns a sentence for each kind of notice."""
        return [f"{_lines(lines)}: {kind}" for kind, lines in self.found.items()]


def _lines(numbers: Sequence[int]) -> str:
    distinct = sorted(set(numbers))
    if len(distinct) == 1:
        return f"line {distinct[0]}"
    return f"{len(distinct)} lines from {distinct[0]} to {distinct[-1]}"


def how(settings: ToolSettings | Settings) -> str:
    """Describes how times were measured: results with other settings are of another run."""
    words = [settings.timing]
    words += [f"-n {settings.iterations}"] if settings.iterations is not None else []
    words += [f"-w {settings.warmup}"] if settings.warmup is not None else []
    words += [f"-m {settings.group}"] if settings.group != 1 else []
    words += [f"-G {settings.graph_launches}"] if settings.graph_launches != 1 else []
    return " ".join(words)


def listed_device(
    rank: int,
    name: str = "",
    *,
    host: str = "",
    runtime: str = "",
    index: int | None = None,
    pid: int = 0,
    pci_bus_id: str = "",
) -> DeviceDescription:
    """Returns a device with the properties that a text contains. ``index``: the rank by default."""
    return DeviceDescription(
        rank=rank,
        host=host,
        runtime=runtime,
        index=rank if index is None else index,
        name=name,
        memory_bytes=0,
        pid=pid,
        pci_bus_id=pci_bus_id,
    )


def message_transfer(
    engine: str, *, kernel: str = "", measure: str = "unidirectional", is_read: bool = False
) -> Transfer:
    """Returns messages between devices 0 and 1, without their size: a read gets data from 1.

    A latency is that of a read's round trip, and of half a round trip otherwise.
    """
    there = (1, 0) if is_read else (0, 1)
    method = "round-trip" if is_read else "half-round-trip"
    return Transfer(
        measure=measure,
        scope="pairs",
        engine=engine,
        direction="read" if is_read else "write",
        flows=(there, there[::-1]) if measure == "bidirectional" else (there,),
        size_bytes=0,
        kernel=kernel,
        method=method if measure == "latency" else "",
    )


def measured(
    line: int, transfer: Transfer, size_bytes: int | None, value: float
) -> ImportedTransfer:
    """Returns a copy. ``value``: the seconds of a latency, else bytes per second of all flows."""
    if transfer.measure == "latency":
        return ImportedTransfer(line, transfer, size_bytes, time_s=value)
    rates = (value,) if len(transfer.flows) == 1 else ()
    return ImportedTransfer(line, transfer, size_bytes, rates, value)
