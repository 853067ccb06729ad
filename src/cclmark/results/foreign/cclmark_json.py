"""Our own JSON document: a whole journal, read back as it was."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from cclmark.errors import UsageError
from cclmark.results.foreign.text import Text
from cclmark.results.journal import Journal
from cclmark.results.schema import (
    SCHEMA_VERSION,
    CaseResult,
    CheckResult,
    Condition,
    Footer,
    Header,
    TransferResult,
)

_Entry = TypeVar("_Entry")


def is_cclmark_json(text: Text) -> bool:
    """Whether the text is such a document."""
    start = text.content.lstrip()[:400]
    return start.startswith('{"header"') and '"schema_version"' in start


def read_cclmark_json(text: Text) -> Journal:
    """The journal. Raises UsageError for one that is cut off, damaged or of a newer schema."""
    try:
        document = json.loads(text.content)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise text.refuse(
            line,
            "this JSON is cut off or damaged: it is whole only when its run has ended; use "
            "the journal of that run",
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("header"), dict):
        raise UsageError(f"{text.name} is no JSON of cclmark: it has no header")
    version = document["header"].get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UsageError(
            f"{text.name} has schema {version}, newer than {SCHEMA_VERSION}: update cclmark"
        )
    footer = document.get("footer")
    return Journal(
        header=_entry(document["header"], Header, text, "header"),
        results=_entries(document, "cases", CaseResult, text),
        transfers=_entries(document, "transfers", TransferResult, text),
        checks=_entries(document, "checks", CheckResult, text),
        conditions=_entries(document, "conditions", Condition, text),
        footer=None if footer is None else _entry(footer, Footer, text, "footer"),
    )


def _entries(document: dict[str, Any], name: str, kind: type[_Entry], text: Text) -> list[_Entry]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise UsageError(f"{text.name}: {name} is no list")
    return [_entry(one, kind, text, f"{name}[{number}]") for number, one in enumerate(found)]


def _entry(value: Any, kind: type[_Entry], text: Text, name: str) -> _Entry:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{text.name}: {name}: {error}") from None
