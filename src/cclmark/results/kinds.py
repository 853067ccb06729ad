"""The kinds of work that a run supports: their items, their results, and one table of all."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar

import msgspec

from cclmark.plan.cases import Case
from cclmark.plan.checks import Check
from cclmark.plan.counts import Count, Duration, Elapsed
from cclmark.plan.items import (
    CHECK,
    COLLECTIVE,
    EXPERIMENT,
    MEMORY,
    OBJECTS,
    OVERLAP,
    P2P,
    PAIRS,
    PIECES,
    PROFILE,
    REPLAY,
    TRAIN,
    Item,
    Status,
)
from cclmark.plan.object_calls import ObjectCall
from cclmark.plan.overlaps import Overlap
from cclmark.plan.pair_cases import PairCases, falls_with_message, falls_with_pair
from cclmark.plan.piece_cases import PieceCase
from cclmark.plan.profiled import ProfiledOperation
from cclmark.plan.rank_memory import RankMemories, RankMemory
from cclmark.plan.replays import Replay
from cclmark.plan.trainings import Training
from cclmark.plan.transfers import Transfer
from cclmark.plan.trials import Trial
from cclmark.results.schema import (
    CheckedValue,
    Condition,
    DeviceTime,
    Explanation,
    Footer,
    Header,
    LibraryChannels,
    MemoryBuffer,
    MemoryStage,
    ObjectFigures,
    ObjectFinding,
    ObjectTimes,
    OverlapFigures,
    OverlapTimes,
    Paths,
    PieceRow,
    Profile,
    ProfiledChoice,
    ProfileFigures,
    ReplayedOperation,
    ReplicaCheck,
    Samples,
    StepTimeline,
    Summary,
    Trace,
    TransferSamples,
    TransferSummary,
    Verification,
    WrongOutput,
)

ItemType = TypeVar("ItemType")


def _have(length: int, *lists: Sequence[object]) -> bool:
    """Whether all lists have the same length."""
    return all(len(values) == length for values in lists)


def _are_equally_long(lists: Sequence[Sequence[object]]) -> bool:
    """Whether lists by rank have one length, and are not empty."""
    lengths = {len(values) for values in lists}
    return not lengths or (len(lengths) == 1 and 0 not in lengths)


def _are_of_ranks(
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
        _have(ranks, *one.host_s, *one.device_s, *one.enqueue_s)
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


class ExplainedResult(ItemResult[ItemType], omit_defaults=True):
    """The result of a kind that observes what the library does, in its field ``explanation``."""

    def explain(self: _Explained, explanation: Explanation) -> None:
        """Takes over what the library did."""
        self.explanation = explanation


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
    def is_consistent(self) -> bool:
        """Whether samples and findings are of the ranks of the case.

        Findings of a pair have the numbers that its ranks have in the run.
        """
        samples = (self.samples, None if self.device is None else self.device.samples)
        return _are_of_ranks(samples, self.verification, self.case.ranks, self.case.pair)


class TransferResult(ItemResult[Transfer], tag="transfer", omit_defaults=True):
    """A transfer and its outcome. ``status``: ok, wrong, skipped, timeout or died, with the reason.

    ``report``: the state of every rank for a message that hung or failed. A finding's ``rank`` is
    the number of the flow; ``hung``: the numbers of the flows that did not complete in time.
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
            (samples is None or _have(flows, *samples.device_s, *samples.call_s))
            and (summary is None or len(summary.flow_bytes_per_s) in (0, flows))
            and all(0 <= flow < flows for flow in self.hung)
            and _are_of_ranks((), self.verification, flows)
        )


class CheckResult(ItemResult[Check], tag="check", omit_defaults=True):
    """A check of a framework's backend and its verdict on all ranks together.

    ``status``: ok, unsupported (on every rank, with the reason) or failed (with the first rank that
    failed, and the reason). ``values``: the tensors before and after the operations, by rank, if
    they are reported.
    """

    index: Count
    check: Check
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    values: list[CheckedValue] = []

    @property
    def is_measured(self) -> bool:
        """True: a check has a verdict."""
        return True

    @property
    def is_checked(self) -> bool:
        """True: it is a comparison itself."""
        return True


class MemoryResult(ItemResult[RankMemory], tag="memory", omit_defaults=True):
    """The memory of one rank for a case. ``status``: ok, wrong or skipped, with the reason.

    ``stages``: in the order of time, from the loading of the library; the last case of a run also
    has the stage in which the communicator is destroyed. ``buffers``: after the first operations.
    ``not_stated``: the reason why the library reports nothing about its memory. ``channels``: None
    if the library's log does not contain them.
    """

    index: Count
    memory: RankMemory
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    stages: list[MemoryStage] = []
    buffers: list[MemoryBuffer] = []
    not_stated: str = ""
    channels: LibraryChannels | None = None
    verification: Verification | None = None

    @property
    def is_measured(self) -> bool:
        """Whether the operations ran."""
        return self.status in ("ok", "wrong")

    @property
    def is_consistent(self) -> bool:
        """Whether the rank is one of the case."""
        return self.memory.rank < self.memory.case.ranks


class TrialResult(ExplainedResult[Trial], tag="trial", omit_defaults=True):
    """A trial and its outcome. ``status``, ``reason`` and the figures: as those of CaseResult.

    A variant that failed has the status of the failure in its trial, and its later trials are
    skipped. ``explanation``: of the trials of the first round; a journal stores it in a separate
    line.
    """

    index: Count
    trial: Trial
    status: Status
    reason: str = ""
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    samples: Samples | None = None
    summary: Summary | None = None
    device: DeviceTime | None = None
    verification: Verification | None = None
    report: str = ""
    explanation: Explanation | None = None

    @property
    def is_consistent(self) -> bool:
        """Whether samples and findings are of the ranks of the case."""
        samples = (self.samples, None if self.device is None else self.device.samples)
        return _are_of_ranks(samples, self.verification, self.trial.case.ranks)


class OverlapResult(ExplainedResult[Overlap], tag="overlap", omit_defaults=True):
    """A case beside a compute and its outcome. ``status`` and ``reason``: as those of TrialResult.

    ``communication_alone``, ``compute_alone`` and ``together``: the times of the events of all
    ranks, from which ``figures`` are computed (analysis.overlap_intervals). ``attempts``: how often
    they were measured, each time with twice as many operations, until some ran entirely beside the
    other work; the times are those of the last attempt. ``implementation``: the
    software that computes, ``implementation_path``: its file, empty for the engine's own.
    ``compute_findings``: wrong elements of its output by rank.
    ``explanation``: of the overlaps of the first round; a journal stores it in a separate line.
    """

    index: Count
    overlap: Overlap
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    implementation: str = ""
    implementation_path: str = ""
    communication_alone: OverlapTimes | None = None
    compute_alone: OverlapTimes | None = None
    together: OverlapTimes | None = None
    attempts: Count = 1
    figures: OverlapFigures | None = None
    verification: Verification | None = None
    compute_findings: list[WrongOutput] = []
    report: str = ""
    explanation: Explanation | None = None

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return self.figures is not None

    @property
    def is_consistent(self) -> bool:
        """Whether times and findings are of the ranks of the case, and figures have their times."""
        ranks = self.overlap.case.ranks
        times = (self.communication_alone, self.compute_alone, self.together)
        return (
            (self.figures is None or None not in times)
            and all(
                len(values) in (0, ranks)
                for one in times
                if one is not None
                for values in (one.communication_s, one.compute_s, one.enqueue_s)
            )
            and all(0 <= one.rank < ranks for one in self.compute_findings)
            and _are_of_ranks((), self.verification, ranks)
        )


class ProfileResult(ItemResult[ProfiledOperation], tag="profiled", omit_defaults=True):
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
    def is_checked(self) -> bool:
        """False: the data of programs are not checked."""
        return False

    @property
    def is_checkable(self) -> bool:
        """False: the data of programs are not checked."""
        return False

    @property
    def is_consistent(self) -> bool:
        """Whether at least one process has called the operation."""
        return bool(self.figures)


class ObjectResult(ItemResult[ObjectCall], tag="object", omit_defaults=True):
    """A call with objects and its outcome. ``status``: ok, wrong or skipped, with the reason.

    ``times``: of all ranks, from which ``figures`` are computed (analysis.object_figures).
    ``converged``: whether the medians have the requested precision. ``checked``: whether the
    received objects and tensors were compared with the sent ones.
    """

    index: Count
    call: ObjectCall
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    converged: bool = True
    times: ObjectTimes | None = None
    figures: ObjectFigures | None = None
    checked: bool = False
    findings: list[ObjectFinding] = []

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return self.figures is not None

    @property
    def is_checked(self) -> bool:
        """Whether the received objects were compared with the sent ones."""
        return self.checked

    @property
    def is_consistent(self) -> bool:
        """Whether each round has the times of all ranks."""
        times, ranks = self.times, self.call.ranks
        return (
            times is None
            or _have(
                ranks, *times.objects_s, *times.tensors_s, *times.pickling_s, *times.unpickling_s
            )
        ) and all(0 <= one.rank < ranks for one in self.findings)


class PieceResult(ItemResult[PieceCase], tag="pieces", omit_defaults=True):
    """A message in one call and in pieces. ``status``: ok, wrong or skipped, with the reason.

    ``rows``: one for each division of the case, in its order. ``converged``: whether all medians
    have the requested precision.
    """

    index: Count
    pieces: PieceCase
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    converged: bool = True
    rows: list[PieceRow] = []

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return any(row.summary is not None for row in self.rows)

    @property
    def is_checked(self) -> bool:
        """Whether the outputs of all measured divisions were compared with the expected one."""
        measured = [row for row in self.rows if row.summary is not None]
        return bool(measured) and all(row.verification is not None for row in measured)

    @property
    def is_consistent(self) -> bool:
        """Whether each division has its row, with samples and findings of the ranks of the case."""
        divisions = tuple(row.division for row in self.rows)
        return divisions in ((), self.pieces.divisions) and all(
            _are_of_ranks((row.samples,), row.verification, self.pieces.case.ranks)
            for row in self.rows
        )


class TrainingResult(ItemResult[Training], tag="training", omit_defaults=True):
    """A training and its outcome. ``status`` and ``reason``: as those of TrialResult.

    ``losses``: of the steps from the first one on, averaged over the ranks with different data; the
    first ``warmup_steps`` are warm-up. ``step_s``: the times of the timed steps by rank, which are
    the last ones. ``alone_s``: by rank, of steps without communication, half of them before the
    training and half after it; empty if the parallelism has no such step. ``timeline``: None if it
    is unknown, for ``timeline_reason``. ``peak_allocated_bytes``, ``peak_reserved_bytes``: the
    memory of torch's allocator by rank, empty on the host. ``estimated_bytes``: see
    plan.training_memory; ``free_bytes``: the free memory of the rank that has least.
    ``check``: None if no parameters have to be equal.
    """

    index: Count
    training: Training
    status: Status
    reason: str = ""
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    warmup_steps: Count = 0
    losses: list[float] = []
    step_s: list[list[Duration]] = []
    alone_s: list[list[Duration]] = []
    timeline: StepTimeline | None = None
    timeline_reason: str = ""
    peak_allocated_bytes: list[Count] = []
    peak_reserved_bytes: list[Count] = []
    estimated_bytes: Count = 0
    free_bytes: Count = 0
    check: ReplicaCheck | None = None
    report: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether there are times."""
        return bool(self.step_s)

    @property
    def is_checked(self) -> bool:
        """Whether the parameters of all ranks were compared."""
        return self.check is not None

    @property
    def is_checkable(self) -> bool:
        """Whether the parallelism leaves equal parameters on all ranks."""
        return bool(self.training.comparable_ranks)

    @property
    def is_consistent(self) -> bool:
        """Whether lists by rank have its ranks, and all ranks the same steps."""
        ranks, timeline = self.training.ranks, self.timeline
        by_rank: list[Sequence[object]] = [self.step_s, self.alone_s]
        by_rank += [self.peak_allocated_bytes, self.peak_reserved_bytes]
        of_steps: list[Sequence[object]] = []
        if timeline is not None:
            by_rank.append(timeline.compute_alone_s)
            of_steps += [timeline.step_s, timeline.communication_s]
            of_steps += [timeline.exposed_s, timeline.compute_s]
        return (
            all(len(values) in (0, ranks) for values in by_rank)
            and _have(ranks, *of_steps)
            and _are_equally_long(self.step_s)
            and _are_equally_long(self.alone_s)
            and all(one.rank < ranks for one in (self.check.differences if self.check else ()))
        )


class ReplayResult(ItemResult[Replay], tag="replay", omit_defaults=True):
    """A replay and its outcome. ``status`` and ``reason``: as those of TrialResult.

    ``span_s``: by rank, of every step, from the start of its first call to the end of the last one;
    ``communication_s``: in which at least one call ran whose time in the program is known as a
    whole, or at least one of all if there is none. ``enqueue_s``: the median time in which the host
    enqueued a step, of the slowest rank; 0 on the host. ``operations``: the times of calls by
    operation. ``traffic``: the blocks of the memory traffic beside each numbered call of the step;
    empty without any. ``verification``: of a step before the timed ones; the first element of a
    finding is of the call that it names.
    """

    index: Count
    replay: Replay
    status: Status
    reason: str = ""
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    span_s: list[list[Elapsed]] = []
    communication_s: list[list[Elapsed]] = []
    enqueue_s: Elapsed = 0.0
    operations: list[ReplayedOperation] = []
    traffic: list[Count] = []
    verification: Verification | None = None
    report: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether there are times."""
        return bool(self.span_s)

    @property
    def is_consistent(self) -> bool:
        """Whether lists by rank have its ranks, and all ranks the same steps."""
        ranks, original = self.replay.ranks, self.replay.original
        by_rank = (self.span_s, self.communication_s)
        of_program = (original.span_s, original.communication_s, original.step_s)
        return (
            all(len(values) in (0, ranks) for values in by_rank)
            and all(len(values) in (0, ranks) for values in of_program)
            and len(self.span_s) == len(self.communication_s)
            and _are_equally_long([*self.span_s, *self.communication_s])
            and len(original.quartiles_s) in (0, 2)
            and all(one >= 0 for one in (*chain(*of_program), *original.quartiles_s))
            and _are_of_ranks((), self.verification, ranks)
        )


#: Results of items that are measured with variants, and these items.
VariedCaseResult = TrialResult | OverlapResult
VariedCase = Trial | Overlap
VariedResult = TrialResult | OverlapResult | TrainingResult | ReplayResult
Varied = Trial | Overlap | Training | Replay


def failed(index: int, item: Varied, status: str, reason: str, report: str = "") -> VariedResult:
    """The result of an item that has no figures."""
    if isinstance(item, Overlap):
        return OverlapResult(index, item, status, reason, report=report)
    if isinstance(item, Training):
        return TrainingResult(index, item, status, reason, report=report)
    if isinstance(item, Replay):
        return ReplayResult(index, item, status, reason, report=report)
    return TrialResult(index, item, status, reason, report=report)


Result = (
    CaseResult
    | TransferResult
    | CheckResult
    | MemoryResult
    | TrialResult
    | OverlapResult
    | TrainingResult
    | ReplayResult
    | ProfileResult
    | ObjectResult
    | PieceResult
)
Line = Header | Result | Condition | Explanation | Paths | Trace | Profile | Footer


def given_up(index: int, item: Item, status: str, reason: str, report: str) -> Result:
    """The result of a case, or of a message between hosts, that hung or failed."""
    if isinstance(item, Transfer):
        return TransferResult(index, item, status, reason, report=report)
    assert isinstance(item, Case)
    return CaseResult(index, item, status, reason, report=report)


def _as_planned(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    return planned


def _of_every_pair(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    return PairCases([one for one in planned if isinstance(one, Case)], processes)


def _of_every_rank(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    return RankMemories([one for one in planned if isinstance(one, Case)], processes)


def _nothing_else(item: Item, culprit: Item, phase: str) -> bool:
    return False


def _any(item: Item) -> bool:
    return True


def _is_message(item: Item) -> bool:
    return isinstance(item, Transfer) and bool(item.ccl)


def _of_the_message(item: Item, culprit: Item, phase: str) -> bool:
    assert isinstance(item, Transfer)
    assert isinstance(culprit, Transfer)
    return falls_with_message(item, culprit, phase)


def _of_the_pair(item: Item, culprit: Item, phase: str) -> bool:
    assert isinstance(item, Case)
    assert isinstance(culprit, Case)
    return falls_with_pair(item, culprit, phase)


@dataclass(frozen=True)
class Kind:
    """A kind of work.

    ``item``: the type of the planned items, ``result`` that of their results. ``listed_as``: the
    name of their list in JSON documents. ``between_devices``: the results include the connections
    between devices. ``forgiven``: the failures (see messages.Failed) after which new ranks continue
    with the remaining items, empty where every failure ends the run. ``forgives``: whether this
    applies to an item. ``independent``: a hang in one item does not predict a hang in the next one.
    ``failures_are_results``: an item whose ranks fail has been measured like any other, so the run
    ends well. ``requires_variant``: a run in which every variant failed has failed, even if the
    default was measured. ``has_device_times``: --timing auto measures the time of the devices.
    ``numbers_of_findings``: what the numbers of findings count. ``items``: returns all items to
    measure, from the planned items and the number of processes. ``falls_with``: whether an item is
    skipped together with the item that failed in a phase. ``by_ranks``: ranks of cclmark measure
    the items; otherwise they come from programs of the user.
    """

    item: type[Item]
    result: type[Result]
    listed_as: str
    between_devices: bool = False
    forgiven: tuple[str, ...] = ()
    forgives: Callable[[Item], bool] = _any
    independent: bool = False
    failures_are_results: bool = False
    requires_variant: bool = False
    has_device_times: bool = False
    numbers_of_findings: str = "rank"
    items: Callable[[Sequence[Item], int], Sequence[Item]] = _as_planned
    falls_with: Callable[[Item, Item, str], bool] = _nothing_else
    by_ranks: bool = True


KINDS: dict[str, Kind] = {
    COLLECTIVE: Kind(Case, CaseResult, "cases", forgiven=("timeout",), has_device_times=True),
    PAIRS: Kind(
        Case,
        CaseResult,
        "cases",
        between_devices=True,
        # A library that fails for one pair may work for another.
        forgiven=("timeout", "error"),
        independent=True,
        items=_of_every_pair,
        falls_with=_of_the_pair,
    ),
    P2P: Kind(
        Transfer,
        TransferResult,
        "transfers",
        between_devices=True,
        # As for pairs. A copy that hangs is a result, and one that fails ends the run.
        forgiven=("timeout", "error"),
        forgives=_is_message,
        numbers_of_findings="flow",
        independent=True,
        falls_with=_of_the_message,
    ),
    CHECK: Kind(Check, CheckResult, "checks"),
    MEMORY: Kind(Case, MemoryResult, "memory", items=_of_every_rank),
    # Without a variant an experiment has no result; what overlap measures by default is one.
    EXPERIMENT: Kind(
        Trial, TrialResult, "trials", failures_are_results=True, requires_variant=True
    ),
    OVERLAP: Kind(Overlap, OverlapResult, "overlaps", failures_are_results=True),
    TRAIN: Kind(Training, TrainingResult, "trainings", failures_are_results=True),
    REPLAY: Kind(Replay, ReplayResult, "replays", failures_are_results=True),
    PROFILE: Kind(ProfiledOperation, ProfileResult, "operations", by_ranks=False),
    OBJECTS: Kind(ObjectCall, ObjectResult, "objects"),
    PIECES: Kind(PieceCase, PieceResult, "pieces"),
}
