"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark.kinds.simulate.plan import SIMULATE, Simulation
from cclmark.kinds.simulate.result import SimulationResult


def _report() -> Any:
    from cclmark.kinds.simulate.document import REPORT

    return REPORT


KIND = Kind(
    SIMULATE,
    Simulation,
    SimulationResult,
    "simulations",
    _report,
)
