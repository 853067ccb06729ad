"""Cases with the placement of the outputs that a library supports."""

from __future__ import annotations

from dataclasses import replace

from cclmark.cli.collective.measuring import request_of
from cclmark.cli.options import Flags
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.plan.cases import Case, Sweep
from cclmark.plan.items import items_of
from cclmark.plan.libraries import in_place_only

AUTO = "auto"


def request_for(operation: str, flags: Flags, coordinator: Coordinator) -> tuple[Request, Sweep]:
    """Returns the request for ``operation``, as ``request_of``, also for the placement ``auto``.

    ``auto``: out-of-place, or in-place if the library supports nothing else. Raises CclmarkError.
    """
    if flags.placement != AUTO:
        return request_of([operation], flags, coordinator)
    request, plan = request_of([operation], replace(flags, placement="both"), coordinator)
    usual = [
        case
        for case in items_of(request.planned, Case)
        if case.in_place == in_place_only(case.ccl, case.operation)
    ]
    return replace(request, planned=usual), plan
