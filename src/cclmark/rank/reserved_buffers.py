"""Memory for a whole run, allocated once: buffers for the largest case, inputs of a compute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import cclmark._engine as engine
from cclmark.journal.schema import Settings
from cclmark.rank.all_or_none import in_step
from cclmark.rank.context import RankContext
from cclmark.rank.engine_values import operation_of
from cclmark.rank.opening import OpenLibrary
from cclmark.work.cases import Case
from cclmark.work.computations import PRODUCT_RUNTIMES, Compute
from cclmark.work.libraries import memory_of
from cclmark.work.sizes import format_size
from cclmark.work.variants import DEFAULT, MEMORY, REGISTRATION, Variant
from cclmark.work.work_beside import MATMUL

_MEMORY_KINDS = {
    "plain": engine.MemoryKind.plain,
    "library": engine.MemoryKind.library,
    "vmm": engine.MemoryKind.mapped,
    "torch": engine.MemoryKind.foreign,
}
_KEPT_FREE = 0.02  # share of the memory that the library may allocate on first use


def room_for(case: Case) -> tuple[int, int]:
    """The sizes in bytes of the send and receive buffers that ``case`` needs on every rank."""
    return engine.room_for(operation_of(case), case.in_place, case.ranks)


def free_on_all(device: engine.Device, rank_group: engine.RankGroup, here: int) -> int:
    """The bytes that each rank of the group can allocate.

    ``here``: the number of ranks on this host, which share its memory if they are host devices.
    """
    kept_free = int(_KEPT_FREE * device.info.memory_bytes)
    sharing = here if device.info.runtime == "host" else 1
    return int(min(rank_group.gather([float((device.free_memory_bytes() - kept_free) // sharing)])))


def _torch_memory(device: engine.Device) -> object:
    from cclmark.rank.torch_tensors import TorchMemory  # few ranks require it

    return TorchMemory(device)


def buffer_kind(
    device: engine.Device,
    settings: Settings,
    ccl: str,
    capabilities: Sequence[str],
    variant: Variant = DEFAULT,
) -> engine.BufferKind:
    """How buffers of the library ``ccl`` are allocated and registered.

    Settings of ``variant`` replace ``settings``. Raises MissingError if torch is missing.
    """
    registration = variant.value_of(REGISTRATION) or settings.registration
    memory = variant.value_of(MEMORY) or settings.memory
    kind = memory_of(memory, settings.timing, registration, ccl, capabilities)
    return engine.BufferKind(
        getattr(engine.Registration, registration),
        _MEMORY_KINDS[kind],
        _torch_memory(device) if kind == "torch" else None,
    )


def buffer_kind_of(
    context: RankContext, library: OpenLibrary, variant: Variant = DEFAULT
) -> engine.BufferKind:
    """The same for a library of the job."""
    own = library.descriptions[0]
    return buffer_kind(
        context.devices[0], context.job.settings, own.name, own.capabilities, variant
    )


def reserve_for(
    cases: Sequence[Case],
    session: engine.Session,
    rank_group: engine.RankGroup,
    kind: engine.BufferKind,
    free_bytes: int,
) -> dict[Case, str]:
    """Reserves buffers for as many cases as fit, and returns the other cases with the reason.

    All ranks of ``rank_group`` decide alike: a case that does not fit on one rank is skipped on
    all. ``free_bytes``: the free memory of each rank.
    """
    rooms = {case: room_for(case) for case in cases}
    limits = sorted({sum(room) for room in rooms.values() if sum(room) <= free_bytes}, reverse=True)
    refused = ""
    for limit in [*limits, 0]:
        fitting = [room for room in rooms.values() if sum(room) <= limit]
        send_bytes = max((room[0] for room in fitting), default=0)
        receive_bytes = max((room[1] for room in fitting), default=0)
        if send_bytes + receive_bytes > free_bytes:
            continue  # the largest send and receive buffers do not fit together
        failed = ""
        unsupported = False
        try:
            session.reserve(send_bytes, receive_bytes, kind)
        except (engine.OutOfMemoryError, engine.UnsupportedError) as error:
            failed = str(error)
            unsupported = isinstance(error, engine.UnsupportedError)
        if max(rank_group.gather([1.0 if unsupported else 0.0])) > 0:
            return dict.fromkeys(
                cases, failed or "the library of another rank does not support this"
            )
        if max(rank_group.gather([1.0 if failed else 0.0])) == 0:
            return {
                case: f"requires {format_size(sum(room))} of memory per rank; "
                f"{format_size(free_bytes)} are free{refused}"
                for case, room in rooms.items()
                if sum(room) > limit
            }
        refused = f", but {failed or 'the allocation of another rank failed'}"
    raise engine.OutOfMemoryError(f"even the smallest buffers could not be allocated: {failed}")


_ARRAYS = 3  # of the triad


def _product_bytes(device: engine.Device, order: int) -> int:
    if device.info.runtime in PRODUCT_RUNTIMES:
        return engine.product_bytes(device, order)
    from cclmark.rank.torch_tensors import torch_product_bytes

    return torch_product_bytes(order)


def _make_product(device: engine.Device, order: int) -> engine.Compute:
    if device.info.runtime in PRODUCT_RUNTIMES:
        return engine.make_product(device, order)
    from cclmark.rank.torch_tensors import TorchProduct

    return engine.adapt_compute(TorchProduct(device, order))


def open_compute(context: RankContext, compute: Compute) -> engine.Compute:
    """Allocates and fills the inputs. All ranks succeed, or all raise.

    Raises MissingError if the memory or the library is missing, UnsupportedError.
    """
    rank, device = context.rank, context.devices[0]
    free_bytes = free_on_all(device, rank.rank_group, len(context.job.ranks_here))
    if compute.name == MATMUL:
        needed, option = _product_bytes(device, compute.extent), "--matrix"
    else:
        needed, option = _ARRAYS * compute.extent, "--array"
    if needed > free_bytes:
        raise engine.MissingError(
            f"{compute.describe()} requires {format_size(needed)} of memory per rank; "
            f"{format_size(free_bytes)} are free: use a smaller {option}"
        )
    make = _make_product if compute.name == MATMUL else engine.make_triad
    return in_step(rank.agreement, partial(make, device, compute.extent))
