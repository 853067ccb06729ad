"""What ranks and launcher say to each other. Decoded strictly: nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.plan.cases import Case
from cclmark.plan.checks import Check
from cclmark.plan.pairs import PairCases
from cclmark.plan.transfers import Transfer
from cclmark.results.schema import (
    Condition,
    DeviceDescription,
    LibraryDescription,
    Result,
    Settings,
)

Thing = Case | Transfer | Check


class Job(msgspec.Struct):
    """Everything a rank needs to know, handed over on its standard input.

    A rank measures either cases, with the one device it has, or transfers, with one or with all, or
    it checks a backend of torch, which ``modules`` may bring. ``in_pairs``: the cases are of two
    ranks, and each is measured with every other rank. ``pending``: only those of these indices,
    none for all; each cycle counts on from the one before.
    ``every_index``: of the devices of all ranks, as the runtime numbers them.
    """

    rank: int
    ranks: int
    parent_pid: int
    runtime: str
    device_indices: list[int]
    every_index: list[int]
    processors: list[int]
    oversubscribed: bool
    team_fd: int
    board_fd: int
    endpoint: str
    server_key: bytes
    client_public_key: bytes
    client_secret_key: bytes
    token: bytes
    cases: list[Case]
    transfers: list[Transfer]
    settings: Settings
    ccl_path: str
    ccl_wheels: dict[str, list[str]]
    in_pairs: bool = False
    pending: list[int] = []
    checks: list[Check] = []
    modules: list[str] = []

    @property
    def things(self) -> Sequence[Thing]:
        """What is measured, in the order of the results' indices."""
        if self.transfers or self.checks:
            return self.transfers or self.checks
        return PairCases(self.cases, self.ranks) if self.in_pairs else self.cases


class Hello(msgspec.Struct, tag="hello"):
    """A rank is there, with its devices open and its libraries loaded.

    ``reach``: which of its devices the driver gives access to which of the run's.
    """

    rank: int
    token: bytes
    devices: list[DeviceDescription]
    libraries: list[LibraryDescription]
    reach: list[tuple[int, int]] = []


class Put(msgspec.Struct, tag="put"):
    """A value for all ranks, such as a communicator's id."""

    rank: int
    token: bytes
    key: str
    value: bytes


class Want(msgspec.Struct, tag="want"):
    """A rank waits for a value."""

    rank: int
    token: bytes
    key: str


class Measured(msgspec.Struct, tag="measured"):
    """A rank has a result: rank 0, or the first one of a pair."""

    rank: int
    token: bytes
    result: Result


class Observed(msgspec.Struct, tag="observed"):
    """A rank has looked at its device."""

    rank: int
    token: bytes
    condition: Condition


class Notice(msgspec.Struct, tag="notice"):
    """Something the user should know that ends nothing."""

    rank: int
    token: bytes
    text: str


class Failed(msgspec.Struct, tag="failed"):
    """A rank gives up. ``kind``: error, missing, usage, timeout or aborted."""

    rank: int
    token: bytes
    kind: str
    message: str
    phase: str
    case_index: int


class Finished(msgspec.Struct, tag="finished"):
    """A rank is done and about to exit."""

    rank: int
    token: bytes
    phases_s: dict[str, float]


FromRank = Hello | Put | Want | Measured | Observed | Notice | Failed | Finished


class Value(msgspec.Struct, tag="value"):
    """The launcher's answer to Want."""

    key: str
    value: bytes
