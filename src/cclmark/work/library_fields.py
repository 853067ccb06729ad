"""Common types of fields of files that describe libraries: names, versions, errors."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_TEXT = 1000
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,2})(?:\.(\d{1,2}))?", re.ASCII)


class WrongFieldError(Exception):
    """A field with a value that is not allowed."""

    def __init__(self, field: str, wrong: str, allowed: str) -> None:
        super().__init__(f"{field}: {wrong}: {allowed}")


def parse_version(text: str) -> int:
    """The version ``2.18.5`` in NCCL's encoding, 21805; 0 for an empty text. Raises ValueError."""
    if not text:
        return 0
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return _number_of(found)


def find_version(text: str) -> tuple[int, str]:
    """The first version in a library's own text, encoded and as written.

    ``Open MPI v5.0.11, package…`` has 50011 and ``5.0.11``, ``2.11.0 with NCCL 2.28.9``, as torch
    is described, 22809 and ``2.28.9``. (0, "") for a text without one.
    """
    found = _VERSION.search(text.rpartition(" with ")[2])
    return (_number_of(found), found[0]) if found is not None else (0, "")


def check_choice(field: str, value: str, known: Sequence[str]) -> None:
    """Raises WrongFieldError for a value that is not among the known ones."""
    if value not in known:
        raise WrongFieldError(field, f"unknown {shown(value)}", f"choose from {', '.join(known)}")


def check_version(field: str, text: str) -> None:
    """Raises WrongFieldError for a text that is neither a version nor empty."""
    try:
        parse_version(text)
    except ValueError:
        raise WrongFieldError(
            field, f"{shown(text)} is not a version", "write 2.18 or 2.18.5"
        ) from None


def check_line(field: str, text: str) -> None:
    """Raises WrongFieldError for a text that is not a single line of printable characters."""
    if not text.isprintable() or len(text) > LONGEST_TEXT:
        raise WrongFieldError(
            field,
            "is not a single line of text",
            f"write at most {LONGEST_TEXT} printable characters",
        )


def shown(value: object) -> str:
    """A value of the file for a message, shortened to at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number_of(found: re.Match[str]) -> int:
    major, minor, patch = (int(part or 0) for part in found.groups())
    return major * 10000 + minor * 100 + patch
