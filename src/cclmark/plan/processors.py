"""Lists of processors in the format of the Linux kernel: ``0-7,64-71``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from cclmark.plan.ranges import in_ranges

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
