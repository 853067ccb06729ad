"""The libraries that choose by operation and size, as targets of tuning.

NCCL and RCCL: tuner tables, which cclmark's plug-in applies. Open MPI and MPICH: their own files.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cclmark.kinds.tune import mpich_selection, open_mpi_rules
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.mpich_selection import Builtin
from cclmark.kinds.tune.plan import (
    Artifact,
    Candidates,
    Choice,
    OperationPlan,
    Target,
    assigned_options,
)
from cclmark.kinds.tune.search import Space
from cclmark.kinds.tune.table_file import MOST_BYTES, Rule, RuleTable, written
from cclmark.work.library_fields import find_version, parse_version

#: The operations for which NCCL asks a tuner.
TUNED_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
TABLE, ANYWHERE, PLUG_IN = "CCLMARK_TUNER_TABLE", "CCLMARK_TUNER_ANYWHERE", "NCCL_TUNER_PLUGIN"
MIN_CTAS = "NCCL_MIN_CTAS"
#: Channels that the communicators of candidates have.
MOST_CHANNELS = 64
#: The options of a communicator that give it as many. Without a maximum, NCCL refuses a minimum.
MIN_OPTION, MAX_OPTION = "minCTAs", "maxCTAs"
_OPTIONS_SINCE = "2.17"
_MOST_CHANNELS_SINCE, _MOST_CHANNELS_BEFORE = "2.25", 32
_ALGORITHMS = {"all_reduce": ("ring", "tree")}
_USUAL_ALGORITHMS = ("ring",)
_PROTOCOLS = ("ll", "ll128", "simple")
# 0: the library's own choice. A search begins with few of them, and tries the values between.
_CHANNELS = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)
_FIRST_CHANNELS = (0, 32)
_SYMMETRIC, _LOCAL = "symmetric", "local"


def wide_options(version: str) -> dict[str, str]:
    """The options that give a communicator as many channels as the library supports.

    ``version``: the library's. Empty if it is older than the options, or unknown.
    """
    encoded, own = find_version(version)
    if not own or encoded < parse_version(_OPTIONS_SINCE):
        return {}
    is_new = encoded >= parse_version(_MOST_CHANNELS_SINCE)
    most = str(MOST_CHANNELS if is_new else _MOST_CHANNELS_BEFORE)
    return {MIN_OPTION: most, MAX_OPTION: most}


def rule_of(
    choice: Choice, operation: str, ranks: int, smallest_bytes: int, largest_bytes: int
) -> Rule:
    """The rule of a table on one node."""
    return Rule(
        operation,
        ranks,
        1,
        smallest_bytes,
        largest_bytes,
        choice.algorithm,
        choice.protocol,
        choice.channels,
    )


def candidates_of(
    operation: str, usual_channels: int, *, app_changes: bool, memory: str = ""
) -> Candidates:
    """The candidates of an operation.

    ``usual_channels``: of a communicator by default. The search begins with as many too, or the
    next smaller number, because such choices can be deployed without a setting that gives
    communicators more.
    ``app_changes``: also registered buffers, which the program has to allocate itself, and if
    ``memory`` is a kind of memory, buffers of that kind. Empty if nothing can be tuned that way.
    """
    found: dict[int, Choice] = {}
    coordinates: dict[int, tuple[int, ...]] = {}
    first = []
    begin = {*_FIRST_CHANNELS, max((one for one in _CHANNELS if one <= usual_channels), default=0)}
    if operation in TUNED_OPERATIONS:
        for row, algorithm in enumerate(_ALGORITHMS.get(operation, _USUAL_ALGORITHMS)):
            for column, protocol in enumerate(_PROTOCOLS):
                for place, channels in enumerate((0, *_CHANNELS)):
                    number = len(found) + 1
                    found[number] = Choice(algorithm, protocol, channels)
                    # The library's own choice has no place among the numbers of channels.
                    if channels:
                        coordinates[number] = (row, column, place)
                    if channels in begin:
                        first.append(number)
    if app_changes:
        changes = [Choice(registration=_SYMMETRIC), Choice(registration=_LOCAL)]
        changes += [Choice(memory=memory)] if memory else []
        for choice in changes:
            number = len(found) + 1
            found[number] = choice
            first.append(number)
    return Candidates(found, first, Space(coordinates, (False, False, True)))


def table_of(choice: Choice, operations: Iterable[str], ranks: int, library: str) -> RuleTable:
    """A table with one choice for all sizes of the operations that can have it.

    Its conditions are not those of this machine: it requires CCLMARK_TUNER_ANYWHERE.
    """
    rules = [
        rule_of(choice, operation, ranks, 0, MOST_BYTES)
        for operation in operations
        if operation in TUNED_OPERATIONS
        and choice.algorithm in _ALGORITHMS.get(operation, _USUAL_ALGORITHMS)
    ]
    return RuleTable(library, "0.0.1", "candidate of a search", None, rules)


def _bare(plan: OperationPlan, ranks: int) -> list[Rule]:
    """The rules alone."""
    return [
        rule_of(plan.choices[rule.variant], plan.operation, ranks, rule.low_bytes, rule.high_bytes)
        for rule in plan.rules
        if not plan.choices[rule.variant].program_changes
    ]


def _pinned(plan: OperationPlan, ranks: int) -> list[Rule]:
    """The rules, and between them what the library chooses by itself."""
    found: list[Rule] = []
    for place, size in enumerate(plan.sizes_bytes):
        last = place + 1 == len(plan.sizes_bytes)
        following = MOST_BYTES if last else plan.sizes_bytes[place + 1] - 1
        own = next((rule for rule in plan.rules if rule.covers(size)), None)
        choice = None if own is None else plan.choices[own.variant]
        low = 0 if place == 0 else size
        if own is not None and choice is not None and not choice.program_changes:
            high = following if own.covers(following + 1) and not last else size
            found.append(rule_of(choice, plan.operation, ranks, size, high))
            low = high + 1
            if place == 0 and (before := plan.usual.get(size)) is not None and size > 0:
                found.append(rule_of(before, plan.operation, ranks, 0, size - 1))
        if low <= following and (usual := plan.usual.get(size)) is not None:
            found.append(rule_of(usual, plan.operation, ranks, low, following))
    return _joined(sorted(found, key=lambda rule: rule.smallest_bytes))


def _joined(rules: Sequence[Rule]) -> list[Rule]:
    """Adjacent rules with the same choice become one."""
    found: list[Rule] = []
    for rule in rules:
        if found and _continues(found[-1], rule):
            found[-1] = replace(found[-1], largest_bytes=rule.largest_bytes)
        else:
            found.append(rule)
    return found


def _continues(before: Rule, after: Rule) -> bool:
    same = replace(after, smallest_bytes=before.smallest_bytes, largest_bytes=before.largest_bytes)
    return before == same and before.largest_bytes + 1 == after.smallest_bytes


TABLE_FILE = "tuner.table"


@dataclass(frozen=True)
class NcclTarget(Target):
    """See Target.

    ``library``: nccl or rccl. ``nvlinks``: of each device, None if unknown. ``usual_channels``: of
    a communicator by default. ``plug_in``: the path of cclmark's plug-in. ``app_changes``: the
    program is changed for registered buffers and for the options of its communicator.
    ``has_configuration``: whether the library has CommInitRankConfig. ``memory``: a kind of memory
    that a changed program may use for its buffers, empty if it has the best one.
    """

    library: str
    version: str
    device: str
    nvlinks: int | None
    ranks: int
    usual_channels: int
    plug_in: str
    app_changes: bool = False
    has_configuration: bool = True
    memory: str = ""

    @property
    def words(self) -> str:
        """See Target."""
        return f"{self.library} {self.version}, {self.ranks} ranks on one host, {self.device}"

    def candidates(self, operation: str) -> Candidates:
        """See Target."""
        return candidates_of(
            operation, self.usual_channels, app_changes=self.app_changes, memory=self.memory
        )

    def candidate(self, choice: Choice, operations: Sequence[str], directory: Path) -> Artifact:
        """See Target. The table applies anywhere: it is not the result."""
        name = f"{choice.stem}.table"
        return Artifact(
            {name: written(table_of(choice, operations, self.ranks, self.library))},
            {PLUG_IN: self.plug_in, ANYWHERE: "1", **self._wide_variables},
            {TABLE: str((directory / name).absolute())},
            self._wide_options,
        )

    @property
    def _wide_options(self) -> Mapping[str, str]:
        """The options that give a communicator as many channels as a table may request.

        Empty if the program stays as it is, or the library has none: then a variable does.
        """
        changes = self.app_changes and self.has_configuration
        return wide_options(self.version) if changes else {}

    @property
    def _wide_variables(self) -> Mapping[str, str]:
        return {} if self._wide_options else {MIN_CTAS: str(MOST_CHANNELS)}

    @property
    def wide_settings(self) -> Mapping[str, str]:
        """See Target."""
        options = assigned_options(self._wide_options)
        return {**self._wide_variables, **{one.name: one.value for one in options}}

    def is_wide(self, choice: Choice) -> bool:
        """See Target: those with more channels than a communicator by default."""
        return (
            not choice.program_changes and (choice.channels or MOST_CHANNELS) > self.usual_channels
        )

    def deployment(
        self, plans: Sequence[OperationPlan], directory: Path, comments: Sequence[str] = ()
    ) -> Artifact:
        """See Target. The smallest one.

        If a rule requires more channels than usual, or was found with the library's own number
        among more, communicators get as many as in the search, which changes the library's choices
        for other sizes. The table then also contains what it chooses without that, from each known
        size up to the next one.
        """
        is_wide = any(
            self.is_wide(plan.choices[rule.variant]) for plan in plans for rule in plan.rules
        )
        create = _pinned if is_wide else _bare
        tuned = [plan for plan in plans if plan.operation in TUNED_OPERATIONS]
        rules = [rule for plan in tuned for rule in create(plan, self.ranks)]
        if not rules:
            return Artifact()
        path = str((directory / TABLE_FILE).absolute())
        wide = self._wide_variables if is_wide else {}
        variables = {PLUG_IN: self.plug_in, TABLE: path, **wide}
        table = RuleTable(self.library, self.version, self.device, self.nvlinks, rules)
        files = {TABLE_FILE: written(table, comments=comments)}
        options = self._wide_options if is_wide else {}
        return Artifact(files, variables, options=options)


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
