"""Makes text from journals, files and machines safe to print on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

_Value = TypeVar("_Value")
# Fields that may hold thousands of numbers and never a text.
_NUMBERS = frozenset(("samples", "matrix", "flows", "weights"))
_SEVERAL_LINES = frozenset(("message", "reason", "report"))


def plain(text: str) -> str:
    """``text`` on one line and without characters that control a terminal.

    White space becomes a space. Other characters that do not print (escape sequences, text
    direction marks, lone surrogates) are spelled out: ``\\x1b``.
    """
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def plain_lines(text: str) -> str:
    """The same for each line of ``text``."""
    return "\n".join(map(plain, text.split("\n")))


def printable(value: _Value) -> _Value:
    """``value`` with every text in it plain, at any depth: in structs, mappings, lists and tuples.

    Fields named ``message``, ``reason`` and ``report`` keep their lines.
    """
    return _printable(value)  # type: ignore[return-value]


def _printable(value: object) -> object:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            if isinstance(old, (int, float)) or old is None or name in _NUMBERS:
                continue
            of_lines = name in _SEVERAL_LINES and isinstance(old, str)
            new = plain_lines(old) if of_lines else _printable(old)
            if new is not old and new != old:
                changed[name] = new
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, Mapping):
        return {_printable(name): _printable(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_printable, value))
    return value


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if character.isspace():
        return " "
    return character.encode("unicode_escape").decode("ascii")
