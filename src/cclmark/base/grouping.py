"""Values by key, and many texts as the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def by_key(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, keys and values in the order in which they occur."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def abridged(texts: Sequence[str], most: int, separator: str = ", ", noun: str = "more") -> str:
    """The first ``most`` texts, and the number of others: ``a, b and 3 more``."""
    others = f" and {len(texts) - most} {noun}" if len(texts) > most else ""
    return separator.join(texts[:most]) + others
