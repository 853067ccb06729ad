"""What an importer makes of a text: rows as they were printed, and what was said around them."""

from __future__ import annotations

from dataclasses import dataclass, field

from cclmark.results.foreign.text import Figure
from cclmark.results.schema import DeviceDescription, LibraryDescription


@dataclass(frozen=True)
class Spread:
    """Statistics of single iterations, where a tool tells them. Seconds; ``cv`` is a share."""

    median_s: float
    min_s: float
    p95_s: float
    p99_s: float
    max_s: float
    cv: float
    iterations: int


@dataclass(frozen=True)
class RankCount:
    """How many ranks took part, as ``line`` of the text tells.

    ``gap``: what is wrong with a list of ranks that is incomplete, such as "lacks rank 3"; there
    are ``number`` at least then.
    """

    number: int
    line: int
    gap: str = ""


@dataclass(frozen=True)
class Row:
    """One measurement as printed on ``line``. What was not printed is None.

    ``time`` is in seconds, bandwidths are in bytes per second. ``wrong``: wrong elements, None
    where nothing was checked, or where only ``failed`` says that some are. ``deviation``: the
    largest of any element, of tools that print it. ``ranks``: that took part, as the text tells.
    ``rounds_up``: the tool measured the next size that gives each rank the same number of elements.
    """

    line: int
    size_bytes: int
    in_place: bool
    operation: str | None = None
    dtype: str | None = None
    reduction: str | None = None
    root: int | None = None
    count: int | None = None
    time: Figure | None = None
    algbw: Figure | None = None
    busbw: Figure | None = None
    wrong: int | None = None
    failed: bool = False
    deviation: Figure | None = None
    ranks: RankCount | None = None
    ccl: str | None = None
    rounds_up: bool = False
    spread: Spread | None = None


@dataclass(frozen=True)
class Facts:
    """How the tool was set, as far as it says: None for what it does not."""

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
    """All that a text tells of a run.

    ``figure``: what a time is, in words. ``clock``: whose it is, empty where nobody says.
    ``usual``: the type and reduction of the tool where none is given, for texts that name neither.
    ``whole``: whether the text goes on to its end, as far as one can see. ``failed``: whether it
    says that data was wrong somewhere; ``exit_code`` (0: not told) and ``message``: how it ended.
    ``device_of_each_rank``: whether ``devices`` are those of ranks, not of processes.
    """

    tool: str
    figure: str
    clock: str
    ccl: str
    version: str = ""
    rows: list[Row] = field(default_factory=list)
    devices: list[DeviceDescription] = field(default_factory=list)
    device_of_each_rank: bool = False
    libraries: list[LibraryDescription] = field(default_factory=list)
    facts: Facts = Facts()
    notices: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    started_at: str = ""
    usual: tuple[str, str] | None = None
    whole: bool = True
    failed: bool = False
    exit_code: int = 0
    message: str = ""
