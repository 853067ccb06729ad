"""Why a case is unknown where the processes that measured it are the only ones."""

from __future__ import annotations

from cclmark.plan.libraries import MPI


def without_second_process(ccl: str) -> str:
    """The reason for a case of the library ``ccl``, and what to do."""
    alone = "" if ccl == MPI else f", or {ccl} alone"
    return (
        f"what {ccl} does is observed by a second process for each rank, which the MPI of this "
        f"launcher does not support: run without the launcher{alone}"
    )
