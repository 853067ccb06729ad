"""Tunes a library whose settings hold for a whole process: one environment for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from cclmark.analysis.paired import CONTROL as CONTROL_NUMBER
from cclmark.analysis.paired import DEFAULT as DEFAULT_NUMBER
from cclmark.analysis.paired import Times
from cclmark.errors import EXIT_OK
from cclmark.kinds.experiment.plan import PROOF, SEARCH, Trial
from cclmark.kinds.tune.environment_file import shell_text
from cclmark.kinds.tune.environment_proof import Place, prove_environment
from cclmark.kinds.tune.environment_result import EnvironmentResult
from cclmark.kinds.tune.environment_search import EnvironmentFound, EnvironmentSearch, in_words
from cclmark.kinds.tune.environment_target import EnvironmentTarget
from cclmark.launch.request import Outcome
from cclmark.plan.cases import Case
from cclmark.plan.library_settings import find_setting, requires_new_processes
from cclmark.plan.variants import COMMUNICATOR, CONTROL, DEFAULT, PROCESS, Assignment, Variant
from cclmark.recording.artifact_files import remove_if_empty, write_files
from cclmark.recording.trial_measuring import EndedError, Measuring, TrialTimes
from cclmark.recording.tune_budget import Budget
from cclmark.recording.tune_proof import by_one_clock, calls_of
from cclmark.recording.tuning import ENVIRONMENT_FILE, TuneRequest
from cclmark.results.schema import Explanation


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
