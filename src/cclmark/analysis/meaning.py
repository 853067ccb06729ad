"""Decides whether the times of a run are meaningful for single devices and links."""

from __future__ import annotations

from cclmark.results.schema import Header

# The end of the notice of a run whose ranks share processors. The launcher writes it.
TIMES_MEAN_LITTLE = "they take turns, and their times are not meaningful"
_OLDER = "they take turns, and their times say little"  # in older journals


def times_mean_little(header: Header) -> bool:
    """Whether ranks shared processors: then the scheduler, not the link, makes a pair slow.

    False with an injected fault, which must still be found.
    """
    crowded = any(notice.endswith((TIMES_MEAN_LITTLE, _OLDER)) for notice in header.notices)
    return crowded and not header.settings.inject
