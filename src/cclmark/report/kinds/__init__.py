"""The columns, texts and charts of each kind of work: a module per kind, with the name of the kind.

Each defines ``KIND``. Tables and charts of a kind are imported when they are first needed.
"""

from __future__ import annotations

from importlib import import_module

from cclmark.report.kinds.kind import ReportKind


def report_kind(name: str) -> ReportKind:
    """How results of the kind ``name``, a key of results.kinds.KINDS, are reported."""
    kind: ReportKind = import_module(f"{__name__}.{name}").KIND
    return kind
