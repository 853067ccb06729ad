"""``cclmark simulate``: the time of collectives on a network, from flows that share its links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import click

from cclmark.base.errors import UsageError
from cclmark.options.command import (
    METHOD,
    OPERATION,
    WHERE,
    OptionRules,
    Requires,
    argument,
    changed,
    option,
)
from cclmark.options.groups import (
    ColumnOptions,
    ElementOptions,
    FileOptions,
    FormatOptions,
    SizeOptions,
)
from cclmark.options.types import Names, Parsed, Percent, WholeNumber
from cclmark.work.accelerators import EFFICIENCY, LINK_SHARE, MOST_DEVICES
from cclmark.work.sizes import parse_size

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "alltoallv")
ALGORITHMS = ("ring", "rail", "hierarchical", "tree", "pat", "direct", "nvls", "in-network")
ROUTINGS = ("even", "hash", "adaptive")
PACKED, SPREAD, SCATTERED = "packed", "spread", "scattered"
USUAL_SIZE = 1 << 30
_FACTOR = re.compile(r"(\d(?:\.\d{1,6})?|\d{1,2}(?:\.\d{1,4})?%)", re.ASCII)


def _shares(text: str, example: str) -> tuple[str, float]:
    """Reads ``NAME=0.5`` or ``NAME=50%``: above 0 and below 1. Raises UsageError."""
    name, _, value = text.strip().rpartition("=")
    share = 0.0
    if _FACTOR.fullmatch(value):
        share = float(value[:-1]) / 100 if value.endswith("%") else float(value)
    if not name or not 0 < share < 1:
        raise UsageError(f"{text!r}: write {example}, a share above 0 and below 1")
    return name, share


def parse_slow(text: str) -> tuple[str, float]:
    """Reads the name of a link and the factor of its rate. Raises UsageError."""
    return _shares(text, "gpu17-leaf=0.5")


def parse_background(text: str) -> tuple[str, float]:
    """Reads the name of a level and the share that others take of it. Raises UsageError."""
    return _shares(text, "spine=30%")


class NeighbourJob(NamedTuple):
    """A job beside. ``algorithm``: empty for the usual one."""

    operation: str
    size_bytes: int
    ranks: int
    placement: str = PACKED
    algorithm: str = ""
    text: str = ""


def parse_job(text: str) -> NeighbourJob:
    """Reads ``alltoall:256M:64:scattered:direct``. Raises UsageError."""
    words = text.strip().split(":")
    ranks = words[2] if len(words) > 2 else ""
    if (
        not 3 <= len(words) <= 5
        or words[0] not in OPERATIONS[:-1]
        or not (ranks.isascii() and ranks.isdecimal() and len(ranks) < 8)
        or (len(words) == 5 and words[4] not in ALGORITHMS)
    ):
        raise UsageError(
            f"{text!r}: write OPERATION:SIZE:RANKS, then :PLACEMENT and :ALGORITHM if they are "
            "others than packed and ring, for example alltoall:256M:64:scattered:direct"
        )
    placement, algorithm = [*words[3:], *(PACKED, "")[len(words) - 3 :]]
    return NeighbourJob(
        words[0], parse_size(words[1]), int(ranks), placement, algorithm, text.strip()
    )


@dataclass
class SimulateFlags:
    """The options of ``cclmark simulate``."""

    title: ClassVar[str] = OPERATION
    examples: ClassVar = [
        (
            "cclmark simulate all_reduce --topology fat-tree:512x8,oversub=2 -b 1G",
            "All algorithms on 4,096 GPUs.",
        ),
        (
            "cclmark simulate alltoall --topology rail:64x8 --slow-link gpu17-leaf=0.5",
            "What one slow interface costs.",
        ),
        (
            "cclmark simulate --topology fat-tree:64x8,oversub=4 --ranks 256 --placement spread "
            "--job alltoall:1G:256:spread",
            "A job between the nodes of another one.",
        ),
    ]
    about: ClassVar = (
        "Simulates collectives on a network that need not exist.\n\n"
        "Algorithms are flows that share links by max-min fairness. The result is the time of each "
        "algorithm, its share of what the links permit, the hottest links, and what slow links, "
        "placement, background traffic or another job cost. Nothing is measured. OPERATION: "
        f"{', '.join(OPERATIONS)} [all_reduce]."
    )
    usual: ClassVar = (
        *("topology", "begin", "end", "algorithm", "ranks", "placement", "jobs", "slow", "broken"),
        *("background", "routing"),
    )
    rules: ClassVar[OptionRules] = (
        *SizeOptions.rules,
        Requires("columns", "format", ("table", "csv", "markdown")),
    )
    files: ClassVar[tuple[str, ...]] = ()

    operation: str = argument("OPERATION", is_optional=True)
    topology: str = option(
        "--topology",
        default="",
        title=WHERE,
        metavar="TOPOLOGY",
        help="nvlink:72, rail:64x8, fat-tree:512x8,oversub=2, dragonfly:9x8x4x4, torus:16x16x16 (a "
        "wrong option of one lists its options), or the path of a JSON file.",
    )
    begin: int = changed(SizeOptions, "begin", USUAL_SIZE, shown="1G")
    end: int | None = changed(SizeOptions, "end", help="Largest size [-b].")
    step: int = changed(SizeOptions, "step")
    factor: float | None = changed(SizeOptions, "factor")
    algorithm: list[str] = option(
        "--algorithm",
        default=[],
        type=Names(ALGORITHMS, "algorithm", every=False),
        metavar="NAMES",
        help=f"{', '.join(ALGORITHMS)}, with commas [all that the layout permits, without "
        "reduction in switches: nvls, in-network].",
    )
    pattern: str = changed(ElementOptions, "pattern")
    ranks: int | None = option(
        "--ranks",
        title=WHERE,
        type=WholeNumber(2, MOST_DEVICES),
        help="Devices of the job [all that --job leaves].",
    )
    placement: str = option(
        "--placement",
        default=PACKED,
        title=WHERE,
        metavar="PLACEMENT",
        help="Of the ranks; packed: one node after the other; spread: nodes in equal distances; "
        "scattered: nodes in random order; or devices, 0-7,16-23, or a file with them [packed].",
    )
    jobs: list[NeighbourJob] = option(
        "--job",
        multiple=True,
        title=WHERE,
        type=Parsed(parse_job),
        metavar="JOB",
        help="Another job on devices that are left, which repeats its collective: "
        "OPERATION:SIZE:RANKS[:PLACEMENT[:ALGORITHM]]; may be repeated.",
    )
    background: list[tuple[str, float]] = option(
        "--background",
        multiple=True,
        title=WHERE,
        type=Parsed(parse_background),
        metavar="LEVEL=SHARE",
        help="What other traffic takes of all links into a level: spine=30%; may be repeated.",
    )
    slow: list[tuple[str, float]] = option(
        "--slow-link",
        multiple=True,
        title=WHERE,
        type=Parsed(parse_slow),
        metavar="LINK=FACTOR",
        help="A link with a part of its rate, in both directions: gpu17-leaf=0.5, leaf3-spine=0.9, "
        "leaf3-spine.2=0.1 for one of several (a wrong name lists some); may be repeated.",
    )
    broken: list[str] = option(
        "--broken-link",
        multiple=True,
        title=WHERE,
        metavar="LINK",
        help="A link that carries nothing; may be repeated.",
    )
    routing: str = option(
        "--routing",
        default=ROUTINGS[0],
        title=METHOD,
        type=click.Choice(ROUTINGS),
        help="Among equal links; even: a part of each flow over each (packet spraying); hash: one "
        "for each flow (ECMP); adaptive: as much over each as it carries [even].",
    )
    efficiency_percent: float = option(
        "--efficiency",
        default=EFFICIENCY * 100,
        title=METHOD,
        type=Percent("90%", above=True, most=100),
        metavar="PERCENT",
        help="Share of line rates between nodes, of a torus and a graph that transfers achieve "
        "[90%].",
    )
    node_efficiency_percent: float = option(
        "--node-efficiency",
        default=LINK_SHARE * 100,
        title=METHOD,
        type=Percent("80%", above=True, most=100),
        metavar="PERCENT",
        help="Share of line rates within nodes that transfers achieve [80%].",
    )
    format: str = changed(FormatOptions, "format")
    wide: bool = changed(FormatOptions, "wide")
    columns: list[str] = changed(ColumnOptions, "columns")
    output: Path | None = changed(FileOptions, "output")
    journal: Path | None = changed(FileOptions, "journal", metavar="FILE")
    quiet: bool = changed(FileOptions, "quiet")
    print_plan: bool = changed(FileOptions, "print_plan")
