"""The options of ``cclmark trace p2p``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cclmark.kinds.p2p.command import DIRECTIONS, ENGINES, KERNELS, SCOPES, CopyOptions
from cclmark.options.command import METHOD, OPERATION, changed, option
from cclmark.options.types import Names, Parsed, WholeNumber

if TYPE_CHECKING:
    from cclmark.cli.trace.run import CopyPair


def _pair(text: str) -> CopyPair:
    from cclmark.cli.trace.run import CopyPair

    return CopyPair.parse(text)


@dataclass
class TraceCopiesFlags(CopyOptions):
    """The options of ``cclmark p2p`` that describe one transfer, and those of a trace."""

    pair: CopyPair | None = option(
        "--pair",
        title=OPERATION,
        type=Parsed(_pair),
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
        CopyOptions,
        "perf",
        ["uniBw"],
        type=Names(("uniBw", "biBw"), "kind", one=True),
        metavar="KIND",
        help="uniBw, or biBw for both directions at once [uniBw].",
    )
    direction: list[str] = changed(
        CopyOptions,
        "direction",
        type=Names(DIRECTIONS, "direction", one=True),
        metavar="WAY",
        help="write: the source copies; read: the destination copies [write].",
    )
    engine: list[str] = changed(
        CopyOptions,
        "engine",
        ["CE"],
        type=Names(ENGINES, "engine", one=True),
        metavar="ENGINE",
        help="CE: the copy engine; SM: a kernel, launched for each copy [CE].",
    )
    kernel: list[str] = changed(
        CopyOptions,
        "kernel",
        type=Names(KERNELS, "kernel", one=True),
        metavar="KERNEL",
        help="cacheCopy (plain loads and stores), ncCopy (16-byte loads that bypass the cache's "
        "coherence) or bulkCopy (the fastest) [bulkCopy].",
    )
    scope: list[str] = changed(
        CopyOptions,
        "scope",
        type=Names(SCOPES, "scope", one=True),
        metavar="SCOPE",
        help="pairs, local (within a device), host, or several flows at once: all-to-one, "
        "one-to-all, all-pairs; --pair is then one of the flows [pairs].",
    )
    begin: int | None = changed(CopyOptions, "begin", 1 << 20, help="The size [1M].")
    blocks: list[int] = changed(
        CopyOptions, "blocks", metavar="N", help="Thread blocks of a kernel [as many as fit]."
    )
    count: int | None = changed(
        CopyOptions, "count", help="Number of devices [as many as --pair requires, or all]."
    )
    repeat: int | None = changed(
        CopyOptions,
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
        metavar="N",
        help="Copies before them [5].",
    )
    output: Path | None = changed(
        CopyOptions, "output", help="The trace [a new file in cclmark-runs/]."
    )
    format: str = changed(
        CopyOptions,
        "format",
        "perfetto",
        type=click.Choice(["perfetto", "chrome"]),
        help="The format of the trace [perfetto].",
    )
