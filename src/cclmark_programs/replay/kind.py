"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_programs.replay.plan import REPLAY, Replay
from cclmark_programs.replay.result import ReplayResult


def _report() -> Any:
    from cclmark_programs.replay.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark_programs.replay.run import run

    return run


KIND = Kind(
    REPLAY,
    Replay,
    ReplayResult,
    "replays",
    _report,
    in_rounds=True,
    runner=_runner,
)
