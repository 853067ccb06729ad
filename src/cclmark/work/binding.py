"""The processors to which ``--bind`` binds the ranks of a run.

Lists of processors have the format of the Linux kernel: ``0-7,64-71``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from cclmark.base.errors import UsageError
from cclmark.base.files import read_regular
from cclmark.work.sizes import in_ranges

MOST_PROCESSORS = 8192  # the largest CONFIG_NR_CPUS that Linux supports
_PART = re.compile(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6})/(\d{1,6}))?)?", re.ASCII)


def parse_processors(text: str) -> set[int]:
    """Parses a list of processors such as ``0-3,8`` or ``0-31:2/8`` (the first 2 of every 8).

    The syntax is that of the kernel's bitmap_parselist, without the words ``N`` and ``all``. An
    empty text, as for a NUMA node without processors, is an empty list. Raises ValueError.
    """
    processors: set[int] = set()
    named = 0
    for part in text.split(",") if text.strip() else ():
        numbers = _range_of(part.strip())
        named += len(numbers)
        if named > 2 * MOST_PROCESSORS:  # overlapping ranges are valid but cost time
            raise ValueError(f"more than {2 * MOST_PROCESSORS} processors are listed")
        processors.update(numbers)
    return processors


def _range_of(part: str) -> Collection[int]:
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is not a processor or a range of processors (0-7,64-71)")
    first = int(found[1])
    last = int(found[2] or first)
    used, group = int(found[3] or 1), int(found[4] or 1)
    if last < first:
        raise ValueError(f"the range {part} ends before it begins")
    if last >= MOST_PROCESSORS:
        raise ValueError(f"processor {last} is above the largest possible, {MOST_PROCESSORS - 1}")
    if not 1 <= used <= group:
        raise ValueError(f"{part}: write FIRST-LAST:USED/GROUP with USED from 1 to GROUP")
    return [one for one in range(first, last + 1) if (one - first) % group < used]


def format_processors(processors: Iterable[int]) -> str:
    """Formats processors for ``parse_processors``, without strides: ``0-3,8``."""
    return in_ranges(sorted(processors))


NONE, NUMA, RANKS = "none", "numa", "ranks"
_MOST_BYTES = 1 << 20
_ENTRY = re.compile(r"\s*(\d{1,9})\s*[:=](.*)", re.ASCII)


@dataclass(frozen=True)
class Binding:
    """The binding of a run's ranks.

    ``mode``: empty for the default of the devices, ``none``, ``numa`` or ``ranks``. ``of_rank``:
    the processors of each rank in mode ``ranks``, otherwise empty.
    """

    mode: str = ""
    of_rank: tuple[frozenset[int], ...] = ()

    @classmethod
    def parse(cls, text: str, ranks: int) -> Binding:
        """Parses ``--bind`` for a run of ``ranks`` ranks.

        ``text``: ``none``, ``numa``, the name of a file with a line ``RANK: PROCESSORS`` for each
        rank, or these lines as a list, ``ranks:0=0-7;1=8-15``, the format of ``str`` of a binding.
        Raises UsageError.
        """
        if text in ("", NONE, NUMA):
            return cls(text)
        mode, colon, entries = text.partition(":")
        if mode == RANKS and colon:
            numbered = ((f"--bind {RANKS}:", entry) for entry in entries.split(";"))
            return cls(RANKS, _of_every_rank(numbered, f"--bind {RANKS}:", ranks))
        lines = enumerate(_lines_of(Path(text)), 1)
        named = ((f"--bind {text}, line {number}", line) for number, line in lines)
        return cls(RANKS, _of_every_rank(named, f"--bind {text}", ranks))

    def __str__(self) -> str:
        if self.mode != RANKS:
            return self.mode
        entries = (f"{rank}={format_processors(own)}" for rank, own in enumerate(self.of_rank))
        return f"{RANKS}:{';'.join(entries)}"


def mode_of(text: str) -> str:
    """The mode of a binding in the format of ``str`` of a Binding."""
    return text.partition(":")[0]


def _lines_of(path: Path) -> list[str]:
    """The lines of a user's file. Raises UsageError."""
    try:
        content = read_regular(path, _MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--bind: cannot read {path}: {reason}. Write none, numa or the name of a file with a "
            "line RANK: PROCESSORS for every rank"
        ) from None
    try:
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"--bind {path} is not UTF-8 text") from None


def _of_every_rank(
    entries: Iterable[tuple[str, str]], source: str, ranks: int
) -> tuple[frozenset[int], ...]:
    """The processors of the ranks by ``entries``, each with its source. Raises UsageError."""
    found: dict[int, frozenset[int]] = {}
    for where, entry in entries:
        line = entry.partition("#")[0].strip()
        if not line:
            continue
        rank, processors = _entry(where, line)
        if rank >= ranks:
            raise UsageError(
                f"{where}: rank {rank} is not in this run, which has {_ranks_in_words(ranks)}"
            )
        if rank in found:
            raise UsageError(f"{where}: rank {rank} is bound twice")
        found[rank] = processors
    missing = [rank for rank in range(ranks) if rank not in found]
    if missing:
        raise UsageError(
            f"{source} does not bind rank{'s' * (len(missing) > 1)} {in_ranges(missing)}: this run "
            f"has {_ranks_in_words(ranks)}; write one line for each rank"
        )
    return tuple(found[rank] for rank in range(ranks))


def _entry(where: str, line: str) -> tuple[int, frozenset[int]]:
    match = _ENTRY.fullmatch(line)
    if match is None:  # the file may be unrelated, so messages do not quote its content
        raise UsageError(f"{where}: expected RANK: PROCESSORS, for example 0: 0-7")
    try:
        processors = frozenset(parse_processors(match[2]))
    except ValueError as error:
        raise UsageError(f"{where}: {str(error)[:200]}") from None
    if not processors:
        raise UsageError(f"{where}: rank {match[1]} is bound to no processor")
    return int(match[1]), processors


def _ranks_in_words(ranks: int) -> str:
    return "only rank 0" if ranks == 1 else f"ranks 0 to {ranks - 1}"
