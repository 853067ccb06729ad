"""The result of a bisection as lines: the value, and the share of every measured value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.document.grid import grid_lines, usual_width
from cclmark.document.paint import Paint, unpainted
from cclmark.kinds.tune.bisection import Bisected
from cclmark.plan.cases import Case
from cclmark.plan.sizes import format_size

_LEAST_DOUBT = 0.01  # part of a share by which the end of its interval may miss the request


def bisection_lines(
    result: Bisected,
    name: str,
    cases: Sequence[Case],
    keep: float,
    without_effect: Mapping[int, str],
    paint: Paint = unpainted,
    width: int | None = None,
) -> list[str]:
    """Returns the shares of all measured values, and the smallest one that keeps ``keep``.

    ``without_effect``: the reason for each value with which the setting did not take effect.
    """
    names = [f"{case.operation} {format_size(case.size_bytes)}" for case in cases]
    values = sorted(result.curve)
    cells = [[f"{one.ratio * 100:.1f} %" for one in result.curve[value]] for value in values]
    lines = ["", paint(f"{name}: share of the best bandwidth", "bold")]
    lines += grid_lines(
        [str(value) for value in values], names, cells, paint=paint, width=width or usual_width()
    )
    if any(one.ratio > 1.0005 for shares in result.curve.values() for one in shares):
        lines.append("  shares above 100 % are faster than the best value by no more than noise")
    percent = f"{keep * 100:g} %"
    share = f"{percent} of the best bandwidth at every size"
    so_far = "" if result.complete else "so far, "
    lines.append("")
    if not result.complete:
        lines.append(
            "  the run ended before the result was certain; of the values measured up to then are"
        )
        lines += _decided_lines(result, percent)
    if without_effect and set(result.curve) == set(without_effect):
        reason = next(iter(without_effect.values()))
        lines.append(paint(f"  {name} has no effect: {reason}", "bold"))
        return lines
    if result.value is None:
        lines.append(f"  {so_far}no value keeps {share}")
    else:
        shares = result.curve[result.value]
        worst = min(range(len(shares)), key=lambda place: shares[place].ratio)
        one = shares[worst]
        lines.append(
            paint(
                f"  {so_far}{name}={result.value} is the smallest value that keeps {share}", "bold"
            )
        )
        reach = f"{one.low * 100:.1f} to {one.high * 100:.1f} %"
        low = one.low
        if one.deviation == 0:
            reach = "shares refer to this value"
        if_another = min(_shares_if_another_is_best(result, result.value), default=1.0)
        lines.append(f"  its smallest share: {one.ratio * 100:.1f} % ({reach}) at {names[worst]}")
        least = keep - max(_LEAST_DOUBT, (1 - keep) / 2)
        if min(low, if_another) < least:
            cause = "that share may be smaller than requested"
            if low >= least:
                cause = f"another value may be the best one, of whose bandwidth {result.value} has "
                cause += f"{if_another * 100:.1f} %"
            text = f"not certain, because {cause}: repeat the search on an idle machine, or measure"
            lines.append(paint(f"  {text} longer (--max-time)", "yellow"))
    if result.elsewhere:
        listed = ", ".join(map(str, result.elsewhere))
        lines.append(f"  smaller values keep it too, although values between do not: {listed}")
    for reason, values in _by_reason(without_effect).items():
        lines.append(f"  no effect with {', '.join(map(str, values))}: {reason}")
    if result.failed:
        lines.append(f"  failed: {', '.join(map(str, sorted(result.failed)))}")
    return lines


def _shares_if_another_is_best(result: Bisected, value: int) -> list[float]:
    """The smallest share of the value at each size where shares refer to it.

    Another value, which may be faster, is then the best one.
    """
    found = []
    for size, own in enumerate(result.curve[value]):
        if own.deviation == 0:
            others = [one[size].high for at, one in result.curve.items() if at not in result.below]
            found.append(1 / max(others, default=1.0))
    return found


def _decided_lines(result: Bisected, percent: str) -> list[str]:
    """Which of the measured values certainly keep the share, and which certainly do not."""
    undecided = sorted(set(result.curve) - {*result.below, *result.above})
    groups = (
        (f"certainly below {percent} at a size", result.below),
        (f"certainly {percent} or more at every size", result.above),
        ("not decided", undecided),
    )
    return [f"    {words}: {', '.join(map(str, values))}" for words, values in groups if values]


def _by_reason(without_effect: Mapping[int, str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for value, reason in sorted(without_effect.items()):
        found.setdefault(reason, []).append(value)
    return found
