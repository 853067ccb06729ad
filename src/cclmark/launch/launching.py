"""How the items of a kind of work are launched."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import msgspec

from cclmark.errors import EXIT_DIED, EXIT_OK
from cclmark.explain.chaining import chaining_notices, without_second_process
from cclmark.launch.attempt import Attempt
from cclmark.launch.experiment_launch import explain_experiment, run_experiment
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.plan.libraries import plug_ins_of
from cclmark.rendezvous.messages import Failed, RankStatus
from cclmark.results.item_results import Result
from cclmark.results.kind import Kind
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


def explain_cases(
    request: Request, measured: Collection[int], listener: Listener, outcome: Outcome
) -> Outcome:
    """Explains the cases with these indices, which were measured with ``outcome``.

    Where new ranks cannot be started, these are the cases that have no explanation yet.

    Returns ``outcome``, or one with the reason if a case could not be explained because a rank
    failed. The explanations go to ``listener``.
    """
    pending = sorted(measured)
    if not pending:
        return outcome
    if request.starts_ranks_once:
        _leave_unknown(request, pending, listener)
        return outcome
    if any(plug_ins_of(one.ccl) for one in request.planned):
        for text in chaining_notices(os.environ):
            listener.notice(text)
    settings = msgspec.structs.replace(request.settings, cycles=1, duration_s=0.0, inject=[])
    again = replace(request, settings=settings, pending=pending, explain=True, warnings=())
    explanations = _Explanations(listener)
    found = Attempt(again, explanations).run()
    if found.exit_code == EXIT_OK:
        return outcome
    missing = len(pending) - explanations.number
    message = f"{missing} of {len(pending)} cases are not explained: {found.message}"
    return replace(found, message=message, phases_s=outcome.phases_s)


def _leave_unknown(request: Request, indices: Sequence[int], listener: Listener) -> None:
    """Explains cases as unknown, with the reason, which is also reported once for each library."""
    by_library: dict[str, list[int]] = {}
    for index in indices:
        by_library.setdefault(request.items[index].ccl, []).append(index)
    for ccl, own in by_library.items():
        reason = without_second_process(ccl)
        for index in own:
            listener.explanation(Explanation(index, reason=reason))
        are = "1 case is" if len(own) == 1 else f"{len(own)} cases are"
        listener.notice(f"{are} not explained: {reason}")


class _Explanations:
    """Passes on explanations and paths: the rest was reported when the cases were measured."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.number = 0

    def explanation(self, explanation: Explanation) -> None:
        self.number += 1
        self._listener.explanation(explanation)

    def paths(self, paths: Paths) -> None:
        self._listener.paths(paths)

    def started(self, surroundings: Surroundings) -> None:
        pass

    def result(self, result: Result) -> None:
        pass

    def condition(self, condition: Condition) -> None:
        pass

    def notice(self, text: str) -> None:
        pass

    def progress(self, rank_status: RankStatus) -> None:
        self._listener.progress(rank_status)


@dataclass(frozen=True)
class Launching:
    """``run`` measures the items of a request. ``explain`` observes those with these indices."""

    run: Callable[[Request, Listener], Outcome]
    explain: Callable[[Request, Collection[int], Listener, Outcome], Outcome]


def _run(request: Request, listener: Listener) -> Outcome:
    return PersistentLaunch(request, listener).run()


_USUAL = Launching(_run, explain_cases)
_ROUNDS = Launching(run_experiment, explain_experiment)


def launching_of(kind: Kind) -> Launching:
    """The launching of a kind of work: in one piece, unless its items require other processes."""
    return _ROUNDS if kind.in_rounds else _USUAL
