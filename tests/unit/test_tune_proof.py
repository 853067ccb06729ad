"""Proofs that are repeated: what is left of the rules, and which sizes are measured again."""

import random

from cclmark.plan.cases import Case
from cclmark.recording.trial_measuring import Figures
from cclmark.recording.tune_proof import Proving
from cclmark.tune.choices import Choice, OperationPlan
from cclmark.tune.rules import Rule
from cclmark.tune.target import Artifact
from cclmark.tune.tune_result import OperationResult

SIZES = (1024, 2048, 4096, 8192)
ROUNDS = 7
FASTER, USELESS = Rule(1024, 2048, 2), Rule(4096, 8192, 3)


class Deploys:
    """A target whose files name the rules. ``variable``: a variable names them too."""

    wide_settings = {}

    def __init__(self, *, variable):
        self._variable = variable
        self.numbers = ""

    def wide_rules(self, plan):
        return []

    def deployment(self, plans, directory, comments=()):
        self.numbers = ",".join(str(rule.variant) for plan in plans for rule in plan.rules)
        named = self.numbers if self._variable else ""
        return Artifact(files={"table": self.numbers}, process={"TABLE": f"{directory}{named}"})


class Measured:
    """Times of a library in which one rule saves a fifth of the time and the other one nothing."""

    def __init__(self, target):
        self.calls = []
        self._target = target
        self._random = random.Random(1)

    def measure(self, trials):
        self.calls.append({trial.case.size_bytes for trial in trials})

    def figures(self, trial):
        deployed = not trial.variant.is_default and not trial.variant.control
        is_fast = deployed and str(FASTER.variant) in self._target.numbers
        saved = 0.2 if is_fast and FASTER.covers(trial.case.size_bytes) else 0.0
        return Figures((1 - saved) * self._random.uniform(0.999, 1.001))

    def observe(self, trials):
        return {}


def case(size_bytes):
    return Case("all_reduce", "nccl", 2, "float32", size_bytes, size_bytes // 4, False)


def proved(tmp_path, *, variable):
    target = Deploys(variable=variable)
    measured = Measured(target)
    cases = {"all_reduce": [case(size) for size in SIZES]}
    proving = Proving(measured, target, cases, ROUNDS, tmp_path, lambda text: None)
    choices = {2: Choice("ring", "ll"), 3: Choice("tree", "ll")}
    plan = OperationPlan("all_reduce", SIZES, {}, [FASTER, USELESS], choices)
    result = OperationResult(case(1024), choices=choices)
    (left,) = proving.run([result], [plan])
    assert list(left.rules) == [FASTER]
    assert [one.rule for one in result.proof.dropped] == [USELESS]
    return measured.calls


def test_a_repeated_proof_measures_the_sizes_that_lost_their_rule(tmp_path):
    calls = proved(tmp_path, variable=False)
    assert calls == [set(SIZES)] * ROUNDS + [{4096, 8192}] * ROUNDS


def test_with_another_variable_every_size_is_measured_again(tmp_path):
    assert proved(tmp_path, variable=True) == [set(SIZES)] * 2 * ROUNDS
