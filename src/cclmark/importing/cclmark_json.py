"""Reads cclmark's own JSON document, a complete journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from cclmark.errors import UsageError
from cclmark.importing.cleaned_text import Text
from cclmark.kinds.registry import KINDS, is_readable
from cclmark.results.item_results import Result
from cclmark.results.journal import Journal, Line
from cclmark.results.schema import SCHEMA_VERSION, Condition, Footer, Header, Paths, Profile

_Entry = TypeVar("_Entry")
_MOST_NAMED = 5
_LISTS = {kind.listed_as: kind.result for kind in KINDS.values()}


def is_cclmark_json(text: Text) -> bool:
    """Whether the text is such a document."""
    start = text.content.lstrip()[:400]
    return start.startswith('{"header"') and '"schema_version"' in start


def read_cclmark_json(text: Text) -> Journal:
    """Reads a journal. Raises UsageError if it is truncated, damaged or of a newer schema."""
    try:
        document = json.loads(text.content)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise text.refuse(
            line,
            "this JSON is truncated or damaged: it is complete only when its run has ended. Use "
            "the journal of this run",
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("header"), dict):
        raise UsageError(f"{text.name} is not JSON of cclmark: it has no header")
    version = document["header"].get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UsageError(
            f"{text.name} has schema {version}, newer than {SCHEMA_VERSION}: update cclmark"
        )
    footer = document.get("footer")
    results: list[Result] = []
    for listed_as, kind in _LISTS.items():
        results += _entries(document, listed_as, kind, text)
    profile = document.get("profile")
    journal = Journal(
        header=_entry(document["header"], Header, text, "header"),
        results=results,
        conditions=_entries(document, "conditions", Condition, text),
        paths=_entries(document, "paths", Paths, text),
        profile=None if profile is None else _entry(profile, Profile, text, "profile"),
        footer=None if footer is None else _entry(footer, Footer, text, "footer"),
    )
    _refuse_damage(journal, text)
    return journal


def _refuse_damage(journal: Journal, text: Text) -> None:
    """Raises UsageError if readers of the journal would skip a part of it."""
    if len({type(result) for result in journal.results}) > 1:
        raise UsageError(
            f"{text.name} is damaged: it holds results of several kinds of work ("
            f"{', '.join(_LISTS)}), and a run has one"
        )
    places: dict[str, Sequence[Line]] = {
        KINDS[journal.kind].listed_as: journal.results,
        "conditions": journal.conditions,
        "paths": journal.paths,
    }
    bad = [
        f"{name}[{number}]"
        for name, entries in places.items()
        for number, entry in enumerate(entries)
        if not is_readable(entry, journal.header)
    ]
    others = (("header", journal.header), ("profile", journal.profile), ("footer", journal.footer))
    for name, line in others:
        if line is not None and not is_readable(line, journal.header):
            bad.insert(0, name)
    if bad:
        more = f" and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
        raise UsageError(
            f"{text.name} is damaged: {', '.join(bad[:_MOST_NAMED])}{more} contain invalid "
            "numbers, or devices that the header does not contain. Remove these entries, or use "
            "the journal of this run"
        )


def _entries(document: dict[str, Any], name: str, kind: type[_Entry], text: Text) -> list[_Entry]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise UsageError(f"{text.name}: {name} is not a list")
    return [_entry(one, kind, text, f"{name}[{number}]") for number, one in enumerate(found)]


def _entry(value: Any, kind: type[_Entry], text: Text, name: str) -> _Entry:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{text.name}: {name}: {error}") from None
