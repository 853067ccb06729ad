"""``cclmark trace --steps``: the table and the file of the steps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from cclmark.cli.trace.new_files import refuse_unwritable, written_whole
from cclmark.errors import OutputError
from cclmark.launch.request import Surroundings
from cclmark.plan.cases import Case
from cclmark.plan.sizes import format_size
from cclmark.report.lists.step_file import step_file
from cclmark.report.lists.step_table import step_lines
from cclmark.results.topology import relations_between
from cclmark.trace.case_steps import steps_of
from cclmark.trace.rank_trace import RankTrace
from cclmark.trace.timeline_assembly import CaseTimeline

_SUFFIXES = (".pftrace", ".trace.json", ".json")


class StepListing:
    """The steps of the traced case."""

    def __init__(self, case: Case, trace_path: Path) -> None:
        """Raises UsageError if the file of the steps exists or cannot be created."""
        self._case = case
        name = trace_path.name
        suffix = next((one for one in _SUFFIXES if name.endswith(one) and name != one), "")
        self._path = trace_path.with_name(f"{name.removesuffix(suffix)}.steps.csv")
        refuse_unwritable(self._path)

    def write(
        self, traces: Sequence[RankTrace], found: CaseTimeline, surroundings: Surroundings
    ) -> tuple[list[str], str]:
        """Writes the file if the steps are known.

        Returns the lines for the terminal, and the reason if the file cannot be written.
        """
        ordered = sorted(traces, key=lambda trace: trace.rank)
        tasks = {one.rank: one.events.tasks for one in found.ranks if one.log is not None}
        steps = steps_of(self._case, ordered, tasks)
        relations = _relations(surroundings)
        failure = self._failure_to_write(step_file(steps, relations)) if steps.steps else ""
        return step_lines(steps, relations), failure

    def _failure_to_write(self, lines: Iterable[str]) -> str:
        try:
            with written_whole(self._path, "steps") as file:
                for line in lines:
                    file.write(line.encode())
        except OutputError as error:
            return f"{error}: choose another file with -O FILE"
        size = format_size(self._path.stat().st_size)
        print(f"cclmark: steps {self._path} ({size})", file=sys.stderr)
        return ""


def _relations(surroundings: Surroundings) -> dict[tuple[int, int], str]:
    """How the devices of this host are connected; other hosts' are not known here."""
    here = surroundings.machine.hostname
    devices = [device for device in surroundings.devices if device.host == here]
    relations = relations_between(devices, surroundings.links, set())
    return {(one.first, one.second): one.kind for one in relations}
