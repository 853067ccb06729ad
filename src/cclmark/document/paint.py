"""Colours for terminals."""

from __future__ import annotations

from collections.abc import Callable

Paint = Callable[[str, str], str]

# Backgrounds of a heat map from the worst to the best value, red to yellow to green, with black
# text: readable on light and on dark terminals.
_HEAT = (167, 173, 179, 186, 149, 113, 71)
HEAT_STEPS = len(_HEAT)

_CODES = {
    **{"bold": "1", "dim": "2", "red": "1;31", "yellow": "33", "green": "32"},
    **{f"heat{step}": f"30;48;5;{colour}" for step, colour in enumerate(_HEAT)},
}


def unpainted(text: str, style: str) -> str:
    """Returns the text without colours."""
    return text


def ansi(text: str, style: str) -> str:
    """Adds terminal colours: ``style`` is bold, dim, red, yellow, green, or heat0 to heat6."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"
