"""Reads the files that a command lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from cclmark.base.errors import EmptyError
from cclmark.base.printable import plain
from cclmark.recording.caller import notice

Read = TypeVar("Read")


def read_all(names: Iterable[str], read: Callable[[str], Read]) -> list[Read]:
    """Reads each file; leaves out those without results, with a notice.

    Raises EmptyError if no other is listed.
    """
    found: list[Read] = []
    empty: list[EmptyError] = []
    for name in names:
        try:
            found.append(read(name))
        except EmptyError as error:
            empty.append(error)
    if empty and not found:
        raise empty[0]
    for one in empty:
        notice(plain(one.notice))
    return found
