"""Tunes a library: searches, deploys the found settings as a user would, and proves them."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from cclmark.analysis.paired import CONTROL as CONTROL_NUMBER
from cclmark.analysis.paired import DEFAULT as DEFAULT_NUMBER
from cclmark.analysis.paired import Times
from cclmark.analysis.statistics import median
from cclmark.errors import EXIT_OK, UsageError
from cclmark.kinds.experiment.plan import PROOF, SEARCH, Trial
from cclmark.kinds.tune.choices import Candidates, Choice, OperationPlan
from cclmark.kinds.tune.environment_file import shell_text
from cclmark.kinds.tune.rules import LARGEST_LOSS, Rule, joined_rules, rules_of
from cclmark.kinds.tune.search import Batch, Found, search
from cclmark.kinds.tune.target import Target
from cclmark.kinds.tune.tune_result import OperationResult, TuneResult
from cclmark.launch.request import Outcome, Request
from cclmark.plan.cases import Case
from cclmark.plan.variants import (
    CONTROL,
    DEFAULT,
    Variant,
)
from cclmark.recording.artifact_files import remove_if_empty, write_files
from cclmark.recording.trial_measuring import EndedError, Measuring
from cclmark.recording.tune_budget import Budget
from cclmark.recording.tune_proof import Proving
from cclmark.results.schema import Explanation

ENVIRONMENT_FILE = "environment.sh"
_CANDIDATES = "candidates"
_PROBE = ".writable"
# Predictions were off by up to 44 % on 2 × H100: what is predicted to take so many times as long is
# not measured.
_HOPELESS = 2.5
_BOUNDARY_ROUNDS = 3


TargetT = TypeVar("TargetT")


@dataclass(frozen=True)
class TuneRequest(Generic[TargetT]):
    """What to tune.

    ``request``: the devices and settings of the run. ``cases``: those of the search, for each
    operation by size; ``proof_cases`` also contain sizes between them. ``target``: returns the
    target, once the library has been observed. ``directory``: of the artifacts. ``budget_s``: for
    search and proof. ``proof_rounds``: at least seven. ``largest_loss``: see OperationResult.
    """

    request: Request
    cases: Mapping[str, Sequence[Case]]
    proof_cases: Mapping[str, Sequence[Case]]
    target: Callable[[Measuring], TargetT]
    directory: Path
    budget_s: float
    proof_rounds: int
    largest_loss: float = LARGEST_LOSS


class Tuning:
    """One tuning run."""

    def __init__(
        self, tune: TuneRequest[Target], measuring: Measuring, say: Callable[[str], None]
    ) -> None:
        """``say`` receives the progress."""
        self._tune = tune
        self._say = say
        self._measuring = measuring
        self._target: Target | None = None
        proof_cases = [case for cases in tune.proof_cases.values() for case in cases]
        self._budget = Budget(measuring, tune.budget_s, proof_cases, tune.proof_rounds)
        self._number = 0
        self._candidates: dict[str, Candidates] = {}
        self._variants: dict[Choice, Variant] = {}

    def run(self) -> tuple[TuneResult, Outcome]:
        """Searches and proves. The outcome is a failure of the default, or an interruption."""
        tune = self._tune
        results = [
            OperationResult(cases[0], largest_loss=tune.largest_loss)
            for cases in tune.cases.values()
        ]
        result = TuneResult(results, proof_rounds=tune.proof_rounds)
        outcome = Outcome(EXIT_OK)
        try:
            self._observe_usual(results)
            self._target = tune.target(self._measuring)
            for one in results:
                self._candidates[one.operation] = self._target.candidates(one.operation)
                one.choices = self._candidates[one.operation].choices
            self._search(results)
            self._settle_boundaries(results)
            result.search_s = self._budget.elapsed_s
            result.search_end = self._budget.end_reason
            plans = [self._plan(one) for one in results]
            if any(plan.rules for plan in plans):
                proving = self._proving(results)
                proven = proving.run(results, plans)
                result.withheld = proving.withheld
                result.proof_s = self._budget.elapsed_s - result.search_s
                if any(plan.rules for plan in proven):
                    self._deploy(result, proven)
            result.is_complete = True
            if not any(one.failed or (one.proof and one.proof.proven) for one in results):
                self._discard_candidates()
        except EndedError as ended:
            outcome = ended.outcome
        result.trials = self._measuring.number
        return result, outcome

    def _discard_candidates(self) -> None:
        """Removes the files of the search, and the directory if nothing else is in it.

        Nothing beats the default: no file explains the result, and the command can be repeated.
        """
        shutil.rmtree(self._tune.directory / _CANDIDATES, ignore_errors=True)
        remove_if_empty(self._tune.directory)

    def _search(self, results: Sequence[OperationResult]) -> None:
        """Searches all operations in step: each round's processes measure the cells of all."""
        tune = self._tune
        running: dict[str, _Running] = {}
        for one in results:
            candidates = self._candidates[one.operation]
            if not candidates.choices:
                continue
            process = search(candidates.space, candidates.first, len(tune.cases[one.operation]))
            running[one.operation] = _Running(one, process, next(process))
        while running:
            asked = {
                operation: {
                    cell: self._trial(operation, cell)
                    for cell in state.batch.cells
                    if not self._is_hopeless(state, cell)
                }
                for operation, state in running.items()
            }
            trials_of_round = [one for own in asked.values() for one in own.values()]
            if self._number and self._budget.ends_search(trials_of_round):
                for state in running.values():
                    state.result.found = _ended(state.process)
                return
            times = self._measuring.measure(trials_of_round)
            for operation, state in list(running.items()):
                trials = asked[operation]
                own = {
                    cell: times.get(trials[cell]) if cell in trials else None
                    for cell in state.batch.cells
                }
                try:
                    state.batch = state.process.send(own)
                except StopIteration as end:
                    state.result.found = end.value
                    del running[operation]
            self._number += 1
            self._say(
                f"search: round {self._number}, "
                f"{self._budget.elapsed_s:.0f} s, {self._measuring.number} trials"
            )

    def _is_hopeless(self, state: _Running, cell: tuple[int, int]) -> bool:
        """Whether the library predicts a much longer time than for its own choice."""
        number, size = cell
        choice = state.result.choices.get(number)
        case = self._tune.cases[state.result.operation][size]
        usual = state.result.usual.get(case.size_bytes)
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
                _boundaries(one, tune.cases[one.operation], tune.proof_cases[one.operation]),
            )
            for one in results
            if one.found is not None
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

    def _trial(self, operation: str, cell: tuple[int, int]) -> Trial:
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
        assert self._target is not None
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
        if one.found is None or self._target is None:
            return []
        wide = {number for number, choice in one.choices.items() if self._target.is_wide(choice)}
        scores = [
            {number: score for number, score in own.items() if number not in wide}
            for own in one.found.scores
        ]
        sizes = [case.size_bytes for case in self._tune.cases[one.operation]]
        return rules_of(replace(one.found, scores=scores), sizes)

    def _proving(self, results: Sequence[OperationResult]) -> Proving:
        tune = self._tune
        assert self._target is not None
        directory = tune.directory / _CANDIDATES
        return Proving(
            self._measuring,
            self._target,
            tune.proof_cases,
            {one.operation: self._narrow_rules(one) for one in results},
            tune.proof_rounds,
            directory,
            self._say,
        )

    def _deploy(self, result: TuneResult, plans: Sequence[OperationPlan]) -> None:
        """Writes the artifacts of the proven rules. Raises UsageError, OutputError."""
        assert self._target is not None
        directory, first = self._tune.directory, result.operations[0].case
        reduction = f" {first.reduction}" if first.reduction else ""
        comments = (
            self._target.words,
            f"proven for {first.dtype}{reduction} {first.placement}",
        )
        artifact = self._target.deployment(plans, directory, comments)
        result.variables, result.options = dict(artifact.process), dict(artifact.options)
        files = write_files(directory, artifact.files)
        if result.variables:
            needed = [
                f"requires the option {name}={value} of the communicator (see cclmark report)"
                for name, value in result.options.items()
            ]
            text = shell_text(result.variables, comments=[*comments, *needed])
            files = [*write_files(directory, {ENVIRONMENT_FILE: text}), *files]
        result.files = files

    def _observe_usual(self, results: Sequence[OperationResult]) -> None:
        """Observes what the library runs by itself at every size of the proof."""
        trials = [
            Trial(DEFAULT, 0, case, PROOF)
            for one in results
            for case in self._tune.proof_cases[one.operation]
        ]
        found = self._measuring.observe(trials)
        for one in results:
            one.usual = {
                trial.case.size_bytes: explanation
                for trial, explanation in found.items()
                if trial.case.operation == one.operation
            }


@dataclass
class _Running:
    """The search of one operation."""

    result: OperationResult
    process: Generator[Batch, Times | None, Found]
    batch: Batch


def _ended(process: Generator[Batch, Times | None, Found]) -> Found:
    """The result of a search whose deadline has passed."""
    try:
        process.send(None)
    except StopIteration as end:
        found: Found = end.value
        return found
    raise AssertionError("a search continues after its deadline")


def _boundaries(
    one: OperationResult, cases: Sequence[Case], proof_cases: Sequence[Case]
) -> dict[int, tuple[int, int]]:
    """The choices of the nearest measured sizes below and above, by size in bytes.

    For a measured size both are its own. Sizes between them are those at which they compete.
    """
    assert one.found is not None
    sizes = [case.size_bytes for case in cases]
    rules = rules_of(one.found, sizes)

    def choice_at(size: int) -> int:
        return next((rule.variant for rule in rules if rule.covers(size)), DEFAULT_NUMBER)

    found: dict[int, tuple[int, int]] = {}
    for size in (case.size_bytes for case in proof_cases):
        below = max((known for known in sizes if known <= size), default=size)
        above = min((known for known in sizes if known >= size), default=size)
        found[size] = (choice_at(below), choice_at(above))
    return found


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


def check_directory(directory: Path, *, resumes: bool) -> None:
    """Raises UsageError unless the directory is new or empty, or a run in it is resumed."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"-O {directory} is not a directory")
    if directory.is_dir() and any(directory.iterdir()) and not resumes:
        raise UsageError(
            f"-O {directory} is not empty: use a new directory, or --resume the journal of the run"
        )
    [probe] = write_files(directory, {_PROBE: ""})
    probe.unlink()
