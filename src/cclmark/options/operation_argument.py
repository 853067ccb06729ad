"""The argument OPERATION of commands that work on one or several collectives."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.errors import UsageError
from cclmark.plan.operations import COLLECTIVES


def known_operation(name: str, others: Sequence[str] = ()) -> str:
    """Returns the name of a collective. Raises UsageError if it is missing or unknown.

    ``others``: what else the command supports, for the message.
    """
    if name in COLLECTIVES:
        return name
    choice = f"choose from {', '.join([*COLLECTIVES, *others])}"
    if not name:
        raise UsageError(f"OPERATION is missing: {choice}")
    raise UsageError(f"unknown operation {name!r}: {choice}")


def known_operations(text: str) -> list[str]:
    """Returns the collectives of a list with commas, each once. Raises UsageError."""
    names = [name.strip() for name in text.split(",") if name.strip()] or [""]
    return list(dict.fromkeys(map(known_operation, names)))


def operations_in_help(others: Sequence[str] = ()) -> str:
    """Returns the paragraph of a help text that lists the operations."""
    return f"OPERATION: {', '.join([*COLLECTIVES, *others])}."
