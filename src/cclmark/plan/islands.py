"""Groups of ranks with a library of their own, of which ``bridge`` makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cclmark.errors import UsageError


class Island(msgspec.Struct, frozen=True):
    """Ranks ``first`` to ``last``, and the library that they use among themselves: none, an empty
    ``ccl``, where there is one rank.
    """

    first: int
    last: int
    ccl: str

    @property
    def ranks(self) -> list[int]:
        """The ranks in it."""
        return list(range(self.first, self.last + 1))

    def describe(self) -> str:
        """As ``--islands`` takes it."""
        span = f"{self.first}-{self.last}" if self.last > self.first else str(self.first)
        return f"{span}={self.ccl}" if self.ccl else span


def parse_islands(
    text: str,
    runtimes: Sequence[str],
    libraries: Mapping[str, Sequence[str]],
    natural: Mapping[str, bool],
    hosts: Sequence[int],
) -> list[Island]:
    """The islands of ``text``, such as ``0-1=nccl,2-3=shm``; without a name, the first that fits.

    ``runtimes``: of the ranks' devices. ``libraries``: those that may be named for the devices of a
    runtime, ``natural``: whether the first of them goes with the devices. ``hosts``: a number for
    the host of each rank. ``host`` or ``host=nccl`` makes an island of each host's ranks, an empty
    text one of all ranks of a host whose devices are of one runtime.
    Raises UsageError for islands that overlap, are out of order, leave a rank out or mix runtimes,
    and for a library that does not work there.
    """
    by_host, equals, ccl = text.strip().partition("=")
    if by_host == "host":
        parts = [span + equals + ccl for span in _by_host(hosts, ccl)]
    else:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
    parts = parts or _stretches(list(zip(hosts, runtimes, strict=True)))
    islands: list[Island] = []
    for part in parts:
        span, equals, ccl = part.partition("=")
        first, dash, last = span.partition("-")
        last = last if dash else first
        if not (_is_number(first) and _is_number(last)) or (equals and not ccl):
            raise UsageError(f"cannot read the island {part!r}: write 0-1=nccl,2-3=nccl")
        expected = islands[-1].last + 1 if islands else 0
        _check_span(part, int(first), int(last), expected, len(runtimes))
        kinds = sorted(set(runtimes[int(first) : int(last) + 1]))
        if len(kinds) > 1:
            raise UsageError(
                f"the island {part!r} has {' and '.join(kinds)} devices: one library takes one kind"
            )
        allowed = libraries[kinds[0]]
        if ccl and ccl not in allowed:
            raise UsageError(
                f"the island {part!r}: on {kinds[0]} devices choose from {', '.join(allowed)}"
            )
        if not ccl and not natural[kinds[0]] and last != first:
            raise UsageError(
                f"the island {part!r}: {kinds[0]} devices have several libraries, say which after "
                f"=: {', '.join(allowed)}"
            )
        used = (ccl or allowed[0]) if int(last) > int(first) else ""
        island = Island(int(first), int(last), used)
        if island.ccl == "shm" and len({hosts[rank] for rank in island.ranks}) > 1:
            raise UsageError(
                f"the island {part!r} is on several hosts, and shm works within one: --islands host"
            )
        islands.append(island)
    if islands[-1].last != len(runtimes) - 1:
        raise UsageError(
            f"the islands leave out the ranks from {islands[-1].last + 1} on, up to "
            f"{len(runtimes) - 1}: every rank has to be in one"
        )
    if len(runtimes) < 2:
        raise UsageError("bridge takes two islands or more, and there is one rank: see -g")
    if len(islands) < 2:
        raise UsageError(
            "bridge takes two islands or more, and these ranks are one: see --islands, such as "
            f"--islands 0-{len(runtimes) // 2 - 1},{len(runtimes) // 2}-{len(runtimes) - 1}"
        )
    return islands


def _by_host(hosts: Sequence[int], ccl: str) -> list[str]:
    """An island of each host's ranks. Raises UsageError."""
    if "," in ccl:
        raise UsageError("--islands host takes one library for all: host=nccl")
    parts = _stretches(hosts)
    if len(parts) < 2:
        raise UsageError(
            "--islands host makes an island of each host, and all ranks are on one: say which "
            "ranks, such as --islands 0-1,2-3"
        )
    if len(parts) > len(set(hosts)):
        raise UsageError(
            f"--islands host makes an island of each host, and the ranks of one are not in a row "
            f"(hosts of the ranks: {' '.join(map(str, hosts))}): have them placed host by host, as "
            "with mpirun --map-by slot, -ppn N or srun -m block"
        )
    return parts


def _check_span(part: str, first: int, last: int, expected: int, ranks: int) -> None:
    if last < first:
        raise UsageError(f"the island {part!r} ends before it begins")
    if last >= ranks:
        raise UsageError(f"the island {part!r}: the ranks are 0 to {ranks - 1}")
    if first < expected:
        raise UsageError(f"the island {part!r}: rank {first} is in an island before it already")
    if first > expected:
        raise UsageError(
            f"the islands leave out rank {expected}: islands are ranks in a row, in order, and "
            "every rank is in one"
        )


def _stretches(kinds: Sequence[object]) -> list[str]:
    """An island of every stretch of ranks of one kind."""
    starts = [rank for rank, kind in enumerate(kinds) if rank == 0 or kind != kinds[rank - 1]]
    ends = [*(start - 1 for start in starts[1:]), len(kinds) - 1]
    return [f"{start}-{end}" for start, end in zip(starts, ends, strict=True)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6
