"""``cclmark trace --steps``: the table and the file of the steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from cclmark.document.columns import csv_line
from cclmark.document.connection_words import ring_lines, tree_lines
from cclmark.document.text import counted
from cclmark.explain.steps.step import Place, Step
from cclmark.launch.request import Surroundings
from cclmark.plan.sizes import format_size
from cclmark.results.schema import Ring, Tree
from cclmark.results.topology import UNKNOWN_LINK, relations_between
from cclmark.trace.case_steps import (
    DERIVED,
    OBSERVED,
    PLANNED,
    SELECTED,
    UNKNOWN,
    CaseSteps,
)

_MOST_LISTED = 24  # steps; more are summarised
_MOST_LINES = 24
_MOST_NOTES = 4
_MOST_LINKS = 3  # of a line
_ORIGINS = {
    DERIVED: "derived from the algorithm and the {carriers} that the library reports",
    SELECTED: "derived from the algorithm that is selected, which may not have run",
    PLANNED: "planned by cclmark's engine",
    OBSERVED: "reported by the library",
}
#: How two devices are connected, by their ranks. See schema.Relation.
Relations = Mapping[tuple[int, int], str]


def step_lines(found: CaseSteps, relations: Relations) -> list[str]:
    """Returns the lines for the steps of one operation."""
    if found.origin == UNKNOWN:
        return [f"  steps of the algorithm: unknown: {found.reason}"]
    lines = [f"  steps of the algorithm, {_origin(found)}", f"    {_total(found)}"]
    lines += [f"    {line}" for line in _carriers(found)]
    lines += [f"    {text}" for text in found.notes[:_MOST_NOTES]]
    lines.append("")
    link_of = Links(found.transports, relations)
    rows = _listed(found, link_of) if len(found.steps) <= _MOST_LISTED else _merged(found, link_of)
    return lines + rows


class Links:
    """How the data of a step get to another rank, as far as it is known."""

    def __init__(self, transports: Mapping[tuple[int, int], str], relations: Relations) -> None:
        self._transports = transports
        self._relations = relations

    def transport(self, step: Step) -> str:
        """The library's name of the way; empty within a rank, and if it is unknown."""
        if step.is_local or step.source is None:
            return step.medium
        return step.medium or self._transports.get((step.source, step.destination), "")

    def relation(self, step: Step) -> str:
        """The symbol of the connection between the devices; empty if it is unknown."""
        if step.is_local or step.source is None:
            return ""
        kind = self._relations.get((step.source, step.destination), "")
        return "" if kind in (UNKNOWN_LINK, "MEM") else kind

    def words(self, step: Step) -> str:
        """Both, for a table."""
        if step.is_local:
            return step.medium or "within the rank"
        if step.source is None:
            return step.medium
        known = ", ".join(filter(None, (self.transport(step), self.relation(step))))
        return known or "unknown"


def _origin(found: CaseSteps) -> str:
    kind = "rings" if found.carriers and found.carriers[0].is_ring else "trees"
    text = _ORIGINS[found.origin].format(carriers=kind[:-1] if len(found.carriers) == 1 else kind)
    return f"{text} ({found.algorithm})" if found.algorithm else text


def _total(found: CaseSteps) -> str:
    stages = found.steps[-1].stage if found.steps else 0
    between = [step for step in found.steps if not step.is_local and step.source is not None]
    sent: dict[int, int] = {}
    for step in between:
        assert step.source is not None
        sent[step.source] = sent.get(step.source, 0) + step.size_bytes
    known = [step for step in found.steps if step.source is not None]
    text = f"{counted(stages, 'stage')}, {counted(len(known), 'step')}"
    if local := len(known) - len(between):
        text += f", {local} of them within a rank"
    if unknown := len(found.steps) - len(known):
        text += f"; {unknown} parts of operations within islands, whose steps are unknown"
    if not sent:
        return text
    least, most = format_size(min(sent.values())), format_size(max(sent.values()))
    who = "each rank" if len(sent) > 1 else f"rank {next(iter(sent))}"
    return f"{text}; {who} sends {most if least == most else f'{least} to {most}'}"


def _carriers(found: CaseSteps) -> list[str]:
    rings = [Ring(list(one.ranks), one.channels) for one in found.carriers if one.is_ring]
    trees = [Tree(list(one.ranks), one.channels) for one in found.carriers if not one.is_ring]
    return [
        *(f"ring {line}" for line in ring_lines(rings)),
        *(f"tree {line}" for line in tree_lines(trees)),
    ]


def _listed(found: CaseSteps, links: Links) -> list[str]:
    several = len(found.carriers) > 1
    rows = [["stage", "phase", "step", "action", "chunk", "bytes", "link"]]
    for step in found.steps:
        chunk = "" if step.chunk is None else str(step.chunk)
        if several:
            chunk = f"{chunk} of {'ring' if found.carriers[0].is_ring else 'tree'} {step.path}"
        rows.append(
            [
                str(step.stage),
                step.phase,
                _ends(step),
                step.action,
                chunk,
                format_size(step.size_bytes),
                links.words(step),
            ]
        )
    return _aligned(rows, "><<<<><")


@dataclass
class _Stage:
    """Steps of one stage and phase, in words that stages which are alike share."""

    stage: int
    phase: str
    steps: int
    sizes: str
    action: str
    links: str

    @property
    def likeness(self) -> tuple[str, int, str, str, str]:
        return (self.phase, self.steps, self.sizes, self.action, self.links)


def _merged(found: CaseSteps, links: Links) -> list[str]:
    rows = [["stages", "phase", "steps of a stage", "action", "bytes of a step", "links"]]
    stages = [
        _stage(number, phase, list(steps), links)
        for (number, phase), steps in groupby(
            sorted(found.steps, key=lambda step: (step.stage, step.phase, step.is_local)),
            key=lambda step: (step.stage, step.phase),
        )
    ]
    for _, alike in groupby(stages, key=lambda stage: stage.likeness):
        first, *rest = alike
        last = rest[-1] if rest else first
        numbers = str(first.stage) if first is last else f"{first.stage}–{last.stage}"
        rows.append(
            [numbers, first.phase, str(first.steps), first.action, first.sizes, first.links]
        )
    hidden = len(rows) - 1 - _MOST_LINES
    lines = _aligned(rows[: _MOST_LINES + 1], "><><<<")
    return [*lines, f"    and {counted(hidden, 'more line')}"] if hidden > 0 else lines


def _stage(number: int, phase: str, steps: Sequence[Step], links: Links) -> _Stage:
    sizes = sorted({step.size_bytes for step in steps})
    text = format_size(sizes[0])
    if format_size(sizes[-1]) != text:
        text += f" – {format_size(sizes[-1])}"
    return _Stage(
        number,
        phase,
        len(steps),
        text,
        " and ".join(dict.fromkeys(sorted(step.action for step in steps))),
        _few(links.words(step) for step in steps),
    )


def _few(names: Iterable[str]) -> str:
    every = sorted(set(names))
    more = len(every) - _MOST_LINKS
    return "; ".join(every[:_MOST_LINKS]) + (f" and {more} more" if more > 0 else "")


def _ends(step: Step) -> str:
    if step.is_local:
        return f"{step.destination}"
    if step.source is None:
        return f"… → {step.destination}"
    return f"{step.source} → {step.destination}"


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    used = [place for place in range(len(sides)) if any(row[place] for row in rows[1:])]
    widths = {place: max(len(row[place]) for row in rows) for place in used}
    return [
        "    " + "  ".join(f"{row[place]:{sides[place]}{widths[place]}}" for place in used).rstrip()
        for row in rows
    ]


_COLUMNS = (
    *("stage", "phase", "source", "destination", "size_bytes", "action", "chunk", "path"),
    *("transport", "relation", "reads", "reads_offset_bytes", "writes", "writes_offset_bytes"),
    *("combines", "combines_offset_bytes", "origin"),
)


def step_file(found: CaseSteps, relations: Relations) -> Iterator[str]:
    """Yields the lines of the file."""
    yield csv_line(_COLUMNS)
    links = Links(found.transports, relations)
    for step in found.steps:
        yield csv_line(
            [
                *(step.stage, step.phase, step.source, step.destination, step.size_bytes),
                *(step.action, step.chunk, step.path or None),
                *(links.transport(step), links.relation(step)),
                *_place(step.reads),
                *_place(step.writes),
                *_place(step.combines),
                found.origin,
            ]
        )


def _place(place: Place | None) -> tuple[str | None, int | None]:
    return (None, None) if place is None else (place.buffer, place.offset_bytes)


_SUFFIXES = (".pftrace", ".trace.json", ".json")


def _relations(surroundings: Surroundings) -> dict[tuple[int, int], str]:
    """How the devices of this host are connected; other hosts' are not known here."""
    here = surroundings.machine.hostname
    devices = [device for device in surroundings.devices if device.host == here]
    relations = relations_between(devices, surroundings.links, set())
    return {(one.first, one.second): one.kind for one in relations}
