"""The query of NCCL RAS about lagging ranks, in a thread beside the supervision of the ranks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Sequence

from cclmark.launch.ras import RasReport, ask_ras

_POLL_S = 0.02
_RAS_S = 5.0  # RAS waits for unresponsive processes, and is queried three times
_WITH_RAS = frozenset(("nccl", "torch:nccl"))


class RasQuery:
    """One query of RAS, and its answer."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._report: RasReport | None = None

    def begin(self, libraries: Collection[str], pids: Sequence[int]) -> None:
        """Starts a thread that queries RAS, once and only if one of the libraries supports it.

        ``pids``: the ranks on this host.
        """
        if self._thread is not None or _WITH_RAS.isdisjoint(libraries):
            return

        def ask() -> None:
            self._report = ask_ras(pids, os.environ, _RAS_S)

        self._thread = threading.Thread(target=ask, daemon=True)
        self._thread.start()

    def answer(self, wait: Callable[[float], None]) -> str:
        """The answer as lines of a report, empty without a query.

        ``wait``: waits for at most the given seconds; called until the answer has arrived.
        """
        if self._thread is None:
            return ""
        deadline_s = time.monotonic() + _RAS_S
        while self._thread.is_alive() and time.monotonic() < deadline_s:
            wait(_POLL_S)
        report = self._report
        if report is None:
            return "\n  NCCL RAS: no answer in time"
        lines = report.sentences() or [report.reason or "no rank is behind"]
        return "".join(f"\n  NCCL RAS: {line}" for line in lines)
