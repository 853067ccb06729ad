"""The proof of a tuning run: the found settings, deployed as in use, next to the default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cclmark.analysis.paired import DEFAULT as DEFAULT_NUMBER
from cclmark.journal.schema import Explanation
from cclmark.kinds.experiment.measured_trials import Measuring, TrialTimes
from cclmark.kinds.experiment.plan import PROOF, Trial
from cclmark.kinds.tune.figures import Trio, change, is_failure, joint_ratio, prove, ratios_of
from cclmark.kinds.tune.plan import Choice, OperationPlan, Target
from cclmark.kinds.tune.result import FALSE_SHARE, Dropped, OperationResult, Place, Proof
from cclmark.kinds.tune.search import Rule, joined_rules
from cclmark.recording.output import write_files
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size
from cclmark.work.variants import CONTROL, DEFAULT, Assignment, Variant

_MOST_PROOFS = 4  # of what is left of the rules

# The trials of the default, of the control and of the artifact, and their times.
Trials = tuple[Trial, Trial, Trial]
Times = tuple[TrialTimes | None, ...]


@dataclass(frozen=True)
class _Round:
    """One round of a proof.

    ``settings``: those deployed, without the place of the files. ``choices``: the number of the
    choice at each place, the default's where no rule applies. ``figures``: by place.
    """

    settings: Sequence[tuple[str, str]]
    choices: Mapping[Place, int]
    figures: Mapping[Place, Times]


@dataclass(eq=False)
class Proving:
    """Proves plans until the deployed plan equals the measured one.

    ``_cases``: by operation, of all sizes. ``_narrow_rules``: by operation, the rules of the search
    without wide choices. ``_directory``: of the files to prove. ``withheld``: the reason why rules
    that were proven are not deployed, empty if there is none.
    """

    _measuring: Measuring
    _target: Target
    _cases: Mapping[str, Sequence[Case]]
    _narrow_rules: Mapping[str, Sequence[Rule]]
    _rounds: int
    _directory: Path
    _say: Callable[[str], None]
    withheld: str = ""
    _number: int = 0
    _done: list[_Round] = field(default_factory=list)

    def run(
        self, results: Sequence[OperationResult], plans: Sequence[OperationPlan]
    ) -> list[OperationPlan]:
        """Returns the plans with the rules that are proven together; without rules if none are.

        All rules share files and variables. So if a rule is dropped, the sizes that it applied to
        are measured with the others' files too. The rounds before count for a size as long as
        neither its choice nor a variable has changed; a size with enough of them is not measured
        again.
        If a size without a rule is slower, the rules whose variables may be the cause are dropped,
        and at their sizes the best choices that do not require these variables are proven instead.
        Raises EndedError, UsageError, OutputError.
        """
        left = list(plans)
        for attempt in range(_MOST_PROOFS):
            if not any(plan.rules for plan in left):
                break
            settings = self._prove(results, left, attempt)
            if any(one.failed for one in results):
                break
            kept = _proven(results, left)
            if any(one.harmed for one in results):
                narrower = self._without_wide(results, left, kept)
                if narrower is None:
                    break
                left = narrower
                continue
            if all(list(a.rules) == list(b.rules) for a, b in zip(kept, left, strict=True)):
                return kept
            last = attempt == _MOST_PROOFS - 1
            if last and self._settings(kept, attempt + 1) == settings:
                for one, before, after in zip(results, left, kept, strict=True):
                    one.unmeasured = _no_longer_covered(before, after)
                return kept
            left = kept
        else:
            if any(plan.rules for plan in left):
                self.withheld = (
                    f"no files are written: {_MOST_PROOFS} proofs each dropped rules, and the "
                    "remaining rules were not measured together. Run tune again"
                )
        return [replace(plan, rules=()) for plan in plans]

    def _without_wide(
        self,
        results: Sequence[OperationResult],
        deployed: Sequence[OperationPlan],
        proven: Sequence[OperationPlan],
    ) -> list[OperationPlan] | None:
        """Drops the rules whose variables also change sizes without a rule, some of which lose.

        Returns the proven plans with narrow rules at the sizes of all rules that were deployed with
        these variables, proven or not; None if there were no such rules. Measurements with these
        variables are no longer valid.
        """
        wide = [self._wide_rules(plan) for plan in deployed]
        if not any(wide):
            return None
        reason = _reason_of_harm(results, self._target.wide_settings)
        for one, plan in zip(results, proven, strict=True):
            if one.proof is not None:
                rules = self._wide_rules(plan)
                lost = [each for each in one.proof.proven if each.rule in rules]
                dropped = [Dropped(each.rule, reason, each.estimate) for each in lost]
                one.proof = replace(
                    one.proof,
                    proven=[each for each in one.proof.proven if each not in lost],
                    dropped=[*one.proof.dropped, *dropped],
                )
            one.outside, one.calls_outside, one.calls_beside = {}, None, {}
        return [
            _replaced(plan, rules, self._narrow_rules.get(plan.operation, ()))
            for plan, rules in zip(proven, wide, strict=True)
        ]

    def _wide_rules(self, plan: OperationPlan) -> list[Rule]:
        """The rules that require the target's wide settings."""
        return [rule for rule in plan.rules if self._target.is_wide(plan.choices[rule.variant])]

    def _prove(
        self, results: Sequence[OperationResult], plans: Sequence[OperationPlan], attempt: int
    ) -> Sequence[tuple[str, str]]:
        """Measures the rounds of a proof and judges. Returns the settings that were deployed."""
        tuned = self._deployed(plans, attempt)
        settings = _without_place(tuned, self._place(attempt))
        choices = {
            (plan.operation, case.size_bytes): _choice_at(plan, case.size_bytes)
            for plan in plans
            for case in self._cases[plan.operation]
        }
        known = self._known(settings, choices)

        def trials_of_round(number: int) -> dict[Place, Trials]:
            trials = self._trials(plans, tuned, self._number + number)
            return {place: trio for place, trio in trials.items() if place not in known}

        measured = measured_rounds(self._measuring, trials_of_round, self._rounds, self._say)
        self._number += len(measured)
        self._done += [_Round(settings, choices, figures) for figures in measured]
        comparable = [_comparable(one, settings, choices) for one in self._done]
        rounds, calls = by_one_clock(comparable), calls_of(comparable)
        share = FALSE_SHARE / max(1, sum(bool(plan.rules) for plan in plans))
        for one, plan in zip(results, plans, strict=True):
            own, own_calls = _of_operation(rounds, one), _of_operation(calls, one)
            one.failed = _failed(own)
            before = one.proof.dropped if one.proof is not None else ()
            one.proof = prove(plan.rules, own, ratios_of(own_calls), share) if plan.rules else None
            if one.proof is not None or before:
                found = one.proof or Proof((), ())
                one.proof = replace(found, dropped=[*before, *found.dropped])
            one.outside = ratios_of(_without_rule(plan.rules, own))
            calls_without = _without_rule(plan.rules, own_calls)
            one.calls_outside = joint_ratio(calls_without)
            beside = _beside(plan)
            one.calls_beside = {
                size: ratio for size, ratio in ratios_of(calls_without).items() if size in beside
            }
            one.tuned = self._observed(plan, tuned)
            _drop_without_effect(one)
        return settings

    def _known(
        self, settings: Sequence[tuple[str, str]], choices: Mapping[Place, int]
    ) -> set[Place]:
        """The places with as many rounds as a proof has, in which the same was deployed as now."""
        rounds = Counter(
            place for one in self._done for place in _comparable(one, settings, choices)
        )
        return {place for place, number in rounds.items() if number >= self._rounds}

    def _place(self, attempt: int) -> Path:
        return self._directory / f"deployment-{attempt}"

    def _settings(self, plans: Sequence[OperationPlan], attempt: int) -> Sequence[tuple[str, str]]:
        """The settings that would deploy the plans."""
        place = self._place(attempt)
        return _without_place(self._target.deployment(plans, place).assignments, place)

    def _deployed(self, plans: Sequence[OperationPlan], attempt: int) -> tuple[Assignment, ...]:
        """Writes the files of the plans and returns the settings that deploy them."""
        directory = self._place(attempt)
        artifact = self._target.deployment(plans, directory)
        write_files(directory, artifact.files)
        return artifact.assignments

    def _trials(
        self, plans: Sequence[OperationPlan], tuned: tuple[Assignment, ...], number: int
    ) -> dict[Place, Trials]:
        """The trials of a round, of all operations: what is deployed may change them all."""
        trials: dict[Place, Trials] = {}
        for plan in plans:
            for case in self._cases[plan.operation]:
                variant = Variant((*tuned, *plan.program_changes(case.size_bytes)))
                if not variant.is_default:
                    trials[plan.operation, case.size_bytes] = trials_of(variant, number, case)
        return trials

    def _observed(
        self, plan: OperationPlan, tuned: tuple[Assignment, ...]
    ) -> dict[int, Explanation]:
        """What the library runs with the artifact, by size."""
        trials = [
            Trial(Variant(tuned), 0, case, PROOF)
            for case in self._cases[plan.operation]
            if tuned and not plan.program_changes(case.size_bytes)
        ]
        found = self._measuring.observe(trials) if trials else {}
        return {trial.case.size_bytes: one for trial, one in found.items()}


def trials_of(variant: Variant, number: int, case: Case) -> Trials:
    """The trials of a case in a round of a proof."""
    default, control, tuned = (
        Trial(one, number, case, PROOF) for one in (DEFAULT, CONTROL, variant)
    )
    return default, control, tuned


def measured_rounds(
    measuring: Measuring,
    trials_of_round: Callable[[int], Mapping[Place, Trials]],
    rounds: int,
    say: Callable[[str], None],
) -> list[dict[Place, Times]]:
    """Measures the rounds of a proof, each in fresh processes, and returns the times by place.

    Ends early if the artifact fails, or without trials.
    """
    found: list[dict[Place, Times]] = []
    for number in range(rounds):
        trials = trials_of_round(number)
        if not trials:
            break
        measuring.measure([one for trio in trials.values() for one in trio])
        found.append({place: tuple(map(measuring.figures, trio)) for place, trio in trials.items()})
        say(f"proof: round {number + 1} of {rounds}")
        if any(_is_failure(trio) for trio in found[-1].values()):
            break
    return found


def _proven(
    results: Sequence[OperationResult], plans: Sequence[OperationPlan]
) -> list[OperationPlan]:
    """The plans with their proven rules alone."""
    return [
        replace(plan, rules=one.proof.rules if one.proof is not None else ())
        for one, plan in zip(results, plans, strict=True)
    ]


def _replaced(
    plan: OperationPlan, dropped: Sequence[Rule], others: Sequence[Rule]
) -> OperationPlan:
    """The plan with other rules, where they apply, at the sizes of those that are dropped."""
    assigned = {}
    for size in plan.sizes_bytes:
        rules = others if any(rule.covers(size) for rule in dropped) else plan.rules
        assigned[size] = next((one.variant for one in rules if one.covers(size)), DEFAULT_NUMBER)
    return replace(plan, rules=joined_rules(assigned))


def _beside(plan: OperationPlan) -> set[int]:
    """The measured sizes next to a rule that have none."""
    covered = [any(rule.covers(size) for rule in plan.rules) for size in plan.sizes_bytes]
    return {
        size
        for place, size in enumerate(plan.sizes_bytes)
        if not covered[place] and any(covered[max(0, place - 1) : place + 2])
    }


def _reason_of_harm(results: Sequence[OperationResult], settings: Mapping[str, str]) -> str:
    """The reason why rules that require settings are dropped."""
    names = " ".join(f"{name}={value}" for name, value in settings.items())
    ratios = {
        f"{one.operation} of {format_size(size)}": ratio
        for one in results
        for size, ratio in one.harmed.items()
    }
    worst = max(ratios, key=lambda where: ratios[where].ratio)
    more = f" (the worst of {len(ratios)} sizes)" if len(ratios) > 1 else ""
    return (
        f"requires {names}, with which {worst}{more}, without a rule, takes more time: "
        f"{change(ratios[worst])}; --allow-loss permits it"
    )


def _choice_at(plan: OperationPlan, size_bytes: int) -> int:
    """The number of the choice of the rule that applies, the default's if none does."""
    return next((one.variant for one in plan.rules if one.covers(size_bytes)), DEFAULT_NUMBER)


def _without_place(assignments: Sequence[Assignment], place: Path) -> Sequence[tuple[str, str]]:
    """Names and values, without the directory of the files, which differs between proofs."""
    return [(one.name, one.value.replace(str(place), "")) for one in assignments]


def _comparable(
    one: _Round, settings: Sequence[tuple[str, str]], choices: Mapping[Place, int]
) -> dict[Place, Times]:
    """The times of a round at the places where the same was deployed as now."""
    if one.settings != settings:
        return {}
    return {
        place: times
        for place, times in one.figures.items()
        if one.choices[place] == choices.get(place)
    }


def _no_longer_covered(before: OperationPlan, after: OperationPlan) -> list[int]:
    """The sizes whose rule was dropped."""
    return [
        size
        for size in before.sizes_bytes
        if _choice_at(before, size) != DEFAULT_NUMBER and _choice_at(after, size) == DEFAULT_NUMBER
    ]


def _is_failure(trio: Times) -> bool:
    """Whether the artifact failed where the default did not."""
    usual, control, tuned = trio
    return tuned is None and usual is not None and control is not None


def by_one_clock(rounds: Sequence[Mapping[Place, Times]]) -> list[dict[Place, Trio]]:
    """The times of each place by the same clock in all rounds.

    Device times, if all of them are known: where only some are, a replayed time would be compared
    with the cost of a call.
    """
    of_device = _of_device(rounds)
    return [
        {
            place: Trio(
                *(
                    None if one is None else one.device_s if place in of_device else one.call_s
                    for one in times
                )
            )
            for place, times in each.items()
        }
        for each in rounds
    ]


def calls_of(rounds: Sequence[Mapping[Place, Times]]) -> list[dict[Place, Trio]]:
    """The costs of a call at the places that are judged by device times."""
    of_device = _of_device(rounds)
    return [
        {
            place: Trio(*(None if one is None else one.call_s for one in times))
            for place, times in each.items()
            if place in of_device
        }
        for each in rounds
    ]


def _of_device(rounds: Sequence[Mapping[Place, Times]]) -> set[Place]:
    """The places where the device times of all rounds are known."""
    unknown = {
        place
        for each in rounds
        for place, times in each.items()
        if any(one is not None and one.device_s is None for one in times)
    }
    return {place for each in rounds for place in each} - unknown


def _of_operation(
    rounds: Sequence[Mapping[Place, Trio]], result: OperationResult
) -> list[dict[int, Trio]]:
    return [
        {size: trio for (name, size), trio in each.items() if name == result.operation}
        for each in rounds
    ]


def _failed(rounds: Sequence[Mapping[int, Trio]]) -> list[int]:
    """The sizes at which the artifact failed and the default did not."""
    return sorted({size for each in rounds for size, trio in each.items() if is_failure(trio)})


def _without_rule(
    rules: Sequence[Rule], rounds: Sequence[Mapping[int, Trio]]
) -> list[dict[int, Trio]]:
    return [
        {size: trio for size, trio in each.items() if not any(rule.covers(size) for rule in rules)}
        for each in rounds
    ]


def _drop_without_effect(one: OperationResult) -> None:
    """Drops proven rules whose choice did not run at one of their sizes."""
    if one.proof is None:
        return
    lost = []
    for proven in one.proof.proven:
        choice = one.choices[proven.rule.variant]
        ran = [
            explanation
            for size, explanation in one.tuned.items()
            if proven.rule.covers(size) and explanation.choice
        ]
        other = next((each for each in ran if not _is_choice(each, choice)), None)
        if other is not None and not choice.program_changes:
            reason = f"{other.choice_with_channels} ran instead"
            lost.append((proven, Dropped(proven.rule, reason, proven.estimate)))
    if lost:
        gone = [proven for proven, _ in lost]
        kept = [proven for proven in one.proof.proven if proven not in gone]
        dropped = [*one.proof.dropped, *(each for _, each in lost)]
        one.proof = replace(one.proof, proven=kept, dropped=dropped)


def _is_choice(explanation: Explanation, choice: Choice) -> bool:
    algorithm, protocol = explanation.algorithm.lower(), explanation.protocol.lower()
    return (algorithm, protocol) == (choice.algorithm, choice.protocol)
