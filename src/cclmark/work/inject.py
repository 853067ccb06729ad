"""Fault injection, which verifies that faults are detected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cclmark.base.errors import UsageError

_MOST = 2.0**50  # also keeps out infinity, and NaN
_FORMS = "corrupt:rank=1,index=5, delay:rank=2,ms=50 or hang:rank=1,case=3"
_PAIR_FORMS = "corrupt:pair=0-1,index=5 or delay:pair=2-3,ms=5"
_NAMES = {"corrupt": "index", "delay": "ms", "hang": "case"}
_PAIR_KINDS = ("corrupt", "delay")


@dataclass(frozen=True)
class Injection:
    """One injected fault.

    ``kind`` is corrupt (``value``: the element of the output whose bits are flipped before the
    check), delay (``value``: milliseconds) or hang (``value``: the index of the case that the rank
    never begins to time).

    In a collective the fault affects ``rank``, and a delay is a wait of the rank before each batch.
    In transfers the fault affects the data sent from the first to the second device of ``pair``,
    and a delay holds up the copies of each sample on the device, inside the timed region.
    """

    kind: str
    rank: int
    value: float
    pair: tuple[int, int] | None = None

    @classmethod
    def parse(cls, text: str, ranks: int) -> Injection:
        """Parses ``corrupt:rank=R,index=I``, ``delay:rank=R,ms=M`` or ``hang:rank=R,case=C``.

        Raises UsageError.
        """
        kind, target, value = _split(text, "rank", _FORMS)
        if not (target.isascii() and target.isdecimal()):
            raise UsageError(f"cannot read the fault {text!r}: write {_FORMS}")
        if int(target) not in range(ranks):
            raise UsageError(f"{text!r}: no rank {target}; ranks are numbered 0 to {ranks - 1}")
        return cls(kind, int(target), value)

    @classmethod
    def parse_for_pairs(cls, text: str, devices: int) -> Injection:
        """Parses ``corrupt:pair=F-T,index=I`` or ``delay:pair=F-T,ms=M``. Raises UsageError."""
        kind, target, value = _split(text, "pair", _PAIR_FORMS)
        if kind not in _PAIR_KINDS:
            raise UsageError(f"unknown fault {text!r}: write {_PAIR_FORMS}")
        ends = target.split("-")
        if len(ends) != 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise UsageError(f"cannot read the fault {text!r}: write {_PAIR_FORMS}")
        start, end = (int(number) for number in ends)
        if start not in range(devices) or end not in range(devices):
            raise UsageError(f"{text!r}: devices are numbered 0 to {devices - 1}")
        return cls(kind, -1, value, (start, end))


@dataclass(frozen=True)
class RankFaults:
    """The faults of one rank.

    ``delay_s``: the wait before each batch. ``corrupted``: the elements of the output that are
    changed before the check. ``hangs``: the indices of the cases that the rank never times.
    """

    delay_s: float = 0.0
    corrupted: tuple[int, ...] = ()
    hangs: frozenset[int] = frozenset()

    @classmethod
    def among(cls, injections: Iterable[Injection]) -> RankFaults:
        """The faults that the injections of a rank cause."""
        values: dict[str, list[float]] = {kind: [] for kind in _NAMES}
        for one in injections:
            values[one.kind].append(one.value)
        corrupted = tuple(int(value) for value in values["corrupt"])
        hangs = frozenset(int(value) for value in values["hang"])
        return cls(sum(values["delay"]) * 1e-3, corrupted, hangs)

    @classmethod
    def of_rank(cls, texts: Iterable[str], rank: int, ranks: int) -> RankFaults:
        """Those of ``--inject`` that affect ``rank``. Raises UsageError."""
        parsed = (Injection.parse(text, ranks) for text in texts)
        return cls.among(one for one in parsed if one.rank == rank)

    @property
    def corrupt(self) -> int | None:
        """The first corrupted element, None without any."""
        return self.corrupted[0] if self.corrupted else None


def _split(text: str, target: str, forms: str) -> tuple[str, str, float]:
    """The kind, the target and the value of a fault. Raises UsageError."""
    kind, _, rest = text.partition(":")
    name = _NAMES.get(kind)
    if name is None:
        raise UsageError(f"unknown fault {text!r}: write {forms}")
    values = dict(part.partition("=")[::2] for part in rest.split(","))
    if set(values) != {target, name} or rest.count(",") != 1:
        raise UsageError(f"cannot read the fault {text!r}: write {forms}")
    try:
        value = float(values[name])
    except ValueError:
        raise UsageError(f"cannot read {values[name]!r} in {text!r}: write {forms}") from None
    if not 0 <= value < _MOST:
        raise UsageError(f"cannot read the fault {text!r}: write {forms}")
    if name in ("index", "case") and value != int(value):
        raise UsageError(f"{text!r}: {name} must be a whole number")
    return kind, values[target], value
