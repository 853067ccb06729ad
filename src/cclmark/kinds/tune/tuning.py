"""Tunes a library: searches, deploys the found settings as a user would, and proves them."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from cclmark.analysis.paired import CONTROL as CONTROL_NUMBER
from cclmark.analysis.paired import DEFAULT as DEFAULT_NUMBER
from cclmark.analysis.paired import Batch, Times
from cclmark.analysis.statistics import median
from cclmark.errors import EXIT_OK, UsageError
from cclmark.kinds.experiment.measured_trials import EndedError, Measuring, TrialTimes
from cclmark.kinds.experiment.plan import PROOF, SEARCH, Trial
from cclmark.kinds.tune.choices import Candidates, Choice, OperationPlan
from cclmark.kinds.tune.environment_candidates import EnvironmentTarget
from cclmark.kinds.tune.environment_proof import EnvironmentResult, Place, prove_environment
from cclmark.kinds.tune.environment_search import EnvironmentFound, EnvironmentSearch, in_words
from cclmark.kinds.tune.rules import LARGEST_LOSS, Rule, joined_rules, rules_of
from cclmark.kinds.tune.search import Found, search
from cclmark.kinds.tune.target import Target
from cclmark.kinds.tune.tune_proof import (
    Proving,
    by_one_clock,
    calls_of,
    remove_if_empty,
    write_files,
)
from cclmark.kinds.tune.tune_result import OperationResult, TuneResult
from cclmark.launch.request import Outcome, Request
from cclmark.options.environment_file import shell_text
from cclmark.plan.cases import Case
from cclmark.plan.library_settings import find_setting, requires_new_processes
from cclmark.plan.variants import COMMUNICATOR, CONTROL, DEFAULT, PROCESS, Assignment, Variant
from cclmark.results.schema import Explanation

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


class EnvironmentRequest(TuneRequest[EnvironmentTarget]):
    """See TuneRequest."""


class EnvironmentTuning:
    """One tuning run. ``say`` receives the progress."""

    def __init__(
        self,
        tune: EnvironmentRequest,
        measuring: Measuring,
        say: Callable[[str], None],
    ) -> None:
        self._tune = tune
        self._measuring = measuring
        self._say = say
        self._budget = Budget(measuring, tune.budget_s, self._places().values(), tune.proof_rounds)

    def run(self) -> tuple[EnvironmentResult, Outcome]:
        """Searches and proves. The outcome is a failure of the default, or an interruption.

        Raises UsageError and OutputError for the files.
        """
        tune = self._tune
        result = EnvironmentResult(
            [cases[0] for cases in tune.cases.values()], proof_rounds=tune.proof_rounds
        )
        outcome = Outcome(EXIT_OK)
        try:
            result.usual = self._observed(DEFAULT)
            target = tune.target(self._measuring)
            axes = target.candidates.space.axes
            settings = [find_setting(self._ccl, axis.name) for axis in axes]
            result.tried = [one for one in settings if one is not None]
            result.refused = target.candidates.refused
            result.replaced = target.replaced
            self._search(target, result)
            result.search_s = self._budget.elapsed_s
            result.search_end = self._budget.end_reason
            if result.variables:
                self._prove(result)
                result.proof_s = self._budget.elapsed_s - result.search_s
                if result.proof is not None and result.proof.is_proven:
                    result.files = self._deployed(target, result.variables)
            result.is_complete = True
            if not result.files:
                remove_if_empty(tune.directory)
        except EndedError as ended:
            outcome = ended.outcome
        result.trials = self._measuring.number
        return result, outcome

    @property
    def _ccl(self) -> str:
        return next(iter(self._tune.cases.values()))[0].ccl

    def _search(self, target: EnvironmentTarget, result: EnvironmentResult) -> None:
        space = target.candidates.space
        cases = [case for own in self._tune.cases.values() for case in own]
        search = EnvironmentSearch(space, len(cases))
        process = search.run()
        times: Times | None = None
        number = 0

        def variant_of(variant: int) -> Variant:
            if variant in (DEFAULT_NUMBER, CONTROL_NUMBER):
                return DEFAULT if variant == DEFAULT_NUMBER else CONTROL
            return self._variant(space.variables(search.combination(variant)))

        while True:
            try:
                batch = process.send(times)
                trials = {
                    (variant, cell): Trial(variant_of(variant), number, cases[cell], SEARCH)
                    for variant, cell in batch.cells
                }
                if number and self._budget.ends_search(list(trials.values())):
                    process.send(None)
            except StopIteration as end:
                found: EnvironmentFound = end.value
                break
            measured = self._measuring.measure(list(trials.values()))
            times = {cell: measured.get(trial) for cell, trial in trials.items()}
            number += 1
            self._say(
                f"search: round {number}, {self._budget.elapsed_s:.0f} s, "
                f"{self._measuring.number} trials"
            )
        result.found = found
        result.variables = space.variables(found.best)
        result.failures = [in_words(space.variables(one)) for one in found.failed]

    def _variant(self, variables: Mapping[str, str], *, deployed: bool = False) -> Variant:
        """The variant with these variables; ``deployed``: set before the processes start."""

        def scope_of(name: str) -> str:
            new = deployed or requires_new_processes(self._ccl, name)
            return PROCESS if new else COMMUNICATOR

        return Variant(
            tuple(Assignment(name, value, scope_of(name)) for name, value in variables.items())
        )

    def _prove(self, result: EnvironmentResult) -> None:
        """Measures the environment in new processes next to the default, and judges it."""
        tuned = self._variant(result.variables, deployed=True)
        rounds: list[dict[Place, tuple[TrialTimes | None, ...]]] = []
        for number in range(self._tune.proof_rounds):
            trials = {
                place: [Trial(one, number, case, PROOF) for one in (DEFAULT, CONTROL, tuned)]
                for place, case in self._places().items()
            }
            self._measuring.measure([one for trio in trials.values() for one in trio])
            figures = {
                place: tuple(self._measuring.figures(one) for one in trio)
                for place, trio in trials.items()
            }
            rounds.append(figures)
            self._say(f"proof: round {number + 1} of {self._tune.proof_rounds}")
            if any(
                tuned_one is None and None not in others for *others, tuned_one in figures.values()
            ):
                break
        result.proof = prove_environment(by_one_clock(rounds), calls_of(rounds))
        if result.proof.is_proven:
            result.tuned = self._observed(tuned)

    def _places(self) -> dict[Place, Case]:
        return {
            (operation, case.size_bytes): case
            for operation, cases in self._tune.proof_cases.items()
            for case in cases
        }

    def _observed(self, variant: Variant) -> dict[Place, Explanation]:
        """What the library runs with a variant."""
        trials = {Trial(variant, 0, case, PROOF): at for at, case in self._places().items()}
        found = self._measuring.observe(list(trials))
        return {trials[trial]: explanation for trial, explanation in found.items()}

    def _deployed(self, target: EnvironmentTarget, variables: Mapping[str, str]) -> list[Path]:
        """Writes the file. Raises UsageError, OutputError."""
        first = next(iter(self._tune.cases.values()))[0]
        reduction = f" {first.reduction}" if first.reduction else ""
        comments = [*target.comments, f"proven for {first.dtype}{reduction} {first.placement}"]
        text = shell_text(variables, comments=comments)
        return write_files(self._tune.directory, {ENVIRONMENT_FILE: text})
