"""The text output of a tuning run: its head, and at the end the result."""

from __future__ import annotations

from cclmark.document.head import method_of, opening_lines
from cclmark.document.paint import Paint, unpainted
from cclmark.document.remarks import ending_line
from cclmark.kinds.experiment.document import GatheredTrials
from cclmark.kinds.tune.environment_lines import environment_lines
from cclmark.kinds.tune.environment_result import EnvironmentResult
from cclmark.kinds.tune.tune_lines import tune_lines
from cclmark.kinds.tune.tune_result import TuneResult
from cclmark.results.schema import Footer, Header


def lines_of(result: TuneResult | EnvironmentResult, paint: Paint = unpainted) -> list[str]:
    """Returns the result in lines."""
    if isinstance(result, EnvironmentResult):
        return environment_lines(result, paint)
    return tune_lines(result, paint)


class TuneTable(GatheredTrials):
    """``result``, and ``cost``, the lines on it, are set before the end of the run."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        super().__init__()
        self._paint = paint
        self.result: TuneResult | EnvironmentResult | None = None
        self.cost: list[str] = []

    def opening(self, header: Header) -> str:
        """Returns the devices, their links, the library and the method."""
        return "\n".join(opening_lines(header, "rank", method_of(header), self._paint)) + "\n"

    def end(self, footer: Footer | None) -> str:
        """Returns the rules, their proof and the artifacts."""
        lines: list[str] = []
        if self.result is not None:
            lines += [*lines_of(self.result, self._paint), *self.cost]
        if footer is None or footer.message:
            lines.append(self._paint(f"  ended early: {ending_line(footer)}", "red"))
        return "\n".join(lines) + "\n"
