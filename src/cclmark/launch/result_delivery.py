"""The delivery of results to the listener of a run: each exactly once, none before the start."""

from __future__ import annotations

from collections import deque

from cclmark.launch.request import Listener, Surroundings
from cclmark.results.item_results import Result
from cclmark.results.schema import Condition, Explanation, Paths


class ResultDelivery:
    """Holds results and conditions until all ranks have started, and passes them on in order.

    ``has_begun``: whether the listener has received the surroundings.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._held_back: deque[Result | Condition | Explanation | Paths] = deque()
        self.has_begun = False

    def add(self, entry: Result | Condition | Explanation | Paths) -> None:
        """Holds an entry until the next call of ``pass_on``."""
        self._held_back.append(entry)

    def begin(self, surroundings: Surroundings) -> None:
        """Passes the surroundings on, then the entries held so far."""
        self.has_begun = True
        self._listener.started(surroundings)
        self.pass_on()

    def pass_on(self) -> None:
        """Passes each entry on exactly once, even if the listener raises UnreadError.

        Does nothing before ``begin``.
        """
        while self.has_begun and self._held_back:
            entry = self._held_back.popleft()
            if isinstance(entry, Condition):
                self._listener.condition(entry)
            elif isinstance(entry, Explanation):
                self._listener.explanation(entry)
            elif isinstance(entry, Paths):
                self._listener.paths(entry)
            else:
                self._listener.result(entry)
