"""Executes steps on symbols: what every rank's memory holds afterwards, by contribution.

A symbol is a part of a rank's input. What is in memory is a bag of them: a copy carries the bag
over, a reduction adds two bags. Data of other ranks are read as they were at the begin of a stage,
so that a plan whose stages depend on each other gives wrong data here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import gcd

from cclmark.explain.algorithm_steps import INPUT, OUTPUT, Place, Step

Cell = tuple[int, str, object]  # rank, buffer and what part of it
Bag = Counter[tuple[int, object]]  # how often the part of a rank's input is in it
POISON: Bag = Counter({(-1, "never written"): 1})


class Memory:
    """The memory of all ranks. ``alias`` names the cell that really holds another one."""

    def __init__(self, alias: Callable[[Cell], Cell] = lambda cell: cell) -> None:
        self._cells: dict[Cell, Bag] = {}
        self._alias = alias

    def __getitem__(self, cell: Cell) -> Bag:
        real = self._alias(cell)
        return self._cells.get(real, POISON)

    def __setitem__(self, cell: Cell, bag: Bag) -> None:
        self._cells[self._alias(cell)] = bag


def execute(steps: Iterable[Step], memory: Memory, cells: Callable[[int, Place, Step], list[Cell]]):
    """Executes ``steps`` in the order of their stages. ``cells``: those of a place of a step."""
    ordered = sorted(steps, key=lambda step: step.stage)
    for _, group in groupby(ordered, lambda step: step.stage):
        stage = list(group)
        before = [
            None
            if step.is_local
            else [memory[cell] for cell in cells(step.source, step.reads, step)]
            for step in stage
        ]
        for step, of_others in zip(stage, before, strict=True):
            arriving = of_others or [memory[cell] for cell in cells(step.source, step.reads, step)]
            if step.combines is not None:
                own = [memory[cell] for cell in cells(step.destination, step.combines, step)]
                arriving = [one + other for one, other in zip(arriving, own, strict=True)]
            for cell, bag in zip(cells(step.destination, step.writes, step), arriving, strict=True):
                memory[cell] = bag


def by_chunk(rank: int, place: Place, step: Step) -> list[Cell]:
    """Derived steps: a place is a chunk of a path."""
    return [(rank, place.buffer, (step.path, step.chunk))]


def by_granule(granule: int) -> Callable[[int, Place, Step], list[Cell]]:
    """Planned steps: a place is so many granules at an offset."""

    def cells(rank: int, place: Place, step: Step) -> list[Cell]:
        assert place.offset_bytes is not None
        assert place.offset_bytes % granule == 0
        assert step.size_bytes % granule == 0
        first = place.offset_bytes // granule
        return [(rank, place.buffer, first + i) for i in range(step.size_bytes // granule)]

    return cells


def granule_of(steps: Sequence[Step]) -> int:
    """The largest number of bytes that all sizes and offsets are multiples of."""
    numbers = [step.size_bytes for step in steps]
    for step in steps:
        for place in (step.reads, step.writes, step.combines):
            if place is not None and place.offset_bytes is not None:
                numbers.append(place.offset_bytes)
    return gcd(*numbers)


__all__ = ["INPUT", "OUTPUT", "POISON", "Bag", "Memory", "by_chunk", "by_granule", "execute"]
