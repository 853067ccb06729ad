"""Replays: the communication of one step of a profiled program, repeated with a variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from cclmark.work.computations import Compute
from cclmark.work.counts import AtLeastOne, Count
from cclmark.work.items import Item, Value
from cclmark.work.profiled import ProfiledOperation
from cclmark.work.variants import LIBRARY, Variant
from cclmark_programs.replay.choices import Fit, Gaps

REPLAY = "replay"


#: Sends and receives that are launched together.
EXCHANGE = "alltoallv"


class ReplayedCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A call of one rank in a step.

    ``group``, ``stream`` and ``operation``: their numbers in the step. ``collective``, ``dtype``,
    ``count``: as a case has them; sends and receives launched together are one EXCHANGE, whose
    ``matrix`` contains the elements from rank i to rank j of the group at ``[i * ranks + j]``, as
    far as this rank has to know them. ``begin_s``: after the start of the step; ``time_s``: of its
    kernel in the program, 0 if unknown. ``number``: of the call in the step of all ranks, the same
    one for all that take part in it; -1 if their waiting for each other is unknown.
    ``beside_s``: how long other kernels ran meanwhile, at most ``time_s``. ``is_partial``: whether
    ``time_s`` is only a part of the kernel's, so that nothing is compared with it.
    """

    group: Count
    stream: Count
    operation: Count
    collective: str
    dtype: str
    count: Count
    begin_s: float
    time_s: float
    matrix: tuple[int, ...] = ()
    number: int = -1
    beside_s: float = 0.0
    is_partial: bool = False


class RankStep(msgspec.Struct, frozen=True):
    """The part of a rank in one step of a program.

    ``groups``, ``operations``: as in ProgramStep. ``calls``: of the rank. ``length_s``: of the step
    in the program, from its start to the end of the last call of any rank. ``own_s``: of each
    numbered call, see ProgramStep. ``traffic``: by the number of a call, the blocks of the traffic
    beside it; None if it has to be chosen.
    """

    groups: tuple[tuple[int, ...], ...]
    operations: tuple[ProfiledOperation, ...]
    calls: tuple[ReplayedCall, ...]
    length_s: float
    own_s: tuple[float, ...] = ()
    traffic: tuple[int, ...] | None = None


class ProgramStep(msgspec.Struct, frozen=True):
    """The communication of one step of a program.

    ``groups``: the ranks of each one. ``operations``: what calls are counted by. ``calls``: of each
    rank, in the order in which it makes them. ``own_s``: of each numbered call in the program, the
    time of its kernel on the rank that waited least; 0 if unknown, or if nothing ran beside it.
    """

    groups: tuple[tuple[int, ...], ...]
    operations: tuple[ProfiledOperation, ...]
    calls: tuple[tuple[ReplayedCall, ...], ...]
    own_s: tuple[float, ...] = ()

    def by_rank(self, traffic: Sequence[int] | None = None) -> list[RankStep]:
        """The part of each rank: what it has to know of the step. ``traffic``: as in RankStep."""
        length_s = max(call.begin_s + call.time_s for own in self.calls for call in own)
        chosen = None if traffic is None else tuple(traffic)
        return [
            RankStep(self.groups, self.operations, own, length_s, self.own_s, chosen)
            for own in self.calls
        ]


class OriginalStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """The same step in the program, in seconds by rank; empty if unknown.

    ``span_s``: from the start of the first call to the end of the last one. ``communication_s``:
    in which at least one call ran. ``step_s``: the median of all steps of the program. ``steps``:
    the number of steps of which ``communication_s`` and, unless the profile is of an earlier
    version, ``span_s`` are the medians; 0: of the replayed step. ``quartiles_s``: the lower and the
    upper one of the communication of these steps, mean of the ranks.
    """

    span_s: tuple[float, ...] = ()
    communication_s: tuple[float, ...] = ()
    step_s: tuple[float, ...] = ()
    steps: Count = 0
    quartiles_s: tuple[float, ...] = ()

    @property
    def tail_s(self) -> float:
        """The time from the last call of a step to the first one of the next step, at least."""
        if not self.step_s or not self.span_s:
            return 0.0
        pairs = zip(self.step_s, self.span_s, strict=True)
        return max(0.0, min(step_s - span_s for step_s, span_s in pairs))


class ReplayWay(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happens between and beside the calls, as in Replay."""

    gaps: Gaps
    compute: Compute | None = None
    fit: Fit = ""
    traffic: bool = False


class Replay(msgspec.Struct, frozen=True, omit_defaults=True):
    """Repetitions of a program's step with one variant in one round.

    ``program``: the name of the profile. ``digest``: of the step, of which each rank
    receives its part besides the plan. ``calls``: of the rank that makes most. ``gaps``: see
    replay_choices.GAPS. ``compute``: what runs beside the calls. ``traffic``: memory traffic does,
    by as many blocks as make calls take as long as in the program. ``fit``: FITTED or NEAREST if
    both were chosen by measuring, empty if they were given. ``other_ways``: those that were chosen
    with it, and are measured in the same run.
    """

    kind: ClassVar[str] = REPLAY
    work: ClassVar[str] = "replay"
    size_bytes: ClassVar[int] = 0

    variant: Variant
    round: Count
    ccl: str
    ranks: AtLeastOne
    program: str
    digest: str
    calls: AtLeastOne
    groups: AtLeastOne
    gaps: Gaps
    original: OriginalStep = OriginalStep()
    compute: Compute | None = None
    fit: Fit = ""
    other_ways: tuple[ReplayWay, ...] = ()
    traffic: bool = False

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """See work.items.Outlined."""
        return self.without_variant(), {
            "variant": [self.variant.describe()],
            "step": [self.digest],
            "gaps": [self.gaps],
            "compute": [] if self.compute is None else [self.compute.describe()],
            "traffic": ["as in the program"] if self.traffic else [],
            "ccl": [self.ccl],
        }

    @property
    def library(self) -> str:
        """The library that communicates."""
        return self.ccl

    def describe(self) -> str:
        """The replay in words, for messages."""
        return (
            f"a step of {self.program} ({self.calls} calls), {self.ccl}, "
            f"{self.variant.describe()} (round {self.round + 1})"
        )

    def is_within(self, devices: int) -> bool:
        """Whether there are as many devices as ranks."""
        return self.ranks <= devices

    @property
    def beside(self) -> str:
        """What runs beside the calls, in words; empty for nothing."""
        if self.traffic:
            return "memory traffic"
        return "" if self.compute is None else self.compute.describe()

    @property
    def way(self) -> ReplayWay:
        """What happens between and beside the calls."""
        return ReplayWay(self.gaps, self.compute, self.fit, self.traffic)

    def series(self) -> Replay:
        """The replay without its round."""
        return msgspec.structs.replace(self, round=0)

    def without_variant(self) -> Replay:
        """What is replayed: without round, variant and library."""
        return msgspec.structs.replace(self, round=0, variant=Variant(), ccl="")


def in_ways(one: Replay, ways: Sequence[ReplayWay]) -> list[Replay]:
    """The replay in each of several ways."""
    return [
        msgspec.structs.replace(
            one,
            gaps=own.gaps,
            compute=own.compute,
            fit=own.fit,
            traffic=own.traffic,
            other_ways=tuple(other for other in ways if other != own),
        )
        for own in ways
    ]


def replays_of(one: Replay, variants: Sequence[Variant], rounds: int) -> list[Replay]:
    """All replays: rounds, in them variants. A variant may name another library."""
    return [
        msgspec.structs.replace(
            one, variant=variant, round=number, ccl=_library_of(variant) or one.ccl
        )
        for number in range(rounds)
        for variant in variants
    ]


def _library_of(variant: Variant) -> str:
    named = variant.value_of(LIBRARY)
    return "" if "/" in named else named
