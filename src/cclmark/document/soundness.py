"""Whether the data was correct and the results are complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from cclmark.analysis.links import link_limit
from cclmark.document.insight_words import (
    MOST_NAMED,
    Insight,
    InsightKind,
    amount,
    described,
    first_line,
    listed,
    sentence,
)
from cclmark.document.naming import NamedRun
from cclmark.document.remarks import ending, left_out, planned_results, problems
from cclmark.errors import EXIT_INTERRUPTED
from cclmark.results.item_results import CaseResult, TransferResult
from cclmark.results.journal import Journal
from cclmark.results.schema import Header


def of_data(
    journal: Journal,
    timed: Sequence[CaseResult | TransferResult],
    unverifiable: str = "",
    *,
    with_elements: bool = True,
) -> Iterator[Insight]:
    """Reports whether the outputs of the results with times were correct.

    ``unverifiable``: the results without an output, in words. ``with_elements``: also the first
    wrong element of each.
    """
    results = [one for one in timed if one.is_checkable]
    measured = [one for one in results if one.summary is not None]
    checked = [one for one in measured if one.verification is not None]
    wrong = [one for one in results if one.status == "wrong"]
    if wrong:
        words = _wrong_words if with_elements else described
        names = [words(one) for one in wrong[:MOST_NAMED]]
        yield Insight(
            "bad",
            f"Wrong data in {amount(len(wrong), 'case')}: {listed(names, len(wrong))}.",
            advice_on_wrong_data(journal.header),
        )
    elif checked:
        share = f"{len(checked)} of {len(measured)} outputs were"
        kind: InsightKind = "note"
        if len(checked) == len(measured):
            unmeasured = sum(one.status != "skipped" for one in results) > len(measured)
            share = "Every measured output was" if unmeasured else "Every output was"
            kind = "note" if unmeasured else "good"
        yield Insight(kind, f"{share} checked in full; none was wrong{unverifiable}.")
    elif measured:
        off = journal.header.imported is None and journal.header.settings.check == 0
        yield Insight(
            "look",
            "No output was checked: the figures do not show whether the data was correct.",
            "Leave out -c 0." if off else "",
        )


def advice_on_wrong_data(header: Header) -> str:
    """Returns what to do about wrong data."""
    if header.settings.inject:
        return "The fault was injected by --inject."
    return (
        "Do not use this library and hardware for anything until the cause is known. Run the case "
        "again alone; if the error persists, find the device with `cclmark p2p` and `cclmark "
        "pairs`, and look for memory errors (on NVIDIA: nvidia-smi -q -d ECC)."
    )


def _wrong_words(result: CaseResult | TransferResult) -> str:
    """Describes the case and its first wrong element."""
    found = problems(result) if isinstance(result, CaseResult) else []
    return f"{described(result)} ({found[0]})" if found else described(result)


def of_completeness(
    journal: Journal, results: Sequence[CaseResult | TransferResult], *, with_end: bool = True
) -> Iterator[Insight]:
    """Reports missing results and the run's own notices.

    ``with_end``: also why the run ended early.
    """
    yield from of_statuses(results)
    if with_end:
        yield from _ending(journal, len(journal.results))
    yield from (Insight("look", sentence(text)) for text in left_out(journal))
    yield from (Insight("note", sentence(text)) for text in journal.header.notices)


def of_statuses(results: Sequence[CaseResult | TransferResult]) -> Iterator[Insight]:
    """Reports results without figures by their status, with the usual reason."""
    by_status: dict[str, list[str]] = {}
    for one in results:
        if one.status not in ("ok", "wrong"):
            reason = first_line(one.reason) or one.status
            by_status.setdefault(one.status, []).append(reason)
    for status, reasons in by_status.items():
        usual, times = Counter(reasons).most_common(1)[0]
        skipped = status == "skipped"
        more = "" if times == len(reasons) else f" ({times} of them)"
        yield Insight(
            "note" if skipped else "bad",
            f"{amount(len(reasons), 'case')} {status}: {usual}{more}.",
            ""
            if skipped
            else "The journal contains a report of the state of every rank: see the case in the "
            "table.",
        )


def _ending(journal: Journal, done: int) -> Iterator[Insight]:
    planned = planned_results(journal.header)
    footer = journal.footer
    ended = ending(footer and msgspec.structs.replace(footer, message=first_line(footer.message)))
    if not ended or (planned and done >= planned and footer is not None):
        return
    of = f" after {done} of {planned} cases" if planned > done else ""
    from_outside = footer is None or footer.exit_code == EXIT_INTERRUPTED
    imported = journal.header.imported is not None
    yield Insight(
        "look" if from_outside else "bad",
        f"The {'journal' if imported else 'run'} ended early{of}: {ended}.",
        "Import the text again."
        if imported
        else "The same command with --resume JOURNAL measures the missing cases.",
    )


def nothing_wrong(run: NamedRun, found: list[Insight], *, compared: bool = False) -> list[Insight]:
    """Returns the insight that nothing needs attention, or that nothing was comparable."""
    if any(one.kind in ("bad", "look") for one in found):
        return []
    header = run.journal.header
    if not any(result.is_measured for result in run.journal.results):
        return []
    if compared or header.relations or link_limit(header.links, header.hosts) is not None:
        return [Insight("good", "Nothing needs a look.")]
    text = "There is no link limit and no reference to hold these against."
    return [Insight("note", text)]
