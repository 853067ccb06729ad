"""``cclmark scan``: the slow node, link, rail or switch of a fleet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.base.errors import UsageError
from cclmark.options import groups
from cclmark.options.command import METHOD, OUTPUT, WHERE, changed, flag, option
from cclmark.options.types import DURATION, Parsed
from cclmark.work.runtimes import NamedDevices

_RATE = re.compile(r"\d{1,6}(?:\.\d{1,6})?", re.ASCII)


def parse_floor(text: str) -> tuple[str, float]:
    """Reads ``node=335``, the name of a level and GB/s. Raises UsageError."""
    name, _, value = text.strip().rpartition("=")
    if not name or not _RATE.fullmatch(value) or not float(value):
        raise UsageError(f"{text!r}: write the level and GB/s, for example node=335 or fabric=40")
    return name.strip(), float(value)


@dataclass
class ScanFlags(groups.OneOfEachOptions):
    """The options of ``cclmark scan``, which measures pairs of devices in rounds."""

    examples: ClassVar = [
        ("cclmark scan --budget 10m", "All devices of a job, under srun --ntasks-per-node=8."),
        (
            "cclmark scan --devices host:4 -e 1M --inject delay:rank=2,ms=2",
            "Four ranks of the host, one of which is slow.",
        ),
        (
            "cclmark scan --topology rail:64x8 --bisect --format slurm -O exclude.txt",
            "With the switches of the fabric, as a list of nodes for sbatch --exclude.",
        ),
    ]
    about: ClassVar = (
        "Names the slow node, link, rail or switch of a fleet.\n\n"
        "Rounds of disjoint pairs are measured at once: every level of the address structure, "
        "random partners, and shifted ones at full load; suspects meet others in a second pass. "
        "A host that stops answering is named, and the others continue. The verdict is one of "
        "NODE, LINK, NIC, RAIL, SWITCH, FABRIC-WIDE, TRANSIENT, HOST STATE, THERMAL, NONE or "
        "UNKNOWN, with evidence and confidence. The exit code is 1 if something is slow."
    )
    usual: ClassVar = (
        *("topology", "budget", "bisect", "floor", "accept", "end", "count", "devices", "ccl"),
        *("format", "output", "resume"),
    )
    without: ClassVar = dict.fromkeys(
        (
            groups.IslandOptions,
            groups.TimingOptions,
            groups.LikeOptions,
            groups.SoakOptions,
            groups.ExplainOptions,
            groups.RootOptions,
            groups.ReferenceOptions,
            groups.ConditionOptions,
            groups.ColumnOptions,
        ),
        "cclmark scan measures pairs in rounds, by a separate method: cclmark pairs has this "
        "option",
    )

    topology: str = option(
        "--topology",
        default="",
        title=WHERE,
        metavar="TOPOLOGY",
        help="Racks and switches, as for cclmark simulate: rail:64x8, fat-tree:512x8, a JSON file "
        "[by host names such as rack3-node07].",
    )
    devices: NamedDevices = changed(groups.DeviceOptions, "devices")
    budget: float = option(
        "--budget",
        default=0.0,
        title=METHOD,
        type=DURATION,
        metavar="TIME",
        help="No round begins later: 10m, 90s [no limit].",
    )
    bisect: bool = flag(
        "--bisect",
        title=METHOD,
        help="Also all_reduce of halves, quarters and so on, to narrow a slow collective.",
    )
    complete: bool = flag(
        "--complete",
        title=METHOD,
        help="Measure all rounds, also once the verdict is certain [a scan ends early then; "
        "--bisect and --accept imply it].",
    )
    floor: list[tuple[str, float]] = option(
        "--floor",
        multiple=True,
        title=METHOD,
        type=Parsed(parse_floor),
        metavar="LEVEL=GB/s",
        help="What a healthy pair has at a level: node=335, fabric=40; all_reduce=480: what all "
        "have together; may be repeated [the accepted or published one].",
    )
    accept: bool = flag(
        "--accept",
        title=OUTPUT,
        help="Store the rates as the floors of this fleet: later scans report changes.",
    )
    end: int | None = changed(
        groups.SizeOptions,
        "end",
        help="Largest message; a quarter and a 16th of it are measured, too [64M; of hosts 4M, "
        "between hosts 256K].",
    )
    max_time_s: float = changed(groups.SamplingOptions, "max_time_s", 0.1, shown="0.1")
    inject: list[str] = changed(
        groups.FaultOptions,
        "inject",
        help="A fault to inject, to verify its detection: delay:rank=2,ms=5 or "
        "delay:pair=2-3,ms=5.",
    )
    format: str = changed(
        groups.FormatOptions,
        "format",
        type=click.Choice(["table", "json", "csv", "markdown", "slurm", "kubernetes"]),
        help="What is printed; slurm: the nodes for sbatch --exclude, kubernetes: commands that "
        "drain them [table].",
    )
