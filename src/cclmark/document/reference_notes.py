"""References in tables: the share of a row, the name of its reference, and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cclmark.analysis.links import link_kind, network_kind
from cclmark.analysis.summary import judged_summary
from cclmark.document.text import format_time_us
from cclmark.journal.item_results import CaseResult, TransferResult, device_summary
from cclmark.journal.schema import Header, Summary
from cclmark.references.copy_matching import CopyReferences
from cclmark.references.match import LEAST_JUDGED_BYTES, LatencyVerdict, Match, latency_verdict
from cclmark.references.matching import References, kinds_of, multicast_of
from cclmark.references.reference import Reference
from cclmark.work.cases import Case
from cclmark.work.device_names import is_known
from cclmark.work.sizes import format_size

# A figure is normal within these shares of its reference.
NORMAL_FROM = 0.9
NORMAL_TO = 1.1
_MOST_KEPT = 20_000  # cases
_MOST_SHARE = 9.99  # a larger share only shows that the two are not comparable

# Returns the references for devices of some kinds, and may return others too.
Load = Callable[[set[str]], Sequence[Reference]]


def no_references(kinds: Collection[str]) -> Sequence[Reference]:
    """Returns no references, for output without comparisons."""
    return ()


class ReferenceNotes:
    """Finds the reference of each row and records which references were used.

    References are read for the first row, not before a run has begun. An object is for one run.
    """

    def __init__(self, load: Load = no_references) -> None:
        """``load`` returns the references for devices of some kinds, and may return others too."""
        self._load = load
        self._references: References | None = None
        self._copies: CopyReferences | None = None
        self._marks: dict[str, str] = {}
        self._found: dict[tuple[Case, float, tuple[float, float]], Match | None] = {}

    def for_other_devices(self) -> ReferenceNotes:
        """Returns notes with the same references, for a header with other devices."""
        return ReferenceNotes(self._load)

    def match(self, result: CaseResult, header: Header) -> Match | None:
        """Returns the reference for a case; None without figures or a comparable reference."""
        if result.summary is None or result.status != "ok":
            return None
        device = device_summary(result, header.settings.timing)
        return self.nearest(result.case, result.summary, header, device)

    def nearest(
        self, case: Case, summary: Summary, header: Header, device: Summary | None = None
    ) -> Match | None:
        """The reference of a case, or None. ``device``: the time of the devices, if measured."""
        # Pages request each case several times; the memory of a long run must stay bounded.
        own = summary.busbw_bytes_per_s, 0.0 if device is None else device.busbw_bytes_per_s
        key = case, summary.time_s, own
        if key not in self._found:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            self._found[key] = self._of(header).nearest(case, summary, device)
        return self._found[key]

    def latency(self, result: CaseResult, header: Header) -> LatencyVerdict | None:
        """Judges whether a small message's time is plausible; None without a reference."""
        summary = judged_summary(result)
        if summary is None:
            return None
        return latency_verdict(result, summary.time_s, self.match(result, header))

    def match_transfer(self, result: TransferResult, header: Header) -> Match | None:
        """Returns the reference for a copy; None as for ``match``."""
        if result.summary is None or result.status != "ok":
            return None
        self._of(header)
        assert self._copies is not None
        return self._copies.nearest(result.transfer, result.summary)

    def expected(self, operation: str, header: Header) -> list[Reference]:
        """Returns what is expected of an operation over the kind of link or network.

        Of figures with and without NVLink's multicast both, if it is unknown whether it is used.
        Empty for unknown links and networks, and for other devices than those of a figure.
        """
        link = link_kind(header.links, header.hosts) or network_kind(header)
        if not link:
            return []
        multicast = multicast_of(header.environment, operation)
        kinds = set(kinds_of(header))
        return [
            one
            for one in self._load({link})
            if (one.link, one.operation) == (link, operation)
            and kinds.issuperset(kind for kind, _ in one.devices if is_known(kind))
            and (multicast is None or one.multicast in (None, multicast))
        ]

    def cell(self, match: Match | None) -> str:
        """Returns ``100.7% a``: the share, and the mark of its reference in the legend."""
        if match is None:
            return "-"
        what = match.name_and_differences
        mark = self._marks.setdefault(what, _mark(len(self._marks)))
        return f"{share_text(match.share, 1)} {mark}"

    def legend(self) -> list[str]:
        """Returns a line for each reference that cells refer to. Safe to print."""
        return [f"{mark}: {what}" for what, mark in self._marks.items()]

    def _of(self, header: Header) -> References:
        """Returns the references for the run's devices, loaded once: pairs may be thousands."""
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
    """Returns ``101%``; ``>999%`` for implausible shares."""
    return f"{share:.{digits}%}" if share <= _MOST_SHARE else ">999%"


def verdict_of(match: Match | None) -> str:
    """Returns low, normal or high; empty if the match cannot be judged."""
    if match is None or not match.judged:
        return ""
    if match.share < NORMAL_FROM:
        return "low"
    return "normal" if match.share <= NORMAL_TO else "high"


def verdict_text(match: Match | None) -> str:
    """Describes the verdict on a figure, or its reference for comparison. Safe to print.

    Empty without a reference for that library on the same number of devices.
    """
    if match is None or not match.alike:
        return ""
    verdict = verdict_of(match) or "for comparison"
    name, where = match.name, f" at {match.size}"
    if match.reference.subject.by_pair:
        name, where = f"{name}, {match.size}", ""
    elif match.size.startswith("between"):
        where = f" {match.size}"
    why = f"; differs: {'; '.join(match.differences)}" if match.differences else ""
    if match.small and not match.by_device:
        why += f"; not judged: smaller than {format_size(LEAST_JUDGED_BYTES)}"
    share = f"{share_text(match.share)} of the reference"
    return f"{verdict}: {share}, {match.figure}{where} ({name}{why})"


def latency_text(verdict: LatencyVerdict, size_bytes: int) -> str:
    """Describes whether a small message's time is plausible, and the range. Safe to print."""
    word = "latency slow" if verdict.slow else "latency plausible"
    whose = "the device needs" if verdict.by_device else "a call takes"
    return (
        f"{word}: {whose} {format_time_us(verdict.time_s)} µs at {format_size(size_bytes)}, "
        f"{verdict.ratio:.2f} times the reference's {format_time_us(verdict.match.time_s)} µs "
        f"({verdict.match.name}); up to {verdict.most:g} times counts as plausible"
    )


def _mark(number: int) -> str:
    """Returns a to z, then aa and so on."""
    letters = ""
    number += 1
    while number:
        number, last = divmod(number - 1, 26)
        letters = chr(ord("a") + last) + letters
    return letters
