"""Units and numbers as formats print them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cclmark.base.printable import plain
from cclmark.work.sizes import in_ranges

US_PER_S = 1e6
#: A remark where a command measured in two rounds.
TWO_ROUNDS = "two rounds do not determine an interval: raise --rounds to 3 or more"
BYTES_PER_GB = 1e9


def counted(number: int, noun: str) -> str:
    """Returns ``1 rank``, ``2 ranks``, ``2 processes``."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def ranks_text(ranks: Iterable[int]) -> str:
    """Returns ``rank 3`` or ``ranks 0-3,7``."""
    ordered = sorted(ranks)
    return f"rank {ordered[0]}" if len(ordered) == 1 else f"ranks {in_ranges(ordered)}"


def token(text: str) -> str:
    """Returns ``text`` as one word, for formats whose columns are split at white space."""
    return "_".join(text.split()) or "-"


def format_time_us(time_s: float) -> str:
    """Formats microseconds with at least four significant digits."""
    time_us = time_s * 1e6
    if time_us < 1000:
        return f"{time_us:.2f}" if time_us >= 1 else f"{time_us:.3f}"
    return f"{time_us:.1f}" if time_us < 1e6 else f"{time_us:.0f}"


def us_text(time_s: float | None) -> str:
    """The time in microseconds; ``-`` if it is unknown."""
    return "-" if time_s is None else format_time_us(time_s)


def figure(value: float) -> str:
    """Formats two decimals, or three significant digits for values below 1."""
    return f"{value:.2f}" if value >= 1 or value == 0 else f"{value:#.3g}"


def three_digits(value: float) -> str:
    """Formats three significant digits without an exponent: 346, 9.38, 0.0123, 12300."""
    return f"{float(f'{value:.3g}'):.12g}"


def time_words(time_s: float) -> str:
    """A time in s, ms or µs with three digits."""
    if time_s >= 1:
        return f"{three_digits(time_s)} s"
    return f"{three_digits(time_s * 1e3)} ms" if time_s >= 1e-3 else f"{time_s * 1e6:.3g} µs"


def percent_words(share: float) -> str:
    """A share in percent."""
    return f"{share * 100:.1f} %"


def longer_words(share: float) -> str:
    """A slow-down in words: ``4.1 % longer than``, ``42 times as long as``."""
    return (
        f"{percent_words(share)} longer than" if share < 1 else f"{share + 1:.3g} times as long as"
    )


def half_width_text(share: float | None) -> str:
    """Half of an interval as a percentage without its sign, of at most five characters.

    An interval that reaches 0 does not determine the value, however wide it is.
    """
    if share is None:
        return "-"
    return f"{share:.1%}".rstrip("%") if share <= 1 else ">100"


#: Before a figure that is known less precisely than the run requested.
UNSETTLED = "~"
UNSETTLED_NOTE = f"{UNSETTLED} not converged: the median is known less precisely than requested"


def precision_text(share: float, digits: int | None = None) -> str:
    """Half of an interval in a sentence: ``±3.1 %``, ``> ±100 %`` for all that reach 0.

    ``digits``: significant ones; None for one decimal.
    """
    if share > 1:
        return "> ±100 %"
    percent = half_width_text(share)
    if digits is not None:
        percent = f"{float(f'{share * 100:.{digits}g}'):.15g}"
    return f"±{percent} %"


def aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Returns the rows as lines of aligned columns. ``sides``: ``<`` or ``>`` for each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [f"  {form.format(*row)}".rstrip() for row in rows]


def clock_text(seconds: float) -> str:
    """Returns 0:07, 12:34 or 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


# Characters with a meaning in Markdown, HTML or on GitHub. Underscores inside words have none.
_SPECIAL = re.compile(r"[&<>|`*\[\]\\~#$!@]|(?<![^\W_])_|_(?![^\W_])|:(?=//)")


def escape(text: str) -> str:
    """Escapes ``text``: paragraphs and table cells show it literally, without links or mentions."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", plain(text))
