"""Runs cases of pairs to the end, also when a pair hangs or its library fails.

What is left of a communicator that hangs nobody can tell, so the ranks are ended. The operation of
that pair is given up, and fresh ranks go on with what is left.
"""

from __future__ import annotations

from dataclasses import replace

from cclmark.errors import EXIT_DIED, EXIT_OK
from cclmark.launch.local import Listener, LocalLaunch, Outcome, Request, Surroundings
from cclmark.plan.cases import Case
from cclmark.plan.pairs import series_of
from cclmark.rendezvous.board import Status
from cclmark.results.schema import CaseResult, Condition, Result

_KINDS = {"timeout": "timeout", "error": "died"}
_BEGINNING = ("communicator creation", "allocating buffers")


class PairsLaunch:
    """One run of pairs on this host."""

    def __init__(self, request: Request, listener: Listener) -> None:
        self._request = request
        self._tally = _Tally(listener)

    def run(self) -> Outcome:
        """As LocalLaunch does it; what was given up has results that say so."""
        request, cases = self._request, self._request.things
        while True:
            outcome = LocalLaunch(request, self._tally).run()
            failure = outcome.failure
            if outcome.exit_code != EXIT_DIED or failure is None or failure.case_index < 0:
                return outcome
            if failure.kind not in _KINDS:
                return outcome
            culprit = cases[failure.case_index]
            assert isinstance(culprit, Case)
            reason = failure.message
            if culprit.describe() not in reason:
                reason = f"{failure.phase} of {culprit.describe()}: {reason}"
            todo = request.pending or range(len(cases))
            left = [index for index in todo if index not in self._tally.done]
            pending = []
            for index in left:
                case = cases[index]
                assert isinstance(case, Case)
                if _falls_with(case, culprit, failure.phase):
                    self._tally.result(CaseResult(index, case, _KINDS[failure.kind], reason))
                else:
                    pending.append(index)
            if len(pending) == len(left):
                return outcome  # to go on would be to try the same again
            if not pending:
                return Outcome(EXIT_OK, phases_s=outcome.phases_s)
            request = replace(request, pending=pending)


def _falls_with(case: Case, culprit: Case, phase: str) -> bool:
    """Whether ``case`` is given up too: the same of another size, or all of a pair that cannot even
    begin.
    """
    if case.pair != culprit.pair:
        return False
    return phase in _BEGINNING or series_of(case) == series_of(culprit)


class _Tally:
    """Passes on what a listener is to hear, the introduction once, and notes what is done."""

    def __init__(self, listener: Listener) -> None:
        self.done: set[int] = set()
        self._listener = listener
        self._started = False

    def started(self, surroundings: Surroundings) -> None:
        if not self._started:
            self._started = True
            self._listener.started(surroundings)

    def result(self, result: Result) -> None:
        self.done.add(result.index)
        self._listener.result(result)

    def condition(self, condition: Condition) -> None:
        self._listener.condition(condition)

    def notice(self, text: str) -> None:
        if not self._started:
            self._listener.notice(text)

    def progress(self, status: Status) -> None:
        self._listener.progress(status)
