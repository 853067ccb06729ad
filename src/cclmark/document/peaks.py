"""The main figures of collectives: a row for each operation of each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.findings import OperationFindings
from cclmark.analysis.links import link_limit
from cclmark.base.grouping import abridged, by_key
from cclmark.document.blocks import HeadFigure, Table, without_empty_columns
from cclmark.document.head import definitions_of
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import share_text
from cclmark.document.remarks import convergence_text, marks_text, staged_legend, staged_mark
from cclmark.document.text import BYTES_PER_GB, US_PER_S, format_time_us, three_digits
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Header, Summary
from cclmark.work.operations import moves_data
from cclmark.work.sizes import format_size

_MOST_NOTES = 12
_MOST_FIGURES = 5
_MOST_RUNS = 12  # listed in a note
_DEVICE = "device µs"
_AVERAGE = "average: mean bus bandwidth of all cases in GB/s, as nccl-tests prints it."


def head_figures(run: NamedRun) -> list[HeadFigure]:
    """The peaks of the operations of a run, all figures of a single one."""
    found = [one for one in run.findings if _has_rate(one) and one.peak.summary]
    limit = link_limit(run.journal.header.links, run.journal.header.hosts)
    if len(found) == 1:
        return _figures_of(run, found[0], limit)
    figures = []
    for one in found[:_MOST_FIGURES]:
        assert one.peak.summary is not None
        rate = one.peak.summary.busbw_bytes_per_s
        share = f"{_percent(rate / limit)}% of limit" if limit else ""
        if (match := run.notes.match(one.peak, run.journal.header)) is not None:
            share = f"{share_text(match.share)} of reference"
        notes = [f"{share}{convergence_text(one.peak)}".strip()]
        if one.latency.summary is not None:
            time_us = three_digits(one.latency.summary.time_s * US_PER_S)
            size = format_size(one.latency.case.size_bytes)
            notes.append(f"{time_us} µs at {size}{convergence_text(one.latency)}")
        value = three_digits(rate / BYTES_PER_GB)
        note = ", ".join(filter(None, notes))
        figures.append(HeadFigure(one.name, value, "GB/s", note))
    for one in [one for one in run.findings if not _has_rate(one)][:_MOST_FIGURES]:
        if one.latency.summary is not None:
            time_us = three_digits(one.latency.summary.time_s * US_PER_S)
            note = convergence_text(one.latency).strip()
            figures.append(HeadFigure(one.name, time_us, "µs", note))
    return figures


def _figures_of(run: NamedRun, of: OperationFindings, limit: float | None) -> list[HeadFigure]:
    peak, latency = of.peak.summary, of.latency.summary
    assert peak is not None
    rate = peak.busbw_bytes_per_s
    case = of.peak.case
    figures = [
        HeadFigure(
            "bus bandwidth",
            three_digits(rate / BYTES_PER_GB),
            "GB/s",
            f"at {format_size(case.size_bytes)} {case.placement}{convergence_text(of.peak)}",
        )
    ]
    if limit:
        share = HeadFigure("of the link limit", _percent(rate / limit), "%", _limit_text(limit))
        figures.append(share)
    if (match := run.notes.match(of.peak, run.journal.header)) is not None:
        name = match.name
        figures.append(HeadFigure("of the reference", share_text(match.share)[:-1], "%", name))
    if of.half_peak_bytes is not None:
        value, unit = format_size(of.half_peak_bytes).split()
        figures.append(HeadFigure("half of the peak from", value, unit))
    if latency is not None:
        time_us = three_digits(latency.time_s * US_PER_S)
        size = format_size(of.latency.case.size_bytes)
        note = f"of {size}{convergence_text(of.latency)}"
        figures.append(HeadFigure("smallest message", time_us, "µs", note))
    return figures


def _has_rate(of: OperationFindings) -> bool:
    """Whether data moves between ranks: a rank alone communicates nothing."""
    return moves_data(of.operation) and of.peak.case.ranks > 1


def _percent(share: float) -> str:
    return f"{float(f'{share * 100:.2g}'):g}"


def _limit_text(limit: float) -> str:
    return f"of {limit / BYTES_PER_GB:.0f} GB/s"


def peaks_of(runs: Sequence[NamedRun]) -> Table | None:
    """The best bandwidth and the smallest message's time by operation; None if none is measured."""
    rows = []
    named: list[CaseResult] = []
    limits: dict[str, None] = {}
    references: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        header = run.journal.header
        limit = link_limit(header.links, header.hosts)
        if limit:
            limits[f"{limit / 1e9:.0f}"] = None
        for found in run.findings:
            latency = found.latency.summary
            if latency is None:
                continue
            name = found.name
            cells = [f"{run.name}: {name}" if len(runs) > 1 else name]
            own = found.latency.device
            device = "" if own is None else format_time_us(own.summary.time_s)
            if not _has_rate(found):
                time, device, size = _smallest(found.latency, latency, device)
                size = size if moves_data(found.operation) else ""
                cells += ["", "", "", "", "", "", time, device, size]
            else:
                peak, half = found.peak.summary, found.half_peak_bytes
                assert peak is not None
                share = f"{peak.busbw_bytes_per_s / limit:.0%}" if limit else ""
                match = run.notes.match(found.peak, header)
                if match is not None:
                    users = references.setdefault(match.name_and_differences, {})
                    users.setdefault(name, []).append(run.name)
                cells += [
                    f"{peak.busbw_bytes_per_s / BYTES_PER_GB:.2f}",
                    f"{format_size(found.peak.case.size_bytes)} {found.peak.case.placement}"
                    f"{marks_text(found.peak)}",
                    share,
                    "" if match is None else share_text(match.share),
                    "" if half is None else format_size(half),
                    f"{found.average_bytes_per_s / BYTES_PER_GB:.2f}",
                    *_smallest(found.latency, latency, device),
                ]
            named += [found.peak, found.latency]
            rows.append(cells)
    if not rows:
        return None
    head = (
        *("operation", "peak busbw GB/s", "at", "of limit", "of reference", "half from"),
        *("average", "smallest message µs", _DEVICE, "size"),
    )
    has_limit, has_device = any(row[3] for row in rows), any(row[-2] for row in rows)
    table = Table(
        "Peak bus bandwidth and time of the smallest message",
        head,
        rows,
        "<" + ">" * (len(head) - 1),
        [
            *staged_legend(named),
            *_cycles(runs),
            *_mixed_peaks([run.journal.header for run in runs if run.findings]),
            *([_AVERAGE] if any(row[6] for row in rows) else []),
            *([f"Link limit: {' or '.join(limits)} GB/s."] if has_limit else []),
            *(
                ["device µs: the time of the device alone, where launches set the cost of a call."]
                if has_device
                else []
            ),
            *(
                f"Reference of {_users(of, len(runs))}: {reference}."
                for reference, of in list(references.items())[:_MOST_NOTES]
            ),
        ],
    )
    return without_empty_columns(table)


def _cycles(runs: Sequence[NamedRun]) -> list[str]:
    """Returns a note if runs measured their cases in several cycles."""
    cycles = [(run.name, one.cycles) for run in runs for one in run.findings if one.cycles > 1]
    named = dict.fromkeys(
        f"{number} of {name}" if len(runs) > 1 else str(number) for name, number in cycles
    )
    return [f"Figures are medians of several cycles: {_some([*named])}."] if named else []


def _mixed_peaks(headers: Sequence[Header]) -> list[str]:
    """Returns a note if the tools of the runs define a time in different ways."""
    if len(definitions_of(headers)) < 2:
        return []
    return [
        "These tools have different definitions of a time, from which bandwidths are computed: "
        "compare only lines with the same definition, which each operation's section lists."
    ]


def _smallest(result: CaseResult, summary: Summary, device: str) -> list[str]:
    """Returns the time of the smallest message, the device's time if it differs, and the size."""
    return [
        f"{format_time_us(summary.time_s)}{staged_mark(result)}",
        device,
        f"{format_size(result.case.size_bytes)}{convergence_text(result)}",
    ]


def _users(of: Mapping[str, Sequence[str]], runs: int) -> str:
    """Returns the operations, with the names of their runs if there are several runs."""
    if runs == 1:
        return ", ".join(of)
    by_runs = by_key(
        (_some(list(dict.fromkeys(names))), operation) for operation, names in of.items()
    )
    return "; ".join(f"{', '.join(words)} ({names})" for names, words in by_runs.items())


def _some(names: Sequence[str]) -> str:
    return abridged(names, _MOST_RUNS)
