"""``cclmark p2p``: every pair of devices, and the same command with PCCL's options."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from cclmark.cli.options import command
from cclmark.cli.transfer_options import PcclFlags, TransferFlags


def transfer_commands() -> Iterator[click.Command]:
    """Yields the two commands."""
    yield command(
        "p2p",
        "Bandwidth and latency between every pair of devices.",
        TransferFlags,
        _measure,
    )
    pccl = command(
        "p2pBandwidthLatencyTest",
        "The same with the options, defaults and output of PCCL's tool of this name.",
        PcclFlags,
        _measure,
    )
    pccl.hidden = True
    yield pccl


def _measure(flags: TransferFlags) -> None:
    from cclmark.cli.transferring import measure_transfers

    sys.exit(measure_transfers(flags))
