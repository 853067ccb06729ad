"""Runs a collective with ``--pieces``: the same message in one call and in several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from cclmark.errors import UsageError
from cclmark.kinds.pieces.kind import KIND
from cclmark.kinds.pieces.plan import piece_cases
from cclmark.launch.request import Request
from cclmark.plan.cases import Case
from cclmark.plan.items import items_of

_TIMINGS = ("auto", "throughput", "blocking")


def pieces_request(request: Request, numbers: Sequence[int]) -> Request:
    """Returns the request for the cases of ``request`` in these numbers of pieces.

    Raises UsageError.
    """
    settings = request.settings
    if settings.timing not in _TIMINGS:
        raise UsageError(f"--pieces: --timing is throughput or blocking, not {settings.timing}")
    timing = "throughput" if settings.timing == "auto" else settings.timing
    return replace(
        request,
        kind=KIND,
        settings=msgspec.structs.replace(settings, timing=timing),
        planned=piece_cases(items_of(request.planned, Case), numbers),
    )
