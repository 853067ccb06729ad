"""Opens the compute of a run on the device of a rank."""

from __future__ import annotations

from functools import partial

from cclmark import _engine as engine
from cclmark.plan.computations import Compute
from cclmark.plan.sizes import format_size
from cclmark.plan.work_beside import MATMUL
from cclmark.run.all_or_none import in_step
from cclmark.run.context import RankContext
from cclmark.run.reserved_buffers import free_on_all

_ARRAYS = 3  # of the triad


def open_compute(context: RankContext, compute: Compute) -> engine.Compute:
    """Allocates and fills the inputs. All ranks succeed, or all raise.

    Raises MissingError if the memory or the library is missing, UnsupportedError.
    """
    rank, device = context.rank, context.devices[0]
    free_bytes = free_on_all(device, rank.rank_group, len(context.job.ranks_here))
    if compute.name == MATMUL:
        needed, option = engine.product_bytes(device, compute.extent), "--matrix"
    else:
        needed, option = _ARRAYS * compute.extent, "--array"
    if needed > free_bytes:
        raise engine.MissingError(
            f"{compute.describe()} requires {format_size(needed)} of memory per rank; "
            f"{format_size(free_bytes)} are free: use a smaller {option}"
        )
    make = engine.make_product if compute.name == MATMUL else engine.make_triad
    return in_step(rank.agreement, partial(make, device, compute.extent))
