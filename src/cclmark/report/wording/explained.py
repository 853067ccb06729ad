"""What the library did for each case, as lines below a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.report.wording.text import counted
from cclmark.results.kinds import CaseResult
from cclmark.results.schema import Explanation

_SOURCES = {
    "plug-in": "the library's plug-in interface",
    "log": "the library's log",
    "engine": "cclmark's engine",
    "variables": "the library's variables: selected, not observed",
}
# The cases of one size and the explanation of each placement.
_Placed = dict[str, Explanation]
#: By size in bytes.
Entries = dict[int, tuple[Case, _Placed]]


def explained_lines(results: Iterable[CaseResult]) -> list[str]:
    """Returns a block for each operation: size ranges with the same choice, and its source.

    Empty if no result has an explanation.
    """
    sections: dict[tuple[object, ...], Entries] = {}
    for result in results:
        if result.explanation is not None and result.cycle == 0:
            case = result.case
            sizes = sections.setdefault(_section(case), {})
            _, placed = sizes.setdefault(case.size_bytes, (case, {}))
            placed[case.placement] = result.explanation
    lines: list[str] = []
    for sizes in sections.values():
        lines += [head_line(list(sizes.values())), *choice_lines(sizes)]
    return lines


def _section(case: Case) -> tuple[object, ...]:
    return (case.operation, case.ccl, case.dtype, case.reduction, case.root)


def head_line(entries: Sequence[tuple[Case, _Placed]], *, with_root: bool = True) -> str:
    """Returns the operation, the library and the sources of the explanations."""
    case = entries[0][0]
    sources = {_source(one) for _, placed in entries for one in placed.values()}
    title = " ".join(filter(None, (case.operation, case.dtype, case.reduction)))
    if case.root and with_root:
        title += f" root {case.root}"
    known = ", ".join(sorted(sources - {""}))
    return f"  {title} · {case.ccl}, what ran" + (f" ({known})" if known else "")


def choice_lines(sizes: Entries) -> list[str]:
    """Returns a line for each range of sizes with the same choices, followed by remarks."""
    entries = [sizes[size] for size in sorted(sizes)]
    rows: list[tuple[str, str]] = []
    begin = 0
    for end in range(1, len(entries) + 1):
        if end < len(entries) and _choices(entries[end][1]) == _choices(entries[begin][1]):
            continue
        rows += _rows(entries[begin][0], entries[end - 1][0], entries[begin][1])
        begin = end
    width = max(len(sizes) for sizes, _ in rows)
    lines = [f"    {sizes:>{width}}  {choice}" for sizes, choice in rows]
    return [*lines, *_remarks(entries)]


def _rows(first: Case, last: Case, placed: _Placed) -> list[tuple[str, str]]:
    sizes = format_size(first.size_bytes) if moves_data(first.operation) else "-"
    if first.size_bytes != last.size_bytes:
        sizes += f" – {format_size(last.size_bytes)}"
    by_choice: dict[str, list[str]] = {}
    for placement, one in placed.items():
        by_choice.setdefault(_choice(one), []).append(placement)
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
    return ", ".join(filter(None, (plain(how), channels)))


def _source(one: Explanation) -> str:
    return _SOURCES.get(one.source, "")


def _remarks(entries: Sequence[tuple[Case, _Placed]]) -> list[str]:
    """The reasons of explanations, each with the sizes that it is about."""
    sizes: dict[str, list[int]] = {}
    for case, placed in entries:
        for one in placed.values():
            if one.reason and one.source != "unknown":
                sizes.setdefault(one.reason, []).append(case.size_bytes)
    lines = []
    for reason, of in sizes.items():
        where = format_size(min(of))
        if min(of) != max(of):
            where += f" – {format_size(max(of))}"
        lines.append(f"    {where}: {plain(reason)}")
    return lines
