"""What a tuning run chooses between by operation and size, and the files that deploy it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cclmark.kinds.tune.search import Rule, Space
from cclmark.work.variants import COMMUNICATOR, MEMORY, OPTION, PROCESS, REGISTRATION, Assignment


@dataclass(frozen=True)
class Choice:
    """What is to run: an algorithm, or buffers that the program allocates or registers otherwise.

    ``protocol`` and ``channels``: of NCCL and RCCL; 0 channels for the library's own number.
    ``registration`` and ``memory``: values of the settings with these names, empty for no change.
    """

    algorithm: str = ""
    protocol: str = ""
    channels: int = 0
    registration: str = ""
    memory: str = ""

    @property
    def program_changes(self) -> tuple[Assignment, ...]:
        """The settings that the program has to make itself; empty for an algorithm."""
        named = ((REGISTRATION, self.registration), (MEMORY, self.memory))
        return tuple(Assignment(name, value, COMMUNICATOR) for name, value in named if value)

    @property
    def name(self) -> str:
        """A name for reports: ``ring SIMPLE × 32``."""
        if changes := self.program_changes:
            return ", ".join(f"{one.name} {one.value}" for one in changes)
        number = f" × {self.channels}" if self.channels else ""
        return f"{self.algorithm} {self.protocol.upper()}".strip() + number

    @property
    def stem(self) -> str:
        """A name for files: ``ring-simple-32``."""
        words = [self.algorithm, self.protocol]
        words += [str(self.channels)] if self.protocol else []
        return "-".join(filter(None, words))


@dataclass(frozen=True)
class Candidates:
    """The candidates of one operation by number, from 1; 0 is the default.

    ``first``: those with which the search begins. ``space``: which ones are near each other.
    """

    choices: Mapping[int, Choice] = field(default_factory=dict)
    first: Sequence[int] = ()
    space: Space = field(default_factory=lambda: Space({}, ()))


@dataclass(frozen=True)
class OperationPlan:
    """What is to run for one operation.

    ``sizes_bytes``: the sizes at which ``usual`` is known, ascending: what the library chooses by
    itself. ``rules``: ranges of sizes with the number of a choice. ``choices``: by number.
    """

    operation: str
    sizes_bytes: Sequence[int]
    usual: Mapping[int, Choice]
    rules: Sequence[Rule]
    choices: Mapping[int, Choice]

    def program_changes(self, size_bytes: int) -> tuple[Assignment, ...]:
        """What a rule requires of the program at this size."""
        for rule in self.rules:
            if rule.covers(size_bytes):
                return self.choices[rule.variant].program_changes
        return ()


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


class Target(ABC):
    """A library with a way to choose by operation and size."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What the artifacts are for: library, version, ranks, devices."""

    @abstractmethod
    def candidates(self, operation: str) -> Candidates:
        """The candidates of an operation; empty if nothing can be chosen for it."""

    @abstractmethod
    def candidate(self, choice: Choice, operations: Sequence[str], directory: Path) -> Artifact:
        """Selects one choice for all sizes of the operations that can have it."""

    @property
    def wide_settings(self) -> Mapping[str, str]:
        """The variables, or options ``config.NAME`` of the communicator, of wide choices."""
        return {}

    def is_wide(self, choice: Choice) -> bool:
        """Whether a choice requires a setting which also changes what no rule applies to."""
        return False

    @abstractmethod
    def deployment(
        self, plans: Sequence[OperationPlan], directory: Path, comments: Sequence[str] = ()
    ) -> Artifact:
        """Deploys plans by files in ``directory``; nothing if they have no rule.

        All variables are of the process, and options of the communicator. Raises UsageError for
        what the files cannot express.
        """
