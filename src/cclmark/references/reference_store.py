"""Finds references: shipped ones, in the user's data home, and in CCLMARK_REFERENCES."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from cclmark.base.errors import UsageError
from cclmark.base.files import shipped_toml_files
from cclmark.references.reference import Reference
from cclmark.references.reference_files import parse_references

REFERENCES_VARIABLE = "CCLMARK_REFERENCES"


def load_references(
    extra: Sequence[Path] = (), kinds: Collection[str] | None = None
) -> list[Reference]:
    """Returns all figures: the shipped ones, the user's, and those of ``extra``.

    ``extra`` and the variable contain files, or directories with files that end in .toml.
    ``kinds``: see shipped_references. Raises UsageError, which names the file, for one that is
    unreadable or invalid.
    """
    return [*shipped_references(kinds), *own_references(extra)]


def shipped_references(kinds: Collection[str] | None = None) -> list[Reference]:
    """Returns the figures shipped with cclmark.

    ``kinds`` of devices (see work.device_names) or of links: a file that names none of them is not
    read, so that a run does not parse thousands of figures of other devices.
    """
    return [
        reference
        for path in shipped_toml_files("references/data")
        if kinds is None or any(kind.encode() in path.read_bytes() for kind in kinds)
        for reference in _shipped(path)
    ]


@functools.cache
def _shipped(path: Path) -> Sequence[Reference]:
    return parse_references(path.read_bytes(), path.name, own=False)


def own_references(
    extra: Sequence[Path] = (), environment: Mapping[str, str] = os.environ
) -> list[Reference]:
    """Returns the user's figures. Raises UsageError for an unreadable file or directory."""
    named = [Path(name) for name in environment.get(REFERENCES_VARIABLE, "").split(os.pathsep)]
    places = [*(path for path in named if str(path) != "."), *extra]
    files: dict[Path, Path] = {}
    for place in (data_directory(environment), *places):
        for file in _files_of(place, must=place in places):
            files.setdefault(file.resolve(), file)
    return [
        reference
        for file in files.values()
        for reference in parse_references(_content(file), str(file), own=True)
    ]


def data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the directory of ``cclmark references add``, in the XDG data home."""
    home = environment.get("XDG_DATA_HOME", "")
    base = Path(home) if home.startswith("/") else Path("~/.local/share")
    try:
        return base.expanduser() / "cclmark" / "references"
    except RuntimeError:  # without a home directory
        return base / "cclmark" / "references"


def _files_of(place: Path, *, must: bool) -> list[Path]:
    """Returns the files of ``place``. Raises UsageError if it is missing and ``must`` is set."""
    try:
        if place.is_dir():
            return sorted(place.glob("*.toml"))
        if place.is_file():
            return [place]
    except OSError as error:
        raise UsageError(f"cannot read the references in {place}: {error.strerror}") from None
    if must:
        raise UsageError(
            f"no references at {place}: set {REFERENCES_VARIABLE} to a file, or to a directory "
            "with .toml files"
        )
    return []


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the references in {file}: {error.strerror}") from None
