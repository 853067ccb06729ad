"""Checks of a framework's backend: a line for each, and the number of checks that did not pass."""

from __future__ import annotations

from collections import Counter

from cclmark.kinds.check.plan import CHECKS
from cclmark.printable import plain
from cclmark.document.markdown import escape, notice_paragraph
from cclmark.document.head import opening_lines
from cclmark.document.paint import Paint, unpainted
from cclmark.document.remarks import ending, planned_results
from cclmark.kinds.check.result import CheckResult
from cclmark.kinds.check.result import CheckedValue
from cclmark.results.schema import Footer, Header

_WORDS = {"ok": "pass", "unsupported": "unsupported", "failed": "FAIL"}
_STYLES = {"ok": "green", "unsupported": "yellow", "failed": "red"}
_NAME = max(map(len, CHECKS))


def verdict_of_check(result: CheckResult) -> str:
    """Returns the verdict in the words of the table."""
    return _WORDS.get(result.status, result.status)


def value_text(value: CheckedValue) -> str:
    """Returns a tensor of a rank in the words of the table."""
    if not value.moment:
        return f"rank {value.rank}: {value.text}"
    when = f"{value.moment} {value.call}".rstrip()
    return f"rank {value.rank} {when}: {value.name} = {value.text}"


def _counts(results: list[CheckResult], header: Header) -> str:
    numbers = Counter(verdict_of_check(result) for result in results)
    text = ", ".join(f"{numbers[word]} {word}" for word in ("pass", "FAIL", "unsupported"))
    planned = planned_results(header)
    return f"{len(results)} of {planned} checks: {text}" if planned > len(results) else text


class CheckTable:
    """Prints a line for each check as soon as it has finished."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        self._paint = paint
        self._results: list[CheckResult] = []

    def begin(self, header: Header) -> str:
        """Returns the devices, torch and the backend."""
        self._header = header
        method = "every output compared in full, one verdict of all ranks"
        return "\n".join([*opening_lines(header, "rank", method, self._paint), ""]) + "\n"

    def add(self, result: CheckResult) -> str:
        """Returns the verdict, the description of the check and the reason."""
        self._results.append(result)
        verdict = self._paint(f"{verdict_of_check(result):<11}", _STYLES.get(result.status, "red"))
        words = CHECKS.get(result.check.name, "")
        line = f"  {verdict}  {result.check.name:<{_NAME}}  {words}"
        if result.reason:
            line += f"\n{'':15}{plain(result.reason)}"
        for value in result.values:
            line += f"\n{'':15}{plain(value_text(value))}"
        return line + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the number of passed checks."""
        failed = any(result.status == "failed" for result in self._results)
        counts = _counts(self._results, self._header)
        lines = ["", self._paint(f"  {counts}", "red") if failed else f"  {counts}"]
        if footer is not None and footer.message:
            ended = f"  ended early: {footer.message.splitlines()[0]}"
            lines.append(self._paint(ended, "red"))
        return "\n".join(lines) + "\n"


class CheckMarkdown:
    """A table for issues and wikis."""

    def __init__(self) -> None:
        self._results: list[CheckResult] = []

    def begin(self, header: Header) -> str:
        """Returns the backend, the machine and the head of the table."""
        self._header = header
        library = header.libraries[0]
        text = f"{library.name}, torch {library.version}, {len(header.devices)} ranks on "
        text += f"{header.machine.hostname}, {header.devices[0].name}."
        head = "| check | verdict | reason |\n|---|---|---|\n"
        return f"## torch.distributed\n\n{escape(text)}\n{notice_paragraph(header)}\n{head}"

    def add(self, result: CheckResult) -> str:
        """Returns a row."""
        self._results.append(result)
        cells = [
            CHECKS.get(result.check.name, result.check.name),
            verdict_of_check(result),
            result.reason,
        ]
        return "| " + " | ".join(map(escape, cells)) + " |\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the number of passed checks."""
        lines = ["", f"{_counts(self._results, self._header)}."]
        message = ending(footer)
        return "\n".join([*lines, *([escape(message)] if message else [])]) + "\n"
