"""Intervals of time: their union, and what of them others leave free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

Interval = tuple[int, int]
Number = TypeVar("Number", int, float)


def union_of(intervals: Iterable[tuple[Number, Number]]) -> list[tuple[Number, Number]]:
    """Returns disjoint intervals in order that cover the same time."""
    found: list[tuple[Number, Number]] = []
    for begin, end in sorted(intervals):
        if end <= begin:
            continue
        if found and begin <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def length_of(union: Iterable[tuple[Number, Number]]) -> Number:
    """Returns the total length of disjoint intervals."""
    return sum(end - begin for begin, end in union)


def without(
    union: Sequence[tuple[Number, Number]], others: Sequence[tuple[Number, Number]]
) -> list[tuple[Number, Number]]:
    """The parts of ``union`` in none of ``others``, both disjoint and ordered, in linear time."""
    found: list[tuple[Number, Number]] = []
    place = 0
    for begin, end in union:
        at = begin
        while place < len(others) and others[place][1] <= at:
            place += 1
        number = place
        while number < len(others) and others[number][0] < end:
            if others[number][0] > at:
                found.append((at, others[number][0]))
            at = max(at, others[number][1])
            if others[number][1] >= end:
                break
            number += 1
        if at < end:
            found.append((at, end))
    return found


def lengths_within(union: Sequence[Interval], parts: Sequence[Interval]) -> list[int]:
    """How long ``union`` is within each of ``parts``, both disjoint and ordered, in linear time."""
    found = []
    place = 0
    for begin, end in parts:
        while place < len(union) and union[place][1] <= begin:
            place += 1
        length, number = 0, place
        while number < len(union) and union[number][0] < end:
            length += min(union[number][1], end) - max(union[number][0], begin)
            number += 1
        found.append(length)
        place = max(place, number - 1)  # the last one may reach into the next part
    return found
