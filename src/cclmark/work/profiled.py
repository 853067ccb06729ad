"""Profiled operations: what a program executed, counted by group, operation, type and size."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from cclmark.work.counts import Count
from cclmark.work.items import PROFILE
from cclmark.work.sizes import format_size

#: The source of a profile that our plug-in recorded.
PLUG_IN = "plug-in"
#: Of a group, and more than any machine has.
MOST_RANKS = 1 << 20


class ProfiledOperation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls of a program that are alike.

    ``operation``: cclmark's name if it has one, otherwise the library's or framework's. ``group``:
    the number of the group in the profile (see journal.schema.ProfileGroup). ``group_ranks``: its
    size, 0 if unknown. ``dtype``: empty if unknown. ``count``: the elements that a rank passes for
    one call, as the library counts them: of one part for operations that span ranks. With
    ``is_range``, calls with different counts are counted together, and ``count`` is the smallest
    one that they may have; the largest is less than twice as large. ``size_bytes``: the size of the
    operation as the measuring commands count it.
    """

    kind: ClassVar[str] = PROFILE

    operation: str
    ccl: str
    group: Count
    group_ranks: Annotated[int, msgspec.Meta(ge=0, le=MOST_RANKS)]
    dtype: str
    count: Count
    size_bytes: Count
    is_range: bool = False

    @property
    def work(self) -> str:
        """The operation."""
        return self.operation

    @property
    def library(self) -> str:
        """The library that performed it."""
        return self.ccl

    @property
    def ranks(self) -> int:
        """The number of ranks that took part."""
        return self.group_ranks

    def describe(self) -> str:
        """The operation in words, for messages."""
        of_ranks = f" on {self.group_ranks} ranks" if self.group_ranks else ""
        return f"{self.operation} of {format_size(self.size_bytes)} {self.dtype}{of_ranks}"

    def is_within(self, devices: int) -> bool:
        """True: a profile contains processes, not devices."""
        return True

    def series(self) -> ProfiledOperation:
        """The operation without its size."""
        return msgspec.structs.replace(self, count=0, size_bytes=0, is_range=False)
