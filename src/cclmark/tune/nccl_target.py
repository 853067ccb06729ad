"""NCCL and RCCL as a target of tuning: tuner tables, which cclmark's plug-in applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cclmark.tune.choices import Candidates, Choice, OperationPlan
from cclmark.tune.environment_file import nccl_conf_text
from cclmark.tune.nccl_candidates import (
    ANYWHERE,
    PLUG_IN,
    TABLE,
    candidates_of,
    table_of,
)
from cclmark.tune.nccl_deployment import WIDE_VARIABLES, deployment_of, wide_rules
from cclmark.tune.rules import Rule
from cclmark.tune.table_file import Table, written
from cclmark.tune.target import Artifact
from cclmark.tune.tuner_csv import rccl_csv

TABLE_FILE, CONFIGURATION_FILE, CSV_FILE = "tuner.table", "nccl.conf", "rccl_tuner.csv"


@dataclass(frozen=True)
class NcclTarget:
    """See Target.

    ``library``: nccl or rccl. ``nvlinks``: of each device, None if unknown. ``usual_channels``: of
    a communicator by default. ``plug_in``: the path of cclmark's plug-in. ``app_changes``: also
    registered buffers.
    """

    library: str
    version: str
    device: str
    nvlinks: int | None
    ranks: int
    usual_channels: int
    plug_in: str
    app_changes: bool = False

    @property
    def words(self) -> str:
        """See Target."""
        return f"{self.library} {self.version}, {self.ranks} ranks on one host, {self.device}"

    def candidates(self, operation: str) -> Candidates:
        """See Target."""
        return candidates_of(operation, app_changes=self.app_changes)

    def candidate(self, choice: Choice, operations: Sequence[str], directory: Path) -> Artifact:
        """See Target. The table applies anywhere: it is not the result."""
        name = f"{choice.stem}.table"
        return Artifact(
            {name: written(table_of(choice, operations, self.ranks, self.library))},
            {PLUG_IN: self.plug_in, ANYWHERE: "1", **WIDE_VARIABLES},
            {TABLE: str((directory / name).absolute())},
        )

    @property
    def wide_variables(self) -> Mapping[str, str]:
        """See Target."""
        return WIDE_VARIABLES

    def wide_rules(self, plan: OperationPlan) -> list[Rule]:
        """See Target: those with more channels than usual."""
        return wide_rules(plan, self.usual_channels)

    def deployment(
        self, plans: Sequence[OperationPlan], directory: Path, comments: Sequence[str] = ()
    ) -> Artifact:
        """See Target."""
        deployment = deployment_of(plans, self.ranks, self.usual_channels)
        if not deployment.rules:
            return Artifact()
        path = str((directory / TABLE_FILE).absolute())
        variables = {PLUG_IN: self.plug_in, TABLE: path, **deployment.environment}
        table = Table(self.library, self.version, self.device, self.nvlinks, deployment.rules)
        extras = (
            {CSV_FILE: rccl_csv(table)}
            if self.library == "rccl"
            else {CONFIGURATION_FILE: nccl_conf_text(variables)}
        )
        files = {TABLE_FILE: written(table, comments=comments)}
        return Artifact(files, variables, extras=extras)
