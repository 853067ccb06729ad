"""Files of variables for shells: ``export NAME=VALUE`` lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from cclmark.base.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_EXPORT = re.compile(r"export[ \t]+([^=\s]+)=(.*)")
# Parts of a word that mean the same in every shell; the rest of the syntax is refused.
_PARTS = re.compile(r"""([A-Za-z0-9_@%+=:,./-]+)|'([^']*)'|"([^"$`\\!]*)\"""", re.ASCII)
_MOST_SHOWN = 40  # characters of a word in a message


def shell_text(variables: Mapping[str, str], *, comments: Sequence[str] = ()) -> str:
    """The file for shells. Raises UsageError for names and texts that it cannot contain."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in _checked(variables)]
    return "".join(f"{line}\n" for line in [*_comments(comments), *lines])


def read_shell(text: str, source: str) -> dict[str, str]:
    """The literal values of a file for shells. Raises UsageError with ``source`` and the line."""
    found: dict[str, str] = {}
    for place, line in _lines(text, source):
        match = _EXPORT.fullmatch(line.strip(" \t"))
        if not match:
            raise UsageError(f"{place}: '{line[:_MOST_SHOWN]}' is not export NAME=VALUE")
        name, word = match.groups()
        _add(found, name, _literal(word, place), place)
    return found


def _checked(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in variables.items():
        _check_name(name, "the file of variables")
        if not value.isprintable():
            raise UsageError(f"the value of {name} is not one printable line")
        yield name, value


def _check_name(name: str, place: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{place}: '{name[:_MOST_SHOWN]}' is not the name of a variable")


def _comments(comments: Sequence[str]) -> Iterator[str]:
    for comment in comments:
        if not comment.isprintable():
            raise UsageError("a comment is not one printable line")
        yield f"# {comment}"


def _lines(text: str, source: str) -> Iterator[tuple[str, str]]:
    """The lines with variables, each with its place."""
    for number, line in enumerate(text.split("\n"), start=1):
        place = f"{source}: line {number}"
        if not line.replace("\t", " ").isprintable():
            raise UsageError(f"{place}: it contains characters that are not printable")
        if line.strip(" \t") and not line.startswith("#"):
            yield place, line


def _literal(word: str, place: str) -> str:
    value, end = "", 0
    for part in _PARTS.finditer(word):
        if part.start() != end:
            break
        value += next(text for text in part.groups() if text is not None)
        end = part.end()
    if end != len(word):
        raise UsageError(
            f"{place}: '{word[:_MOST_SHOWN]}' is not a literal value: put it in single quotes"
        )
    return value


def _add(found: dict[str, str], name: str, value: str, place: str) -> None:
    _check_name(name, place)
    if name in found:
        raise UsageError(f"{place}: {name} is set before this line")
    found[name] = value
