"""Results of items: what those of all kinds have, and those that are compared with other runs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from cclmark.journal.schema import (
    DeviceTime,
    Explanation,
    ProfiledChoice,
    ProfileFigures,
    Samples,
    Summary,
    TransferSamples,
    TransferSummary,
    Verification,
)
from cclmark.work.cases import Case
from cclmark.work.counts import Count
from cclmark.work.items import Item, Status
from cclmark.work.profiled import ProfiledOperation
from cclmark.work.transfers import Gate, Transfer

ItemType = TypeVar("ItemType")


def have_length(length: int, *lists: Sequence[object]) -> bool:
    """Whether all lists have the same length."""
    return {*map(len, lists)} <= {length}


def are_equally_long(lists: Sequence[Sequence[object]]) -> bool:
    """Whether lists by rank have one length, and are not empty."""
    lengths = {len(values) for values in lists}
    return not lengths or (len(lengths) == 1 and 0 not in lengths)


def are_of_ranks(
    samples: Iterable[Samples | None],
    verification: Verification | None,
    ranks: int,
    names: Container[int] | None = None,
) -> bool:
    """Whether each sample has a time of every rank, and findings are of ranks.

    ``names``: the numbers of the ranks in findings, by default from 0 on.
    """
    known = range(ranks) if names is None else names
    return all(
        have_length(ranks, *one.host_s, *one.device_s, *one.enqueue_s)
        and len(one.host_s) == len(one.device_s) == len(one.enqueue_s)
        for one in samples
        if one is not None
    ) and all(
        one.rank in known for one in (verification.findings if verification is not None else ())
    )


class _Summarized(Protocol):
    @property
    def summary(self) -> object: ...


class _Verified(Protocol):
    @property
    def verification(self) -> object: ...


class _Explained(Protocol):
    explanation: Explanation | None


class ItemResult(msgspec.Struct, Generic[ItemType], omit_defaults=True):
    """The properties that results of all kinds have, as most kinds define them.

    The fields of each kind begin with ``index``, the item under the kind's own name, ``status`` and
    ``reason``.
    """

    @property
    def item(self) -> ItemType:
        """The measured item."""
        item: ItemType = getattr(self, self.__struct_fields__[1])
        return item

    @property
    def cycle(self) -> int:
        """0: most kinds measure an item once, and rounds are part of the plan."""
        return 0

    @property
    def explanation(self) -> Explanation | None:
        """None: most kinds do not observe what the library does."""
        return None

    def explain(self, explanation: Explanation) -> None:
        """Takes over what the library did. Most kinds do not keep it."""

    @property
    def summarised(self) -> Case | None:
        """The case of which ``summary`` has the figures, with ``samples``; None: none."""
        return None

    @property
    def is_measured(self: _Summarized) -> bool:
        """Whether there are figures."""
        return self.summary is not None

    @property
    def is_checked(self: _Verified) -> bool:
        """Whether the output was compared with the expected one."""
        return self.verification is not None

    @property
    def is_checkable(self) -> bool:
        """Whether there is an output that can be checked."""
        return True

    @property
    def is_consistent(self) -> bool:
        """Whether its fields agree, such as lists by rank with the number of ranks.

        Readers of journals leave out results of which it is false. Each kind has its own rules.
        """
        return True


class UncheckedResult(ItemResult[ItemType], omit_defaults=True):
    """The result of a kind without an output: counts of programs, plans."""

    @property
    def is_checked(self) -> bool:
        """False: there is no output."""
        return False

    @property
    def is_checkable(self) -> bool:
        """False: there is no output."""
        return False


class ExplainedResult(ItemResult[ItemType], omit_defaults=True):
    """The result of a kind that observes what the library does, in its field ``explanation``."""

    def explain(self: _Explained, explanation: Explanation) -> None:
        """Takes over what the library did."""
        self.explanation = explanation


class Result(Protocol):
    """A result of any kind, see ItemResult."""

    index: int
    status: str
    reason: str
    started_at_s: float
    duration_s: float

    @property
    def item(self) -> Item:
        """The measured item."""

    @property
    def cycle(self) -> int:
        """The cycle of a soak in which it was measured."""

    @property
    def explanation(self) -> Explanation | None:
        """What the library did, if it was observed."""

    def explain(self, explanation: Explanation) -> None:
        """Takes over what the library did."""

    @property
    def summarised(self) -> Case | None:
        """The case of which the summary of a result has the figures."""

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""

    @property
    def is_checked(self) -> bool:
        """Whether the output was compared with the expected one."""

    @property
    def is_checkable(self) -> bool:
        """Whether there is an output that can be checked."""

    @property
    def is_consistent(self) -> bool:
        """Whether its fields agree."""


class CaseResult(ExplainedResult[Case], tag="case", omit_defaults=True):
    """A case and its outcome. ``status``: ok, wrong, skipped, timeout or died, with the reason.

    ``device`` is present if launches determine the time of ``summary``; ``device_reason`` is the
    reason if it is absent nevertheless.

    ``started_at_s`` is seconds since 1970 on rank 0's clock. For a case of one pair, ``beside`` is
    the number of other pairs measured at the same time, and ``at_once_ratio`` justifies it: the
    pair's time beside them over its time alone, with a message of another size. ``report``: the
    state of every rank in a case that hung. ``explanation``: with ``--explain``; a journal stores
    it in a separate line, because it is observed after all cases were measured. ``route`` is empty
    if unknown, for example for another tool's results.
    """

    index: Count
    case: Case
    status: Status
    reason: str = ""
    route: str = "native"
    cycle: Count = 0
    warmup_batches: Count = 0
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    samples: Samples | None = None
    summary: Summary | None = None
    device: DeviceTime | None = None
    device_reason: str = ""
    verification: Verification | None = None
    beside: Count = 0
    at_once_ratio: float | None = None
    report: str = ""
    explanation: Explanation | None = None

    @property
    def summarised(self) -> Case:
        """The case."""
        return self.case

    @property
    def is_consistent(self) -> bool:
        """Whether samples and findings are of the ranks of the case.

        Findings of a pair have the numbers that its ranks have in the run.
        """
        samples = (self.samples, None if self.device is None else self.device.samples)
        return are_of_ranks(samples, self.verification, self.case.ranks, self.case.pair)


class TransferResult(ItemResult[Transfer], tag="transfer", omit_defaults=True):
    """A transfer and its outcome. ``status``: ok, wrong, skipped, timeout or died, with the reason.

    ``report``: the state of every rank for a message that hung or failed. A finding's ``rank`` is
    the number of the flow; ``hung``: the numbers of the flows that did not complete in time.
    ``gate``: how streams were held (work.transfers). ``by_host``: whether times are the host's,
    because the runtime does not time its events.
    """

    index: Count
    transfer: Transfer
    status: Status
    reason: str = ""
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    samples: TransferSamples | None = None
    summary: TransferSummary | None = None
    verification: Verification | None = None
    hung: list[int] = []
    report: str = ""
    gate: Gate = ""
    by_host: bool = False

    @property
    def is_checkable(self) -> bool:
        """Whether there is an output that can be checked."""
        return self.transfer.has_output

    @property
    def is_consistent(self) -> bool:
        """Whether samples, bandwidths and findings are of the flows of the transfer."""
        flows = len(self.transfer.flows)
        samples, summary = self.samples, self.summary
        return (
            (
                samples is None
                or have_length(flows, *samples.device_s, *samples.call_s, *samples.launch_s)
            )
            and (summary is None or len(summary.flow_bytes_per_s) in (0, flows))
            and all(0 <= flow < flows for flow in self.hung)
            and are_of_ranks((), self.verification, flows)
        )


class ProfileResult(UncheckedResult[ProfiledOperation], tag="profiled", omit_defaults=True):
    """The calls of a program that are alike, with the figures of each process.

    ``choices``: what the library chose, in all processes together, most frequent first.
    """

    index: Count
    profiled: ProfiledOperation
    figures: list[ProfileFigures]
    choices: list[ProfiledChoice] = []
    status: Status = "ok"
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0

    @property
    def is_measured(self) -> bool:
        """True: there are counts."""
        return True

    @property
    def is_consistent(self) -> bool:
        """Whether at least one process has called the operation."""
        return bool(self.figures)


AUTO = "auto"  # the timing that measures both where they differ
THROUGHPUT = "throughput"  # the timing that measures the cost of a call alone


def device_summary(result: CaseResult, timing: str) -> Summary | None:
    """Returns the device's time of a case, None if only the cost of a call was measured.

    With ``timing`` auto a case without a second figure is not bound by launches: its own summary is
    the device's time.
    """
    if result.device is not None:
        return result.device.summary
    return result.summary if timing == AUTO and not result.device_reason else None
