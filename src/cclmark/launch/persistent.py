"""Runs cases to the end, also when one hangs, or a pair's library fails.

What is left of a communicator that hangs nobody can tell, so the ranks are ended. The case is given
up, or of a pair the operation, and fresh ranks go on with what is left.
"""

from __future__ import annotations

from dataclasses import replace

from cclmark.errors import EXIT_DIED, EXIT_OK
from cclmark.launch.attempt import Attempt
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.plan.cases import Case
from cclmark.rendezvous.messages import Failed, Look
from cclmark.results.schema import CaseResult, Condition, Result

_STATUS = {"timeout": "timeout", "error": "died"}
_MOST_IN_A_ROW = 3  # cases that hang one after the other: the next one would, too


class PersistentLaunch:
    """One run, of as many attempts as it takes."""

    def __init__(self, request: Request, listener: Listener) -> None:
        self._request = request
        self._tally = _Tally(listener)

    def run(self) -> Outcome:
        """As an attempt does it; what was given up has results that say so."""
        request, items = self._request, self._request.items
        kind = request.traits
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
                case = items[index]
                assert isinstance(case, Case)
                if index == failure.case_index or kind.falls_with(case, culprit, failure.phase):
                    status, report = _STATUS[failure.kind], outcome.message
                    self._tally.result(CaseResult(index, case, status, reason, report=report))
                else:
                    pending.append(index)
            if len(pending) == len(left):
                return outcome  # to go on would be to try the same again
            if not pending:
                return Outcome(EXIT_OK, phases_s=outcome.phases_s)
            if not kind.independent:
                if in_a_row >= _MOST_IN_A_ROW:
                    return Outcome(
                        EXIT_DIED,
                        f"{outcome.message}\n{in_a_row} cases in a row hung: the others are not "
                        "tried",
                        outcome.phases_s,
                    )
                self._tally.say(f"{outcome.message}\nfresh ranks go on with the next case")
            request = replace(request, pending=pending)

    def _may_go_on(self, outcome: Outcome, failure: Failed) -> bool:
        """Whether fresh ranks may do better with another case."""
        request = self._request
        launched = request.crew is not None and request.crew.placement is not None
        # A launcher's MPI takes no second process for a rank.
        once = launched and request.by_mpi
        return (
            not once
            and outcome.exit_code == EXIT_DIED
            and failure.kind in request.traits.forgiven
            and failure.case_index in range(len(request.items))
            and (request.traits.independent or request.settings.cycles == 1)
        )


class _Tally:
    """Passes on what a listener is to hear, the introduction once, and notes what is done."""

    def __init__(self, listener: Listener) -> None:
        self.done: set[int] = set()
        self._listener = listener
        self._attempts = 0
        self._repeats = False

    def begin_attempt(self) -> None:
        """What is said from now on until the ranks are up was said before the first attempt."""
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

    def notice(self, text: str) -> None:
        if not self._repeats:
            self._listener.notice(text)

    def say(self, text: str) -> None:
        """Tells the user at once."""
        self._listener.notice(text)

    def progress(self, look: Look) -> None:
        self._listener.progress(look)
