"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.kind import Kind
from cclmark.kinds.replay.plan import REPLAY, Replay
from cclmark.kinds.replay.result import ReplayResult

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark.kinds.replay.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
    from cclmark.kinds.replay.run import run

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
