"""The record of this kind of work."""

from __future__ import annotations

from cclmark.kinds.replay.plan import REPLAY, Replay
from cclmark.kinds.replay.result import ReplayResult
from cclmark.results.kind import Kind

KIND = Kind(
    REPLAY,
    Replay,
    ReplayResult,
    "replays",
    __package__,
    in_rounds=True,
)
