"""Groups of ranks, each with its own library, which ``bridge`` joins into one communicator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cclmark.base.errors import UsageError


class Island(msgspec.Struct, frozen=True):
    """Ranks ``first`` to ``last`` and the library that connects them.

    ``ccl`` is empty for an island of one rank, and where no library is chosen yet.
    """

    first: int
    last: int
    ccl: str

    @property
    def ranks(self) -> list[int]:
        """The ranks of the island."""
        return list(range(self.first, self.last + 1))

    def describe(self) -> str:
        """The island in the syntax of ``--islands``."""
        span = f"{self.first}-{self.last}" if self.last != self.first else str(self.first)
        return f"{span}={self.ccl}" if self.ccl else span


def parse_islands(
    text: str,
    runtimes: Sequence[str],
    libraries: Mapping[str, Sequence[str]],
    natural: Mapping[str, bool],
    hosts: Sequence[int],
) -> list[Island]:
    """Parses islands such as ``0-1=nccl,2-3=shm``; an island without a name gets the first library.

    ``runtimes``: the runtime of each rank's device. ``libraries``: the libraries allowed for the
    devices of a runtime. ``natural``: whether the first of them is the default for these devices.
    ``hosts``: a number for the host of each rank. ``host`` or ``host=nccl`` creates one island per
    host, an empty text one island for each stretch of ranks with one host and one runtime.
    Raises UsageError for islands that overlap, are out of order, omit a rank or mix runtimes, and
    for a library that does not support the devices.
    """
    islands: list[Island] = []
    for island in _asked_for(text.strip(), runtimes, hosts):
        named = f"the island {island.describe()!r}"
        expected = islands[-1].last + 1 if islands else 0
        _check_span(island, expected, len(runtimes))
        kinds = sorted({runtimes[rank] for rank in island.ranks})
        if len(kinds) > 1:
            raise UsageError(
                f"{named} has {' and '.join(kinds)} devices, but a library supports only one kind"
            )
        allowed = libraries[kinds[0]]
        if island.ccl and island.ccl not in allowed:
            raise UsageError(f"{named}: for {kinds[0]} devices choose from {', '.join(allowed)}")
        if island.last == island.first:
            islands.append(msgspec.structs.replace(island, ccl=""))
            continue
        if not island.ccl and not natural[kinds[0]]:
            raise UsageError(
                f"{named}: several libraries support {kinds[0]} devices: append = and one of "
                f"{', '.join(allowed)}"
            )
        used = island.ccl or allowed[0]
        if used == "shm" and len({hosts[rank] for rank in island.ranks}) > 1:
            raise UsageError(
                f"{named} spans several hosts, but shm works within one host: use --islands host"
            )
        islands.append(msgspec.structs.replace(island, ccl=used))
    if islands[-1].last != len(runtimes) - 1:
        raise UsageError(
            f"the islands omit the ranks from {islands[-1].last + 1} on: every rank must be in an "
            "island"
        )
    if len(runtimes) < 2:
        raise UsageError("bridge requires at least two islands, but there is only one rank: see -g")
    if len(islands) < 2:
        raise UsageError(
            "bridge requires at least two islands, but these ranks form one: set --islands, for "
            f"example --islands 0-{len(runtimes) // 2 - 1},{len(runtimes) // 2}-{len(runtimes) - 1}"
        )
    return islands


def _asked_for(text: str, runtimes: Sequence[str], hosts: Sequence[int]) -> list[Island]:
    """The islands that ``text`` requests, or the default ones, with the libraries it names."""
    by_host, equals, ccl = text.partition("=")
    if by_host == "host" and equals and not ccl:
        raise UsageError(f"cannot read {text!r}: write host, or host=nccl")
    if by_host == "host":
        return [Island(first, last, ccl) for first, last in _by_host(hosts, ccl)]
    if not text:
        kinds = list(zip(hosts, runtimes, strict=True))
        return [Island(first, last, "") for first, last in _stretches(kinds)]
    return [_read(part.strip()) for part in text.split(",")]


def _read(part: str) -> Island:
    span, equals, ccl = part.partition("=")
    first, dash, last = span.partition("-")
    last = last if dash else first
    if not (_is_number(first) and _is_number(last)) or (equals and not ccl):
        raise UsageError(f"cannot read the island {part!r}: write 0-1=nccl,2-3=nccl")
    return Island(int(first), int(last), ccl)


def _by_host(hosts: Sequence[int], ccl: str) -> list[tuple[int, int]]:
    """The first and the last rank of each host. Raises UsageError."""
    if "," in ccl:
        raise UsageError(
            "--islands host supports only one library for all islands: write host=nccl"
        )
    spans = _stretches(hosts)
    if len(spans) < 2:
        raise UsageError(
            "--islands host creates one island per host, but all ranks are on one host: list the "
            "ranks, for example --islands 0-1,2-3"
        )
    if len(spans) > len(set(hosts)):
        raise UsageError(
            "--islands host creates one island per host, but the ranks of a host are not "
            f"consecutive (hosts of the ranks: {' '.join(map(str, hosts))}): place the ranks host "
            "by host, for example with mpirun --map-by slot, -ppn N or srun -m block"
        )
    return spans


def _check_span(island: Island, expected: int, ranks: int) -> None:
    named = f"the island {island.describe()!r}"
    if island.last < island.first:
        raise UsageError(f"{named} ends before it begins")
    if island.last >= ranks:
        raise UsageError(f"{named}: the ranks are 0 to {ranks - 1}")
    if island.first < expected:
        raise UsageError(f"{named}: rank {island.first} is already in an earlier island")
    if island.first > expected:
        raise UsageError(
            f"the islands omit rank {expected}: islands must be consecutive ranks, in order, and "
            "include every rank"
        )


def _stretches(kinds: Sequence[object]) -> list[tuple[int, int]]:
    """The first and the last rank of every run of equal kinds."""
    starts = [rank for rank, kind in enumerate(kinds) if rank == 0 or kind != kinds[rank - 1]]
    ends = [*(start - 1 for start in starts[1:]), len(kinds) - 1]
    return list(zip(starts, ends, strict=True))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6
