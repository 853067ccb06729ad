"""Completes a run even if a case hangs or the library of a pair fails, also for messages of p2p.

The state of a communicator that hangs is undefined, so the ranks are ended. The case is skipped, or
for a pair the operation, and new ranks continue with the remaining cases.
"""

from __future__ import annotations

from dataclasses import replace

from cclmark.errors import EXIT_DIED, EXIT_OK
from cclmark.launch.attempt import Attempt
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.rendezvous.messages import Failed, RankStatus
from cclmark.results.item_results import Result
from cclmark.results.schema import Condition, Explanation, Paths

_STATUS = {"timeout": "timeout", "error": "died"}
_MOST_IN_A_ROW = 3  # consecutive hangs, after which the next case would probably hang too


class PersistentLaunch:
    """One run with as many attempts as required."""

    def __init__(self, request: Request, listener: Listener) -> None:
        self._request = request
        self._tally = _Tally(listener)

    def run(self) -> Outcome:
        """Runs all attempts. Skipped cases get results with their status and the reason."""
        request, items = self._request, self._request.items
        kind = request.kind
        in_a_row = 0
        while True:
            before = len(self._tally.done)
            self._tally.begin_attempt()
            outcome = Attempt(request, self._tally).run()
            failure = outcome.failure
            if failure is None or not self._may_go_on(outcome, failure):
                return outcome
            in_a_row = 1 if len(self._tally.done) > before else in_a_row + 1
            culprit = items[failure.case_index]
            reason = failure.message if kind.independent else outcome.message.partition("\n")[0]
            if culprit.describe() not in reason:
                reason = f"{failure.phase} of {culprit.describe()}: {reason}"
            todo = request.pending or range(len(items))
            left = [index for index in todo if index not in self._tally.done]
            pending = []
            for index in left:
                item = items[index]
                if index == failure.case_index or kind.falls_with(item, culprit, failure.phase):
                    status, report = _STATUS[failure.kind], outcome.message
                    self._tally.result(kind.failed(index, item, status, reason, report))
                else:
                    pending.append(index)
            if len(pending) == len(left):
                return outcome  # another attempt would repeat the same cases
            if not pending:
                if not kind.independent:
                    self._tally.say(outcome.message)
                return Outcome(EXIT_OK, phases_s=outcome.phases_s)
            if not kind.independent:
                if in_a_row >= _MOST_IN_A_ROW:
                    return Outcome(
                        EXIT_DIED,
                        f"{outcome.message}\n{in_a_row} consecutive cases hung: the remaining "
                        "cases are not measured",
                        outcome.phases_s,
                    )
                self._tally.say(f"{outcome.message}\nnew ranks continue with the next case")
            request = replace(request, pending=pending)

    def _may_go_on(self, outcome: Outcome, failure: Failed) -> bool:
        """Whether new ranks may continue with another case."""
        request = self._request
        return (
            not request.starts_ranks_once
            and outcome.exit_code == EXIT_DIED
            and failure.kind in request.kind.forgiven
            and failure.case_index in range(len(request.items))
            and request.kind.forgives(request.items[failure.case_index])
            and (request.kind.independent or request.settings.cycles == 1)
        )


class _Tally:
    """Forwards events to a listener, the introduction only once, and records completed items."""

    def __init__(self, listener: Listener) -> None:
        self.done: set[int] = set()
        self._listener = listener
        self._attempts = 0
        self._repeats = False
        self._reported: set[str] = set()

    def begin_attempt(self) -> None:
        """Begins an attempt. From the second one on, suppresses notices until the ranks are up."""
        self._attempts += 1
        self._repeats = self._attempts > 1

    def started(self, surroundings: Surroundings) -> None:
        if self._attempts == 1:
            self._listener.started(surroundings)
        self._repeats = False

    def result(self, result: Result) -> None:
        self.done.add(result.index)
        self._listener.result(result)

    def condition(self, condition: Condition) -> None:
        self._listener.condition(condition)

    def explanation(self, explanation: Explanation) -> None:
        self._listener.explanation(explanation)

    def paths(self, paths: Paths) -> None:
        self._listener.paths(paths)

    def notice(self, text: str) -> None:
        """Reports a notice of the ranks, once if those of later attempts have it too."""
        if not self._repeats and text not in self._reported:
            self._reported.add(text)
            self._listener.notice(text)

    def say(self, text: str) -> None:
        """Reports a notice immediately, even while notices are suppressed."""
        self._listener.notice(text)

    def progress(self, rank_status: RankStatus) -> None:
        self._listener.progress(rank_status)
