"""Files of variables: for shells, and NCCL's configuration file.

A shell reads ``export NAME=VALUE`` lines. NCCL (src/misc/param.cc) reads ``NAME=VALUE`` lines from
the file that NCCL_CONF_FILE names, else from ~/.nccl.conf, then from /etc/nccl.conf. It takes all
characters behind the first ``=``, so a quote or a blank belongs to the value. Variables of the
environment take precedence, and the first line of a name over later ones. Before 2.26, NCCL has no
comments: it skips lines without ``=``, and only those. NCCL_CONF_FILE exists since 2.23.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cclmark.errors import UsageError

MOST_CONF_BYTES = 1023
"""NCCL cuts off longer names and values."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_EXPORT = re.compile(r"export[ \t]+([^=\s]+)=(.*)")
# Parts of a word that mean the same in every shell; the rest of the syntax is refused.
_PARTS = re.compile(r"""([A-Za-z0-9_@%+=:,./-]+)|'([^']*)'|"([^"$`\\!]*)\"""", re.ASCII)
_MOST_SHOWN = 40  # characters of a word in a message


@dataclass(frozen=True)
class Conditions:
    """The conditions under which settings were proven. Empty and None: not a condition."""

    library: str
    """Its name and version, for example NCCL 2.28.9."""
    device: str = ""
    ranks: int | None = None
    nodes: int | None = None

    def lines(self) -> list[str]:
        """A line of a comment for each condition."""
        parts = {
            "library": self.library,
            "device": self.device,
            "ranks": self.ranks,
            "nodes": self.nodes,
        }
        return [f"{name}: {value}" for name, value in parts.items() if value not in ("", None)]


def shell_text(variables: Mapping[str, str], *, comments: Sequence[str] = ()) -> str:
    """The file for shells. Raises UsageError for names and texts that it cannot contain."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in _checked(variables)]
    return "".join(f"{line}\n" for line in [*_comments(comments), *lines])


def read_shell(text: str, source: str) -> dict[str, str]:
    """The variables of a file for shells. ``source`` is for messages.

    Only literal values are supported. Raises UsageError with the line for the rest.
    """
    found: dict[str, str] = {}
    for place, line in _lines(text, source):
        match = _EXPORT.fullmatch(line.strip(" \t"))
        if not match:
            raise UsageError(f"{place}: '{line[:_MOST_SHOWN]}' is not export NAME=VALUE")
        name, word = match.groups()
        _add(found, name, _literal(word, place), place)
    return found


def nccl_conf_text(variables: Mapping[str, str], *, comments: Sequence[str] = ()) -> str:
    """NCCL's configuration file. Raises UsageError for names and texts that it cannot contain."""
    lines = list(_comments(comments))
    for line in lines:
        if "=" in line:
            raise UsageError(
                f"'{line[:_MOST_SHOWN]}' is a variable, not a comment, before NCCL 2.26"
            )
    for name, value in _checked(variables):
        _check_conf(name, value, "nccl.conf")
        lines.append(f"{name}={value}")
    return "".join(f"{line}\n" for line in lines)


def read_nccl_conf(text: str, source: str) -> dict[str, str]:
    """The variables of NCCL's configuration file. ``source`` is for messages.

    Raises UsageError with the line for what NCCL would skip, cut off or use as another name.
    """
    found: dict[str, str] = {}
    for place, line in _lines(text, source):
        name, separator, value = line.partition("=")
        if not separator:
            raise UsageError(f"{place}: '{line[:_MOST_SHOWN]}' is not NAME=VALUE")
        _check_conf(name, value, place)
        _add(found, name, value, place)
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


def _check_conf(name: str, value: str, place: str) -> None:
    for part in (name, value):
        if len(part.encode("utf-8", "surrogatepass")) > MOST_CONF_BYTES:
            raise UsageError(
                f"{place}: NCCL cuts off '{part[:_MOST_SHOWN]}…' after {MOST_CONF_BYTES} bytes"
            )


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
