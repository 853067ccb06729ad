"""Reads the journals of two configurations, compares them and says what came of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from cclmark.analysis.compare import Compared, Side
from cclmark.cli.output import Output
from cclmark.cli.percent import percent_of
from cclmark.errors import EXIT_OK, EXIT_WRONG, OutputError, UsageError
from cclmark.report.comparison import (
    Comparison,
    comparison_json,
    comparison_lines,
    comparison_markdown,
)
from cclmark.report.held_together import comparison_of, require_figures
from cclmark.report.paint import ansi, unpainted
from cclmark.results.journal import read_journal
from cclmark.results.resume import differing_settings


def compare_journals(
    before: str, after: Sequence[str], format: str, output: Path | None, fail_if_slower: str | None
) -> int:
    """Prints each of ``after`` against ``before`` and returns the exit code.

    Raises UsageError for journals that cannot be read or share nothing, OutputError.
    """
    allowed = math.inf if fail_if_slower is None else percent_of("--fail-if-slower", fail_if_slower)
    first = _side(before)
    comparisons = [comparison_of(first, _side(text)) for text in after]
    written = Output(output)
    if format == "html" and written.is_terminal:
        raise UsageError("--format html is a page: say where to with -O FILE.html")
    try:
        written.write(_printed(comparisons, format, colours=written.takes_colours))
    finally:
        written.close()
    if written.failure:
        raise OutputError(written.failure)
    slower = [one for each in comparisons for one in each.found if _slower_by(one, allowed)]
    if not slower:
        return EXIT_OK
    worst = max(slower, key=lambda one: one.ratio or 0.0)
    print(
        f"cclmark: {len(slower)} slower by {allowed:.3g} % or more, the worst "
        f"{worst.thing.describe()}: {worst.ratio:.3f} times as long",
        file=sys.stderr,
    )
    return EXIT_WRONG


def _slower_by(one: Compared, allowed_percent: float) -> bool:
    return (
        one.verdict == "slower" and one.ratio is not None and one.ratio >= 1 + allowed_percent / 100
    )


def _side(text: str) -> Side:
    """The journals that ``text`` names. Raises UsageError."""
    names = [text] if Path(text).exists() else [name for name in text.split(",") if name]
    if len(set(names)) < len(names):
        raise UsageError(f"{text} names a journal twice: it would count as two runs")
    runs = [read_journal(Path(name)) for name in names or [text]]
    for name, run in zip(names, runs, strict=True):
        require_figures(run, name)
    if len(runs) == 1:
        return Side(names[0], runs)
    for name, run in zip(names[1:], runs[1:], strict=True):
        changed = differing_settings(runs[0].header.settings, run.header.settings)
        if changed:
            raise UsageError(
                f"{names[0]} and {name} are not runs of one configuration: {', '.join(changed)}"
            )
    return Side(f"{names[0]} and {len(names) - 1} more", runs)


def _printed(comparisons: Sequence[Comparison], format: str, *, colours: bool) -> str:
    if format == "json":
        return comparison_json(comparisons)
    if format == "html":
        from cclmark.report.page.comparison_page import comparison_page
        from cclmark.report.page.page import render

        return render(comparison_page(comparisons))
    if format == "markdown":
        return "\n".join(comparison_markdown(one) for one in comparisons)
    paint = ansi if colours else unpainted
    blocks = ["\n".join(comparison_lines(one, paint)) for one in comparisons]
    return "\n\n".join(blocks) + "\n"
