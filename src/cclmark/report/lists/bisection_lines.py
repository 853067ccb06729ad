"""The result of a bisection as lines: the value, and the share of every measured value."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.plan.cases import Case
from cclmark.plan.sizes import format_size
from cclmark.report.grid import grid_lines, usual_width
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.tune.bisection import Bisected


def bisection_lines(
    result: Bisected,
    name: str,
    cases: Sequence[Case],
    keep: float,
    paint: Paint = unpainted,
    width: int | None = None,
) -> list[str]:
    """Returns the shares of all measured values, and the smallest one that keeps ``keep``."""
    names = [f"{case.operation} {format_size(case.size_bytes)}" for case in cases]
    values = sorted(result.curve)
    cells = [[f"{one.ratio * 100:.1f} %" for one in result.curve[value]] for value in values]
    lines = ["", paint(f"{name}: share of the best bandwidth", "bold")]
    lines += grid_lines(
        [str(value) for value in values], names, cells, paint=paint, width=width or usual_width()
    )
    if any(one.ratio > 1.0005 for shares in result.curve.values() for one in shares):
        lines.append("  shares above 100 % are faster than the best value by no more than noise")
    share = f"{keep * 100:g} % of the best bandwidth at every size"
    lines.append("")
    if not result.complete:
        lines.append(
            "  the run ended before the result was certain; of the values measured up to then:"
        )
    if result.value is None:
        lines.append(f"  no value keeps {share}")
    else:
        shares = result.curve[result.value]
        worst = min(range(len(shares)), key=lambda place: shares[place].ratio)
        one = shares[worst]
        lines.append(
            paint(f"  {name}={result.value} is the smallest value that keeps {share}", "bold")
        )
        lines.append(
            f"  its smallest share: {one.ratio * 100:.1f} % ({one.low * 100:.1f} to "
            f"{one.high * 100:.1f} %) at {names[worst]}"
        )
    if result.elsewhere:
        listed = ", ".join(map(str, result.elsewhere))
        lines.append(f"  smaller values keep it too, although values between do not: {listed}")
    if result.failed:
        lines.append(f"  failed: {', '.join(map(str, sorted(result.failed)))}")
    return lines
