"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_planning.simulate.plan import SIMULATE, Simulation
from cclmark_planning.simulate.result import SimulationResult


def _report() -> Any:
    from cclmark_planning.simulate.document import REPORT

    return REPORT


KIND = Kind(
    SIMULATE,
    Simulation,
    SimulationResult,
    "simulations",
    _report,
)
