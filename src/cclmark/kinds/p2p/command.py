"""``cclmark p2p``: every pair of devices, and the same command with PCCL's options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cclmark.options.flags import (
    METHOD,
    OPERATION,
    OUTPUT,
    SIZES,
    WHERE,
    Action,
    Flags,
    changed,
    command,
    option,
)
from cclmark.options.numbers import RealNumber, WholeNumber

_MOST_ELEMENTS = 1 << 48

_SWITCH: dict[str, Any] = {
    "type": WholeNumber(0, 1),
    "is_flag": False,
    "flag_value": 1,
    "metavar": "[0|1]",
}


_SHARED = Flags.__dataclass_fields__


@dataclass
class TransferFlags:
    """The options of ``cclmark p2p``."""

    perf: str = option(
        OPERATION,
        "-p",
        "--perf",
        default="uniBw,biBw,latency",
        metavar="KINDS",
        help="uniBw, biBw, latency, with commas [all three].",
    )
    direction: str = option(
        OPERATION,
        "-d",
        "--direction",
        "--p2p-direction",
        "--p2p_direction",
        default="write",
        metavar="WAYS",
        help="write: the row's device writes to the column's; read: it reads from there; with "
        "commas [write].",
    )
    engine: str = option(
        OPERATION,
        "-t",
        "--engine",
        "--p2p-type",
        "--p2p_type",
        default="CE,SM",
        metavar="ENGINES",
        help="CE: the copy engine, SM: a kernel; with commas [both].",
    )
    kernel: str = option(
        OPERATION,
        "-k",
        "--kernel",
        default="bulkCopy",
        metavar="KERNELS",
        help="cacheCopy (plain loads and stores), ncCopy (16-byte loads that bypass the cache's "
        "coherence), bulkCopy (the fastest), with commas, or all [bulkCopy].",
    )
    scope: str = option(
        OPERATION,
        "--scope",
        default="pairs",
        metavar="SCOPES",
        help="pairs, local (within a device), host, all-to-one, one-to-all, all-pairs (all at "
        "once, in rounds), with commas, or all [pairs].",
    )
    bench: str = option(
        OPERATION,
        "-c",
        "--bench-type",
        "--bench_type",
        default="none",
        type=click.Choice(["none", "all", "p2p_write", "p2p_read"], case_sensitive=False),
        help="all: every kind of copy; p2p_write: writes by copy engine with and without peer "
        "access; p2p_read: reads by copy engine.",
    )
    local_too: int = option(
        OPERATION,
        "--enable-local-d2d",
        "--enable_local_D2D",
        "--enable_local_d2d",
        default=0,
        help="Copies within each device too: the diagonal.",
        **_SWITCH,
    )
    triangle: int = option(
        OPERATION,
        "-j",
        "--eval-p2p-perf-tri",
        "--eval_P2P_perf_tri",
        "--eval_p2p_perf_tri",
        default=0,
        help="Each pair once: the upper triangle.",
        **_SWITCH,
    )
    no_peer: int = option(
        OPERATION,
        "-a",
        "--disable-p2p",
        "--disable_p2p",
        default=0,
        help="Peer access off: staged through the host, write by the copy engine only.",
        **_SWITCH,
    )
    latency_method: str = option(
        OPERATION,
        "--latency-method",
        default="auto",
        type=click.Choice(["auto", "copy", "chase", "ping-pong"]),
        help="Latency method: a copy of 16 bytes, a load that waits for the one before, or half a "
        "round trip [CE: copy; SM: ping-pong for write, chase for read].",
    )
    begin: str = option(
        SIZES,
        "-b",
        "--begin",
        "--minbytes",
        default="",
        metavar="SIZE",
        help="Size, or the smallest of a sweep [512M on accelerators, 16M on the host].",
    )
    end: str = option(
        SIZES, "-e", "--end", "--maxbytes", default="", metavar="SIZE", help="Largest size [-b]."
    )
    factor: float = option(
        SIZES, "-f", "--factor", "--stepfactor", default=2.0, type=RealNumber(), help="Growth [2]."
    )
    elements: int | None = option(
        SIZES,
        "-n",
        "--num-elems",
        "--num_elems",
        type=WholeNumber(1, _MOST_ELEMENTS),
        metavar="N",
        help="The size as a number of 4-byte integers.",
    )
    random_sizes: int = option(
        SIZES,
        "-i",
        "--num-iterations",
        "--num_iterations",
        default=1,
        type=WholeNumber(1, 10_000),
        metavar="N",
        help="Number of random sizes between -y and -x.",
    )
    least_elements: int | None = option(
        SIZES,
        "-y",
        "--min-num-elems",
        "--min_num_elems",
        type=WholeNumber(1, _MOST_ELEMENTS),
        metavar="N",
        help="Minimum number of integers of a random size.",
    )
    most_elements: int | None = option(
        SIZES,
        "-x",
        "--max-num-elems",
        "--max_num_elems",
        type=WholeNumber(1, _MOST_ELEMENTS),
        metavar="N",
        help="Maximum number of integers of a random size.",
    )
    offset: str = option(
        SIZES,
        "--buffer-offset",
        "--buffer_offset",
        default="0",
        metavar="SIZE",
        help="Offset of the copies in the buffers, a multiple of 4 bytes [0].",
    )
    devices: str = changed(_SHARED["devices"])
    ccl: str = changed(
        _SHARED["ccl"],
        metavar="NAME",
        help="Library between hosts: nccl, mpi, … [the devices' own; mpi for host devices].",
    )
    ccl_path: str = changed(_SHARED["ccl_path"])
    bind: str = changed(_SHARED["bind"])
    device_list: str = option(
        WHERE,
        "-l",
        "--dev-list",
        "--dev_list",
        default="",
        metavar="LIST",
        help="Device numbers, as many as -g.",
    )
    count: int | None = option(
        WHERE,
        "-g",
        "--num-gpus",
        "--num_gpus",
        "--ngpus",
        type=WholeNumber(),
        metavar="N",
        help="Number of devices; host devices only with --devices host [all].",
    )
    per_device: int | None = option(
        WHERE,
        "-m",
        "--is-multi-proc",
        "--is_multi_proc",
        help="A process for each device instead of one for all [0; host devices always].",
        **_SWITCH,
    )
    blocks: str = option(
        METHOD,
        "--num-thread-blocks",
        "--num_thread_blocks",
        default="-1",
        metavar="LIST",
        help="Thread blocks of a kernel: 16, or 1,2,4, or 1-132 (doubling) [as many as fit].",
    )
    threads: int = option(
        METHOD,
        "-s",
        "--block-size",
        "--block_size",
        default=-1,
        type=WholeNumber(),
        metavar="N",
        help="Threads of a block [selected for the kernel].",
    )
    repeat: int | None = option(
        METHOD,
        "-r",
        "--repeat",
        type=WholeNumber(1, 1000),
        metavar="N",
        help="Number of consecutive copies in a sample [as many as last 5 ms].",
    )
    warmup: int = option(
        METHOD,
        "-w",
        "--warmup",
        default=1,
        help="For compatibility with PCCL; the first copy never counts.",
        **_SWITCH,
    )
    verify: int = option(
        METHOD, "-v", "--verify", default=1, help="Check the received data [1].", **_SWITCH
    )
    precision_percent: float = changed(_SHARED["precision_percent"], 1.0, shown="1")
    max_time_s: float = changed(
        _SHARED["max_time_s"], 0.5, help="Maximum time for sampling one transfer [0.5]."
    )
    timeout_s: float = changed(
        _SHARED["timeout_s"],
        help="Maximum time for one phase; a copy that takes half of it times out [60].",
    )
    seed: int = changed(_SHARED["seed"], help="Seed of the data and of random sizes [1].")
    inject: list[str] = changed(
        _SHARED["inject"],
        help=(
            "A fault to inject, to verify its detection: corrupt:pair=0-1,index=5 or "
            "delay:pair=2-3,ms=5."
        ),
    )
    shares: int = option(
        OUTPUT,
        "-u",
        "--display-ur",
        "--display_ur",
        default=0,
        help="Also print the share of the link limit.",
        **_SWITCH,
    )
    most_shown: int = option(
        OUTPUT,
        "--max-display",
        "--max-display-num-elems",
        "--max_display_num_elems",
        default=32,
        type=WholeNumber(least=1),
        metavar="N",
        help="Maximum number of devices in a matrix [32].",
    )
    format: str = option(
        OUTPUT,
        "--format",
        default="table",
        type=click.Choice(["table", "json", "csv", "markdown", "pccl"]),
        help="Output format [table].",
    )
    output: Path | None = changed(_SHARED["output"])
    journal: Path | None = changed(_SHARED["journal"])
    resume: Path | None = changed(_SHARED["resume"])
    fake_driver: str = option(
        OUTPUT,
        "--use-fake-driver",
        "--use_fake_driver",
        default="",
        hidden=True,
        is_flag=False,
        flag_value="1",
    )
    virtual: str = option(
        OUTPUT,
        "--disable-vm",
        "--disable_vm",
        default="",
        hidden=True,
        is_flag=False,
        flag_value="1",
    )
    single_die: str = option(
        OUTPUT,
        "--is-single-die",
        "--is_single_die",
        default="",
        hidden=True,
        is_flag=False,
        flag_value="1",
    )
    no_link_check: str = option(
        OUTPUT,
        "--ignore-icn-conn-check",
        "--ignore_icn_conn_check",
        default="",
        hidden=True,
        is_flag=False,
        flag_value="1",
    )


_OF_P2P = TransferFlags.__dataclass_fields__


@dataclass
class PcclFlags(TransferFlags):
    """The options of PCCL's p2pBandwidthLatencyTest: three short forms and defaults differ."""

    perf: str = changed(_OF_P2P["perf"], "uniBw", shown="uniBw")
    engine: str = changed(_OF_P2P["engine"], "SM", shown="SM")
    latency_method: str = changed(_OF_P2P["latency_method"], "copy", shown="copy")
    begin: str = changed(_OF_P2P["begin"], drop=("-b",), shown="-n")
    end: str = changed(_OF_P2P["end"], drop=("-e",), shown="--begin")
    factor: float = changed(_OF_P2P["factor"], drop=("-f",))
    blocks: str = changed(_OF_P2P["blocks"], add=("-b",))
    local_too: int = changed(_OF_P2P["local_too"], add=("-e",))
    most_shown: int = changed(_OF_P2P["most_shown"], add=("-f",))
    elements: int | None = changed(_OF_P2P["elements"], 10_000_000, shown="10000000")
    repeat: int | None = changed(_OF_P2P["repeat"], 15, shown="15")
    verify: int = changed(_OF_P2P["verify"], 0, shown="0")
    max_time_s: float = changed(
        _OF_P2P["max_time_s"], 1e-9, shown="one sample"
    )  # one sample, as in that tool
    format: str = changed(_OF_P2P["format"], "pccl", shown="pccl")


def p2p_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    summary = "Bandwidth and latency between every pair of devices."
    return command(name, summary, TransferFlags, run)


def pccl_command(name: str, run: Action) -> click.Command:
    """Returns the command with PCCL's options."""
    pccl = command(
        name,
        "The same with the options, defaults and output of PCCL's tool of this name.",
        PcclFlags,
        run,
    )
    pccl.hidden = True
    return pccl
