"""Encodes charts and tables as compact JSON that is safe inside HTML."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache

from cclmark.document.chart_model import Chart

_DIGITS = 6
_EMPTY: Sequence[object] = ((), [], "", None)
_LONG = 24  # characters of a cell

PageValue = Mapping[str, "PageValue"] | Sequence["PageValue"] | str | int | float | bool | None


# Characters that could end a script element, begin a comment or another script in it, end a line of
# JavaScript, or change the display of the page's source: control characters, marks of text
# direction.
@cache
def _harmless() -> dict[int, str]:
    return {
        code: f"\\u{code:04x}"
        for code in range(0x7F, 0x10000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")
    } | {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


class Encoder:
    """Encodes parts of a page. Texts of points, which charts of a sweep share, are stored once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """The texts that charts refer to by number."""
        return list(self._places)

    def chart(self, chart: Chart) -> Mapping[str, PageValue]:
        """Returns the chart's fields, with its class as ``kind`` and texts on points as numbers."""
        spelled = self._spelled(chart)
        assert isinstance(spelled, Mapping)
        return {"kind": type(chart).__name__.lower(), **spelled}

    def cells(self, row: Sequence[str | int | float | None]) -> PageValue:
        """Returns a row of a table; a long text is replaced by a list with its number."""
        return [
            [self._numbers(cell)] if isinstance(cell, str) and len(cell) > _LONG else cell
            for cell in row
        ]

    def _spelled(self, value: object) -> PageValue:
        if is_dataclass(value):
            return {
                field.name: self._numbers(own) if field.name == "hover" else self._spelled(own)
                for field in fields(value)
                if not field.metadata and (own := getattr(value, field.name)) not in _EMPTY
            }
        if isinstance(value, float):
            return shortened(value)
        if value is None or isinstance(value, str | int):
            return value
        assert isinstance(value, Sequence)
        return [self._spelled(one) for one in value]

    def _numbers(self, texts: object) -> PageValue:
        if isinstance(texts, str):
            return self._places.setdefault(texts, len(self._places))
        assert isinstance(texts, Sequence)
        return [self._numbers(one) for one in texts]


def shortened(value: float) -> float | int | None:
    """Rounds to the visible digits; None for values that JSON does not support."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short


def for_script(value: PageValue) -> str:
    """Encodes JSON that is safe in a script element, whatever strings it contains."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return harmless(text.encode("utf-8", "backslashreplace").decode())


def harmless(text: str) -> str:
    """Returns the same JSON, safe in a script element."""
    return text.translate(_harmless())
