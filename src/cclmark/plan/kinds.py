"""The table of the kinds of work that a run supports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cclmark.plan.cases import Case
from cclmark.plan.checks import Check
from cclmark.plan.pairs import PairCases, falls_with_pair
from cclmark.plan.transfers import Transfer

Item = Case | Transfer | Check
Some = TypeVar("Some", bound=Item)

COLLECTIVE, PAIRS, P2P, CHECK = "collective", "pairs", "p2p", "check"


def _as_planned(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    return planned


def _of_every_pair(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    return PairCases([one for one in planned if isinstance(one, Case)], processes)


def _nothing_else(item: Item, culprit: Item, phase: str) -> bool:
    return False


def _of_the_pair(item: Item, culprit: Item, phase: str) -> bool:
    assert isinstance(item, Case)
    assert isinstance(culprit, Case)
    return falls_with_pair(item, culprit, phase)


@dataclass(frozen=True)
class Kind:
    """A kind of work.

    ``item``: the type of the planned items. ``between_devices``: the results include the
    connections between devices. ``forgiven``: the failures (see messages.Failed) after which new
    ranks continue with the remaining items, empty where every failure ends the run.
    ``independent``: a hang in one item does not predict a hang in the next one. ``items``: returns
    all items to measure, from the planned items and the number of processes. ``falls_with``:
    whether an item is skipped together with the item that failed in a phase.
    """

    item: type[Item]
    between_devices: bool = False
    forgiven: tuple[str, ...] = ()
    independent: bool = False
    items: Callable[[Sequence[Item], int], Sequence[Item]] = _as_planned
    falls_with: Callable[[Item, Item, str], bool] = _nothing_else


KINDS: dict[str, Kind] = {
    COLLECTIVE: Kind(Case, forgiven=("timeout",)),
    PAIRS: Kind(
        Case,
        between_devices=True,
        # A library that fails for one pair may work for another.
        forgiven=("timeout", "error"),
        independent=True,
        items=_of_every_pair,
        falls_with=_of_the_pair,
    ),
    P2P: Kind(Transfer, between_devices=True),
    CHECK: Kind(Check),
}


def items_of(planned: Sequence[Item], kind: type[Some]) -> list[Some]:
    """``planned`` as a list of one type. Raises TypeError for an item of another type."""
    found: list[Some] = []
    for one in planned:
        if not isinstance(one, kind):
            raise TypeError(f"{one} is not a {kind.__name__}")
        found.append(one)
    return found
