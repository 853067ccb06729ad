"""The values that a history stores and returns, without SQL."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

from cclmark.analysis.run_noise import RunNoise, is_measured_machine
from cclmark.base.errors import MissingError, UsageError
from cclmark.journal.method import LIBRARY_BARRIER
from cclmark.work.cases import Case
from cclmark.work.transfers import Transfer

HISTORY_VARIABLE = "CCLMARK_HISTORY"  # the file or URL of a history, instead of default_path


class NoHistoryError(MissingError):
    """The user has not created a history."""


def default_path() -> Path:
    """The path of this user's history, by XDG. Raises NoHistoryError for users without a home."""
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    except RuntimeError:
        raise NoHistoryError(
            "this user has no home directory for a history: set a file with --db"
        ) from None
    return base / "cclmark" / "history.sqlite"


def stored_moment(text: str) -> str:
    """A journal's time as it is stored. Raises ValueError for an invalid time."""
    return _kept(datetime.fromisoformat(text.replace("Z", "+00:00")))


def now() -> str:
    """The current time as it is stored."""
    return _kept(datetime.now(timezone.utc))


def moment(text: str, *, after: bool = False) -> str:
    """The first moment of a day or a time that a user writes, in UTC unless it contains a zone.

    ``after``: the first moment after the day or the time instead. Raises UsageError.
    """
    try:
        read = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        if after:
            whole_day = len(text.strip()) <= len("2026-11-01")
            read += timedelta(days=1) if whole_day else timedelta(milliseconds=1)
        return _kept(read)
    except (ValueError, OverflowError):
        raise UsageError(
            f"cannot read the time {text!r}: write 2026-11-01 or 2026-11-01T08:30 (UTC)"
        ) from None


def _kept(time: datetime) -> str:
    """A time as it is stored. Raises ValueError for a time outside the years 1 to 9999 in UTC."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    try:
        universal = time.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError("beyond the calendar") from None
    return universal.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


Thing = Case | Transfer
_DEVICE_NAMES = re.compile(r"\d+ × (.+?)(?: \(\w+\))?(?:, |$)")  # of run_rows.devices_of
SeriesKind = Literal["time", "device", "calls"]


class UnknownRunError(UsageError):
    """No run of a history has that id, or ``several`` runs have it."""

    def __init__(self, message: str, *, several: bool = False) -> None:
        super().__init__(message)
        self.several = several


@dataclass(frozen=True)
class RunFilter:
    """Selects runs and their results. An empty field selects all.

    ``machine`` and ``device`` are parts of names and not case-sensitive; ``operation``, ``ccl`` and
    ``label`` are whole names. ``since`` is the first moment, ``until`` the first moment after the
    period, both from ``moment``. ``number`` selects one run.
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
    """A run for lists.

    ``machine`` describes hosts and devices, ``method`` the settings that affect figures: runs are
    comparable if both are the same. ``operations`` and ``ccls`` are the measured ones. ``not_ok``:
    the number of results that are neither ok, skipped nor unsupported. ``exit_code`` is None for a
    run whose journal has no footer.
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
class FilterValues:
    """The existing values to filter by: each value once, sorted."""

    hostnames: Sequence[str]
    devices: Sequence[str]
    operations: Sequence[str]
    ccls: Sequence[str]
    labels: Sequence[str]


Figure = tuple[int, float, float | None]


@dataclass(frozen=True)
class StoredSeries:
    """One case or transfer on one machine with one method, by runs from the oldest on.

    A figure consists of the number of a run, a time in seconds and the half-width of its 95 %
    interval as a share, None if unknown. A run with cycles has a figure for each.

    ``kind``: ``time``; or, for a case whose calls are launch-bound in at least one run with
    ``--timing auto``, ``device`` for the time of the device and ``calls`` for the cost of a call. A
    run with another timing always has a ``time``. ``of_device``: no time contains a launch.
    ``noise``: of the machine, as the history measured it; None with too few runs.
    """

    thing: Thing
    machine: str
    method: str
    clock: str
    figures: list[Figure]
    kind: SeriesKind = "time"
    of_device: bool = False
    noise: RunNoise | None = None

    @property
    def calls(self) -> bool:
        """Whether the times are the cost of launch-bound calls."""
        return self.kind == "calls"

    @property
    def on_host(self) -> bool:
        """Whether the machine has host devices."""
        return "(host)" in self.machine

    @property
    def is_measured_machine(self) -> bool:
        """Whether the assumed noise was measured on such a machine."""
        hosts, _, devices = self.machine.partition(": ")
        names = _DEVICE_NAMES.findall(devices.partition(" [")[0])
        return is_measured_machine(names, hosts.count(", ") + 1)

    @property
    def timing(self) -> str:
        """The timing, with which the method begins."""
        return self.method.partition(",")[0]

    @property
    def barrier(self) -> str:
        """The barrier, spelled as in settings."""
        return "library" if LIBRARY_BARRIER in self.method.split(", ") else "own"


@dataclass(frozen=True)
class Added:
    """The outcome of adding a journal. ``known``: whether the run was in the history before.

    ``labelled``: the labels that were added to a known run. ``damaged_lines``: the number of
    unreadable lines of the journal, whose results are missing.
    """

    run_id: str
    known: bool
    replaced: bool = False
    cases: int = 0
    labelled: tuple[str, ...] = ()
    damaged_lines: int = 0


def filter_of(
    machine: str = "",
    device: str = "",
    operation: str = "",
    ccl: str = "",
    label: str = "",
    since: str = "",
    until: str = "",
) -> RunFilter:
    """The filter for options or fields of a form. Raises UsageError for an invalid time."""
    return RunFilter(
        *(machine, device, operation, ccl, label),
        since=moment(since) if since else "",
        until=moment(until, after=True) if until else "",
    )
