"""Open MPI and MPICH as targets of tuning: their own files that select algorithms by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cclmark.kinds.tune import mpich_selection, open_mpi_rules
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.mpich_selection import Builtin
from cclmark.kinds.tune.search import Space
from cclmark.kinds.tune.target import Artifact, Candidates, Choice, OperationPlan

RULES_FILE = "coll_tuned.rules"
GENERAL_FILE, SHARED_FILE = "mpich_coll.json", "mpich_posix_coll.json"


def _numbered(names: Sequence[str]) -> Candidates:
    """Algorithms have no order: none is near another one."""
    choices = {number: Choice(name) for number, name in enumerate(names, start=1)}
    return Candidates(choices, list(choices), Space({}, ()))


def _rules(plans: Sequence[OperationPlan], ranks: int) -> list[AlgorithmRule]:
    return [
        AlgorithmRule(
            plan.operation,
            ranks,
            rule.low_bytes,
            rule.high_bytes,
            plan.choices[rule.variant].algorithm,
        )
        for plan in plans
        for rule in plan.rules
    ]


@dataclass(frozen=True)
class OpenMpiTarget:
    """See Target: a rules file of the component tuned. ``version``: Open MPI's own text."""

    version: str
    ranks: int

    @property
    def words(self) -> str:
        """See Target."""
        return f"{self.version}, {self.ranks} ranks on one host"

    def candidates(self, operation: str) -> Candidates:
        """See Target."""
        names = open_mpi_rules.algorithms_of(operation)
        return _numbered([name for name in names if name != "two_proc" or self.ranks == 2])

    def candidate(self, choice: Choice, operations: Sequence[str], directory: Path) -> Artifact:
        """See Target."""
        rules = [
            AlgorithmRule(operation, self.ranks, 0, None, choice.algorithm)
            for operation in operations
            if choice.algorithm in open_mpi_rules.algorithms_of(operation)
        ]
        return self._artifact(rules, directory, f"{choice.stem}.rules", ())

    @property
    def wide_settings(self) -> Mapping[str, str]:
        """See Target."""
        return {}

    def is_wide(self, choice: Choice) -> bool:
        """See Target: none is, the files change nothing else."""
        return False

    def deployment(
        self, plans: Sequence[OperationPlan], directory: Path, comments: Sequence[str] = ()
    ) -> Artifact:
        """See Target."""
        rules = _rules(plans, self.ranks)
        return self._artifact(rules, directory, RULES_FILE, comments) if rules else Artifact()

    def _artifact(
        self,
        rules: Sequence[AlgorithmRule],
        directory: Path,
        name: str,
        comments: Sequence[str],
    ) -> Artifact:
        text = open_mpi_rules.written(rules, library_version=self.version, comments=comments)
        path = str((directory / name).absolute())
        variables = {
            key: value.format(path=path) for key, value in open_mpi_rules.VARIABLES.items()
        }
        return Artifact({name: text}, variables)


@dataclass(frozen=True)
class MpichTarget:
    """See Target: the two files of MPICH's selection, which ``builtin`` is part of the library."""

    version: str
    ranks: int
    builtin: Builtin

    @property
    def words(self) -> str:
        """See Target."""
        return f"{self.version}, {self.ranks} ranks on one host"

    def candidates(self, operation: str) -> Candidates:
        """See Target."""
        return _numbered(mpich_selection.algorithms_of(operation))

    def candidate(self, choice: Choice, operations: Sequence[str], directory: Path) -> Artifact:
        """See Target."""
        rules = [
            AlgorithmRule(operation, self.ranks, 0, None, choice.algorithm)
            for operation in operations
            if choice.algorithm in mpich_selection.algorithms_of(operation)
        ]
        return self._artifact(rules, directory, f"{choice.stem}-")

    @property
    def wide_settings(self) -> Mapping[str, str]:
        """See Target."""
        return {}

    def is_wide(self, choice: Choice) -> bool:
        """See Target: none is, the files change nothing else."""
        return False

    def deployment(
        self, plans: Sequence[OperationPlan], directory: Path, comments: Sequence[str] = ()
    ) -> Artifact:
        """See Target. JSON has no comments."""
        rules = _rules(plans, self.ranks)
        return self._artifact(rules, directory, "") if rules else Artifact()

    def _artifact(self, rules: Sequence[AlgorithmRule], directory: Path, prefix: str) -> Artifact:
        found = mpich_selection.selection(rules, self.builtin, library_version=self.version)
        texts = {"general": found.general, "shared_memory": found.shared_memory}
        names = {"general": prefix + GENERAL_FILE, "shared_memory": prefix + SHARED_FILE}
        variables = {
            variable: str((directory / names[part]).absolute())
            for variable, part in mpich_selection.VARIABLES.items()
        }
        return Artifact({names[part]: texts[part] for part in texts}, variables)
