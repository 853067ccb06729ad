"""Holds a rank where a test needs it, however slow or fast the machine is."""

from pathlib import Path

_HOLD = """
import os, sys, time

if "cclmark.rank_process" in sys.orig_argv and "HELD_IN_TEST" in os.environ:
    from cclmark.rendezvous.board import Board

    enter = Board.enter

    def hold(board, rank, phase, *rest):
        if f"{rank} start-up" == os.environ["HELD_IN_TEST"]:
            time.sleep(120)  # before it enters its first phase
        enter(board, rank, phase, *rest)
        if f"{rank} {phase}" == os.environ["HELD_IN_TEST"]:
            if "RAISED_IN_TEST" in os.environ:
                raise ArithmeticError("of all things")
            time.sleep(120)

    Board.enter = hold
"""


def held(directory: Path, rank: int, phase: str) -> dict[str, str]:
    """The environment of a run whose ``rank`` stays in ``phase``. Writes into ``directory``."""
    (directory / "sitecustomize.py").write_text(_HOLD)
    return {"PYTHONPATH": str(directory), "HELD_IN_TEST": f"{rank} {phase}"}
