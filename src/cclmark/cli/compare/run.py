"""Reads the journals of two configurations, compares them and reports the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

from cclmark.analysis.ratio import MOST_RUNS
from cclmark.analysis.run_noise import OwnNoiseOf
from cclmark.base.errors import EXIT_OK, EXIT_WRONG, UsageError
from cclmark.base.printable import plain
from cclmark.cli.compare.command import CompareFlags
from cclmark.cli.listed_files import read_all
from cclmark.comparison.comparison_document import comparison_document
from cclmark.comparison.comparison_page import comparison_page
from cclmark.comparison.computed import (
    ComputedComparison,
    compare_computed,
    computed_document,
    computed_figures,
    computed_json,
    computed_page,
    is_slower,
    main_words,
)
from cclmark.comparison.figures import MARGIN, Side
from cclmark.comparison.words import (
    Comparison,
    GateOutcome,
    comparison_json,
    comparison_of,
    judge,
    require_figures,
)
from cclmark.document.document_text import MarkdownLines, TextLines
from cclmark.document.page.page import render
from cclmark.document.remarks import lacking
from cclmark.document.report_kind import View
from cclmark.history.user_history import noise_of_machines
from cclmark.journal.journal_file import Journal
from cclmark.journal.page_journals import expanded
from cclmark.journal.resume import differing_settings
from cclmark.journal.surroundings import differing_memory, environment_changed
from cclmark.kinds.registry import KINDS, read_journal, report_kind
from cclmark.recording.caller import notice
from cclmark.recording.output import Output, print_out, refuse_to_lose

_MANY_RUNS = 20  # more than a user will start: another timing needs fewer


def gate(comparisons: Sequence[Comparison], margin: float, *, allow_inconclusive: bool) -> int:
    """Reports cases slower by ``margin`` and lost cases on standard error; returns the exit code.

    Raises UsageError if this cannot be decided, because the check must not pass then.
    """
    sides = [side for each in comparisons for side in (each.before, each.after)]
    for text in dict.fromkeys(text for side in sides for text in side.incomplete):
        _say(text)
    outcomes = [(each, judge(each.found, each.bands, margin)) for each in comparisons]
    failed = [_say_failures(each, outcome, margin) for each, outcome in outcomes]
    if any(failed):
        return EXIT_WRONG
    for each, outcome in outcomes:
        if not any(one.judged for one in each.found):
            reason = next(one.reason for one in each.found if one.figures is not None)
            raise UsageError(
                f"--fail-if-slower: no case of {each.after.name} can be judged: {reason}"
            )
        if (outcome.undecided or outcome.unlike) and not allow_inconclusive:
            reasons = [_unlike(each, outcome), _undecided(each, outcome, margin)]
            said = "; ".join(filter(None, reasons))
            raise UsageError(f"--fail-if-slower: {said}, or use --allow-inconclusive")
    return EXIT_OK


def _say_failures(each: Comparison, outcome: GateOutcome, margin: float) -> bool:
    """Reports the failures of a comparison; returns whether there are any."""
    at = f"{margin * 100:.3g} %"
    if outcome.slower:
        worst = max(outcome.slower, key=lambda one: one.ratio or 0.0)
        _say(
            f"{len(outcome.slower)} slower by {at} or more, the worst "
            f"{worst.thing.describe()}: {worst.ratio:.3f} times as long"
        )
    for band in outcome.slower_bands:
        _say(
            f"{band.operation}, {band.name}: {band.count_in_words} cases together are slower by "
            f"{at} or more: {band.ratio:.3f} times as long ({band.low:.3f} - {band.high:.3f})"
        )
    if outcome.lost:
        one = outcome.lost[0]
        _say(
            f"{len(outcome.lost)} measured before but not after, for example "
            f"{one.thing.describe()}: {one.reason}, {each.after.name}"
        )
    return bool(outcome.slower or outcome.slower_bands or outcome.lost)


def _unlike(each: Comparison, outcome: GateOutcome) -> str:
    """Describes the cases that no number of runs decides, and why; empty without any."""
    if not outcome.unlike:
        return ""
    first = outcome.unlike[0]
    return (
        f"{len(outcome.unlike)} of {len(each.found)} cases cannot be compared, for example "
        f"{first.thing.describe()}: {first.reason}. Measure both sides with the same settings"
    )


def _undecided(each: Comparison, outcome: GateOutcome, margin: float) -> str:
    """Describes the inconclusive cases and how to decide them; empty without any."""
    if not outcome.undecided:
        return ""
    runs = outcome.runs_needed
    text = (
        f"{len(outcome.undecided)} of {len(each.found)} cases are inconclusive at "
        f"{margin * 100:.3g} %: "
    )
    if runs is not None and runs <= _MANY_RUNS:
        return f"{text}{runs} runs of each side decide them. List these runs as FILE,FILE,..."
    number = f"more than {MOST_RUNS}" if runs is None else runs
    text += f"they vary too much from run to run ({number} runs of each side would decide them). "
    if _auto_would_help(each, outcome):
        return f"{text}Measure with --timing auto, whose device times vary less, raise the margin"
    return f"{text}Raise the margin"


def _auto_would_help(each: Comparison, outcome: GateOutcome) -> bool:
    """Whether the variation comes from launches, in a case of a run without --timing auto.

    Copies and pairs of ranks do not have that option.
    """
    if all(run.header.settings.timing == "auto" for run in (*each.before.runs, *each.after.runs)):
        return False
    return any(
        KINDS[one.thing.kind].has_device_times
        and one.estimate is not None
        and one.estimate.assumed
        and one.calls is None
        for one in outcome.undecided
    )


def _say(text: str) -> None:
    notice(plain(text))


def _gate_computed(comparisons: Sequence[ComputedComparison], margin: float) -> int:
    """Reports items that are slower by ``margin``, or missing after; returns the exit code."""
    failed = False
    for each in comparisons:
        if slower := is_slower(each, margin):
            names = ", ".join(one.what for one in slower)
            _say(f"slower by {margin * 100:.3g} % or more: {names}, {each.after.name}")
        if lost := main_words(each.only[0]):
            _say(f"only before: {lost}, {each.after.name}")
        failed |= bool(slower or lost)
    return EXIT_WRONG if failed else EXIT_OK


def compare_journals(flags: CompareFlags) -> int:
    """Prints the comparison of each of ``after`` with ``before`` and returns the exit code.

    Raises UsageError if journals cannot be read or have no case in common, or if
    ``fail_if_slower`` cannot be decided; OutputError.
    """
    before, after, output = flags.before, flags.after, flags.output
    margin = MARGIN if flags.fail_if_slower is None else flags.fail_if_slower / 100
    refuse_to_lose(output, [Path(name) for text in (before, *after) for name in _names(text)])
    own_noise = noise_of_machines(lambda text: notice(plain(text)))
    first, names_before = _side(before, own_noise)
    comparisons: list[Comparison] = []
    computed: list[ComputedComparison] = []
    for text in after:
        second, names_after = _side(text, own_noise)
        _refuse_shared(first, names_before, second, names_after)
        if computed_figures(first) or computed_figures(second):
            computed.append(compare_computed(first, second))
        else:
            comparisons.append(comparison_of(first, second, margin))

    def printed(to: Output) -> Sequence[str]:
        if flags.format == "html" and to.is_terminal:
            raise UsageError("--format html writes a page: set its file with -O FILE.html")
        view = replace(to.view, numbers=flags.numbers)
        if computed:
            return [_printed_computed(computed, flags.format, view)]
        return [_printed(comparisons, flags.format, view)]

    print_out(output, printed, is_wide=flags.wide)
    if flags.fail_if_slower is None:
        return EXIT_OK
    if computed:
        return _gate_computed(computed, margin)
    return gate(comparisons, margin, allow_inconclusive=flags.allow_inconclusive)


def _names(text: str) -> list[str]:
    """Returns the journals of a side; an existing file whose name contains commas is one file."""
    return expanded([text] if Path(text).exists() else filter(None, text.split(",")))


def _side(text: str, own_noise: OwnNoiseOf) -> tuple[Side, list[str]]:
    """Reads the journals that ``text`` names; returns their names, too. Raises UsageError."""
    names = _names(text)
    if len(set(names)) < len(names):
        raise UsageError(f"{text} lists a journal twice, which would count as two runs")
    read = read_all(names or [text], _run)
    names, runs = [name for name, _ in read], [run for _, run in read]
    _refuse_copies(names, runs)
    incomplete = [
        f"{name}: {'; '.join(lacks)}"
        for name, run in zip(names, runs, strict=True)
        if (lacks := lacking(run))
    ]
    if len(runs) == 1:
        return Side(plain(names[0]), runs, incomplete, own_noise), names
    for name, run in zip(names[1:], runs[1:], strict=True):
        first, other = runs[0].header, run.header
        changed = [
            *differing_settings(
                first.settings, other.settings, sides=("in the first", "in the other")
            ),
            *differing_memory(first, other),
            *environment_changed(first, other, "in the other"),
        ]
        if changed:
            raise UsageError(
                f"{names[0]} and {name} are not runs of the same configuration: "
                f"{', '.join(changed)}"
            )
    name = plain(f"{names[0]} and {len(names) - 1} more")
    return Side(name, runs, incomplete, own_noise), names


def _run(name: str) -> tuple[str, Journal]:
    run = read_journal(Path(name))
    if not run.results or report_kind(run.kind).computed is None:
        require_figures(run, name)
    return name, run


def _refuse_copies(names: Sequence[str], runs: Sequence[Journal]) -> None:
    """Raises UsageError if two journals are of one run, which would count twice."""
    for (known, other), (name, run) in combinations(zip(names, runs, strict=True), 2):
        if _of_one_run(other, run):
            raise UsageError(
                f"{known} and {name} are journals of the same run{_id_of(run)}, which would "
                "count as two runs"
            )


def _refuse_shared(
    before: Side, names_before: Sequence[str], after: Side, names_after: Sequence[str]
) -> None:
    """Raises UsageError for a run on both sides: a check would pass, as nothing differs."""
    sides = (zip(names_before, before.runs, strict=True), zip(names_after, after.runs, strict=True))
    for (known, other), (name, run) in product(*sides):
        if _of_one_run(other, run):
            raise UsageError(
                f"BEFORE and AFTER share a run{_id_of(run)}: {known} and {name}. Use different "
                "runs on the two sides"
            )


def _of_one_run(one: Journal, other: Journal) -> bool:
    """Compares the run ids, or the whole content if a journal of an early version has no id."""
    if one.header.run_id and other.header.run_id:
        return one.header.run_id == other.header.run_id
    return one == other


def _id_of(run: Journal) -> str:
    return f" ({run.header.run_id})" if run.header.run_id else ""


def _printed(comparisons: Sequence[Comparison], format: str, view: View) -> str:
    if format == "json":
        return comparison_json(comparisons)
    if format == "html":
        return render(comparison_page(comparisons))
    lines = (MarkdownLines if format == "markdown" else TextLines)(view)
    return "\n".join(lines.whole(comparison_document(one)) for one in comparisons)


def _printed_computed(comparisons: Sequence[ComputedComparison], format: str, view: View) -> str:
    if format == "json":
        return computed_json(comparisons)
    if format == "html":
        return render(computed_page(comparisons))
    lines = (MarkdownLines if format == "markdown" else TextLines)(view)
    return "\n".join(lines.whole(computed_document(one)) for one in comparisons)
