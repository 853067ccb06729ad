"""The options of ``cclmark trace p2p``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from cclmark.base.errors import UsageError
from cclmark.kinds.p2p.command import (
    DIRECTIONS,
    ENGINES,
    SCOPES,
    Kernels,
    TransferOptions,
    TransferRangeOptions,
)
from cclmark.options.command import METHOD, OPERATION, changed, option
from cclmark.options.groups import ConditionOptions, FaultOptions, SamplingOptions
from cclmark.options.types import Names, Parsed, WholeNumber

if TYPE_CHECKING:
    from cclmark.work.transfers import Transfer

_HOST = "host"


@dataclass(frozen=True)
class CopyPair:
    """The ends of a flow: device numbers, None for the host's memory."""

    start: int | None
    end: int | None

    @classmethod
    def parse(cls, text: str) -> CopyPair:
        """Parses ``0-1``, ``host-0`` or ``0-host``. Raises UsageError."""
        ends = text.lower().split("-")
        known = all(end == _HOST or (end.isascii() and end.isdecimal()) for end in ends)
        if len(ends) != 2 or not known or ends == [_HOST, _HOST]:
            raise UsageError(f"cannot read the pair {text!r}: write 0-1, 2-2, host-0 or 0-host")
        start, end = (None if end == _HOST else int(end) for end in ends)
        return cls(start, end)

    @property
    def devices(self) -> int:
        """How many devices there must be."""
        return 1 + max(end for end in (self.start, self.end) if end is not None)

    def scope_for(self, scope: str) -> str:
        """The scope that contains this pair, if ``scope`` is that of single flows."""
        if scope != "pairs":
            return scope
        if None in (self.start, self.end):
            return "host"
        return "local" if self.start == self.end else scope

    def is_of(self, transfer: Transfer) -> bool:
        """Whether it is a flow of ``transfer``; of one pair in both directions, the first."""
        if transfer.host_memory:
            device = transfer.flows[0][0]
            ways = [(device, None) if transfer.to_host else (None, device)]
            if transfer.measure == "bidirectional":
                ways = [(device, None), (None, device)]
            return (self.start, self.end) in ways
        flows = transfer.flows[:1] if transfer.scope == "pairs" else transfer.flows
        return (self.start, self.end) in flows


@dataclass
class TraceCopiesFlags(TransferOptions):
    """The options of ``cclmark p2p`` that describe one transfer, and those of a trace."""

    examples: ClassVar = [
        ("cclmark trace p2p --pair 0-1 -b 16M", "Copies of 16 MiB from device 0 to device 1.")
    ]
    usual: ClassVar = (
        *("pair", "begin", "engine", "direction", "perf", "host_memory", "devices", "repeat"),
        *("warmup", "format", "output", "journal"),
    )
    without: ClassVar = dict.fromkeys(
        (TransferRangeOptions, SamplingOptions, FaultOptions, ConditionOptions),
        "cclmark trace p2p records one copy of one size: cclmark p2p has this option",
    )

    pair: CopyPair | None = option(
        "--pair",
        title=OPERATION,
        type=Parsed(CopyPair.parse),
        metavar="FROM-TO",
        help="The source and the destination, numbers of the selected devices or host: 0-1, 2-2 "
        "(within a device), host-0, 0-host [0-1].",
    )
    host_memory: str = option(
        "--host-memory",
        title=OPERATION,
        default="pinned",
        type=click.Choice(["pinned", "pageable"]),
        help="The host's memory, if it is one end [pinned].",
    )
    perf: list[str] = changed(
        TransferOptions,
        "perf",
        ["uniBw"],
        type=Names(("uniBw", "biBw"), "kind", one=True),
        metavar="KIND",
        help="uniBw, or biBw for both directions at once [uniBw].",
    )
    direction: list[str] = changed(
        TransferOptions,
        "direction",
        type=Names(DIRECTIONS, "direction", one=True),
        metavar="WAY",
        help="write: the source copies, read: the destination copies [write].",
    )
    engine: list[str] = changed(
        TransferOptions,
        "engine",
        ["CE"],
        type=Names(ENGINES, "engine", one=True),
        metavar="ENGINE",
        help="CE: the copy engine, SM: a kernel, launched for each copy [CE].",
    )
    kernel: list[str] = changed(
        TransferOptions,
        "kernel",
        type=Kernels(one=True),
        metavar="KERNEL",
        help="cacheCopy (plain loads and stores), ncCopy (16-byte loads that bypass the cache's "
        "coherence) or bulkCopy (the fastest) [bulkCopy].",
    )
    scope: list[str] = changed(
        TransferOptions,
        "scope",
        type=Names(SCOPES, "scope", one=True),
        metavar="SCOPE",
        help="pairs, local (within a device), host, or several flows at once: all-to-one, "
        "one-to-all, all-pairs; --pair is then one of the flows [pairs].",
    )
    begin: int | None = changed(TransferOptions, "begin", 1 << 20, help="The size [1M].")
    blocks: list[int] = changed(
        TransferOptions, "blocks", metavar="N", help="Thread blocks of a kernel [as many as fit]."
    )
    count: int | None = changed(
        TransferOptions, "count", help="Number of devices [as many as --pair requires, or all]."
    )
    repeat: int | None = changed(
        TransferOptions,
        "repeat",
        20,
        add=("-n",),
        type=WholeNumber(1, 100_000),
        help="How many copies of each flow are traced [20].",
    )
    warmup: int = option(
        "-w",
        "--warmup",
        title=METHOD,
        default=5,
        type=WholeNumber(0, 100),
        help="Copies before them [5].",
    )
    files: ClassVar = ("output", "format")
    output: Path | None = changed(
        TransferOptions, "output", help="The trace [a new file in cclmark-runs/]."
    )
    format: str = changed(
        TransferOptions,
        "format",
        "perfetto",
        type=click.Choice(["perfetto", "chrome"]),
        help="The format of the trace [perfetto].",
    )
