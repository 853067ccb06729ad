"""The matrix product of a device, as options of commands name it."""

from __future__ import annotations

from cclmark.errors import UsageError
from cclmark.plan.overlaps import MATMUL, Compute

#: Runtimes with a matrix product, and the type of its elements.
_PRODUCTS = {"cuda": "bfloat16", "host": "float32"}


def product_on(runtime: str, rows: int) -> Compute:
    """Returns the product of square matrices on devices of a runtime.

    Raises UsageError if none is known for them.
    """
    if runtime not in _PRODUCTS:
        raise UsageError(
            f"no matrix product is known for {runtime} devices, only for "
            f"{' and '.join(_PRODUCTS)} devices: see --devices"
        )
    return Compute(MATMUL, _PRODUCTS[runtime], rows)
