"""Adds runs to a history; lists, prints, exports and removes them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from cclmark.analysis.change import LEAST_POINTS, THRESHOLD
from cclmark.base.errors import EXIT_OK, EXIT_USAGE, EXIT_WRONG, EmptyError, OutputError, UsageError
from cclmark.base.grouping import abridged
from cclmark.base.printable import plain
from cclmark.base.standard_error import folded
from cclmark.cli.history.command import (
    AddRunsFlags,
    ExportRunFlags,
    FilterOptions,
    ListRunsFlags,
    NameOptions,
    PrintOptions,
    PruneFlags,
    ShowRunFlags,
    TrendFlags,
)
from cclmark.document.document_text import MarkdownLines, TextLines
from cclmark.document.head import labelled
from cclmark.document.text import counted
from cclmark.history.history_model import StoredRun, default_path, filter_of, moment
from cclmark.history.lists import (
    Trend,
    Trends,
    run_facts,
    runs_csv,
    runs_json,
    runs_table,
    trend_document,
    trend_json,
    trends_of,
)
from cclmark.history.store import History
from cclmark.journal.page_journals import expanded, read_lines
from cclmark.options.command import options_of
from cclmark.options.groups import HistoryOptions
from cclmark.recording.caller import notice
from cclmark.recording.output import (
    STANDARD_OUTPUT,
    Output,
    print_out,
    refuse_to_lose,
    tell_written,
    usual_references,
    write_whole,
)
from cclmark.recording.standard_output import say
from cclmark.report.exports import replayed, unshown

# The filters by names: the field that each selects, and whether the name must be complete.
_NAMES = {
    "machine": ("host", False),
    "device": ("device", False),
    "operation": ("operation", True),
    "ccl": ("library", True),
    "label": ("label", True),
}
_MOST_NAMED = 20


def trend_runs(flags: TrendFlags) -> int:
    """Prints the series that the filters select; returns the exit code.

    Raises UsageError for a name that is not in the history, for names that no run combines, and if
    ``fail_if_slower`` cannot be decided.
    """
    least = _threshold(flags.threshold, flags.fail_if_slower)
    history = _history_of(flags)
    filters = _filters(flags)
    _require_known(history, filters)
    shown = trends_of(*history.series(filter_of(**filters)), history.headers, least)
    _require_some(shown, filters)

    def text(written: Output) -> Sequence[str]:
        if flags.format == "json":
            return [trend_json(shown)]
        lines = (MarkdownLines if flags.format == "markdown" else TextLines)(written.view)
        return [lines.whole(trend_document(shown, everything=flags.everything))]

    _print(flags, text, history)
    allowed = flags.fail_if_slower
    return EXIT_OK if allowed is None else _verdict(shown.trends, allowed)


def _filters(flags: NameOptions) -> dict[str, str]:
    """The filters by name, those that the command has."""
    known = options_of(FilterOptions)
    return {name: value for name, value in vars(flags).items() if name in known}


def _threshold(percent: float | None, allowed_percent: float | None) -> float:
    """Returns the least share of a reported change. Raises UsageError for one above the gate's."""
    if percent is None:
        return THRESHOLD if allowed_percent is None else min(THRESHOLD, allowed_percent / 100)
    if allowed_percent is not None and percent > allowed_percent:
        raise UsageError(
            f"--fail-if-slower {allowed_percent:.3g}% is below --threshold {percent:.3g}%, under "
            "which no change is reported: lower the threshold"
        )
    return percent / 100


def _require_known(history: History, filters: Mapping[str, str]) -> None:
    """Raises UsageError for a filter that no run of the history matches."""
    if not any(filters.get(name) for name in _NAMES):
        return
    choices = history.choices()
    known = {
        "machine": choices.hostnames,
        "device": choices.devices,
        "operation": choices.operations,
        "ccl": choices.ccls,
        "label": choices.labels,
    }
    for name, (what, whole) in _NAMES.items():
        asked = filters.get(name, "")
        if not asked:
            continue
        if whole:
            there = asked in known[name]
            text = f"no run of the history has this {what}"
        else:
            there = any(asked.lower() in each.lower() for each in known[name])
            text = f"no {what} of the history has this in its name"
        if not there:
            those = f"it has {abridged(known[name], _MOST_NAMED)}" if known[name] else "it has none"
            raise UsageError(f"--{name} {asked!r}: {text}: {those}")


def _require_some(shown: Trends, filters: Mapping[str, str]) -> None:
    """Raises UsageError if several filters match nothing together, though each matches alone."""
    given = [f"--{name} {text!r}" for name, text in filters.items() if text]
    if given and not shown.trends:
        raise UsageError(f"no case of the history matches {' and '.join(given)}")


def _verdict(found: Sequence[Trend], allowed_percent: float) -> int:
    """Reports series whose last change is slower by so much; returns the exit code.

    Writes to standard error.

    Raises UsageError if no series has enough runs: a check that cannot fail would be reported as a
    pass.
    """
    if not found:
        raise UsageError("--fail-if-slower: no case can be judged: the history contains no times")
    if all(len(trend.runs) < LEAST_POINTS for trend in found):
        most = max(len(trend.runs) for trend in found)
        raise UsageError(
            f"--fail-if-slower: no case can be judged: every case has fewer than {LEAST_POINTS} "
            f"runs, the most {most}"
        )
    slower = [
        (trend, trend.changes[-1])
        for trend in found
        if trend.changes and trend.changes[-1].ratio >= 1 + allowed_percent / 100
    ]
    if not slower:
        return EXIT_OK
    trend, change = max(slower, key=lambda one: one[1].ratio)
    notice(
        f"{len(slower)} slower by {allowed_percent:.3g} % or more since their last "
        f"change, the worst {trend.series.thing.describe()}: {change.ratio:.3f} times as long"
    )
    return EXIT_WRONG


def _history_of(flags: HistoryOptions) -> History:
    """Opens the history that ``--db`` or the environment names. Raises UsageError, MissingError."""
    # None of a hundred thousand rows becomes garbage before the end; collection takes a tenth of
    # the time.
    gc.disable()
    return History(flags.db or str(default_path()))


def _print(
    flags: PrintOptions, text_for: Callable[[Output], Sequence[str]], history: History
) -> None:
    """Prints, and refuses to overwrite ``history``. Raises UsageError, OutputError."""
    refuse_to_lose(flags.output, filter(None, [history.path]))
    print_out(flags.output, text_for, is_wide=getattr(flags, "wide", False))


def add_runs(flags: AddRunsFlags) -> int:
    """Adds journals and reports the outcome of each; returns the exit code.

    Adds the others if one cannot be added; empty ones are no failure beside others. Raises
    UsageError, MissingError and OutputError if the history itself cannot be written.
    """
    if any(not label.strip() for label in flags.labels):
        raise UsageError("--label is empty: write a word")
    if odd := next((label for label in flags.labels if not label.isprintable()), ""):
        raise UsageError(f"--label must be printable, and {odd!r} is not")
    if flags.db is None:
        _make_directory(default_path().parent)
    history = History(flags.db or str(default_path()))
    history.begin()
    refused = 0
    empty: list[EmptyError] = []
    written = Output(None)
    paths = expanded(map(str, flags.journals))
    for path in paths:
        try:
            added = history.add(*read_lines(Path(path)), flags.labels, replace=flags.replace)
        except EmptyError as error:
            empty.append(error)
            continue
        except UsageError as error:
            refused += 1
            notice(plain(str(error)))
            continue
        if added.damaged_lines:
            text = f"{path}: damaged lines are left out: {added.damaged_lines}"
            notice(plain(text))
        word = "replaced" if added.replaced else "added"
        if added.known and not added.replaced:
            what = f"labelled {', '.join(added.labelled)}" if added.labelled else "nothing changed"
            text = f"known {added.run_id}: already in the history, {what}"
        else:
            text = f"{word} {added.run_id}, {added.cases} cases"
        written.write(plain(f"{text} ({path})") + "\n")
    if written.failure:
        raise OutputError(written.failure)
    only_empty = len(empty) == len(paths)
    for one in empty:
        notice(plain(str(one) if only_empty else one.notice))
    refused += len(empty) if only_empty else 0
    if refused:
        all_of_them = counted(len(paths), "journal")
        were = "was" if refused == 1 else "were"
        notice(f"{refused} of {all_of_them} {were} not added")
    return EXIT_USAGE if refused else EXIT_OK


def list_runs(flags: ListRunsFlags) -> int:
    """Prints the runs that the filters select; returns the exit code."""
    history = _history_of(flags)
    found, total = history.runs(filter_of(**_filters(flags)), flags.limit or None)

    def text(written: Output) -> Sequence[str]:
        if flags.format == "json":
            return [runs_json(found, total)]
        if flags.format == "csv":
            return [runs_csv(found)]
        return [runs_table(found, total, written.view.paint, written.columns)]

    _print(flags, text, history)
    return EXIT_OK


def show_runs(flags: ShowRunFlags) -> int:
    """Prints one run again; returns the exit code."""
    history, format = _history_of(flags), flags.format
    stored = history.run(flags.run)
    journal = history.journal(stored.run_id)

    def text(written: Output) -> Sequence[str]:
        lines = [*labelled(run_facts(stored)), ""] if format == "table" else []
        found = replayed(journal, format, written.view, usual_references)
        return [*(f"{folded(line, written.columns)}\n" for line in lines), *found]

    _print(flags, text, history)
    for finding in unshown(journal, format):
        notice(plain(finding))
    return EXIT_OK


def export_runs(flags: ExportRunFlags) -> int:
    """Exports a run's journal. Raises UsageError if the file exists: none is overwritten."""
    content, output = _history_of(flags).content(flags.run), flags.output
    if output is not None and output != STANDARD_OUTPUT and _holds_something(output):
        raise UsageError(f"{output} already exists: use another file, or remove it")
    write_whole(output or STANDARD_OUTPUT, content)
    tell_written(output)
    return EXIT_OK


def _holds_something(path: Path) -> bool:
    """Whether ``path`` is a regular file, not a pipe or a device."""
    try:
        return path.is_file()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def prune_runs(flags: PruneFlags) -> int:
    """Lists the runs, then removes them; returns the exit code. Raises UsageError."""
    if sum((bool(flags.before), flags.keep is not None, bool(flags.named))) != 1:
        raise UsageError("specify the runs to remove: --before TIME, --keep N or --run RUN")
    filters = _filters(flags)
    if flags.named and any(filters.values()):
        raise UsageError("--run selects runs by id: filters are not supported with it")
    history = _history_of(flags)
    if flags.named:
        doomed = list({run.number: run for run in map(history.run, flags.named)}.values())
    else:
        chosen = filter_of(**filters)
        if flags.before:
            chosen = replace(chosen, until=moment(flags.before))
        doomed = history.runs(chosen)[0][flags.keep :]
    if not doomed:
        say("nothing to remove")
        return EXIT_OK
    if not flags.yes:
        _ask(doomed)
    history.remove([run.number for run in doomed])
    say(f"removed {counted(len(doomed), 'run')}")
    return EXIT_OK


def _ask(doomed: Sequence[StoredRun]) -> None:
    """Asks the user. Raises UsageError without a terminal, click.Abort if the answer is no."""
    number = counted(len(doomed), "run")
    print(f"This removes {number} with all results:", file=sys.stderr)
    print(runs_table(doomed, len(doomed)), file=sys.stderr)
    if not sys.stdin.isatty():
        raise UsageError(f"nothing was removed: use --yes to remove {number} without confirmation")
    click.confirm("Remove?", abort=True, err=True)


def _make_directory(path: Path) -> None:
    """Creates the user's own directory, which only they can read. Raises OutputError."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OutputError(
            f"cannot create the directory {path} for the history: {error.strerror}. Set another "
            "place with --db"
        ) from None
