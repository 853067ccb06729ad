"""An importer's result: rows as they were printed, and the information around them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cclmark.importing.cleaned_text import PrintedFigure
from cclmark.plan.transfers import Transfer
from cclmark.results.schema import DeviceDescription, LibraryDescription, Relation


@dataclass(frozen=True)
class Spread:
    """Statistics of single iterations, if a tool prints them. Seconds; ``cv`` is a share."""

    median_s: float
    min_s: float
    p95_s: float
    p99_s: float
    max_s: float
    cv: float
    iterations: int


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
    in_place: bool
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
    ranks, not of processes. ``usual_size``: the size of copies that a text does not contain;
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
