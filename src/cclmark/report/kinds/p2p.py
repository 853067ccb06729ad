"""Reports of copies between devices."""

from __future__ import annotations

from cclmark.analysis.copies import checks_of
from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount, listed
from cclmark.document.kind import ReportKind, View, later
from cclmark.report.kinds.sample_columns import TRANSFER_SAMPLES
from cclmark.report.kinds.transfer_columns import TRANSFERS
from cclmark.report.kinds.transfer_metrics import TRANSFER_METRICS, measure_transfer
from cclmark.results.journal import Journal
from cclmark.results.item_results import TransferResult

PAGE_COLUMNS = (
    *("measure", "scope", "means", "direction", "flows", "size_bytes", "status", "reason"),
    *("time_us", "min_us", "max_us", "samples", "bandwidth_gbps", "wrong"),
)
METHOD_OF_COPIES = (
    "A copy's bandwidth is its bytes over the median of its samples; several at once have all of "
    "their bytes over the time of the slowest."
)


def _table(view: View) -> Exporter[TransferResult]:
    from cclmark.report.kinds.transfer_table import TransferTable

    return TransferTable(
        paint=view.paint, hosts=view.hosts, width=view.columns, references=view.references
    )


def _markdown(view: View) -> Exporter[TransferResult]:
    from cclmark.report.kinds.transfer_formats import TransferMarkdown

    return TransferMarkdown(shares=False, hosts=view.hosts, references=view.references)


def _pccl(view: View) -> Exporter[TransferResult]:
    from cclmark.report.kinds.transfer_formats import TransferPccl

    return TransferPccl(shares=False, hosts=view.hosts)


def _counted(journal: Journal) -> str:
    checks = checks_of(journal.transfers)
    copies = [amount(checks.copies, "copy", "copies")] if checks.copies else []
    if checks.unverifiable:
        copies.append(amount(checks.unverifiable, "latency", "latencies"))
    return f"{listed(copies)} between devices"


KIND = ReportKind(
    noun="transfers",
    title="copies between devices (p2p)",
    has_times=True,
    csv=TRANSFERS,
    exported=TRANSFERS,
    samples=TRANSFER_SAMPLES,
    formats={"table": _table, "markdown": _markdown, "pccl": _pccl},
    metrics=TRANSFER_METRICS,
    measure=measure_transfer,
    counted=_counted,
    headline=later("insights.headline", "headline_of_copies"),
    insights=later("insights.by_kind", "insights_on_copies"),
    titled=lambda runs: "copies between devices",
    method=later("kinds.transfer_table", "method_of_transfers"),
    method_words=METHOD_OF_COPIES,
    by_session=False,
    traced="device",
    sections=later("kinds.transfer_page", "transfer_sections"),
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.transfer_page", "cells_of_transfer"),
)
