"""Determines the items of a plan that a journal lacks, and whether the journal fits the plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cclmark.base.errors import UsageError
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Settings
from cclmark.work.islands import Island
from cclmark.work.items import Item
from cclmark.work.outline import SIDES, Outline, differences

MEASURED = ("ok", "wrong", "skipped")  # other cases are measured again

# Settings that influence figures, with their options. Sizes and patterns are in the outline.
_FLAGS = {
    "timing": "--timing",
    "across_ranks": "--across-ranks",
    "precision": "--precision (as a share)",
    "max_time_s": "--max-time",
    "iterations": "-n",
    "warmup": "-w",
    "group": "-m",
    "graph_launches": "-G",
    "check": "-c",
    "cycles": "-N",
    "registration": "--register",
    "memory": "--memory",
    "cache": "--cache",
    "barrier": "--barrier",
    "clock": "--clock",
    "seed": "--seed",
    "check_on": "--check-on",
    "inject": "--inject",
    "one_by_one": "--one-by-one",
    "triangle": "-j",
    "islands": "--islands",
    "through_host": "--through-host",
    "bind": "--bind",
    "config": "--config",
}


# What is requested of memory is compared when a run is resumed: of two runs, what they had is, see
# surroundings_changed.
_COMPARED = tuple(name for name in _FLAGS if name != "memory")


@dataclass(frozen=True)
class Remainder:
    """``carried``: results kept unchanged. ``pending``: places still to be measured.

    A place is an index of the plan, plus the plan's number of items for every earlier cycle.
    ``misplaced``: the number of results that do not match the plan's item in their place.
    """

    carried: list[Result]
    pending: list[int]
    misplaced: int


def remainder_of(
    journal: Journal,
    name: str,
    outline: Outline,
    settings: Settings,
    items: Sequence[Item],
) -> Remainder:
    """Returns the remainder of ``items``, measured with ``settings``. ``name`` is the journal's.

    Raises UsageError for a journal of another plan, with the differences, and for plans without an
    end.
    """
    if settings.cycles == 0:
        raise UsageError("--resume does not support runs without end: start a new run")
    header = journal.header
    found = differing_settings(header.settings, settings, tuple(_FLAGS), sides=SIDES)
    if header.plan is not None:
        found = differences(header.plan, outline) + found
    carried: list[Result] = []
    misplaced: list[Result] = []
    for result in journal.results:
        if not _fits(result, items, settings.cycles):
            misplaced.append(result)
        elif result.status in MEASURED:
            carried.append(result)
    if header.plan is None and not found:
        # An older journal does not record the plan, which is derived from the measured items.
        if header.planned_cases not in (0, len(items)):
            found.append(f"cases: {header.planned_cases} {SIDES[0]}, {len(items)} {SIDES[1]}")
        found += [
            f"case {result.index} {SIDES[0]} is {result.item.describe()}"
            for result in misplaced[:1]
        ]
    if found:
        raise UsageError(
            f"{name} was measured with other options: {'; '.join(found)}. Repeat its options, or "
            "start a new run without --resume"
        )
    done = {place_of(result, len(items)) for result in carried}
    everything = range(len(items) * settings.cycles)
    return Remainder(carried, [place for place in everything if place not in done], len(misplaced))


def differing_settings(
    there: Settings,
    here: Settings,
    names: Collection[str] = _COMPARED,
    *,
    sides: tuple[str, str] = ("there", "here"),
) -> list[str]:
    """Describes the differing settings among ``names`` by their flags. ``sides``: their names."""
    return [
        f"{flag}: {_words(theirs)} {sides[0]}, {_words(ours)} {sides[1]}"
        for name, flag in _FLAGS.items()
        if name in names
        and (theirs := _of_results(there, name)) != (ours := _of_results(here, name))
    ]


def _of_results(settings: Settings, name: str) -> object:
    """Returns a setting as far as measured results depend on it: a case that hung has none."""
    value = getattr(settings, name)
    if name == "inject":
        return [fault for fault in value if not fault.startswith("hang:")]
    return value


def _words(value: object) -> str:
    if isinstance(value, list):
        texts = [one.describe() if isinstance(one, Island) else str(one) for one in value]
        return " ".join(texts) or "none"
    return "not given" if value in (None, "") else str(value)


def _fits(
    result: Result,
    items: Sequence[Item],
    cycles: int,
) -> bool:
    """Whether the result matches the plan's item in its place."""
    within = 0 <= result.index < len(items) and 0 <= result.cycle < cycles
    return within and items[result.index] == result.item


def place_of(result: Result, number: int) -> int:
    """Returns the place of a result in a plan of ``number`` items, see Remainder."""
    return result.index + number * result.cycle
