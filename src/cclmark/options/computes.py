"""The work beside collectives, as options of commands name it."""

from __future__ import annotations

from cclmark.errors import UsageError
from cclmark.options.groups import ComputeOptions
from cclmark.plan.computations import Compute
from cclmark.plan.work_beside import MATMUL, TRIAD

#: Runtimes with a matrix product, and the type of its elements.
_PRODUCTS = {"cuda": "bfloat16", "host": "float32"}


def compute_of(
    options: ComputeOptions, runtime: str, *, usual_rows: int, usual_array_bytes: int
) -> Compute:
    """Returns the compute of ``--compute``, ``--matrix`` and ``--array`` on devices of a runtime.

    ``usual_rows``, ``usual_array_bytes``: without ``--matrix`` and ``--array``. Raises UsageError.
    """
    if options.compute == TRIAD:
        return Compute(TRIAD, "float32", (options.array or usual_array_bytes) // 16 * 16)
    if runtime not in _PRODUCTS:
        raise UsageError(
            f"no matrix product is known for {runtime} devices, only for "
            f"{' and '.join(_PRODUCTS)} devices: see --devices"
        )
    return Compute(MATMUL, _PRODUCTS[runtime], options.matrix or usual_rows)
