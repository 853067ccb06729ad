"""The step columns of profiles, as of trainings, and a table of the steps of several runs."""

from __future__ import annotations

from cclmark.analysis.steps import StepFigures, StepRun, steps_of_profile
from cclmark.document.columns import Cell, columns
from cclmark.report.wording.profile_words import program_of
from cclmark.results.journal import Journal
from cclmark.results.schema import Profile

_MS_PER_S = 1e3
#: As in the table of trainings.
STEP_NAMES = (
    "step_ms step_low_ms step_high_ms profiled_ms compute_ms exposed_ms idle_ms hidden_ms "
    "communication_ms timed_steps"
)
_OF_RUN = "kind variant work ccl ranks status reason"
STEP_COLUMNS = columns(
    f"{_OF_RUN} {STEP_NAMES}",
    texts="kind variant work ccl status reason",
    whole="ranks timed_steps",
)


def step_cells(one: StepFigures) -> list[Cell]:
    """Returns a cell for each of STEP_NAMES."""
    low_s, high_s = one.interval_s or (None, None)
    times_s = (
        *(one.step_s, low_s, high_s, one.profiled_s, one.compute_s, one.exposed_s),
        *(one.idle_s, one.hidden_s, one.communication_s),
    )
    cells: list[Cell] = [None if time_s is None else time_s * _MS_PER_S for time_s in times_s]
    return [*cells, one.steps or None]


def step_cells_of_profile(profile: Profile | None) -> list[Cell]:
    """Returns a cell for each of STEP_NAMES."""
    return step_cells(steps_of_profile(profile if profile is not None else Profile("")))


def step_run_cells(kind: str, one: StepRun) -> list[Cell]:
    """Returns a cell for each of STEP_COLUMNS."""
    figures = one.figures
    of_run: list[Cell] = [
        kind,
        one.variant,
        one.work,
        one.ccl,
        one.ranks,
        one.status,
        figures.reason,
    ]
    return [*of_run, *step_cells(figures)]


def step_runs_of_profile(journal: Journal) -> list[StepRun]:
    """Returns the steps of the program."""
    profile = journal.profile if journal.profile is not None else Profile("")
    sizes = [len(group.ranks) for group in profile.groups]
    return [
        StepRun(
            variant="",
            work=program_of(journal.header),
            ccl="+".join(dict.fromkeys(one.profiled.ccl for one in journal.profiled)),
            ranks=max([len(profile.processes), *sizes]),
            status="ok",
            figures=steps_of_profile(profile),
        )
    ]
