"""The start of the ranks of one attempt, each with its job, by the process to which it belongs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from cclmark.analysis.outliers import TIMES_MEAN_LITTLE
from cclmark.base.errors import MissingError
from cclmark.launch.coordinator import Coordinator, RankLayout
from cclmark.launch.request import Request
from cclmark.rendezvous.messages import Job, encoded_plan
from cclmark.work.binding import Binding, format_processors
from cclmark.work.libraries import added_libraries
from cclmark.work.sizes import in_ranges


@dataclass(frozen=True)
class ProcessorPlan:
    """The processors of every rank.

    ``bound``: the processors to which each rank binds itself, empty for a rank that is not bound or
    that selects its processors after it has opened its device. ``crowded``: hosts with more ranks
    than usable processors. ``places``: see Job.place_on_host. ``notices``: notices for the user.
    """

    bound: list[list[int]]
    crowded: set[int]
    places: list[tuple[int, int]]
    notices: list[str]


def plan_processors(
    binding: Binding,
    inherited: Sequence[Sequence[int]],
    hosts: Sequence[int],
    hostnames: Sequence[str],
    runtimes: Sequence[str],
) -> ProcessorPlan:
    """Plans the binding of a run. All sequences are indexed by rank.

    ``inherited``: the processors that the rank's process may use, in order of preference.
    ``hosts``: a number for its host. Raises MissingError for a rank that may use none of the
    processors listed for it.
    """
    on_host = set(runtimes) == {"host"}
    listed = binding.of_rank
    usable = [list(own) for own in inherited]
    notices = []
    if listed:
        usable = [
            [one for one in own if one in wanted]
            for own, wanted in zip(inherited, listed, strict=True)
        ]
        _require_some(usable, listed, inherited, hostnames)
        reduced = [rank for rank, own in enumerate(usable) if len(own) < len(listed[rank])]
        if reduced:
            notices.append(
                f"--bind: rank{'s' * (len(reduced) > 1)} {in_ranges(reduced)} cannot use all "
                "listed processors, only the inherited ones"
            )
    chosen, crowded = one_of_each(usable, hosts)
    if on_host and crowded:
        number = len({(host, one) for host, own in zip(hosts, usable, strict=True) for one in own})
        notices.append(
            f"{len(hosts)} ranks share {number} processor{'s' * (number > 1)}: {TIMES_MEAN_LITTLE}"
        )
    alike = list(zip(hosts, runtimes, map(tuple, inherited), strict=True))
    alone = chosen if on_host and not binding.mode else [[] for _ in hosts]
    bound = usable if listed else alone
    return ProcessorPlan(bound, crowded, places_among_alike(alike), notices)


def one_of_each(
    usable: Sequence[Sequence[int]], hosts: Sequence[int]
) -> tuple[list[list[int]], set[int]]:
    """A distinct processor for each rank of a host, and the hosts without enough processors.

    Ranks on hosts without enough processors get none. Computes a maximum matching of ranks and
    processors with augmenting paths (Kuhn's algorithm).
    """
    taken_by: dict[tuple[int, int], int] = {}  # rank by host and processor
    crowded: set[int] = set()
    for rank, host in enumerate(hosts):
        if host not in crowded and not _give_one(rank, usable, host, taken_by):
            crowded.add(host)
    chosen: list[list[int]] = [[] for _ in hosts]
    for (host, processor), rank in taken_by.items():
        if host not in crowded:
            chosen[rank] = [processor]
    return chosen, crowded


def _give_one(
    rank: int,
    usable: Sequence[Sequence[int]],
    host: int,
    taken_by: dict[tuple[int, int], int],
) -> bool:
    """Finds a processor for ``rank``, and reassigns other ranks of its host if necessary.

    The search is breadth-first, so that a host with hundreds of ranks needs no deep recursion.
    """
    came_from: dict[int, tuple[int, int]] = {}  # by processor: its next rank, that rank's old one
    queue = [(rank, -1)]
    for asking, own in queue:
        for processor in usable[asking]:
            if processor in came_from:
                continue
            came_from[processor] = (asking, own)
            holder = taken_by.get((host, processor))
            if holder is not None:
                queue.append((holder, processor))
                continue
            free = processor
            while free >= 0:
                taker, previous = came_from[free]
                taken_by[host, free] = taker
                free = previous
            return True
    return False


def places_among_alike(keys: Sequence[Hashable]) -> list[tuple[int, int]]:
    """For every key its index, from 0, among the keys equal to it, and the number of these keys."""
    numbers = Counter(keys)
    seen: Counter[Hashable] = Counter()
    places = []
    for key in keys:
        places.append((seen[key], numbers[key]))
        seen[key] += 1
    return places


def _require_some(
    usable: Sequence[Sequence[int]],
    listed: Sequence[frozenset[int]],
    inherited: Sequence[Sequence[int]],
    hostnames: Sequence[str],
) -> None:
    excluded = [rank for rank, own in enumerate(usable) if not own]
    if not excluded:
        return
    rank = excluded[0]
    more = f" (and {len(excluded) - 1} more ranks)" if len(excluded) > 1 else ""
    raise MissingError(
        f"--bind: rank {rank} cannot be bound to processors {format_processors(listed[rank])}: its "
        f"process on {hostnames[rank]} may use only {format_processors(inherited[rank])}{more}. "
        "Change the list, or the affinity of the process (taskset, the launcher's binding, the "
        "cpuset of the container)"
    )


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
