"""References: published figures, or those of the user's own machine at acceptance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from cclmark.work.items import P2P
from cclmark.work.operations import OPERATIONS, moves_data
from cclmark.work.sizes import format_size


class Source(msgspec.Struct, frozen=True):
    """The source of figures. ``own``: a user's source, not one shipped with cclmark."""

    name: str
    title: str
    published: str = ""
    url: str = ""
    note: str = ""
    file: str = ""
    own: bool = False


class Reference(msgspec.Struct, frozen=True):
    """One figure and the conditions of its measurement, as far as its source reports them.

    Empty texts, 0 and None mean unknown. ``devices``: (kind, count), see work.device_names;
    ``library`` and ``version`` are the collective library's, ``tool`` is the measuring tool.
    ``root``: a rank, or 0 or 1 for a pair. ``multicast``: NVLink's. ``launch``: process or thread
    (one for each device), or one thread (for all of them). ``kind``: measured, or floor for a limit
    that a figure must reach. ``approximate``: rounded or read off a plot. ``device_s``: the time of
    the devices, measured apart from the cost of a call (``time_s``). ``link``: of what is expected
    of any devices with this kind of link, ``NVLink 4``. The fields from
    ``measure`` on describe a copy, see work.transfers; ``pair`` is the device that copies and its
    peer, ``hops`` the length of the path between them, ``limit_bytes_per_s`` their link's specified
    rate.
    """

    source: Source
    operation: str
    devices: tuple[tuple[str, int], ...]
    hosts: int = 1
    library: str = ""
    version: str = ""
    tool: str = ""
    dtype: str = ""
    reduction: str = ""
    root: int | None = None
    in_place: bool | None = None
    multicast: bool | None = None
    launch: str = ""
    kind: str = "measured"
    approximate: bool = False
    conditions: str = ""
    link: str = ""
    size_bytes: int = 0
    time_s: float | None = None
    device_s: float | None = None
    algbw_bytes_per_s: float | None = None
    busbw_bytes_per_s: float | None = None
    measure: str = ""
    direction: str = ""
    engine: str = ""
    kernel: str = ""
    method: str = ""
    pair: tuple[int, int] | None = None
    hops: int | None = None
    limit_bytes_per_s: float = 0.0

    @property
    def subject(self) -> ReferenceSubject:
        """What the figure is of."""
        return SUBJECTS[self.operation]

    @property
    def count(self) -> int:
        """The number of devices, 0 if unknown."""
        counts = [count for _, count in self.devices]
        return sum(counts) if all(counts) else 0

    def series(self) -> Reference:
        """Returns the part that the points of one curve share: no size and no figures."""
        return msgspec.structs.replace(
            self,
            size_bytes=0,
            time_s=None,
            device_s=None,
            algbw_bytes_per_s=None,
            busbw_bytes_per_s=None,
        )


def devices_text(devices: tuple[tuple[str, int], ...]) -> str:
    """``4 × H200``, or ``2 × A800 + 2 × C550``."""
    return " + ".join(f"{count} × {kind}" if count else kind for kind, count in devices)


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
