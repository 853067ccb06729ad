"""Tunes a library: searches, deploys the found settings as a user would, and proves them.

Afterwards the slow-down of a matrix product beside the tuned collectives is measured.
"""

from __future__ import annotations

import math
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from cclmark.analysis.paired import CONTROL as CONTROL_NUMBER
from cclmark.analysis.paired import DEFAULT as DEFAULT_NUMBER
from cclmark.analysis.paired import Batch, Cell, Times
from cclmark.base.errors import EXIT_OK
from cclmark.base.statistics import median
from cclmark.journal.schema import Explanation
from cclmark.kinds.experiment.measured_trials import EndedError, Measuring, ended
from cclmark.kinds.experiment.plan import PROOF, SEARCH, Trial
from cclmark.kinds.overlap.figures import OverlapSummary, summaries_of
from cclmark.kinds.overlap.kind import KIND as OVERLAP
from cclmark.kinds.overlap.plan import overlaps_of_pairs
from cclmark.kinds.overlap.result import OverlapResult
from cclmark.kinds.tune.environment_search import EnvironmentSearch, EnvironmentTarget, in_words
from cclmark.kinds.tune.figures import prove_environment
from cclmark.kinds.tune.plan import Candidates, Choice, OperationPlan, Target, assigned_options
from cclmark.kinds.tune.proving import (
    Proving,
    Trials,
    by_one_clock,
    calls_of,
    measured_rounds,
    trials_of,
)
from cclmark.kinds.tune.result import (
    CaseCost,
    EnvironmentResult,
    OperationResult,
    Place,
    RulesResult,
    SmCost,
    TuneResult,
)
from cclmark.kinds.tune.search import LARGEST_LOSS, Found, Rule, joined_rules, rules_of, search
from cclmark.launch.request import Outcome, Request
from cclmark.options.environment_file import shell_text
from cclmark.recording.output import remove_if_empty, write_files
from cclmark.recording.recorder import record, unused
from cclmark.work.cases import Case
from cclmark.work.computations import Compute
from cclmark.work.library_settings import find_setting, requires_new_processes
from cclmark.work.setting_fields import LibrarySetting
from cclmark.work.variants import COMMUNICATOR, CONTROL, DEFAULT, PROCESS, Assignment, Variant
from cclmark.work.work_beside import MATMUL

# Of the budget for the search, as long as nothing is known about the time of a trial.
_USUAL_SHARE = 0.62
# The search has this share even if the proof does not fit into the rest: a search that ended after
# one round would leave the proof nothing worth proving.
_LEAST_SHARE = 0.3
# Observing what runs, before and after, takes about as long as a round of the proof.
_MORE_ROUNDS = 1
_DEPLOYED = Variant((Assignment("deployed", "", PROCESS),))  # with its own processes, like a proof


class Budget:
    """The time of search and proof. It begins when this is created."""

    def __init__(
        self, measuring: Measuring, budget_s: float, cases: Iterable[Case], rounds: int
    ) -> None:
        """``cases`` and ``rounds``: of the proof."""
        self._measuring = measuring
        self._budget_s = budget_s
        self._begin_s = time.monotonic()
        #: Why the search ended without its next round, with its times; empty if it did not.
        self.end_reason = ""
        self._rounds = rounds
        self._round = [
            Trial(one, 0, case, PROOF) for case in cases for one in (DEFAULT, CONTROL, _DEPLOYED)
        ]

    @property
    def elapsed_s(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self._begin_s

    def proof_s(self) -> float | None:
        """The estimated time of the proof; None before anything was measured."""
        round_s = self._measuring.expected_s(self._round)
        return None if round_s is None else (self._rounds + _MORE_ROUNDS) * round_s

    def ends_search(self, following: Sequence[Trial]) -> bool:
        """Whether the search must end without its next round, which would measure these trials.

        The proof is complete in any case: it may take longer than estimated, and is repeated if it
        drops rules.
        """
        proof_s, next_s = self.proof_s(), self._measuring.expected_s(following)
        if proof_s is None or next_s is None:
            ends = self.elapsed_s > _USUAL_SHARE * self._budget_s
            reason = f"the rest of the {self._budget_s:.0f} s is for the proof"
        else:
            search_s = max(self._budget_s - proof_s, _LEAST_SHARE * self._budget_s)
            ends = self.elapsed_s + next_s > search_s
            reason = (
                f"its next round (about {next_s:.1f} s) and the proof (about {proof_s:.1f} s) "
                f"would exceed the {self._budget_s:.0f} s"
            )
        if ends:
            self.end_reason = f"after {self.elapsed_s:.1f} s, because {reason}"
        return ends


ENVIRONMENT_FILE = "environment.sh"
_CANDIDATES = "candidates"
# Predictions were off by up to 44 % on 2 × H100: what is predicted to take so many times as long is
# not measured.
_HOPELESS = 2.5
_BOUNDARY_ROUNDS = 3


TargetT = TypeVar("TargetT")
ResultT = TypeVar("ResultT", bound=TuneResult)
Key = TypeVar("Key")
FoundT = TypeVar("FoundT")


@dataclass(frozen=True)
class TuneRequest:
    """What to tune.

    ``request``: the devices and settings of the run. ``cases``: those of the search, for each
    operation by size; ``proof_cases`` also contain sizes between them. ``directory``: of the
    artifacts. ``budget_s``: for search and proof. ``proof_rounds``: at least seven.
    ``largest_loss``: see OperationResult. ``matrix_rows``: of the product that prices the result, 0
    without one. ``journal``: of the run, a new one without it; ``resume``: of the run that it
    continues. ``format``: of what is printed, ``numbers``: see View.
    """

    request: Request
    cases: Mapping[str, Sequence[Case]]
    proof_cases: Mapping[str, Sequence[Case]]
    directory: Path
    budget_s: float
    proof_rounds: int
    largest_loss: float = LARGEST_LOSS
    matrix_rows: int = 0
    journal: Path | None = None
    resume: Path | None = None
    format: str = "table"
    numbers: bool = False


class _Tuning(ABC, Generic[TargetT, ResultT]):
    """One tuning run: search, proof and artifacts of a target."""

    def __init__(
        self,
        target: Callable[[Measuring], TargetT],
        tune: TuneRequest,
        measuring: Measuring,
        say: Callable[[str], None],
    ) -> None:
        """``target``: returns it once the library has been observed. ``say``: gets progress."""
        self._target_of = target
        self._tune = tune
        self._measuring = measuring
        self._say = say
        self._budget = Budget(measuring, tune.budget_s, self._places().values(), tune.proof_rounds)
        self._number = 0
        self._result = self._empty_result()

    def run(self) -> tuple[ResultT, Outcome]:
        """Searches and proves; the outcome is of the default. Raises UsageError, OutputError."""
        result, outcome = self._result, Outcome(EXIT_OK)
        try:
            usual = self._observed(DEFAULT)
            self._find(usual, self._target_of(self._measuring))
            result.search_s = self._budget.elapsed_s
            result.search_end = self._budget.end_reason
            self._prove()
            result.proof_s = self._budget.elapsed_s - result.search_s
            result.is_complete = True
            self._remove_unused()
        except EndedError as ended:
            outcome = ended.outcome
        return result, outcome

    @abstractmethod
    def _empty_result(self) -> ResultT:
        """The result before anything was measured."""

    @abstractmethod
    def _find(self, usual: Mapping[Place, Explanation], target: TargetT) -> None:
        """Searches. ``usual``: what the library runs by itself."""

    @abstractmethod
    def _prove(self) -> None:
        """Proves what was found, and writes the artifacts."""

    @abstractmethod
    def _remove_unused(self) -> None:
        """Removes the files of the search, if none of them explains the result."""

    def _places(self) -> dict[Place, Case]:
        """The cases of the proof."""
        return {
            (operation, case.size_bytes): case
            for operation, cases in self._tune.proof_cases.items()
            for case in cases
        }

    def _observed(self, variant: Variant) -> dict[Place, Explanation]:
        """What the library runs with a variant at every size of the proof."""
        trials = {Trial(variant, 0, case, PROOF): at for at, case in self._places().items()}
        found = self._measuring.observe(list(trials))
        return {trials[trial]: explanation for trial, explanation in found.items()}

    def _searched(
        self,
        searches: Mapping[Key, Generator[Batch, Times | None, FoundT]],
        trial_of: Callable[[Key, Cell], Trial | None],
    ) -> dict[Key, FoundT]:
        """Runs searches in step: the processes of each round measure the cells of all.

        ``trial_of``: of a cell, None if it counts as failed without being measured.
        """
        batches: dict[Key, Batch] = {}
        found: dict[Key, FoundT] = {}

        def send(key: Key, times: Times | None) -> None:
            try:
                batches[key] = searches[key].send(times)
            except StopIteration as end:
                found[key] = end.value
                batches.pop(key, None)

        for key in searches:
            send(key, None)
        while batches:
            asked = {
                key: {cell: trial_of(key, cell) for cell in batch.cells}
                for key, batch in batches.items()
            }
            trials = [one for own in asked.values() for one in own.values() if one is not None]
            if self._number and self._budget.ends_search(trials):
                return found | {key: ended(searches[key]) for key in batches}
            times = self._measuring.measure(trials)
            for key, own in asked.items():
                send(
                    key,
                    {cell: None if one is None else times.get(one) for cell, one in own.items()},
                )
            self._number += 1
            self._say(
                f"search: round {self._number}, "
                f"{self._budget.elapsed_s:.0f} s, {self._measuring.number} trials"
            )
        return found

    def _comments(self, words: Sequence[str]) -> list[str]:
        """The comments of an artifact: what it is for, and for which data it was proven."""
        first = next(iter(self._tune.cases.values()))[0]
        reduction = f" {first.reduction}" if first.reduction else ""
        return [*words, f"proven for {first.dtype}{reduction} {first.placement}"]


class RulesTuning(_Tuning[Target, RulesResult]):
    """Tuning by operation and size."""

    _target: Target
    _candidates: dict[str, Candidates]
    _variants: dict[Choice, Variant]
    _found: dict[str, Found]

    def _empty_result(self) -> RulesResult:
        tune = self._tune
        operations = [
            OperationResult(cases[0], largest_loss=tune.largest_loss)
            for cases in tune.cases.values()
        ]
        return RulesResult(tune.proof_rounds, operations=operations)

    def _find(self, usual: Mapping[Place, Explanation], target: Target) -> None:
        self._target, self._candidates, self._variants = target, {}, {}
        searches = {}
        for one in self._result.operations:
            name = one.operation
            one.usual = {size: ran for (own, size), ran in usual.items() if own == name}
            self._candidates[name] = candidates = target.candidates(name)
            one.choices = dict(candidates.choices)
            if one.choices:
                sizes = len(self._tune.cases[name])
                searches[name] = search(candidates.space, candidates.first, sizes)
        by_name = {one.operation: one for one in self._result.operations}

        def trial_of(operation: str, cell: Cell) -> Trial | None:
            hopeless = self._is_hopeless(by_name[operation], cell)
            return None if hopeless else self._trial(operation, cell)

        self._found = self._searched(searches, trial_of)
        for name, found in self._found.items():
            by_name[name].is_search_complete = found.complete
        self._settle_boundaries(self._result.operations)

    def _prove(self) -> None:
        results = self._result.operations
        plans = [self._plan(one) for one in results]
        if not any(plan.rules for plan in plans):
            return
        proving = Proving(
            self._measuring,
            self._target,
            self._tune.proof_cases,
            {one.operation: self._narrow_rules(one) for one in results},
            self._tune.proof_rounds,
            self._tune.directory / _CANDIDATES,
            self._say,
        )
        proven = proving.run(results, plans)
        self._result.withheld = proving.withheld
        if any(plan.rules for plan in proven):
            self._deploy(proven)

    def _remove_unused(self) -> None:
        """See _Tuning. If nothing beats the default, the command can be repeated."""
        if not any(
            one.failed or (one.proof and one.proof.proven) for one in self._result.operations
        ):
            shutil.rmtree(self._tune.directory / _CANDIDATES, ignore_errors=True)
            remove_if_empty(self._tune.directory)

    def _is_hopeless(self, one: OperationResult, cell: Cell) -> bool:
        """Whether the library predicts a much longer time than for its own choice."""
        number, size = cell
        choice = one.choices.get(number)
        case = self._tune.cases[one.operation][size]
        usual = one.usual.get(case.size_bytes)
        if choice is None or usual is None or not usual.predicted_s:
            return False
        predicted_s = usual.predicted_s.get(f"{choice.algorithm} {choice.protocol}".upper(), 0.0)
        return predicted_s > _HOPELESS * min(usual.predicted_s.values())

    def _settle_boundaries(self, results: Sequence[OperationResult]) -> None:
        """Creates the rules of all sizes of the proof.

        The search measured every second one. Between two sizes with different choices, both compete
        with the default.
        """
        tune = self._tune
        plans = {
            one.operation: (
                one,
                _boundaries(found, tune.cases[one.operation], tune.proof_cases[one.operation]),
            )
            for one in results
            if (found := self._found.get(one.operation)) is not None
        }
        times: dict[Trial, float | None] = {}
        trials_of: dict[tuple[str, int, int], list[Trial]] = {}
        for operation, (_, boundaries) in plans.items():
            for case in tune.proof_cases[operation]:
                low, high = boundaries[case.size_bytes]
                for number in {low, high, DEFAULT_NUMBER} if low != high else ():
                    trials_of[operation, case.size_bytes, number] = [
                        Trial(self._variant(operation, number), self._number + each, case, SEARCH)
                        for each in range(_BOUNDARY_ROUNDS)
                    ]
        for each in range(_BOUNDARY_ROUNDS):
            times.update(self._measuring.measure([own[each] for own in trials_of.values()]))
        for operation, (one, boundaries) in plans.items():
            assigned: dict[int, int] = {}
            for case in tune.proof_cases[operation]:
                size = case.size_bytes
                low, high = boundaries[size]
                assigned[size] = low
                if low != high:
                    medians = {
                        number: _median_s(
                            [times[own] for own in trials_of[operation, size, number]]
                        )
                        for number in (DEFAULT_NUMBER, low, high)
                    }
                    assigned[size] = min(medians, key=lambda number: medians[number])
            one.rules = joined_rules(assigned)

    def _trial(self, operation: str, cell: Cell) -> Trial:
        number, size = cell
        return Trial(
            self._variant(operation, number),
            self._number,
            self._tune.cases[operation][size],
            SEARCH,
        )

    def _variant(self, operation: str, number: int) -> Variant:
        """The variant that measures a choice. Its files are written when it is first needed."""
        if number in (DEFAULT_NUMBER, CONTROL_NUMBER):
            return DEFAULT if number == DEFAULT_NUMBER else CONTROL
        choice = self._candidates[operation].choices[number]
        if choice not in self._variants:
            self._variants[choice] = self._variant_of(choice)
        return self._variants[choice]

    def _variant_of(self, choice: Choice) -> Variant:
        if choice.program_changes:
            return Variant(choice.program_changes)
        directory = self._tune.directory / _CANDIDATES
        artifact = self._target.candidate(choice, list(self._tune.cases), directory)
        write_files(directory, artifact.files)
        return Variant(artifact.assignments)

    def _plan(self, one: OperationResult) -> OperationPlan:
        """What is to run for an operation, by the search."""
        sizes = [case.size_bytes for case in self._tune.proof_cases[one.operation]]
        usual = {
            size: choice
            for size, explanation in one.usual.items()
            if (choice := _choice_of(explanation)) is not None
        }
        return OperationPlan(one.operation, sizes, usual, one.rules, one.choices)

    def _narrow_rules(self, one: OperationResult) -> list[Rule]:
        """The rules of the search without choices that require the target's wide settings."""
        found = self._found.get(one.operation)
        if found is None:
            return []
        wide = {number for number, choice in one.choices.items() if self._target.is_wide(choice)}
        scores = [
            {number: score for number, score in own.items() if number not in wide}
            for own in found.scores
        ]
        sizes = [case.size_bytes for case in self._tune.cases[one.operation]]
        return rules_of(replace(found, scores=scores), sizes)

    def _deploy(self, plans: Sequence[OperationPlan]) -> None:
        """Writes the artifacts of the proven rules. Raises UsageError, OutputError."""
        result, directory = self._result, self._tune.directory
        comments = self._comments([self._target.words])
        artifact = self._target.deployment(plans, directory, comments)
        result.variables, result.options = dict(artifact.process), dict(artifact.options)
        result.files = [*map(str, write_files(directory, artifact.files))]
        if result.variables:
            needed = [
                f"requires the option {name}={value} of the communicator (see cclmark report)"
                for name, value in result.options.items()
            ]
            text = shell_text(result.variables, comments=[*comments, *needed])
            result.files[:0] = map(str, write_files(directory, {ENVIRONMENT_FILE: text}))


def _boundaries(
    found: Found, cases: Sequence[Case], proof_cases: Sequence[Case]
) -> dict[int, tuple[int, int]]:
    """The choices of the nearest measured sizes below and above, by size in bytes.

    For a measured size both are its own. Sizes between them are those at which they compete.
    """
    sizes = [case.size_bytes for case in cases]
    rules = rules_of(found, sizes)

    def choice_at(size: int) -> int:
        return next((rule.variant for rule in rules if rule.covers(size)), DEFAULT_NUMBER)

    around: dict[int, tuple[int, int]] = {}
    for size in (case.size_bytes for case in proof_cases):
        below = max((known for known in sizes if known <= size), default=size)
        above = min((known for known in sizes if known >= size), default=size)
        around[size] = (choice_at(below), choice_at(above))
    return around


def _median_s(times_s: Sequence[float | None]) -> float:
    """The median of times; infinite if one is missing."""
    known = [one for one in times_s if one is not None]
    return median(known) if len(known) == len(times_s) else math.inf


def _choice_of(explanation: Explanation) -> Choice | None:
    """The cell of the library's table that ran, None if it is none."""
    algorithm, protocol = explanation.algorithm.lower(), explanation.protocol.lower()
    if not algorithm or not protocol or "," in algorithm or "," in protocol:
        return None
    return Choice(algorithm, protocol, explanation.channels)


class EnvironmentTuning(_Tuning[EnvironmentTarget, EnvironmentResult]):
    """Tuning of one environment for all operations and sizes."""

    _target: EnvironmentTarget

    def _empty_result(self) -> EnvironmentResult:
        cases = [cases[0] for cases in self._tune.cases.values()]
        return EnvironmentResult(self._tune.proof_rounds, cases=cases)

    def _find(self, usual: Mapping[Place, Explanation], target: EnvironmentTarget) -> None:
        result, space = self._result, target.candidates.space
        self._target, result.usual = target, [*usual.items()]
        settings = [find_setting(self._ccl, axis.name) for axis in space.axes]
        result.tried = {one.name: _remark(one) for one in settings if one is not None}
        result.refused, result.replaced = target.candidates.refused, target.replaced
        cases = [case for own in self._tune.cases.values() for case in own]
        process = EnvironmentSearch(space, len(cases))

        def trial_of(_: None, cell: Cell) -> Trial:
            number, at = cell
            variant = DEFAULT if number == DEFAULT_NUMBER else CONTROL
            if number not in (DEFAULT_NUMBER, CONTROL_NUMBER):
                variant = self._variant(space.variables(process.combination(number)))
            return Trial(variant, self._number, cases[at], SEARCH)

        found = self._searched({None: process.run()}, trial_of)[None]
        result.combinations, result.harmful = found.tried, len(found.harmful)
        result.is_search_complete = found.complete
        result.variables = space.variables(found.best)
        result.failures = [in_words(space.variables(one)) for one in found.failed]

    @property
    def _ccl(self) -> str:
        return self._result.cases[0].ccl

    def _variant(self, variables: Mapping[str, str], *, deployed: bool = False) -> Variant:
        """The variant with these variables; ``deployed``: set before the processes start."""

        def scope_of(name: str) -> str:
            new = deployed or requires_new_processes(self._ccl, name)
            return PROCESS if new else COMMUNICATOR

        return Variant(
            tuple(Assignment(name, value, scope_of(name)) for name, value in variables.items())
        )

    def _prove(self) -> None:
        result = self._result
        if not result.variables:
            return
        tuned = self._variant(result.variables, deployed=True)

        def trials_of_round(number: int) -> dict[Place, Trials]:
            return {at: trials_of(tuned, number, case) for at, case in self._places().items()}

        number = self._tune.proof_rounds
        rounds = measured_rounds(self._measuring, trials_of_round, number, self._say)
        result.proof = prove_environment(by_one_clock(rounds), calls_of(rounds))
        if result.proof.is_proven:
            result.tuned = [*self._observed(tuned).items()]
            text = shell_text(result.variables, comments=self._comments(self._target.comments))
            files = write_files(self._tune.directory, {ENVIRONMENT_FILE: text})
            result.files = [*map(str, files)]

    def _remove_unused(self) -> None:
        if not self._result.files:
            remove_if_empty(self._tune.directory)


def _remark(setting: LibrarySetting) -> str:
    """The default of a setting, and what it costs."""
    costs = f"; costs {', '.join(setting.costs)}" if setting.costs else ""
    return f"default {setting.default or 'not known'}{costs}"


# Of the slow-down of a matrix product beside the tuned collectives.
_COST_ROUNDS = 4
_LINES_OF_REASON = 2  # of a failure: which rank, and its error
_MATRIX_TYPE = "bfloat16"
_COST_JOURNAL = "sm-cost"


def largest_tuned(one: OperationResult, cases: Sequence[Case]) -> Case | None:
    """The largest of the cases to which a proven rule applies; None without one."""
    proven = () if one.proof is None else one.proof.proven
    covered = [case for case in cases if any(each.rule.covers(case.size_bytes) for each in proven)]
    return max(covered, key=lambda case: case.size_bytes, default=None)


def deployed_variant(result: RulesResult, one: OperationResult, case: Case) -> Variant:
    """The variant that runs a case of an operation as a user would, with the artifacts."""
    variables = [Assignment(*pair, PROCESS) for pair in result.variables.items()]
    variables += assigned_options(result.options)
    for each in () if one.proof is None else one.proof.proven:
        changes = one.choices[each.rule.variant].program_changes
        if changes and each.rule.covers(case.size_bytes):
            variables += changes
            break
    return Variant(tuple(variables))


def measure_beside(
    request: Request,
    pairs: Sequence[tuple[Variant, Case]],
    compute: Compute,
    rounds: int,
    journal: Path,
) -> tuple[list[OverlapSummary], Outcome]:
    """Returns the slow-downs of a compute and of each pair's case with its variant.

    ``request``: the devices and settings. Nothing is printed; the results are in the new file
    ``journal``. Raises UsageError if it cannot be created.
    """
    planned = overlaps_of_pairs(pairs, rounds, compute)
    own = replace(request, kind=OVERLAP, planned=planned, pending=(), warnings=())
    recorded = record(own, journal=journal)
    results = (one for one in recorded.results if isinstance(one, OverlapResult))
    return summaries_of(results), recorded.outcome


def measure_sm_cost(
    request: Request,
    cases: Mapping[str, Sequence[Case]],
    result: RulesResult,
    directory: Path,
    rows: int,
) -> SmCost:
    """Measures the largest case with a proven rule of each operation, by default and as deployed.

    ``cases``: of the proof, by operation. ``rows``: of the matrices. The journal of the measurement
    is written to ``directory``. Raises UsageError if it cannot be created.
    """
    chosen = {
        one.operation: (one, case)
        for one in result.operations
        if (case := largest_tuned(one, cases[one.operation])) is not None
    }
    deployed = {
        operation: deployed_variant(result, one, case) for operation, (one, case) in chosen.items()
    }
    journal = unused(directory, _COST_JOURNAL)
    summaries, outcome = measure_beside(
        request,
        [
            pair
            for name, (_, case) in chosen.items()
            for pair in dict.fromkeys([(DEFAULT, case), (deployed[name], case)])
        ],
        Compute(MATMUL, _MATRIX_TYPE, rows),
        _COST_ROUNDS,
        journal,
    )
    found = {(one.case.operation, one.variant): one for one in summaries}
    costs = [
        CaseCost(case, found.get((name, DEFAULT)), found.get((name, deployed[name])))
        for name, (_, case) in chosen.items()
    ]
    lines = [line.strip() for line in outcome.message.splitlines()]
    reason = "" if outcome.exit_code == EXIT_OK else ": ".join(lines[:_LINES_OF_REASON])
    return SmCost(costs, str(journal), reason)
