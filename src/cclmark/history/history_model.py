"""What goes into a history and comes out of it, without a word of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cclmark.errors import UsageError
from cclmark.plan.cases import Case
from cclmark.plan.transfers import Transfer
from cclmark.results.method import LIBRARY_BARRIER

Thing = Case | Transfer
SeriesKind = Literal["time", "device", "calls"]


class UnknownRunError(UsageError):
    """No run of a history has that id, or ``several`` have."""

    def __init__(self, message: str, *, several: bool = False) -> None:
        super().__init__(message)
        self.several = several


@dataclass(frozen=True)
class RunFilter:
    """Which runs, and of their results which. What is empty does not choose.

    ``machine`` and ``device`` are parts of names, in capitals or not; ``operation``, ``ccl`` and
    ``label`` are whole names. ``since`` is the first moment and ``until`` the first one after, as
    ``moment`` in cclmark.history.moments gives them. ``number`` is that of one run.
    """

    machine: str = ""
    device: str = ""
    operation: str = ""
    ccl: str = ""
    label: str = ""
    since: str = ""
    until: str = ""
    number: int | None = None


@dataclass(frozen=True)
class StoredRun:
    """A run as lists show it.

    ``machine`` names hosts and devices, ``method`` what shapes figures: runs are held against each
    other where both are the same. ``operations`` and ``ccls`` are what was measured. ``not_ok``:
    how many results are neither ok nor skipped. ``exit_code`` is None for a run that did not end by
    itself.
    """

    number: int
    run_id: str
    started_at: str
    added_at: str
    source: str
    hostname: str
    devices: str
    machine: str
    method: str
    command: str
    libraries: str
    driver: str
    cclmark_version: str
    cases: int
    not_ok: int
    damaged_lines: int
    exit_code: int | None
    continues: str
    operations: Sequence[str] = ()
    ccls: Sequence[str] = ()
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Choices:
    """What there is to filter by: each value once, sorted."""

    hostnames: Sequence[str]
    devices: Sequence[str]
    operations: Sequence[str]
    ccls: Sequence[str]
    labels: Sequence[str]


Figure = tuple[int, float, float | None]


@dataclass(frozen=True)
class StoredSeries:
    """One thing measured by one machine in one way, by runs from the oldest on.

    A figure is the number of a run, a time in seconds and the half-width of its 95 % interval as a
    share, None where unknown; a run with cycles has a figure for each.

    ``kind``: ``time``, or of a case whose calls launches set in one run at least: ``device``, the
    time of the device, and ``calls``, the cost of a call, each with ``--timing auto``. A run with
    another timing has a ``time``, whatever sets it. ``of_device``: no time contains a launch.
    """

    thing: Thing
    machine: str
    method: str
    clock: str
    figures: list[Figure]
    kind: SeriesKind = "time"
    of_device: bool = False

    @property
    def calls(self) -> bool:
        """Whether the times are the cost of calls that launches set."""
        return self.kind == "calls"

    @property
    def on_host(self) -> bool:
        """Whether processors took the part of devices."""
        return "(host)" in self.machine

    @property
    def timing(self) -> str:
        """The way of timing, which the method begins with."""
        return self.method.partition(",")[0]

    @property
    def barrier(self) -> str:
        """Where ranks met, as settings have it."""
        return "library" if LIBRARY_BARRIER in self.method.split(", ") else "own"


@dataclass(frozen=True)
class Added:
    """What came of adding a journal: the run, and whether it was there before.

    ``labelled``: the labels that a run got which was there. ``damaged_lines``: lines of the journal
    that could not be read, whose results are not there.
    """

    run_id: str
    known: bool
    replaced: bool = False
    cases: int = 0
    labelled: tuple[str, ...] = ()
    damaged_lines: int = 0
