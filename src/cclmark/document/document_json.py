"""Documents as JSON: an object with ``version`` and ``runs``, each with name, kind and document.

Fields have the names and units of the dataclasses in ``blocks.py`` and ``chart_model.py``. The
``type`` of a block is the name of its class in small letters. A number that JSON does not support
(infinity, NaN) is null.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache, reduce
from itertools import repeat
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from cclmark.document.blocks import Block, Document
from cclmark.errors import UsageError
from cclmark.printable import printable

DOCUMENT_VERSION = 1
_NAN = float("nan")
_BLOCKS = ("opening", "blocks", "closing")
_DATACLASSES: dict[type, type] = {}  # by their structures


@dataclass(frozen=True)
class RunDocument:
    """The document of a run. ``name``: of the run in its page."""

    name: str
    kind: str
    document: Document


def encode_documents(documents: Sequence[RunDocument]) -> str:
    """Returns the JSON text."""
    runs = [
        {"name": one.name, "kind": one.kind, "document": _plain(one.document)} for one in documents
    ]
    whole = {"version": DOCUMENT_VERSION, "runs": runs}
    try:
        return msgspec.json.encode(whole).decode()
    except UnicodeEncodeError:  # lone surrogates: journals that are read have none
        return msgspec.json.encode(printable(whole)).decode()


def decode_documents(text: str | bytes, name: str) -> list[RunDocument]:
    """Returns the documents in the JSON ``text``; ``name`` is for messages.

    Raises UsageError for JSON of another form, with unknown blocks or fields, or of a newer
    version.
    """
    try:
        version = msgspec.json.decode(text, type=_AnyVersion).version
        if version > DOCUMENT_VERSION:
            raise UsageError(
                f"{name} has documents of version {version}, newer than {DOCUMENT_VERSION}: "
                "update cclmark"
            )
        runs = msgspec.json.decode(text, type=_documents()).runs
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(f"{name}: its documents cannot be read: {error}") from None
    return [RunDocument(one.name, one.kind, _restored(one.document, Document)) for one in runs]


class _AnyVersion(msgspec.Struct):
    version: int


def _plain(document: Document) -> dict[str, Any]:
    found = _builtins(replace(document, opening=(), blocks=(), closing=()))
    for name in _BLOCKS:
        blocks = getattr(document, name)
        found[name] = [{"type": _tag(type(one)), **_builtins(one)} for one in blocks]
    return found


def _builtins(value: object) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value, enc_hook=list)  # a range and the like
    return found


def _tag(block: type) -> str:
    return block.__name__.lower()


@cache
def _documents() -> Any:
    """The type of the whole: structures, of which msgspec can tell those of a union apart."""
    run: Any = msgspec.defstruct(
        "Run",
        [("name", str), ("kind", str), ("document", _structure(Document))],
        forbid_unknown_fields=True,
    )
    return msgspec.defstruct(
        "Documents", [("version", int), ("runs", list[run])], forbid_unknown_fields=True
    )


def _structure(of: type, tag: str | None = None) -> type[msgspec.Struct]:
    """The structure with the fields of a dataclass."""
    hints = get_type_hints(of)
    found: list[Any] = []
    for field in fields(of):
        default: Any = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        kind = _structured(hints[field.name])
        found.append((field.name, kind) if default is MISSING else (field.name, kind, default))
    made = msgspec.defstruct(
        of.__name__, found, tag_field="type" if tag else None, tag=tag, forbid_unknown_fields=True
    )
    _DATACLASSES[made] = of
    return made


def _structured(hint: Any) -> Any:
    """The type with structures in the place of dataclasses, and None among numbers."""
    if hint is float:
        return float | None
    if hint == Block:
        return reduce(operator.or_, (_structure(one, _tag(one)) for one in _blocks()))
    if isinstance(hint, type) and is_dataclass(hint):
        return _structure(hint)
    parts = get_args(hint)
    if isinstance(hint, UnionType):
        return reduce(operator.or_, map(_structured, parts))
    origin = get_origin(hint)
    if origin is None or origin is Literal:
        return hint
    return origin[tuple(one if one is Ellipsis else _structured(one) for one in parts)]


def _blocks() -> Iterator[type]:
    """Yields the classes of blocks, with those of charts."""
    for kind in get_args(Block):
        yield from kind.__subclasses__() or [kind]


def _restored(value: Any, hint: Any) -> Any:
    """The value with dataclasses in the place of structures."""
    own = _DATACLASSES.get(type(value))
    if own is not None:
        hints = get_type_hints(own)
        return own(**{name: _restored(getattr(value, name), hints[name]) for name in hints})
    if hint is float:
        return _NAN if value is None else value
    if isinstance(value, list | tuple):
        whole = hint if get_origin(hint) is not UnionType else get_args(hint)[0]
        parts = get_args(whole)
        hints_of = parts if get_origin(whole) is tuple else repeat(parts[0], len(value))
        return type(value)(map(_restored, value, hints_of))
    return value
