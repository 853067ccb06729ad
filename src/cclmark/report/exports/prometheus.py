"""Journals for Prometheus: a series has the value of the newest result with its labels.

Journals are read in the order of their dates.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from cclmark.document.device_labels import device_labels
from cclmark.document.openmetrics import Metric, Series, labels_of, lines_of
from cclmark.document.report_kind import RunLabels
from cclmark.kinds.registry import KINDS, report_kind
from cclmark.report.exports.flat_table import devices_of, hosts_of
from cclmark.results.journal import Journal
from cclmark.results.schema import Header, Settings

# In the order of the output. docs/reference/prometheus.md lists them.
_OF_RUNS = (
    Metric("cclmark_run_timestamp_seconds", "seconds", "When the run began, since 1970."),
    Metric("cclmark_run_duration_seconds", "seconds", "How long the run took."),
    Metric("cclmark_run_exit_code", "", "Exit code of the run."),
)
METRICS: dict[str, Metric] = {
    one.name: one
    for one in (*(one for kind in KINDS for one in report_kind(kind).metrics), *_OF_RUNS)
}


def _timing(settings: Settings) -> str:
    """Returns the timing of a series: auto adds another series to that of throughput."""
    return "throughput" if settings.timing == "auto" else settings.timing


def prometheus(journals: Sequence[Journal]) -> str:
    """Returns the text of a complete scrape."""
    series = Series([*METRICS.values()])
    for journal in sorted(journals, key=lambda one: _began_s(one.header) or 0.0):
        _add(series, journal)
    return "".join(lines_of(series))


def _add(series: Series, journal: Journal) -> None:
    """Adds a run and its results."""
    header, settings = journal.header, journal.header.settings
    series.begin_run()
    ranks = settings.across_ranks
    # The slowest rank is the default; imported runs need not contain it.
    method = [
        ("timing", _timing(settings)),
        ("across_ranks", "" if ranks == "max" else ranks),
        ("cache", "" if settings.cache == "cold" else settings.cache),
        ("barrier", "" if settings.barrier == "own" else settings.barrier),
        ("clock", "" if settings.clock == "auto" else settings.clock),
    ]
    where = [("host", hosts_of(header)), ("device", devices_of(header))]
    host_ranks = {device.rank for device in header.devices if device.runtime == "host"}
    of_run = RunLabels(where, method, device_labels(header), host_ranks)
    measure = report_kind(journal.kind).measure
    for result in journal.results:
        measure(series, result, of_run)
    if not journal.results:
        return
    labels = labels_of([*where, ("kind", KINDS[journal.kind].listed_as)])
    series.begin(labels)
    series.set("cclmark_run_timestamp_seconds", labels, _began_s(header))
    if journal.footer is not None:
        series.set("cclmark_run_exit_code", labels, journal.footer.exit_code)
        if header.imported is None:
            series.set("cclmark_run_duration_seconds", labels, journal.footer.duration_s)


def _began_s(header: Header) -> float | None:
    """Returns seconds since 1970; None if the journal has no date. A date without a zone is UTC."""
    try:
        began = datetime.fromisoformat(header.started_at.replace("Z", "+00:00"))
    except ValueError:
        return None
    if began.tzinfo is None:
        began = began.replace(tzinfo=timezone.utc)
    return began.timestamp()
