"""The work beside collectives, as options of commands name it."""

from __future__ import annotations

from cclmark.errors import UsageError
from cclmark.options.option_values import size_of
from cclmark.plan.computations import Compute
from cclmark.plan.work_beside import MATMUL, TRIAD

_LEAST_ARRAY_BYTES = 4096
#: Runtimes with a matrix product, and the type of its elements.
_PRODUCTS = {"cuda": "bfloat16", "host": "float32"}


def compute_of(
    name: str, matrix: int | None, array: str, runtime: str, *, usual_rows: int, usual_array: str
) -> Compute:
    """Returns the compute of ``--compute``, ``--matrix`` and ``--array`` on devices of a runtime.

    ``usual_rows``, ``usual_array``: without ``--matrix`` and ``--array``. Raises UsageError.
    """
    if name == TRIAD:
        if matrix is not None:
            raise UsageError("--matrix requires --compute matmul; the size of arrays is --array")
        array_bytes = size_of("--array", array or usual_array)
        if array_bytes < _LEAST_ARRAY_BYTES:
            raise UsageError(f"--array {array}: at least {_LEAST_ARRAY_BYTES} bytes")
        return Compute(TRIAD, "float32", array_bytes // 16 * 16)
    if array:
        raise UsageError("--array requires --compute memory; the size of matrices is --matrix")
    if runtime not in _PRODUCTS:
        raise UsageError(
            f"no matrix product is known for {runtime} devices, only for "
            f"{' and '.join(_PRODUCTS)} devices: see --devices"
        )
    return Compute(MATMUL, _PRODUCTS[runtime], matrix or usual_rows)
