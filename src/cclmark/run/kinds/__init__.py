"""The work of a rank for each kind of work: one module per kind, with the name of the kind.

Each defines ``run(context)``. Ranks import only the module of their kind.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from cclmark.run.context import RankContext


def runner_of(kind: str) -> Callable[[RankContext], None]:
    """The function that runs the work of ``kind``, a key of results.kinds.KINDS."""
    run: Callable[[RankContext], None] = import_module(f"{__name__}.{kind}").run
    return run
