"""NCCL and RCCL as a target of tuning: tuner tables, which cclmark's plug-in applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cclmark.kinds.tune.choices import Candidates, Choice, OperationPlan
from cclmark.kinds.tune.nccl_candidates import (
    ANYWHERE,
    MIN_CTAS,
    MOST_CHANNELS,
    PLUG_IN,
    TABLE,
    candidates_of,
    table_of,
    wide_options,
)
from cclmark.kinds.tune.nccl_deployment import deployment_of, is_wide
from cclmark.kinds.tune.table_file import RuleTable, written
from cclmark.kinds.tune.target import Artifact, assigned_options

TABLE_FILE = "tuner.table"


@dataclass(frozen=True)
class NcclTarget:
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
        """See Target: those with more channels than usual."""
        return is_wide(choice, self.usual_channels)

    def deployment(
        self, plans: Sequence[OperationPlan], directory: Path, comments: Sequence[str] = ()
    ) -> Artifact:
        """See Target."""
        deployment = deployment_of(plans, self.ranks, self.usual_channels)
        if not deployment.rules:
            return Artifact()
        path = str((directory / TABLE_FILE).absolute())
        wide = self._wide_variables if deployment.wide else {}
        variables = {PLUG_IN: self.plug_in, TABLE: path, **wide}
        table = RuleTable(self.library, self.version, self.device, self.nvlinks, deployment.rules)
        files = {TABLE_FILE: written(table, comments=comments)}
        options = self._wide_options if deployment.wide else {}
        return Artifact(files, variables, options=options)
