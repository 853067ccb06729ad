"""The work of a rank for each kind of work: one module per kind, listed in one table."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from cclmark.plan.items import CHECK, COLLECTIVE, P2P, PAIRS
from cclmark.run.context import RankContext

# Each module defines ``run(context)``. Ranks import only the module of their kind.
_MODULES = {COLLECTIVE: "collective", PAIRS: "pairs", P2P: "p2p", CHECK: "check"}


def runner_of(kind: str) -> Callable[[RankContext], None]:
    """The function that runs the work of ``kind``. Raises KeyError for an unknown kind."""
    run: Callable[[RankContext], None] = import_module(f"{__name__}.{_MODULES[kind]}").run
    return run
