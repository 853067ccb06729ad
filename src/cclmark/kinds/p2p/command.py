"""``cclmark p2p``: every pair of devices, and the same command with PCCL's options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import click

from cclmark.base.errors import UsageError
from cclmark.options import groups
from cclmark.options.command import (
    METHOD,
    OPERATION,
    OUTPUT,
    SIZES,
    WHERE,
    Ascending,
    Excludes,
    OptionRules,
    changed,
    option,
)
from cclmark.options.types import FACTOR, Names, Parsed, Size, WholeNumber
from cclmark.recording.caller import notice
from cclmark.work.runtimes import NamedDevices, parse_devices

# Those of cclmark.work.transfers, which help texts must not wait for.
PERFORMANCES = ("uniBw", "biBw", "latency")
ENGINES = ("CE", "SM")
KERNELS = ("cacheCopy", "ncCopy", "bulkCopy")
DIRECTIONS = ("write", "read")
SCOPES = ("pairs", "local", "host", "all-to-one", "one-to-all", "all-pairs")
GATES = ("stream-wait", "host-function", "events")
BETWEEN_HOSTS = ("auto", "fabric", "messages")
#: PCCL's forms of --kernel: cache policies of loads and stores, and of remote memory.
_FORM = re.compile(r"(?P<load>[a-z]+)-(?P<store>[a-z]+)-[a-z0-9]+(-[a-z0-9]+)?", re.IGNORECASE)
_POLICIES = {("ca", "wb"): "cacheCopy", ("nc", "wb"): "ncCopy"}
_POLICY_WORDS = {
    "cacheCopy": "plain loads and stores",
    "ncCopy": "loads through the read-only cache, plain stores",
}
_MOST_ELEMENTS = 1 << 48
_MOST_BLOCKS = 65535

_SWITCH: dict[str, Any] = {
    "type": WholeNumber(0, 1),
    "is_flag": False,
    "flag_value": 1,
    "metavar": "[0|1]",
}


def _device_numbers(text: str) -> NamedDevices:
    """Parses the numbers of --dev_list; -1 is none."""
    listed = ",".join(entry for entry in text.split(",") if entry.strip())
    return parse_devices("" if listed == "-1" else listed)


def _blocks(text: str) -> list[int]:
    """Parses numbers of thread blocks: ``16``, ``1,2,4``, ``1-132`` (doubling); -1: the default."""
    counts: list[int] = []
    for entry in text.split(","):
        word = entry.strip()
        if word == "-1":
            counts.append(0)
            continue
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"cannot read the thread blocks {text!r}: write 16 or 1,2,4 or 1-132")
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= _MOST_BLOCKS:
            raise UsageError(f"thread blocks: choose from 1 to {_MOST_BLOCKS}, not {word!r}")
        while low < high:
            counts.append(low)
            low *= 2
        counts.append(high)
    return list(dict.fromkeys(counts))


class Kernels(Names):
    """Kernels, also in PCCL's form ``<load>-<store>-<remote>``. ``one``: only one."""

    def __init__(self, *, one: bool = False) -> None:
        super().__init__(KERNELS, "kernel", one=one)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the list of kernels. Raises click.BadParameter."""
        if not isinstance(value, str):
            return super().convert(value, param, ctx)
        words = [word.strip() for word in value.split(",")]
        for place, word in enumerate(words):
            if (form := _FORM.fullmatch(word)) is None:
                continue
            policies = (form["load"].lower(), form["store"].lower())
            if policies not in _POLICIES:
                known = " and ".join(f"{load}-{store}-…" for load, store in _POLICIES)
                self.fail(
                    f"{word}: no kernel has these cache policies of loads and stores, which PCCL's "
                    f"guide does not explain; alike are {known}, or choose from "
                    f"{', '.join(KERNELS)}",
                    param,
                    ctx,
                )
            words[place] = _POLICIES[policies]
            notice(
                f"--kernel {word} is measured as {words[place]}: "
                f"{_POLICY_WORDS[words[place]]}; policies for remote memory have no counterpart"
            )
        return super().convert(",".join(words), param, ctx)


def _option(*names: str, **rest: Any) -> Any:
    """An option that PCCL spells with underscores too."""
    spelt = [name[:2] + name[2:].replace("-", "_") for name in names]
    return option(*dict.fromkeys((*names, *spelt)), **rest)


def _ignored(name: str) -> Any:
    """An option of PCCL's program without effect."""
    return _option(name, title=OUTPUT, default="", hidden=True, is_flag=False, flag_value="1")


@dataclass
class CopyOptions(
    groups.LibraryFileOptions,
    groups.DeviceOptions,
    groups.TimeoutOptions,
    groups.SeedOptions,
    groups.FormatOptions,
    groups.ColumnOptions,
    groups.ConditionOptions,
    groups.FileOptions,
):
    """What the commands about copies between devices have."""

    title: ClassVar[str] = OPERATION
    rules: ClassVar[OptionRules] = (Excludes("devices", "device_list"),)
    usual: ClassVar[tuple[str, ...]] = (
        *("begin", "end", "factor", "count", "devices", "perf", "engine", "direction", "scope"),
        *("max_time_s", "format", "output"),
    )

    perf: list[str] = option(
        "-p",
        "--perf",
        default=[],
        type=Names(PERFORMANCES, "kind"),
        metavar="KINDS",
        help="uniBw, biBw, latency, with commas [all three; of the host no latency].",
    )
    direction: list[str] = _option(
        "-d",
        "--direction",
        "--p2p-direction",
        default=["write"],
        type=Names(DIRECTIONS, "direction"),
        metavar="WAYS",
        help="write: the row's device writes to the column's, read: it reads from there; with "
        "commas [write].",
    )
    engine: list[str] = _option(
        "-t",
        "--engine",
        "--p2p-type",
        default=[],
        type=Names(ENGINES, "engine"),
        metavar="ENGINES",
        help="CE: the copy engine, SM: a kernel; with commas [both; of the host CE, its memcpy].",
    )
    kernel: list[str] = option(
        "-k",
        "--kernel",
        default=["bulkCopy"],
        type=Kernels(),
        metavar="KERNELS",
        help="cacheCopy (plain loads and stores), ncCopy (16-byte loads that bypass the cache's "
        "coherence), bulkCopy (the fastest), with commas, or all; of PCCL's forms LD-ST-RMT: "
        "ca-wb-… and nc-wb-… are the first two [bulkCopy].",
    )
    scope: list[str] = option(
        "--scope",
        default=[],
        type=Names(SCOPES, "scope"),
        metavar="SCOPES",
        help="pairs, local (within a device), host, all-to-one, one-to-all, all-pairs (all at "
        "once, in rounds), with commas, or all [pairs; of one device local,host].",
    )
    no_peer: int = _option(
        "-a",
        "--disable-p2p",
        default=0,
        help="Peer access off: staged through the host, write by the copy engine only.",
        **_SWITCH,
    )
    begin: int | None = option(
        "-b",
        "--begin",
        "--minbytes",
        title=SIZES,
        type=Size(),
        help="Size, or the smallest of a sweep [512M on accelerators, 16M on the host].",
    )
    offset: int = _option(
        "--buffer-offset",
        title=SIZES,
        default=0,
        type=Size(least=0),
        help="Offset of the copies in the buffers, a multiple of 4 bytes [0].",
    )
    ccl: list[str] = changed(
        groups.LibraryOptions,
        "ccl",
        metavar="NAME",
        help="Library between hosts: nccl, mpi, … [the devices' own; mpi for host devices].",
    )
    device_list: NamedDevices = _option(
        "-l",
        "--dev-list",
        title=WHERE,
        default=NamedDevices(),
        type=Parsed(_device_numbers),
        metavar="LIST",
        help="Device numbers, as many as -g.",
    )
    count: int | None = _option(
        "-g",
        "--num-gpus",
        "--ngpus",
        title=WHERE,
        type=WholeNumber(1, unset=-1),
        help="Number of devices; host devices only with --devices host [all].",
    )
    per_device: int | None = _option(
        "-m",
        "--is-multi-proc",
        title=WHERE,
        help="A process for each device instead of one for all [0; host devices always].",
        **_SWITCH,
    )
    blocks: list[int] = _option(
        "--num-thread-blocks",
        title=METHOD,
        default=[0],
        type=Parsed(_blocks),
        metavar="LIST",
        help="Thread blocks of a kernel: 16, or 1,2,4, or 1-132 (doubling) [as many as fit].",
    )
    threads: int | None = _option(
        "-s",
        "--block-size",
        title=METHOD,
        type=WholeNumber(1, 1024, unset=-1),
        help="Threads of a block [selected for the kernel].",
    )
    repeat: int | None = option(
        "-r",
        "--repeat",
        title=METHOD,
        type=WholeNumber(1, 1000),
        help="Number of consecutive copies in a sample [as many as last 5 ms].",
    )
    warmup: int = option(
        "-w",
        "--warmup",
        title=METHOD,
        default=1,
        help="For compatibility with PCCL; the first copy never counts.",
        **_SWITCH,
    )
    verify: int = option(
        "-v", "--verify", title=METHOD, default=1, help="Check the received data [1].", **_SWITCH
    )
    gate: str = option(
        "--gate",
        title=METHOD,
        default="auto",
        type=click.Choice(["auto", *GATES]),
        help="How streams are held until all copies are enqueued: by a wait on host memory, by a "
        "host function, or not at all: then copies are timed by events and their times contain "
        "launches [the first that works].",
    )
    timeout_s: float = changed(
        groups.TimeoutOptions,
        "timeout_s",
        help="Maximum time for one phase; a copy that takes half of it times out [60].",
    )
    seed: int = changed(
        groups.SeedOptions, "seed", help="Seed of the data and of random sizes [1]."
    )


@dataclass
class TransferRangeOptions:
    """What is measured one after the other, beside the options of single copies."""

    title: ClassVar[str] = SIZES
    rules: ClassVar[OptionRules] = (
        Excludes("begin", "elements", "both give a size"),
        Ascending("begin", "end"),
        *(
            Excludes(one, other, "one gives a sweep, the other random sizes")
            for one in ("begin", "end")
            for other in ("least_elements", "most_elements")
        ),
    )

    bench: str = _option(
        "-c",
        "--bench-type",
        title=OPERATION,
        default="none",
        type=click.Choice(["none", "all", "p2p_write", "p2p_read"], case_sensitive=False),
        help="all: every kind of copy; p2p_write: writes by copy engine with and without peer "
        "access; p2p_read: reads by copy engine.",
    )
    local_too: int = _option(
        "--enable-local-d2d",
        "--enable_local_D2D",
        title=OPERATION,
        default=0,
        help="Copies within each device too: the diagonal.",
        **_SWITCH,
    )
    triangle: int = _option(
        "-j",
        "--eval-p2p-perf-tri",
        "--eval_P2P_perf_tri",
        title=OPERATION,
        default=0,
        help="Each pair once: the upper triangle.",
        **_SWITCH,
    )
    latency_method: str = option(
        "--latency-method",
        title=OPERATION,
        default="auto",
        type=click.Choice(["auto", "copy", "chase", "ping-pong"]),
        help="Latency method: a copy of 16 bytes, a load that waits for the one before, or half a "
        "round trip [CE: copy; SM: ping-pong for write, chase for read].",
    )
    end: int | None = option("-e", "--end", "--maxbytes", type=Size(), help="Largest size [-b].")
    factor: float = option(
        "-f", "--factor", "--stepfactor", default=2.0, type=FACTOR, help="Growth [2]."
    )
    elements: int | None = _option(
        "-n",
        "--num-elems",
        type=WholeNumber(1, _MOST_ELEMENTS),
        help="The size as a number of 4-byte integers.",
    )
    random_sizes: int = _option(
        "-i",
        "--num-iterations",
        default=1,
        type=WholeNumber(1, 10_000),
        help="Number of random sizes between -y and -x.",
    )
    least_elements: int | None = _option(
        "-y",
        "--min-num-elems",
        type=WholeNumber(1, _MOST_ELEMENTS),
        help="Minimum number of integers of a random size.",
    )
    most_elements: int | None = _option(
        "-x",
        "--max-num-elems",
        type=WholeNumber(1, _MOST_ELEMENTS),
        help="Maximum number of integers of a random size.",
    )


@dataclass
class TransferOptions(
    CopyOptions, TransferRangeOptions, groups.SamplingOptions, groups.FaultOptions
):
    """The options of commands that measure copies. ``without``: the groups that one lacks."""

    without: ClassVar[Mapping[type[Any], str]] = {}


@dataclass
class TransferFlags(TransferOptions, groups.ResumeOptions):
    """The options of ``cclmark p2p``."""

    title: ClassVar[str] = OUTPUT
    examples: ClassVar = [
        ("cclmark p2p", "Bandwidth and latency of every pair of accelerators."),
        (
            "cclmark p2p --devices host:2 -b 64K --max-time 0.1",
            "Copies of 64 KiB between two ranks of the host.",
        ),
        (
            "cclmark p2p -t CE -d write,read -b 1M -e 256M -f 4 --format csv -O copies.csv",
            "Both directions by copy engines, several sizes, as CSV.",
        ),
    ]

    shares: int = _option(
        "-u", "--display-ur", default=0, help="Also print the share of the link limit.", **_SWITCH
    )
    most_shown: int = _option(
        "--max-display",
        "--max-display-num-elems",
        default=32,
        type=WholeNumber(least=1),
        help="Maximum number of devices in a matrix [32].",
    )
    between_hosts: str = option(
        "--between-hosts",
        title=OPERATION,
        default="auto",
        type=click.Choice(BETWEEN_HOSTS),
        help="Pairs on different hosts: fabric (copies through fabric handles, besides messages), "
        "or messages of --ccl alone [fabric if all processes have an IMEX channel].",
    )
    precision_percent: float = changed(groups.SamplingOptions, "precision_percent", 1.0, shown="1")
    max_time_s: float = changed(
        groups.SamplingOptions,
        "max_time_s",
        0.5,
        help="Maximum time for sampling one transfer [0.5].",
    )
    inject: list[str] = changed(
        groups.FaultOptions,
        "inject",
        help=(
            "A fault to inject, to verify its detection: corrupt:pair=0-1,index=5 or "
            "delay:pair=2-3,ms=5."
        ),
    )
    fake_driver: str = _ignored("--use-fake-driver")
    virtual: str = _ignored("--disable-vm")
    single_die: str = _ignored("--is-single-die")
    no_link_check: str = _ignored("--ignore-icn-conn-check")
    format: str = option(
        "--format",
        default="table",
        type=click.Choice(["table", "json", "csv", "markdown", "pccl"]),
        help="Output format [table].",
    )


@dataclass
class PcclFlags(TransferFlags):
    """The options of PCCL's p2pBandwidthLatencyTest: three short forms and defaults differ."""

    examples: ClassVar = [
        ("cclmark p2pBandwidthLatencyTest", "Unidirectional bandwidth of copies by a kernel."),
        ("cclmark p2pBandwidthLatencyTest -p uniBw,latency -t CE", "Two matrices by copy engines."),
        ("cclmark p2pBandwidthLatencyTest -p biBw -g 4", "Both directions between four devices."),
    ]

    perf: list[str] = changed(TransferFlags, "perf", ["uniBw"], shown="uniBw")
    engine: list[str] = changed(TransferFlags, "engine", ["SM"], shown="SM")
    latency_method: str = changed(TransferFlags, "latency_method", "copy", shown="copy")
    begin: int | None = changed(TransferFlags, "begin", drop=("-b",), shown="-n")
    end: int | None = changed(TransferFlags, "end", drop=("-e",), shown="--begin")
    factor: float = changed(TransferFlags, "factor", drop=("-f",))
    blocks: list[int] = changed(TransferFlags, "blocks", add=("-b",))
    local_too: int = changed(TransferFlags, "local_too", add=("-e",))
    most_shown: int = changed(TransferFlags, "most_shown", add=("-f",))
    elements: int | None = changed(TransferFlags, "elements", 10_000_000, shown="10000000")
    least_elements: int | None = changed(TransferFlags, "least_elements", shown="8")
    most_elements: int | None = changed(TransferFlags, "most_elements", shown="8")
    repeat: int | None = changed(TransferFlags, "repeat", 15, shown="15")
    verify: int = changed(TransferFlags, "verify", 0, shown="0")
    max_time_s: float = changed(
        TransferFlags, "max_time_s", 1e-9, shown="one sample"
    )  # one sample, as in that tool
    format: str = changed(TransferFlags, "format", "pccl", shown="pccl")
