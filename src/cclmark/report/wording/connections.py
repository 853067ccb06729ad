"""How a library connects the ranks, as lines below a table."""

from __future__ import annotations

from collections.abc import Iterable

from cclmark.analysis.paths import path_warnings
from cclmark.explain.paths import Route
from cclmark.printable import plain
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.text import counted
from cclmark.results.schema import Header, Paths, Ring, Tree

_MOST_NAMED = 6  # pairs of one line
_MOST_RANKS = 16  # of a ring or tree in full
_MOST_SHAPES = 4  # different rings, or trees
_SOURCES = {"log": "the library's log", "engine": "cclmark's engine"}


def connection_lines(header: Header, every: Iterable[Paths], paint: Paint = unpainted) -> list[str]:
    """Returns a block for each library: transports, rings, trees, settings and warnings."""
    lines: list[str] = []
    for paths in every:
        if paths.source == "unknown":
            lines.append(f"  {paths.ccl}, connections: unknown: {plain(paths.reason)}")
        else:
            source = _SOURCES.get(paths.source, paths.source)
            lines.append(f"  {paths.ccl}, connections ({source})")
            lines += [f"    {line}" for line in _routes(header, paths)]
            if len(header.devices) > 1:
                lines += [f"    ring  {line}" for line in ring_lines(paths.rings)]
                lines += [f"    tree  {line}" for line in tree_lines(paths.trees)]
            if settings := _settings(paths):
                lines.append(f"    set   {settings}")
        warnings = [*path_warnings(header, paths), *map(_of_library, paths.messages)]
        lines += [paint(f"    warning: {plain(text)}", "yellow") for text in warnings]
    return lines


def _of_library(message: str) -> str:
    return f"{message} (message of the library)"


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
        if known := [kind for kind in kinds if kind not in ("", "?", "MEM")]:
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
    names = ", ".join(f"{first}–{second}" for first, second in pairs[:_MOST_NAMED])
    more = len(pairs) - _MOST_NAMED
    return f"ranks {names}" + (f" and {more} more pairs" if more > 0 else "")


def ring_lines(rings: list[Ring]) -> list[str]:
    """Returns a line for each ring, those that are too many counted."""
    lines = []
    for ring in rings[:_MOST_SHAPES]:
        shown = " → ".join(map(str, ring.ranks[:_MOST_RANKS]))
        end = " → …" if len(ring.ranks) > _MOST_RANKS else f" → {ring.ranks[0]}"
        lines.append(f"{shown}{end} ({counted(ring.channels, 'channel')})")
    return lines + _others(len(rings))


def tree_lines(trees: list[Tree]) -> list[str]:
    """Returns a line for each tree, those that are too many counted."""
    lines = []
    for tree in trees[:_MOST_SHAPES]:
        children: dict[int, list[int]] = {}
        for rank, parent in enumerate(tree.parents):
            children.setdefault(parent, []).append(rank)
        shown = [
            f"{parent} ← {', '.join(map(str, below))}"
            for parent, below in children.items()
            if parent >= 0
        ]
        more = "; …" if len(shown) > _MOST_RANKS else ""
        text = "; ".join(shown[:_MOST_RANKS]) + more
        lines.append(f"{text} ({counted(tree.channels, 'channel')})")
    return lines + _others(len(trees))


def _others(number: int) -> list[str]:
    return [f"and {number - _MOST_SHAPES} others"] if number > _MOST_SHAPES else []


def _settings(paths: Paths) -> str:
    """The variables that are set, and facts that the library reports."""
    return ", ".join(
        f"{plain(name)}={plain(value)}" if name.isupper() else f"{plain(name)} {plain(value)}"
        for name, value in sorted(paths.parameters.items())
    )
