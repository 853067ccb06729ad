"""The options of ``cclmark trace p2p``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.kinds.p2p.command import TransferFlags
from cclmark.options.flags import METHOD, OPERATION, changed, option
from cclmark.options.numbers import WholeNumber

_OF_P2P = TransferFlags.__dataclass_fields__


@dataclass
class TraceCopiesFlags(TransferFlags):
    """The options of ``cclmark p2p`` that describe one transfer, and those of a trace."""

    without: ClassVar[frozenset[str]] = frozenset(
        {
            *("bench", "local_too", "triangle", "latency_method", "end", "factor", "elements"),
            *("random_sizes", "least_elements", "most_elements", "precision_percent"),
            *("max_time_s", "inject", "shares", "most_shown", "resume", "fake_driver"),
            *("virtual", "single_die", "no_link_check"),
        }
    )

    pair: str = option(
        OPERATION,
        "--pair",
        default="",
        metavar="FROM-TO",
        help="The source and the destination, numbers of the selected devices or host: 0-1, 2-2 "
        "(within a device), host-0, 0-host [0-1].",
    )
    host_memory: str = option(
        OPERATION,
        "--host-memory",
        default="pinned",
        type=click.Choice(["pinned", "pageable"]),
        help="The host's memory, if it is one end [pinned].",
    )
    perf: str = changed(
        _OF_P2P["perf"],
        "uniBw",
        type=click.Choice(["uniBw", "biBw"], case_sensitive=False),
        metavar="KIND",
        help="uniBw, or biBw for both directions at once [uniBw].",
    )
    direction: str = changed(
        _OF_P2P["direction"],
        metavar="WAY",
        help="write: the source copies; read: the destination copies [write].",
    )
    engine: str = changed(
        _OF_P2P["engine"],
        "CE",
        metavar="ENGINE",
        help="CE: the copy engine; SM: a kernel, launched for each copy [CE].",
    )
    kernel: str = changed(
        _OF_P2P["kernel"],
        metavar="KERNEL",
        help="cacheCopy (plain loads and stores), ncCopy (16-byte loads that bypass the cache's "
        "coherence) or bulkCopy (the fastest) [bulkCopy].",
    )
    scope: str = changed(
        _OF_P2P["scope"],
        metavar="SCOPE",
        help="pairs, local (within a device), host, or several flows at once: all-to-one, "
        "one-to-all, all-pairs; --pair is then one of the flows [pairs].",
    )
    begin: str = changed(_OF_P2P["begin"], "1M", help="The size [1M].", shown="1M")
    blocks: str = changed(
        _OF_P2P["blocks"], metavar="N", help="Thread blocks of a kernel [as many as fit]."
    )
    count: int | None = changed(
        _OF_P2P["count"], help="Number of devices [as many as --pair requires, or all]."
    )
    repeat: int | None = changed(
        _OF_P2P["repeat"],
        20,
        add=("-n",),
        type=WholeNumber(1, 100_000),
        help="How many copies of each flow are traced [20].",
    )
    warmup: int = option(
        METHOD,
        "-w",
        "--warmup",
        default=5,
        type=WholeNumber(0, 100),
        metavar="N",
        help="Copies before them [5].",
    )
    output: Path | None = changed(
        _OF_P2P["output"], help="The trace [a new file in cclmark-runs/]."
    )
    format: str = changed(
        _OF_P2P["format"],
        "perfetto",
        type=click.Choice(["perfetto", "chrome"]),
        help="The format of the trace [perfetto].",
    )
