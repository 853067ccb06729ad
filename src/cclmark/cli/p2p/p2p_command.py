"""``cclmark p2p``: every pair of devices, and the same command with PCCL's options."""

from __future__ import annotations

import sys

import click

from cclmark.cli.options import command
from cclmark.cli.p2p.transfer_options import PcclFlags, TransferFlags


def p2p_command(name: str) -> click.Command:
    """Returns the command."""
    summary = "Bandwidth and latency between every pair of devices."
    return command(name, summary, TransferFlags, _measure)


def pccl_command(name: str) -> click.Command:
    """Returns the command with PCCL's options."""
    pccl = command(
        name,
        "The same with the options, defaults and output of PCCL's tool of this name.",
        PcclFlags,
        _measure,
    )
    pccl.hidden = True
    return pccl


def _measure(flags: TransferFlags) -> None:
    from cclmark.cli.p2p.transferring import measure_transfers

    sys.exit(measure_transfers(flags))
