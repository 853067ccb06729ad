"""Faults put in on purpose, to see that they are caught."""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.errors import UsageError

_MOST = 2.0**50  # also keeps out infinity, and NaN
_FORMS = "corrupt:rank=1,index=5 or delay:rank=2,ms=50"


@dataclass(frozen=True)
class Injection:
    """One fault. ``kind`` is corrupt (``value``: the element of the output whose bits are flipped
    before it is checked) or delay (``value``: milliseconds that the rank waits before each batch).
    """

    kind: str
    rank: int
    value: float

    @classmethod
    def parse(cls, text: str, ranks: int) -> Injection:
        """Reads ``corrupt:rank=R,index=I`` or ``delay:rank=R,ms=M``. Raises UsageError."""
        kind, _, rest = text.partition(":")
        name = {"corrupt": "index", "delay": "ms"}.get(kind)
        if name is None:
            raise UsageError(f"unknown fault {text!r}: write {_FORMS}")
        values: dict[str, float] = {}
        for part in rest.split(","):
            key, _, number = part.partition("=")
            try:
                values[key] = float(number)
            except ValueError:
                raise UsageError(f"cannot read {part!r} in {text!r}: write {_FORMS}") from None
        if set(values) != {"rank", name} or not all(0 <= v < _MOST for v in values.values()):
            raise UsageError(f"cannot read the fault {text!r}: write {_FORMS}")
        if name == "index" and values[name] != int(values[name]):
            raise UsageError(f"{text!r}: an index is a whole number")
        if values["rank"] not in range(ranks):
            raise UsageError(f"{text!r}: there is no rank {values['rank']:g} among {ranks}")
        return cls(kind, int(values["rank"]), values[name])
