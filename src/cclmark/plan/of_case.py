"""Work that measures one case of an operation in another way than a sweep does."""

from __future__ import annotations

from cclmark.plan.cases import Case


class OfCase:
    """The properties that plan.items requires, from the case of an item."""

    __slots__ = ()

    case: Case

    @property
    def work(self) -> str:
        """The operation."""
        return self.case.operation

    @property
    def library(self) -> str:
        """The library that performs it."""
        return self.case.ccl

    @property
    def ccl(self) -> str:
        """The CCL that performs it."""
        return self.case.ccl

    @property
    def size_bytes(self) -> int:
        """The size of the whole message."""
        return self.case.size_bytes

    @property
    def ranks(self) -> int:
        """The number of ranks that take part."""
        return self.case.ranks

    def is_within(self, devices: int) -> bool:
        """Whether the ranks are among so many devices."""
        return self.case.is_within(devices)
