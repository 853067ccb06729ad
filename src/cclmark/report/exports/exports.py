"""The formats of ``cclmark export``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cclmark.document.exporters import formats_of
from cclmark.document.reference_notes import Load, no_references
from cclmark.errors import UsageError
from cclmark.kinds.collective.formats import CASE_FORMATS
from cclmark.kinds.registry import KINDS, report_kind
from cclmark.report.journal_text import replayed
from cclmark.results.journal import Journal

# A journal and its name in messages.
NamedJournal = tuple[str, Journal]
_REPLAYED = ("table", "json", "pccl", *CASE_FORMATS)


class Write(Protocol):
    """Writes journals. ``table``: cases, samples or steps; ``references``: compared with peaks."""

    def __call__(
        self, journals: Sequence[NamedJournal], table: str, references: Load = ...
    ) -> bytes:
        """Returns the content of the file."""


def _csv(journals: Sequence[NamedJournal], table: str, references: Load = no_references) -> bytes:
    from cclmark.document.csv_format import csv_line
    from cclmark.report.exports.flat_table import chosen_table

    flat = chosen_table(journals, table)
    lines = [csv_line([column.name for column in flat.columns])]
    lines += [csv_line(row, exact=flat.exact) for row in flat.rows]
    return "".join(lines).encode()


def _parquet(
    journals: Sequence[NamedJournal], table: str, references: Load = no_references
) -> bytes:
    from cclmark.report.exports.flat_table import chosen_table
    from cclmark.report.exports.parquet import parquet

    return parquet(chosen_table(journals, table))


def _prometheus(
    journals: Sequence[NamedJournal], table: str, references: Load = no_references
) -> bytes:
    from cclmark.report.exports.prometheus import prometheus

    return prometheus([journal for _, journal in journals]).encode()


def _one_by_one(format: str) -> Write:
    def written(
        journals: Sequence[NamedJournal], table: str, references: Load = no_references
    ) -> bytes:
        if format == "json" and len(journals) > 1:
            raise UsageError(
                "json contains one complete run: export the journals one by one, or use csv or "
                "parquet, which support several"
            )
        for name, journal in journals:
            possible = formats_of(KINDS[journal.kind])
            if format not in possible:
                others = ", ".join(dict.fromkeys([*possible, *TABULAR]))
                raise UsageError(
                    f"{name} contains {report_kind(journal.kind).noun}, not supported by {format}: "
                    f"choose from {others}, prometheus"
                )
        return "\n".join(
            "".join(replayed(journal, format, references=references)) for _, journal in journals
        ).encode()

    return written


TABULAR = ("csv", "parquet")
EXPORTS: dict[str, Write] = {
    **{name: _one_by_one(name) for name in _REPLAYED},
    "csv": _csv,
    "parquet": _parquet,
    "prometheus": _prometheus,
}
