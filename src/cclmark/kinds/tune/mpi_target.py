"""Open MPI and MPICH as targets of tuning: their own files that select algorithms by size."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cclmark.kinds.tune import mpich_selection, open_mpi_rules
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.mpich_selection import Builtin
from cclmark.kinds.tune.search import Space
from cclmark.kinds.tune.target import Artifact, Candidates, Choice, OperationPlan, Target

RULES_FILE = "coll_tuned.rules"
GENERAL_FILE, SHARED_FILE = "mpich_coll.json", "mpich_posix_coll.json"


@dataclass(frozen=True)
class _MpiTarget(Target):
    """See Target. ``version``: the library's own text."""

    version: str
    ranks: int

    @property
    def words(self) -> str:
        """See Target."""
        return f"{self.version}, {self.ranks} ranks on one host"

    def candidates(self, operation: str) -> Candidates:
        """See Target. Algorithms have no order: none is near another one."""
        choices = {
            number: Choice(name) for number, name in enumerate(self._names(operation), start=1)
        }
        return Candidates(choices, list(choices), Space({}, ()))

    def candidate(self, choice: Choice, operations: Sequence[str], directory: Path) -> Artifact:
        """See Target."""
        rules = [
            AlgorithmRule(operation, self.ranks, 0, None, choice.algorithm)
            for operation in operations
            if choice.algorithm in self._names(operation)
        ]
        return self._artifact(rules, directory, choice.stem, ())

    def deployment(
        self, plans: Sequence[OperationPlan], directory: Path, comments: Sequence[str] = ()
    ) -> Artifact:
        """See Target."""
        rules = [
            AlgorithmRule(
                *(plan.operation, self.ranks, rule.low_bytes, rule.high_bytes),
                plan.choices[rule.variant].algorithm,
            )
            for plan in plans
            for rule in plan.rules
        ]
        return self._artifact(rules, directory, "", comments) if rules else Artifact()

    @abstractmethod
    def _names(self, operation: str) -> Sequence[str]:
        """The algorithms of an operation that can be selected."""

    @abstractmethod
    def _artifact(
        self, rules: Sequence[AlgorithmRule], directory: Path, stem: str, comments: Sequence[str]
    ) -> Artifact:
        """The files of rules. ``stem``: of their names, empty for what is deployed."""


class OpenMpiTarget(_MpiTarget):
    """A rules file of the component tuned."""

    def _names(self, operation: str) -> Sequence[str]:
        names = open_mpi_rules.algorithms_of(operation)
        return [name for name in names if name != "two_proc" or self.ranks == 2]

    def _artifact(
        self, rules: Sequence[AlgorithmRule], directory: Path, stem: str, comments: Sequence[str]
    ) -> Artifact:
        name = f"{stem}.rules" if stem else RULES_FILE
        text = open_mpi_rules.written(rules, library_version=self.version, comments=comments)
        path = str((directory / name).absolute())
        variables = {
            key: value.format(path=path) for key, value in open_mpi_rules.VARIABLES.items()
        }
        return Artifact({name: text}, variables)


@dataclass(frozen=True)
class MpichTarget(_MpiTarget):
    """The two files of MPICH's selection, without comments. ``builtin``: of the library."""

    builtin: Builtin

    def _names(self, operation: str) -> Sequence[str]:
        return mpich_selection.algorithms_of(operation)

    def _artifact(
        self, rules: Sequence[AlgorithmRule], directory: Path, stem: str, comments: Sequence[str]
    ) -> Artifact:
        prefix = f"{stem}-" if stem else ""
        found = mpich_selection.selection(rules, self.builtin, library_version=self.version)
        texts = {"general": found.general, "shared_memory": found.shared_memory}
        names = {"general": prefix + GENERAL_FILE, "shared_memory": prefix + SHARED_FILE}
        variables = {
            variable: str((directory / names[part]).absolute())
            for variable, part in mpich_selection.VARIABLES.items()
        }
        return Artifact({names[part]: texts[part] for part in texts}, variables)
