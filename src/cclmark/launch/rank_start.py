"""The start of the ranks of one attempt, each with its job, by the process to which it belongs."""

from __future__ import annotations

from cclmark.launch.coordinator import Coordinator
from cclmark.launch.rank_layout import RankLayout
from cclmark.launch.rank_processors import ProcessorPlan, plan_processors
from cclmark.launch.request import Request
from cclmark.plan.binding import Binding
from cclmark.plan.libraries import added_libraries
from cclmark.rendezvous.messages import Job, encoded_plan


def processors_of_ranks(
    request: Request, coordinator: Coordinator, layout: RankLayout
) -> ProcessorPlan:
    """The processors of every rank. Raises MissingError if a rank may use none of those listed."""
    ranks = len(request.processes)
    joins = [coordinator.joins[process] for process in layout.process_of]
    return plan_processors(
        Binding.parse(request.settings.bind, ranks),
        [join.processors for join in joins],
        layout.host_of,
        [join.host.machine.hostname for join in joins],
        request.devices.runtimes[:ranks],
    )


def start_ranks(
    request: Request, coordinator: Coordinator, layout: RankLayout, processors: ProcessorPlan
) -> None:
    """Starts the ranks, each by the process to which it belongs."""
    jobs = _jobs(request, coordinator, layout, processors)
    coordinator.own.start_by(request.mpirun)
    of_member: dict[int, list[Job]] = {}
    for job, process in zip(jobs, layout.process_of, strict=True):
        of_member.setdefault(process, []).append(job)
    for process, own in of_member.items():
        coordinator.agents[process].start(own)


def _jobs(
    request: Request, coordinator: Coordinator, layout: RankLayout, processors: ProcessorPlan
) -> list[Job]:
    """The job of every rank. The process that starts a rank adds its pid and descriptors."""
    server = coordinator.meeting.server
    launched = coordinator.placement is not None and coordinator.placement.by_mpi
    plan_of_all = encoded_plan(request.planned)
    return [
        Job(
            rank=rank,
            ranks=len(request.processes),
            parent_pid=0,
            runtime=request.devices.runtimes[rank],
            device_indices=indices,
            every_index=list(request.devices.indices),
            processors=processors.bound[rank],
            oversubscribed=layout.host_of[rank] in processors.crowded,
            rank_group_fd=-1,
            board_fd=-1,
            access=server.keys.access(server.endpoint),
            token=server.token,
            kind=request.kind.name,
            plan=plan_of_all,
            settings=request.settings,
            ccl_path=request.ccl_path,
            ccl_wheels=request.ccl_wheels,
            pending=list(request.pending),
            modules=list(request.modules),
            libraries=added_libraries(),
            hosts=layout.host_of if len(coordinator.hosts) > 1 else [],
            mpi=launched and request.by_mpi,
            absent=dict(request.absent),
            place_on_host=processors.places[rank],
            explain=request.explain,
            explains_at_end=request.explains_at_end,
            traced_operations=request.traced_operations,
            environment=dict(request.environment),
            attachment=request.attachment_of(rank),
        )
        for rank, indices in enumerate(request.processes)
    ]
