"""NCCL's syntax of lists, as in NCCL_ALGO and NCCL_PROTO.

``ring,tree`` allows some words for all operations and ``^nvls`` all but that. Lists for single
operations follow: ``ring;allreduce:tree;broadcast:^ring``. Of two lists for an operation the last
applies. Names are not case-sensitive.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ListPart:
    """A list for one operation, or for all if ``function`` is empty: the allowed words.

    ``excluded``: all words but these are allowed. Everything is in small letters.
    """

    function: str
    excluded: bool
    words: tuple[str, ...]


def parse_list(value: str) -> list[ListPart] | None:
    """The parts of a value, None for one that NCCL rejects: an empty list, or a list for all
    operations that is not the first part.
    """
    parts = []
    for place, entry in enumerate(part for part in value.lower().split(";") if part):
        named, colon, listed = entry.partition(":")
        if not colon:
            if place:
                return None
            named, listed = "", named
        words = (word.strip() for word in listed.removeprefix("^").split(","))
        found = tuple(word for word in words if word)
        if not found or (colon and not named.strip()):
            return None
        parts.append(ListPart(named.strip(), listed.startswith("^"), found))
    return parts


def allows(value: str, operation: str, word: str) -> bool | None:
    """Whether a value allows ``operation`` to use ``word``, written in small letters.

    None if the value does not contain the operation, and if NCCL would reject it.
    """
    allowed: bool | None = None
    for part in parse_list(value) or ():
        if part.function in ("", function_of(operation)):
            allowed = (word in part.words) != part.excluded
    return allowed


def function_of(operation: str) -> str:
    """The name of an operation in a list: ``allreduce``."""
    return operation.replace("_", "")
