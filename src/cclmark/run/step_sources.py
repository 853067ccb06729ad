"""What this rank knows about the steps of its operation."""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.explain.steps.planned import PlannedStep
from cclmark.explain.steps.step import Place
from cclmark.plan.cases import Case
from cclmark.plan.libraries import MPI
from cclmark.rendezvous.messages import Job
from cclmark.run.connections import connections_of
from cclmark.run.explaining import selected_in_mpi
from cclmark.run.instruments import Instruments
from cclmark.trace.rank_trace import StepSources


def step_sources_of(
    case: Case,
    session: engine.Session,
    communicator: engine.Communicator,
    instruments: Instruments,
    job: Job,
) -> StepSources:
    """Returns what is known of the operation that ``session`` has prepared and run."""
    _, paths_reason, paths = connections_of(case.ccl, communicator, instruments, job)
    sources = StepSources(paths, paths_reason, algorithm=session.kernel)
    sources.planned = planned_steps(session)
    if case.ccl == MPI:
        found = selected_in_mpi(case, instruments.open_mpi_log)
        sources.algorithm = found.operations[0].algorithm if found.operations else ""
        sources.reason = found.reason
    return sources


def planned_steps(session: engine.Session) -> list[PlannedStep]:
    """The steps of this rank that the engine plans; empty for other libraries."""
    return [_planned(step) for step in session.steps()]


def _planned(step: engine.PlannedStep) -> PlannedStep:
    return PlannedStep(
        step.order,
        step.phase,
        step.source,
        step.destination,
        step.size_bytes,
        reads=_place(step.reads),
        writes=_place(step.writes),
        combines=None if step.combines is None else _place(step.combines),
        medium=step.medium,
    )


def _place(place: engine.Place) -> Place:
    return Place(place.space, place.offset_bytes)
