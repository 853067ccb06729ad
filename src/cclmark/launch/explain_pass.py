"""The pass after measuring in which new ranks observe what the libraries do.

It has its own processes: plug-ins and logs must not disturb the timed operations, and NCCL reads
their variables only once in a process.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

import msgspec

from cclmark.errors import EXIT_OK
from cclmark.explain.chaining import chaining_notices
from cclmark.launch.attempt import Attempt
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.plan.libraries import plug_ins_of
from cclmark.rendezvous.messages import RankStatus
from cclmark.results.kinds import Result
from cclmark.results.schema import Condition, Explanation, Paths


def explain_cases(
    request: Request, measured: Collection[int], listener: Listener, outcome: Outcome
) -> Outcome:
    """Explains the cases with these indices, which were measured with ``outcome``.

    Returns ``outcome``, or one with the reason if a case could not be explained because a rank
    failed. The explanations go to ``listener``.
    """
    pending = sorted(measured)
    if not pending:
        return outcome
    launched = request.coordinator is not None and request.coordinator.placement is not None
    if launched and request.by_mpi:
        listener.notice(
            "the cases are not explained: the MPI of this launcher does not support a second "
            "process for a rank"
        )
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
