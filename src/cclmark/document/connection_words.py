"""How a library connects the ranks, in words: as data and as lines below a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cclmark.analysis.links import path_warnings
from cclmark.base.grouping import abridged, by_key
from cclmark.base.printable import plain
from cclmark.document.paint import Paint, unpainted
from cclmark.document.text import counted
from cclmark.explain.paths import CHUNK_BYTES, FLAGCX_SINGLE, Route
from cclmark.journal.schema import Header, Paths, Ring, Tree
from cclmark.journal.topology import UNKNOWN_LINK
from cclmark.work.sizes import format_size

_MOST_NAMED = 6  # pairs of one line
_MOST_RANKS = 16  # of a ring or tree in full
_MOST_SHAPES = 4  # different rings, or trees
_TRANSPORT = "transport"
_SOURCES = {"log": "the library's log", "engine": "cclmark's engine"}


@dataclass(frozen=True)
class Connections:
    """How one library connects the ranks.

    ``parts``: names (transport, ring, tree, set, parameters) and descriptions. ``reason``: why
    nothing is known, empty if something is.
    """

    ccl: str
    source: str
    reason: str
    parts: list[tuple[str, str]]
    warnings: list[str]


def connections_of(header: Header, paths: Paths) -> Connections:
    """Returns transports, rings, trees, settings and warnings, in words."""
    warnings = [
        *path_warnings(header, paths),
        *(f"{one} (message of the library)" for one in paths.messages),
    ]
    parts: list[tuple[str, str]] = []
    reason = plain(paths.reason) if paths.source == "unknown" else ""
    if not reason:
        parts += [(_TRANSPORT, line) for line in _routes(header, paths)]
        if len(header.devices) > 1:
            parts += [("ring", line) for line in ring_lines(paths.rings)]
            parts += [("tree", line) for line in tree_lines(paths.trees)]
        parts += _settings(paths)
    source = _SOURCES.get(paths.source, paths.source)
    return Connections(paths.ccl, source, reason, parts, list(map(plain, warnings)))


def connection_lines(
    header: Header, every: Iterable[Paths], paint: Paint = unpainted, *, warnings: bool = True
) -> list[str]:
    """Returns a block of lines for each library, with its warnings."""
    lines: list[str] = []
    for paths in every:
        found = connections_of(header, paths)
        if found.reason:
            lines.append(f"  {found.ccl}, connections: unknown: {found.reason}")
        else:
            lines.append(f"  {found.ccl}, connections ({found.source})")
        width = max((len(name) for name, _ in found.parts if name != _TRANSPORT), default=0)
        for name, text in found.parts:
            lines.append(f"    {text}" if name == _TRANSPORT else f"    {name:<{width}}  {text}")
        if warnings:
            lines += [paint(f"    warning: {text}", "yellow") for text in found.warnings]
    return lines


def transport_groups(paths: Paths) -> dict[str, list[tuple[int, int]]]:
    """The pairs of ranks by transport, each once with the lower rank first, in order."""
    groups: dict[str, dict[tuple[int, int], None]] = {}
    for route in paths.routes:
        pair = (min(route.first, route.second), max(route.first, route.second))
        groups.setdefault(route.transport, {})[pair] = None
    return {transport: list(pairs) for transport, pairs in groups.items()}


def _routes(header: Header, paths: Paths) -> list[str]:
    ranks = len(header.devices)
    relations = {(one.first, one.second): one.kind for one in header.relations}
    lines = []
    for transport, pairs in transport_groups(paths).items():
        of = [route for route in paths.routes if route.transport == transport]
        parts = [plain(transport)]
        if channels := _channels(of):
            parts.append(channels)
        kinds = dict.fromkeys(relations.get(pair, "") for pair in pairs)
        if known := [kind for kind in kinds if kind not in ("", UNKNOWN_LINK, "MEM")]:
            parts.append(f"devices connected by {', '.join(known)}")
        devices = dict.fromkeys(name for route in of for name in route.devices)
        if devices:
            parts.append(f"network devices {', '.join(map(plain, devices))}")
        lines.append(f"{_pairs(pairs, ranks)}  {', '.join(parts)}")
    return lines


def _channels(routes: Iterable[Route]) -> str:
    numbers = sorted({route.channels for route in routes} - {0})
    if not numbers:
        return ""
    if len(numbers) == 1:
        return counted(numbers[0], "channel")
    return f"{numbers[0]} to {numbers[-1]} channels"


def _pairs(pairs: list[tuple[int, int]], ranks: int) -> str:
    if len(pairs) > 1 and len(pairs) == ranks * (ranks - 1) // 2:
        return f"all {len(pairs)} pairs of ranks"
    names = [f"{first}–{second}" for first, second in pairs]
    return f"ranks {abridged(names, _MOST_NAMED, noun='more pairs')}"


def ring_text(ring: Ring) -> str:
    """The ranks and the channels: ``0 → 1 → 0 (12 channels)``."""
    shown = " → ".join(map(str, ring.ranks[:_MOST_RANKS]))
    end = " → …" if len(ring.ranks) > _MOST_RANKS else f" → {ring.ranks[0]}"
    return f"{shown}{end} ({counted(ring.channels, 'channel')})"


def tree_text(tree: Tree) -> str:
    """The children of each rank and the channels: ``0 ← 1; 1 ← 2, 3 (12 channels)``."""
    children = by_key((parent, rank) for rank, parent in enumerate(tree.parents))
    shown = [
        f"{parent} ← {', '.join(map(str, below))}"
        for parent, below in children.items()
        if parent >= 0
    ]
    more = "; …" if len(shown) > _MOST_RANKS else ""
    return f"{'; '.join(shown[:_MOST_RANKS])}{more} ({counted(tree.channels, 'channel')})"


def ring_lines(rings: list[Ring]) -> list[str]:
    """The first rings, and the number of others."""
    return _shapes(list(map(ring_text, rings)))


def tree_lines(trees: list[Tree]) -> list[str]:
    """The first trees, and the number of others."""
    return _shapes(list(map(tree_text, trees)))


def _shapes(texts: list[str]) -> list[str]:
    """The texts of the first shapes, and the number of others."""
    more = len(texts) - _MOST_SHAPES
    return texts[:_MOST_SHAPES] + ([f"and {counted(more, 'other')}"] if more > 0 else [])


def _settings(paths: Paths) -> list[tuple[str, str]]:
    """The variables that are set, and the parameters that the library reports."""
    variables, parameters = [], []
    for name, value in sorted(paths.parameters.items()):
        if name.isupper():
            variables.append(f"{plain(name)}={plain(value)}")
        else:
            parameters.append(": ".join(_parameter(name, value)))
    named = (("set", variables), ("parameters", parameters))
    return [(name, ", ".join(texts)) for name, texts in named if texts]


def _parameter(name: str, value: str) -> tuple[str, str]:
    """The name and the value of a parameter for a reader."""
    if name == CHUNK_BYTES and value.isascii() and value.isdecimal():
        return "chunk of messages", format_size(int(value))
    if name == FLAGCX_SINGLE:
        return "clusters of one rank in FlagCX", plain(value)
    return plain(name), plain(value)
