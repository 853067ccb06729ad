"""Remarks on a case besides its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cclmark.analysis.findings import OperationFindings, is_staged
from cclmark.analysis.summary import converged
from cclmark.base.printable import plain
from cclmark.document.placement_rows import PlacementRow
from cclmark.document.text import counted, format_time_us, precision_text
from cclmark.journal.item_results import CaseResult, TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Footer, Header, WrongOutput
from cclmark.work.operations import moves_data
from cclmark.work.sizes import format_size


def all_launches_in_words(found: Sequence[OperationFindings]) -> str:
    """Describes all operations of a run in a phrase; empty if no operation is affected."""
    texts = [(one.name, text) for one in found if (text := launches_in_words(one))]
    if not texts:
        return ""
    if len(found) > 1:
        return "; ".join(f"{name}: {text}" for name, text in texts)
    return texts[0][1]


def launches_in_words(found: OperationFindings) -> str:
    """Describes one operation; empty if launches determine no time, or if that is unknown."""
    largest, smallest = found.launch_bound, found.latency
    if largest is None:
        return ""
    words, at = "launches determine the time", ""
    if moves_data(found.operation):
        words += f" up to {format_size(largest.case.size_bytes)}"
        at = f"at {format_size(smallest.case.size_bytes)} "
    if smallest.device is not None and smallest.summary is not None:
        call, device = (
            format_time_us(summary.time_s)
            for summary in (smallest.summary, smallest.device.summary)
        )
        return f"{words}: {at}a call costs {call} µs, the device needs {device} µs"
    reason = largest.device_reason or smallest.device_reason
    return f"{words}; device times unknown: {reason}" if reason else words


STAGED_MARK = "*"
STAGED_NOTE = (
    "the time includes copying the input aside: in place, input and output of this operation "
    "overlap, which libraries leave undefined; in-place figures of nccl-tests, which times the "
    "undefined call, are not comparable"
)


def staged_mark(result: CaseResult) -> str:
    """Returns STAGED_MARK for a measured case whose time includes that copy, else empty."""
    return STAGED_MARK if is_staged(result) else ""


def staged_legend(results: Iterable[CaseResult]) -> list[str]:
    """Returns the footnote that explains STAGED_MARK; empty if no result has it."""
    return [f"{STAGED_MARK} {STAGED_NOTE}"] if any(map(staged_mark, results)) else []


_MOST_WORDS = 3
_NO_END = "the end of the run is missing"  # the run was killed, or the file was truncated


def problems(result: CaseResult) -> list[str]:
    """The reason for missing figures, or the findings of the check; empty if the case is ok."""
    if result.status == "ok":
        return []
    if result.status == "wrong" and result.verification is not None:
        findings = [_describe(finding) for finding in result.verification.findings]
        return findings or [f"wrong: {result.verification.wrong} elements"]
    return [f"{result.status}: {plain(result.reason)}" if result.reason else result.status]


def reason_text(result: Any) -> str:
    """Returns the reason of a result; of wrong data without any, the first wrong element."""
    checked = result.verification
    if result.reason or checked is None or not checked.findings:
        return str(result.reason)
    return f"rank {checked.findings[0].rank}: {elements_text(checked.findings[0])}"


def problem_lines(row: PlacementRow) -> list[str]:
    """Returns the problems of both placements, each with its case."""
    return [
        f"{result.case.describe()}: {problem}"
        for result in row.results
        for problem in problems(result)
    ]


def series(row: PlacementRow) -> str:
    """Describes the common properties of one sweep's rows, with the placement that is shown."""
    case = next((it.case for it in row.results if it.summary is not None), row.case)
    words = [case.operation]
    if moves_data(case.operation):
        words += [case.dtype, case.reduction or ""]
        words.append("" if case.root is None else f"root {case.root}")
        words.append(case.placement)
    return f"{' '.join(filter(None, words))}, {case.ccl}, {counted(case.ranks, 'rank')}"


def planned_results(header: Header | None) -> int:
    """Returns the number of results of the complete run; 0 if it has no end or is unknown."""
    return 0 if header is None else header.planned_cases * header.settings.cycles


def outcome_of_cases(header: Header, results: Sequence[CaseResult]) -> str:
    """Counts the measured, the checked and the failed cases; empty if none was planned."""
    checked = [one for one in results if one.verification is not None or one.status == "wrong"]
    planned = planned_results(header)
    if not results and not planned:
        return ""
    if len(results) < planned:
        measured = sum(result.summary is not None for result in results)
        text = f"{measured} of {planned} cases measured, {len(checked)} checked"
    elif not checked and not header.settings.check:
        by_option = " (-c 0)" if header.imported is None else ""
        text = f"{counted(len(results), 'case')}, not checked{by_option}"
    else:
        text = f"{len(checked)} of {len(results)} cases checked"
    text += f", {sum(one.status == 'wrong' for one in checked)} wrong" if checked else ""
    return text + without_figures_text(results)


def without_figures_text(results: Sequence[CaseResult | TransferResult]) -> str:
    """Returns ``, 2 skipped, 1 timeout`` for results without figures; empty for none."""
    numbers = Counter(one.status for one in results if one.status not in ("ok", "wrong"))
    return "".join(f", {number} {status}" for status, number in numbers.items())


def ending(footer: Footer | None) -> str:
    """Returns why the run ended as it did; empty for a regular end."""
    if footer is None:
        return _NO_END
    return plain(footer.message) or (f"exit code {footer.exit_code}" if footer.exit_code else "")


def comment_lines(texts: Sequence[str]) -> str:
    """Returns comments as other tools' texts contain them: safe to print, one line each."""
    return "".join(f"# {plain(text)}\n" for text in texts)


def conclusion_lines(footer: Footer | None) -> list[str]:
    """The result of an adaptive run, without empty lines around it; empty for other runs."""
    conclusion = [] if footer is None else footer.conclusion
    return "\n".join(conclusion).strip("\n").splitlines()


def ending_line(footer: Footer | None) -> str:
    """Returns the first line of the reason: reports on ranks that failed have several."""
    if footer is None or not footer.message:
        return ending(footer)
    return plain(footer.message.splitlines()[0])


def closing(footer: Footer | None) -> str:
    """Returns the same with the exit code before a message, for texts that are parsed again."""
    if footer is None or not footer.exit_code or not footer.message:
        return ending(footer)
    return f"exit code {footer.exit_code}: {plain(footer.message)}"


def lacking(journal: Journal) -> list[str]:
    """Describes missing parts of a run's journal; none if it is complete. Safe to print."""
    found = []
    planned = planned_results(journal.header)
    count = len(journal.results)
    if journal.footer is None:
        found.append(ending(None))
    elif count < planned and (ended := ending_line(journal.footer)):
        found.append(f"the run ended early: {ended}")
    if count < planned:
        found.append(f"{count} of {planned} results are there")
    return [*found, *left_out(journal)]


def left_out(journal: Journal) -> list[str]:
    """Describes the lines of a journal that are not read; none if there are none. Safe to print."""
    found = []
    if lines := journal.damaged_lines:
        found.append(f"damaged lines are left out: {lines}")
    if words := journal.unknown_words:
        found.append(
            f"lines with words that this version does not know are left out: {len(words)} "
            f"({', '.join([*dict.fromkeys(words)][:_MOST_WORDS])}); a newer cclmark may read them"
        )
    return found


def cycles_text(found: OperationFindings) -> str:
    """Returns that figures are medians of several cycles, if there are any."""
    return f", medians of {found.cycles} cycles" if found.cycles > 1 else ""


def half_peak_text(found: OperationFindings) -> str:
    """Returns ``, half of it from 8 MiB on`` to follow a peak; empty without new information."""
    half = found.half_peak_bytes
    if half is None or half >= found.peak.case.size_bytes:
        return ""
    return f", half of it from {format_size(half)} on"


def marks_text(result: CaseResult) -> str:
    """Returns what qualifies a figure of a summary: a staging copy, and missing convergence."""
    return f"{staged_mark(result)}{convergence_text(result)}"


def convergence_text(result: CaseResult) -> str:
    """Returns `` (not converged, ±3.1 %)`` to follow a figure; empty if the case converged."""
    if converged(result):
        return ""
    words = "device time not converged" if result.converged else "not converged"
    width = unsettled_width(result)
    return f" ({words})" if width is None else f" ({words}, {precision_text(width)})"


def unsettled_width(result: CaseResult) -> float | None:
    """Returns half the width of the interval of the median that did not converge, as a share."""
    summary = result.summary
    if result.converged and result.device is not None:
        summary = result.device.summary
    return None if summary is None else summary.half_width


def _describe(finding: WrongOutput) -> str:
    return f"wrong: rank {finding.rank}: {elements_text(finding)}"


def elements_text(finding: WrongOutput) -> str:
    """Returns ``3 elements, first at index 512: expected 10, got 7.5``. Safe to print."""
    return (
        f"{counted(finding.wrong, 'element')}, first at index {finding.first_element}: expected "
        f"{plain(finding.expected)}, got {plain(finding.actual)}"
    )
