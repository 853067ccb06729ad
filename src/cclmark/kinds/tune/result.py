"""The result of tuning, which the end of a journal contains besides the trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from cclmark.analysis.paired import chance_of_gain
from cclmark.analysis.ratio import RatioEstimate
from cclmark.journal.schema import Explanation, Footer
from cclmark.kinds.experiment.result import found_in
from cclmark.kinds.overlap.figures import OverlapSummary
from cclmark.kinds.tune.prove import FALSE_SHARE, EnvironmentProof, Placed, Proof
from cclmark.kinds.tune.search import LARGEST_LOSS, Rule
from cclmark.kinds.tune.target import Choice
from cclmark.work.cases import Case


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
