"""What references are of: operations of a collective library, or copies between devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cclmark.plan.items import P2P
from cclmark.plan.operations import OPERATIONS, moves_data
from cclmark.plan.sizes import format_size

if TYPE_CHECKING:
    from cclmark.references.reference import Reference

_PLACEMENTS = {True: "in-place", False: "out-of-place", None: ""}


@dataclass(frozen=True)
class ReferenceSubject:
    """What figures are of.

    ``describe``: the words for a series. ``rooted``: whether there can be a root. ``keys``: the
    keys of a file that describe only this subject, ``required`` those that must be present.
    ``by_pair``: a series has one size and lists pairs of devices; others list sizes.
    """

    describe: Callable[[Reference], list[str]]
    rooted: bool
    keys: Sequence[str] = ()
    required: Sequence[str] = ()
    by_pair: bool = False


def _operation_words(one: Reference) -> list[str]:
    root = "" if one.root is None else f"root {one.root}"
    return [one.operation, one.dtype, one.reduction, root, _PLACEMENTS[one.in_place]]


def _copy_words(one: Reference) -> list[str]:
    size = format_size(one.size_bytes) if one.size_bytes else ""
    return [one.measure, one.direction, one.engine, one.kernel, size]


COPIES = ReferenceSubject(
    _copy_words,
    rooted=False,
    keys=("measure", "direction", "engine", "kernel", "method", "link_gbps", "matrix"),
    required=("measure",),
    by_pair=True,
)
#: By the operation of a reference; P2P as an operation: a copy from one device to another.
SUBJECTS = {
    **{
        name: ReferenceSubject(_operation_words, rooted=row.rooted)
        for name, row in OPERATIONS.items()
        if moves_data(name)
    },
    P2P: COPIES,
}
