"""The library that is tuned: its candidates, and the files that deploy what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cclmark.kinds.tune.choices import Candidates, Choice, OperationPlan
from cclmark.plan.variants import COMMUNICATOR, OPTION, PROCESS, Assignment


@dataclass(frozen=True)
class Artifact:
    """Files by their name, and the settings that deploy them.

    ``process``: variables that ranks are started with; ``communicator``: those that the library
    reads again for every communicator. ``options``: of the communicator, which the program gives
    it.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    process: Mapping[str, str] = field(default_factory=dict)
    communicator: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """All of these as settings of a variant."""
        of_process = (Assignment(*pair, PROCESS) for pair in self.process.items())
        return (
            *of_process,
            *(Assignment(*pair, COMMUNICATOR) for pair in self.communicator.items()),
            *assigned_options(self.options),
        )


def assigned_options(options: Mapping[str, str]) -> tuple[Assignment, ...]:
    """Options of a communicator as settings of a variant."""
    return tuple(Assignment(OPTION + name, value, COMMUNICATOR) for name, value in options.items())


class Target(Protocol):
    """A library with a way to choose by operation and size."""

    @property
    def words(self) -> str:
        """What the artifacts are for: library, version, ranks, devices."""

    def candidates(self, operation: str) -> Candidates:
        """The candidates of an operation; empty if nothing can be chosen for it."""

    def candidate(self, choice: Choice, operations: Sequence[str], directory: Path) -> Artifact:
        """Selects one choice for all sizes of the operations that can have it."""

    @property
    def wide_settings(self) -> Mapping[str, str]:
        """The variables, or options ``config.NAME`` of the communicator, of wide choices."""

    def is_wide(self, choice: Choice) -> bool:
        """Whether a choice requires a setting which also changes what no rule applies to."""

    def deployment(
        self, plans: Sequence[OperationPlan], directory: Path, comments: Sequence[str] = ()
    ) -> Artifact:
        """Deploys plans by files in ``directory``; nothing if they have no rule.

        All variables are of the process, and options of the communicator. Raises UsageError for
        what the files cannot express.
        """
