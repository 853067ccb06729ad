"""What a rank does for each kind of work: one module for each, named in one table."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from cclmark.plan.kinds import CHECK, COLLECTIVE, P2P, PAIRS
from cclmark.run.context import RankContext

# Each module has ``run(context)``, and is imported only by the ranks that need it.
_MODULES = {COLLECTIVE: "collective", PAIRS: "pairs", P2P: "p2p", CHECK: "check"}


def runner_of(kind: str) -> Callable[[RankContext], None]:
    """What a rank runs for ``kind``. Raises KeyError for an unknown one."""
    run: Callable[[RankContext], None] = import_module(f"{__name__}.{_MODULES[kind]}").run
    return run
