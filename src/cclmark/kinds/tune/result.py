"""The result of tuning, which the end of a journal contains besides the trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from cclmark.analysis.paired import chance_of_gain
from cclmark.analysis.ratio import RatioEstimate
from cclmark.journal.schema import Explanation, Footer
from cclmark.kinds.experiment.result import found_in
from cclmark.kinds.overlap.figures import OverlapSummary
from cclmark.kinds.tune.plan import Choice
from cclmark.kinds.tune.search import LARGEST_LOSS, Rule
from cclmark.work.cases import Case

PlacedT = TypeVar("PlacedT")
# An operation and a size in bytes.
Place = tuple[str, int]
# What is known of places, in a form that journals can contain.
Placed = Sequence[tuple[Place, PlacedT]]
FALSE_SHARE = 0.01  # at most so many proofs contain a rule that is no gain


@dataclass(frozen=True)
class Proven:
    """A rule that is a gain.

    ``estimate``: its time over the default's, over all its sizes. ``chance``: the probability that
    no gain appears as large. ``by_size``: the ratio of each size in bytes.
    """

    rule: Rule
    estimate: RatioEstimate
    chance: float
    by_size: Mapping[int, RatioEstimate]

    @property
    def worst_bytes(self) -> int:
        """The size with the smallest gain."""
        return max(self.by_size, key=lambda size: self.by_size[size].difference)


@dataclass(frozen=True)
class Dropped:
    """A rule, or the size of a rule, that is not deployed, and the reason in words.

    ``estimate``: the ratio to the default, None if there are too few times.
    """

    rule: Rule
    reason: str
    estimate: RatioEstimate | None = None


@dataclass(frozen=True)
class Proof:
    """Proven and dropped rules, by size. Nothing beats the default without ``proven`` ones."""

    proven: Sequence[Proven]
    dropped: Sequence[Dropped]

    @property
    def rules(self) -> list[Rule]:
        """The rules to deploy."""
        return [one.rule for one in self.proven]


@dataclass(frozen=True)
class EnvironmentProof:
    """The verdict on an environment.

    ``estimate``: its time over the default's, over all places; None if there are too few rounds.
    ``chance``: the probability that no gain appears as large. ``objection``: the reason why it is
    no gain, empty if it is one. ``by_place``: the ratio at each size of each operation. ``failed``:
    where it failed and the default did not. ``call``: the ratio of the costs of a call over all
    sizes where launches determine them; None if there are none. ``costly``: the sizes of these at
    which the loss exceeds LARGEST_LOSS with its whole interval.
    """

    estimate: RatioEstimate | None = None
    chance: float = 1.0
    objection: str = ""
    by_place: Placed[RatioEstimate] = ()
    failed: Sequence[Place] = ()
    call: RatioEstimate | None = None
    costly: Placed[RatioEstimate] = ()

    @property
    def harmed(self) -> dict[Place, RatioEstimate]:
        """Where the loss exceeds LARGEST_LOSS with its whole interval."""
        return {place: one for place, one in self.by_place if one.low > 1 + LARGEST_LOSS}

    @property
    def unguarded(self) -> dict[Place, RatioEstimate]:
        """Where a loss of LARGEST_LOSS is not excluded, and not certain either."""
        return {
            place: one
            for place, one in self.by_place
            if not one.excludes_slower_by(LARGEST_LOSS) and place not in self.harmed
        }

    @property
    def may_cost(self) -> bool:
        """Whether calls are estimated to cost more by LARGEST_LOSS, which may be noise."""
        return self.call is not None and self.call.ratio > 1 + LARGEST_LOSS

    @property
    def is_proven(self) -> bool:
        """Whether it is a gain that harms no size."""
        return not (self.objection or self.harmed or self.failed or self.costly)


class TuneResult(msgspec.Struct):
    """What search and proof found.

    ``variables``: what the user has to set. ``files``: the artifacts, none if nothing beats the
    default. ``search_s`` and ``proof_s``: the durations. ``search_end``: when and why the search
    ended early, in words. ``is_complete``: search and proof have ended.
    """

    proof_rounds: int
    variables: dict[str, str] = {}
    files: list[str] = []
    search_s: float = 0.0
    search_end: str = ""
    proof_s: float = 0.0
    is_complete: bool = False


class OperationResult(msgspec.Struct):
    """The result for one operation.

    ``case``: the first one of its sweep. ``largest_loss``: allowed at a size without a rule, as a
    share of the time. ``choices``: by number, none if nothing can be selected.
    ``is_search_complete``: the search ended by itself. ``rules``: of the search; ``proof``: of the
    deployed rules.

    ``outside``: the ratio of the times with and without the artifact at sizes without a rule.
    ``calls_outside``: the largest size without a rule whose time launches determine, and the ratio
    of the costs of a call with and without the artifact over all such sizes.
    ``calls_beside``: of these sizes, the ones next to a rule, each with the ratio of its calls.
    ``failed``: the sizes at which the artifact failed or was wrong. ``unmeasured``: the sizes that
    lost their rule last, and were not measured with the files that are left.
    ``usual`` and ``tuned``: what ran by size, before and after.
    """

    case: Case
    largest_loss: float = LARGEST_LOSS
    choices: dict[int, Choice] = {}
    is_search_complete: bool = True
    rules: list[Rule] = []
    proof: Proof | None = None
    outside: dict[int, RatioEstimate] = {}
    calls_outside: tuple[int, RatioEstimate] | None = None
    calls_beside: dict[int, RatioEstimate] = {}
    failed: list[int] = []
    unmeasured: list[int] = []
    usual: dict[int, Explanation] = {}
    tuned: dict[int, Explanation] = {}

    @property
    def operation(self) -> str:
        """The operation."""
        return self.case.operation

    @property
    def mean_gain(self) -> float | None:
        """The geometric mean of the speed-ups of all sizes, with and without a rule."""
        if self.proof is None or not self.proof.proven:
            return None
        differences = {size: one.difference for size, one in self.outside.items()}
        for each in self.proof.proven:
            differences.update({size: one.difference for size, one in each.by_size.items()})
        return math.exp(-math.fsum(differences.values()) / len(differences))

    @property
    def harmed(self) -> dict[int, RatioEstimate]:
        """The sizes without a rule whose loss exceeds ``largest_loss`` with its whole interval.

        Next to a rule the cost of a call counts too, if it exceeds that by chance with at most
        FALSE_SHARE: calls vary more from process to process.
        """
        loss = math.log1p(self.largest_loss)
        costly = {
            size: one
            for size, one in self.calls_beside.items()
            if chance_of_gain(replace(one, difference=loss - one.difference)) <= FALSE_SHARE
        }
        slow = {size: one for size, one in self.outside.items() if one.low > math.exp(loss)}
        return costly | slow


class CaseCost(msgspec.Struct):
    """The slow-downs beside one case, by default and as deployed; None: not measured."""

    case: Case
    before: OverlapSummary | None
    after: OverlapSummary | None


class SmCost(msgspec.Struct):
    """The costs by case. ``reason``: why there are none. ``journal``: of the measurement."""

    cases: list[CaseCost]
    journal: str
    reason: str = ""


class RulesResult(TuneResult, tag="rules"):
    """The result of tuning by operation and size.

    ``options``: of the communicator, which the program has to give it. ``withheld``: the reason why
    proven rules are not deployed, empty if there is none. ``sm_cost``: None if it was not to be
    measured.
    """

    operations: list[OperationResult] = []
    options: dict[str, str] = {}
    withheld: str = ""
    sm_cost: SmCost | None = None


class EnvironmentResult(TuneResult, tag="environment"):
    """The result of tuning the environment of a library.

    ``cases``: the first one of each operation's sweep. ``tried``: the settings that were varied,
    each with a remark; ``refused``: those that were not, with the reasons. ``combinations``: the
    number of those that were measured, whose best one ``variables`` are; ``harmful``: of those that
    were faster, but not at each size. ``is_search_complete``: the search ended by itself.
    ``replaced``: values of the environment that they are compared with. ``failures``: combinations
    in words that failed. ``usual`` and ``tuned``: what ran by default and with the variables.
    ``proof``: None if nothing was to be proven.
    """

    cases: list[Case] = []
    tried: dict[str, str] = {}
    refused: Mapping[str, str] = {}
    combinations: int = 0
    harmful: int = 0
    is_search_complete: bool = True
    replaced: Mapping[str, str] = {}
    failures: Sequence[str] = ()
    proof: EnvironmentProof | None = None
    usual: Placed[Explanation] = ()
    tuned: Placed[Explanation] = ()


def result_of(footer: Footer | None) -> RulesResult | EnvironmentResult | None:
    """The result in the footer of a journal; None without a legible one."""
    return found_in(footer, RulesResult) or found_in(footer, EnvironmentResult)
