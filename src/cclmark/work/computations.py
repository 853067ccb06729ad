"""The work beside a collective: what computes or moves memory meanwhile."""

from __future__ import annotations

import msgspec

from cclmark.work.counts import Count
from cclmark.work.sizes import format_size
from cclmark.work.work_beside import MATMUL, Work

_TRIAD_ARRAYS = 3
#: The runtimes for which the engine has a matrix product.
PRODUCT_RUNTIMES = ("cuda", "host")


class Compute(msgspec.Struct, frozen=True):
    """The work beside a collective.

    ``name``: MATMUL, the product of two square matrices, or TRIAD, the triad of the STREAM
    benchmark. ``extent``: the number of rows of the matrices, or the size of each array in bytes.
    """

    name: Work
    dtype: str
    extent: Count

    @property
    def work(self) -> float:
        """The floating-point operations of one operation, or the bytes that it moves."""
        if self.name == MATMUL:
            return 2.0 * self.extent**3
        return float(_TRIAD_ARRAYS * self.extent)

    def describe(self) -> str:
        """The compute in words: ``matmul 8192 x 8192 x 8192 bfloat16``."""
        if self.name == MATMUL:
            return f"matmul {' x '.join([str(self.extent)] * 3)} {self.dtype}"
        return f"triad on arrays of {format_size(self.extent)}"
