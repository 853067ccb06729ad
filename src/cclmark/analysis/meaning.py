"""Whether the times of a run mean anything for single devices and links."""

from __future__ import annotations

from cclmark.results.schema import Header

# How the notice of a run ends whose ranks share processors: written by launch, read back here.
TIMES_MEAN_LITTLE = "they take turns, and their times are not meaningful"
_OLDER = "they take turns, and their times say little"  # in older journals


def times_mean_little(header: Header) -> bool:
    """Whether ranks shared processors: which pair is slow is then the scheduler's choice, not the
    link's. A fault that was injected is to be found all the same.
    """
    crowded = any(notice.endswith((TIMES_MEAN_LITTLE, _OLDER)) for notice in header.notices)
    return crowded and not header.settings.inject
