"""What tables say of references: the share of a row, what it is a share of, and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cclmark.analysis.device_time import judged_summary
from cclmark.plan.cases import Case
from cclmark.plan.sizes import format_size
from cclmark.references.copy_matching import CopyReferences
from cclmark.references.latency import LatencyVerdict, latency_verdict
from cclmark.references.match import LEAST_JUDGED_BYTES, Match
from cclmark.references.matching import References, kinds_of
from cclmark.references.reference import P2P, Reference
from cclmark.references.restrictions import restrictions
from cclmark.report.wording.text import format_time_us
from cclmark.results.kinds import CaseResult, TransferResult
from cclmark.results.schema import Header

# Within these shares of a reference a figure counts as normal.
NORMAL_FROM = 0.9
NORMAL_TO = 1.1
_MOST_KEPT = 20_000  # cases
_MOST_SHARE = 9.99  # more says nothing but that the two are no match

# Gives the references of devices of some kinds, and may give others too.
Load = Callable[[set[str]], Sequence[Reference]]


def no_references(kinds: Collection[str]) -> Sequence[Reference]:
    """Where nothing is to be compared."""
    return ()


class ReferenceNotes:
    """Finds the reference of each row and remembers which ones were used.

    References are read when the first row asks for them: not before a run has begun. They are
    those of one run.
    """

    def __init__(self, load: Load = no_references) -> None:
        """``load`` gives the references of devices of some kinds, and may give others too."""
        self._load = load
        self._references: References | None = None
        self._copies: CopyReferences | None = None
        self._marks: dict[str, str] = {}
        self._found: dict[tuple[Case, float, float], Match | None] = {}

    def match(self, result: CaseResult, header: Header) -> Match | None:
        """The reference for a case; None without figures or without a fair reference."""
        summary = judged_summary(result)
        if summary is None or result.status != "ok":
            return None
        # A page asks for each case several times; a night's run must not fill the memory.
        key = result.case, summary.time_s, summary.busbw_bytes_per_s
        if key not in self._found:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            self._found[key] = self._of(header).nearest(result.case, summary)
        return self._found[key]

    def verdict_lines(self, result: CaseResult, header: Header) -> list[str]:
        """Whether a figure is normal, and what restricts it; empty without a reference that tells.

        Safe to print.
        """
        match = self.match(result, header)
        text = verdict_text(match)
        if match is None or not text:
            return []
        restricted = restrictions(header, result.case.operation, result.case.ccl)
        return [
            text,
            *(f"{one.words} ({one.setting}); {one.beside(match)}" for one in restricted),
        ]

    def latency(self, result: CaseResult, header: Header) -> LatencyVerdict | None:
        """Whether the time of a small message is plausible; None where nothing tells."""
        summary = judged_summary(result)
        if summary is None:
            return None
        return latency_verdict(result, summary.time_s, self.match(result, header))

    def match_transfer(self, result: TransferResult, header: Header) -> Match | None:
        """The same for a copy."""
        if result.summary is None or result.status != "ok":
            return None
        self._of(header)
        assert self._copies is not None
        return self._copies.nearest(result.transfer, result.summary)

    def cell(self, match: Match | None) -> str:
        """``100.7% a``: the share, and the mark by which the legend names what it is a share of."""
        if match is None:
            return "-"
        what = match.name_and_differences
        mark = self._marks.setdefault(what, _mark(len(self._marks)))
        return f"{share_text(match.share, 1)} {mark}"

    def legend(self) -> list[str]:
        """A line for each reference that cells were about. Safe to print."""
        return [f"{mark}: {what}" for what, mark in self._marks.items()]

    def _of(self, header: Header) -> References:
        """Those of the run's devices: a run on thousands of pairs asks thousands of times."""
        if self._references is None:
            kinds = set(kinds_of(header))
            own = [
                one
                for one in self._load(kinds)
                if kinds.issuperset(kind for kind, _ in one.devices)
            ]
            self._references = References(own, header)
            self._copies = CopyReferences(own, header)
        return self._references


def share_text(share: float, digits: int = 0) -> str:
    """``101%``, of absurd ones ``>999%``."""
    return f"{share:.{digits}%}" if share <= _MOST_SHARE else ">999%"


def verdict_of(match: Match | None) -> str:
    """low, normal or high, where the match can be judged by; else empty."""
    if match is None or not match.judged:
        return ""
    if match.share < NORMAL_FROM:
        return "low"
    return "normal" if match.share <= NORMAL_TO else "high"


def verdict_text(match: Match | None) -> str:
    """Whether a figure is normal, in words, or what it can be compared with. Safe to print.

    Empty where nothing of that library on as many devices is known.
    """
    if match is None or not match.alike:
        return ""
    verdict = verdict_of(match) or "for comparison"
    name, where = match.name, f" at {match.size}"
    if match.reference.operation == P2P:
        name, where = f"{name}, {match.size}", ""
    elif match.size.startswith("between"):
        where = f" {match.size}"
    why = f"; differs: {'; '.join(match.differences)}" if match.differences else ""
    if match.small:
        why += f"; not judged: smaller than {format_size(LEAST_JUDGED_BYTES)}"
    share = f"{share_text(match.share)} of the reference"
    return f"{verdict}: {share}, {match.figure}{where} ({name}{why})"


def latency_text(verdict: LatencyVerdict, size_bytes: int) -> str:
    """Whether the time of a small message is plausible, the band stated. Safe to print."""
    word = "latency slow" if verdict.slow else "latency plausible"
    whose = "the device needs" if verdict.by_device else "a call takes"
    return (
        f"{word}: {whose} {format_time_us(verdict.time_s)} µs at {format_size(size_bytes)}, "
        f"{verdict.ratio:.2f} times the reference's {format_time_us(verdict.match.time_s)} µs "
        f"({verdict.match.name}); up to {verdict.most:g} times counts as plausible"
    )


def _mark(number: int) -> str:
    """a to z, then aa and on."""
    letters = ""
    number += 1
    while number:
        number, last = divmod(number - 1, 26)
        letters = chr(ord("a") + last) + letters
    return letters
