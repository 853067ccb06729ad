"""The result of tuning: rules with their proof, what ran before and after, and the artifacts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cclmark.analysis.paired import chance_of_gain
from cclmark.analysis.ratio import RatioEstimate
from cclmark.journal.schema import Explanation
from cclmark.kinds.tune.environment_search import EnvironmentFound
from cclmark.kinds.tune.prove import FALSE_SHARE, EnvironmentProof, Place, Proof
from cclmark.kinds.tune.search import LARGEST_LOSS, Found, Rule
from cclmark.kinds.tune.target import Choice
from cclmark.work.cases import Case
from cclmark.work.setting_fields import LibrarySetting


@dataclass
class TuneResult:
    """What search and proof found.

    ``variables``: what the user has to set. ``files``: the artifacts, none if nothing beats the
    default. ``search_s`` and ``proof_s``: the durations. ``search_end``: when and why the search
    ended early, in words. ``trials``: the number of measured trials. ``is_complete``: search and
    proof have ended.
    """

    proof_rounds: int
    variables: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    search_s: float = 0.0
    search_end: str = ""
    proof_s: float = 0.0
    trials: int = 0
    is_complete: bool = False


@dataclass
class OperationResult:
    """The result for one operation.

    ``case``: the first one of its sweep. ``largest_loss``: allowed at a size without a rule, as a
    share of the time. ``found`` and ``rules``: of the search; ``proof``: of
    the deployed rules.

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
    choices: Mapping[int, Choice] = field(default_factory=dict)
    found: Found | None = None
    rules: list[Rule] = field(default_factory=list)
    proof: Proof | None = None
    outside: dict[int, RatioEstimate] = field(default_factory=dict)
    calls_outside: tuple[int, RatioEstimate] | None = None
    calls_beside: dict[int, RatioEstimate] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    unmeasured: list[int] = field(default_factory=list)
    usual: dict[int, Explanation] = field(default_factory=dict)
    tuned: dict[int, Explanation] = field(default_factory=dict)

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


@dataclass
class RulesResult(TuneResult):
    """The result of tuning by operation and size.

    ``options``: of the communicator, which the program has to give it. ``withheld``: the reason why
    proven rules are not deployed, empty if there is none.
    """

    operations: list[OperationResult] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    withheld: str = ""


@dataclass
class EnvironmentResult(TuneResult):
    """The result of tuning the environment of a library.

    ``cases``: the first one of each operation's sweep. ``tried``: the settings that were varied;
    ``refused``: those that were not, with the reasons. ``found``: of the search, whose best
    combination ``variables`` are. ``replaced``: values of the environment that they are compared
    with. ``failures``: combinations in words that failed. ``usual`` and ``tuned``: what ran by
    default and with the variables. ``proof``: None if nothing was to be proven.
    """

    cases: Sequence[Case] = ()
    tried: Sequence[LibrarySetting] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    found: EnvironmentFound | None = None
    replaced: Mapping[str, str] = field(default_factory=dict)
    failures: Sequence[str] = ()
    proof: EnvironmentProof | None = None
    usual: Mapping[Place, Explanation] = field(default_factory=dict)
    tuned: Mapping[Place, Explanation] = field(default_factory=dict)
