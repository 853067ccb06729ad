"""The processors to which ``--bind`` binds the ranks of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cclmark.errors import UsageError
from cclmark.plan.processors import format_processors, parse_processors
from cclmark.plan.ranges import in_ranges
from cclmark.regular_file import read_regular

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
    """The processors of ranks 0 to ``ranks`` - 1. ``entries``: the source and the text of each.

    Raises UsageError.
    """
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
