"""Columns, texts and charts of each kind of work, with a module for each, named after the kind.

Each module defines ``KIND``. Tables and charts of a kind are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module

from cclmark.report.kinds.kind import ReportKind


def report_kind(name: str) -> ReportKind:
    """Returns the report definition of the kind ``name``, a key of results.kinds.KINDS."""
    kind: ReportKind = import_module(f"{__name__}.{name}").KIND
    return kind
