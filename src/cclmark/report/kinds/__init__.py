"""Columns, texts and charts of each kind of work, with a module for each, named after the kind.

Each module defines ``KIND``. Tables and charts of a kind are imported when they are first used.
Kinds with a room (cclmark.kinds) define it in ``document.py`` there.
"""

from __future__ import annotations

from importlib import import_module

from cclmark.document.kind import ReportKind

_ROOMS = frozenset({"memory", "overlap", "pieces", "replay", "train"})


def report_kind(name: str) -> ReportKind:
    """Returns the report definition of the kind ``name``, a key of results.kinds.KINDS."""
    module = f"cclmark.kinds.{name}.document" if name in _ROOMS else f"{__name__}.{name}"
    kind: ReportKind = import_module(module).KIND
    return kind
