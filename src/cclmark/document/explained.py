"""Executed algorithms of each case, by operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from cclmark.base.grouping import abridged, by_key
from cclmark.base.printable import plain
from cclmark.document.blocks import Table
from cclmark.document.text import counted
from cclmark.explain.nccl_log import BY_CALL, BY_GRAPH, NOT_REGISTERED
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Explanation
from cclmark.work.cases import Case
from cclmark.work.operations import moves_data
from cclmark.work.sizes import format_size

RAN_NOTE = (
    "From a separate pass with new ranks after measuring: timed operations were not observed. "
    "Choices made by a setting are marked; those of a library that reports nothing are unknown."
)
_SOURCES = {
    "plug-in": "the library's plug-in interface",
    "log": "the library's log",
    "engine": "cclmark's engine",
    "variables": "the library's variables: selected, not observed",
}
_REGISTERED = {
    BY_CALL: "registered buffers",
    BY_GRAPH: "buffers registered by the graph",
    NOT_REGISTERED: "buffers not registered",
}
# The cases of one size and the explanation of each placement.
_Placed = dict[str, Explanation]
#: By size in bytes.
Entries = dict[int, tuple[Case, _Placed]]


@dataclass(frozen=True)
class Choices:
    """What ran at each size. ``rows``: ranges of sizes with the same choice, and the choice.

    ``remarks``: reasons, each with the sizes that it is about.
    """

    rows: list[tuple[str, str]]
    remarks: list[str] = field(default_factory=list)


def ran_tables(results: Iterable[CaseResult]) -> list[Table]:
    """Returns a table for each operation, which pages have in a section of their own."""
    return [
        Table(title, ("sizes", "what ran"), found.rows, "><", found.remarks, on_page=False)
        for title, found in _what_ran(results)
    ]


def _what_ran(results: Iterable[CaseResult]) -> Iterator[tuple[str, Choices]]:
    """The title and what ran for each operation of the results with an explanation."""
    sections: dict[tuple[object, ...], Entries] = {}
    for result in results:
        if result.explanation is not None and result.cycle == 0:
            case = result.case
            sizes = sections.setdefault(
                (case.operation, case.ccl, case.dtype, case.reduction, case.root), {}
            )
            _, placed = sizes.setdefault(case.size_bytes, (case, {}))
            placed[case.placement] = result.explanation
    for sizes in sections.values():
        yield head_of(*title_and_sources(list(sizes.values()))), choices_of(sizes)


def head_of(title: str, sources: str) -> str:
    """The heading of an operation: ``all_reduce float32 sum · nccl, what ran (the …)``."""
    return f"{title}, what ran" + (f" ({sources})" if sources else "")


def title_and_sources(
    entries: Sequence[tuple[Case, _Placed]], *, with_root: bool = True
) -> tuple[str, str]:
    """Returns the operation with its library, and the sources of the explanations."""
    case = entries[0][0]
    sources = {_SOURCES.get(one.source, "") for _, placed in entries for one in placed.values()}
    dtype = case.dtype if moves_data(case.operation) else ""
    title = " ".join(filter(None, (case.operation, dtype, case.reduction)))
    if case.root and with_root:
        title += f" root {case.root}"
    return f"{title} · {case.ccl}", ", ".join(sorted(sources - {""}))


def choices_of(sizes: Entries) -> Choices:
    """Returns a row for each range of sizes with the same choices, and the remarks."""
    entries = [sizes[size] for size in sorted(sizes)]
    rows: list[tuple[str, str]] = []
    begin = 0
    for end in range(1, len(entries) + 1):
        if end < len(entries) and _choices(entries[end][1]) == _choices(entries[begin][1]):
            continue
        rows += _rows(entries[begin][0], entries[end - 1][0], entries[begin][1])
        begin = end
    return Choices(rows, _remarks(entries))


def _rows(first: Case, last: Case, placed: _Placed) -> list[tuple[str, str]]:
    sizes = first.size_words()
    if first.size_bytes != last.size_bytes:
        sizes += f" – {format_size(last.size_bytes)}"
    by_choice = by_key((_choice(one), placement) for placement, one in placed.items())
    if len(by_choice) == 1:
        return [(sizes, next(iter(by_choice)))]
    return [(sizes, f"{choice}, {' and '.join(names)}") for choice, names in by_choice.items()]


def _choices(placed: _Placed) -> dict[str, str]:
    return {placement: _choice(one) for placement, one in placed.items()}


def _choice(one: Explanation) -> str:
    if one.source == "unknown":
        return f"unknown: {plain(one.reason)}"
    channels = counted(one.channels, "channel") if one.channels else ""
    named = one.algorithm if one.kernel in ("symmetric", "copy engine") else ""
    how = " ".join(filter(None, (one.kernel, named, one.protocol)))
    rule = f"by {plain(one.rule)}" if one.rule else ""
    registered = _REGISTERED.get(one.registered, "")
    return ", ".join(filter(None, (plain(how), channels, registered, rule)))


def _remarks(entries: Sequence[tuple[Case, _Placed]]) -> list[str]:
    """The reasons of explanations, each with the sizes that it is about."""
    sizes = by_key(
        (one.reason, case.size_bytes)
        for case, placed in entries
        for one in placed.values()
        if one.reason and one.source != "unknown"
    )
    lines = []
    for reason, of in sizes.items():
        where = format_size(min(of))
        if min(of) != max(of):
            where += f" – {format_size(max(of))}"
        lines.append(f"{where}: {plain(reason)}")
    return lines


_MOST_NAMED = 6  # pairs of a group
_MOST_GROUPS = 8
_HEAD = ("size", "what ran", "remarks")


def tables_of_pairs(results: Iterable[CaseResult], name_of: Callable[[Case], str]) -> list[Table]:
    """Returns tables for each operation, by groups of pairs; none without explanations.

    ``name_of``: names the two devices of a case, and the direction if it has a root. A group has
    the pairs with the same choices at all sizes, the most frequent choices first; it is not named
    if all pairs agree.
    """
    sections: dict[tuple[object, ...], dict[str, Entries]] = {}
    for result in results:
        if result.explanation is None:
            continue
        case = result.case
        section = (case.operation, case.ccl, case.dtype, case.reduction)
        sizes = sections.setdefault(section, {}).setdefault(name_of(case), {})
        _, placed = sizes.setdefault(case.size_bytes, (case, {}))
        placed[case.placement] = result.explanation
    return [table for pairs in sections.values() for table in _tables(pairs)]


def _tables(pairs: dict[str, Entries]) -> list[Table]:
    every = [entry for sizes in pairs.values() for entry in sizes.values()]
    head = head_of(*title_and_sources(every, with_root=False))
    groups: dict[tuple[object, ...], tuple[Choices, list[str]]] = {}
    for name, sizes in sorted(pairs.items(), key=lambda one: _place(one[1])):
        choices = choices_of(sizes)
        groups.setdefault((*choices.rows, *choices.remarks), (choices, []))[1].append(name)
    ordered = sorted(groups.values(), key=lambda group: -len(group[1]))
    tables = []
    for choices, names in ordered[:_MOST_GROUPS]:
        title = f"{head}: {_named(names, len(pairs))}" if len(ordered) > 1 else head
        rows, remarks = choices.rows, "\n".join(choices.remarks)
        if remarks:
            with_remarks = [*((*row, "") for row in rows[:-1]), (*rows[-1], remarks)]
            tables.append(Table(title, _HEAD, with_remarks, "><<", is_last_below=True))
        else:
            tables.append(Table(title, _HEAD[:-1], rows, "><"))
    if left := sum(len(names) for _, names in ordered[_MOST_GROUPS:]):
        rest = f"{counted(left, 'other pair')} with yet other choices: see the CSV"
        tables[-1] = replace(tables[-1], notes=[rest])
    return tables


def _place(sizes: Entries) -> tuple[tuple[int, int], int]:
    """The key that sorts pairs by their devices, and directions by their root."""
    case, _ = next(iter(sizes.values()))
    assert case.pair is not None
    return case.pair, case.root or 0


def _named(names: list[str], pairs: int) -> str:
    """``2 of 6 pairs: DEV0–DEV1, DEV2–DEV3``."""
    return f"{len(names)} of {pairs} pairs: {abridged(names, _MOST_NAMED)}"
