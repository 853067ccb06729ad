"""Object calls of a backend of torch.distributed on one rank."""

from __future__ import annotations

import gc

from cclmark import _engine as engine
from cclmark.plan.items import items_of
from cclmark.kinds.objects.plan import ObjectCall
from cclmark.plan.sizes import format_size
from cclmark.kinds.objects.result import ObjectResult
from cclmark.run.context import RankContext
from cclmark.run.object_runner import ObjectRunner
from cclmark.run.reserved_buffers import free_on_all
from cclmark.run.torch_backend import (
    ProcessGroup,
    describe_backend,
    load_torch,
    one_line,
    tensor_device,
)

_PATIENCE_S = 60.0  # torch's timeout exceeds the deadline of a phase by this time
#: Backends that send from host memory, also in processes with accelerators.
_OF_HOST = ("gloo", "mpi")
# Copies of an object on a rank: the object, its pickle, torch's tensor, the tensor to compare with.
_OWN_COPIES = 4
# Of each received one: torch's tensor, the object, the output with tensors, and for the check the
# expected object, its pickle, both outputs as bytes and a copy of one.
_RECEIVED_COPIES = 8


def run(context: RankContext) -> None:
    """Loads torch, introduces the rank and measures the calls; rank 0 reports."""
    rank, job = context.rank, context.job
    calls = items_of(rank.planned, ObjectCall)
    backend = calls[0].backend
    context.share_processors(alone=False)
    rank.enter("loading the library")
    torch = load_torch(backend, job.modules)
    _require_numpy(torch)
    context.introduce([describe_backend(torch, backend)])
    device = tensor_device(torch, job.runtime, context.devices[0].info.index)
    rank.enter("communicator creation")
    # Longer than the deadline, so that the launcher finds waiting ranks still in the call.
    group = ProcessGroup(rank, torch, backend, device, job.settings.timeout_s + _PATIENCE_S)
    try:
        group.make()
    except Exception as error:  # any exception means that the backend is unavailable
        raise engine.MissingError(
            f"torch cannot create a process group with backend {backend}: {one_line(error)}"
        ) from None
    place = torch.device("cpu") if backend in _OF_HOST else device
    runner = ObjectRunner(rank, torch, device, place)
    free_bytes = free_on_all(context.devices[0], rank.rank_group, len(job.ranks_here))
    gc.collect()
    gc.disable()
    for index in job.pending or range(len(calls)):
        rank.case_index = index
        needed_bytes = calls[index].size_bytes * (_OWN_COPIES + _RECEIVED_COPIES * job.ranks)
        if needed_bytes > free_bytes:
            reason = f"requires {format_size(needed_bytes)} of memory per rank; "
            reason += f"{format_size(free_bytes)} are free"
            result = ObjectResult(index, calls[index], "skipped", reason)
        else:
            result = runner.run(index, calls[index])
        if job.rank == 0:
            rank.report(result)
        gc.collect()
    rank.case_index = -1
    if runner.corrupts and not runner.was_corrupted:
        rank.notice(
            f"no output of rank {job.rank} was corrupted: no received object contains the element"
        )
    rank.enter("shutdown")
    group.close()
    rank.enter("finished")


def _require_numpy(torch: object) -> None:
    """Raises MissingError without numpy, which torch requires to convert Python objects."""
    try:
        torch.zeros(1).numpy()  # type: ignore[attr-defined]
    except RuntimeError as error:
        raise engine.MissingError(
            f"torch requires numpy for Python objects: pip install numpy ({one_line(error)})"
        ) from None
