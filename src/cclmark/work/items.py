"""Items: the units of work that a run measures, whatever their kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

#: The kinds of cases, of transfers, and of programs. The others are named in their rooms.
COLLECTIVE, PAIRS, P2P, PROFILE = "collective", "pairs", "p2p", "profile"

#: Enumerations of the schema are texts for the type checker, and Literal where msgspec decodes a
#: file. A file of a newer version may have other words: its lines are left out with a notice, see
#: journal.journal_file.
if TYPE_CHECKING:
    Status: TypeAlias = str
else:
    Status = Literal["ok", "wrong", "skipped", "unsupported", "failed", "error", "timeout", "died"]

Value = str | int | float | bool | None  # of a field of an item


@runtime_checkable
class Outlined(Protocol):
    """An item that contains another one, or has values that are no field."""

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """The item whose fields describe it, and other values by name, see journal.resume."""


class Item(Protocol):
    """The interface of items, frozen structs: equal ones describe the same measurement."""

    @property
    def kind(self) -> str:
        """The name of the kind in kinds.registry.KINDS."""

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""

    @property
    def library(self) -> str:
        """The library, backend or engine that performs it."""

    @property
    def ccl(self) -> str:
        """The CCL that performs it, empty for none."""

    @property
    def size_bytes(self) -> int:
        """The size to which the figures refer, 0 for an item without one."""

    @property
    def ranks(self) -> int:
        """The number of ranks that take part, 0 where every rank of the run does."""

    def describe(self) -> str:
        """The item in words, for messages."""

    def is_within(self, devices: int) -> bool:
        """Whether the numbers of its devices are below ``devices``."""

    def series(self) -> Self:
        """The key that the items of one curve or matrix share, for example without the size."""


class OfFormulas:
    """An item without ranks, sizes and CCL: its figures follow from formulas."""

    @property
    def ccl(self) -> str:
        """Empty: no CCL takes part."""
        return ""

    @property
    def size_bytes(self) -> int:
        """0: it has no size."""
        return 0

    @property
    def ranks(self) -> int:
        """0: no rank takes part."""
        return 0

    def is_within(self, devices: int) -> bool:
        """True: none of the devices of this machine takes part."""
        return True


Some = TypeVar("Some")


def items_of(planned: Sequence[Item], kind: type[Some]) -> list[Some]:
    """``planned`` as a list of one type. Raises TypeError for an item of another type."""
    found: list[Some] = []
    for one in planned:
        if not isinstance(one, kind):
            raise TypeError(f"{one} is not a {kind.__name__}")
        found.append(one)
    return found
