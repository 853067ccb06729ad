"""The pass after measuring in which new ranks observe what the libraries do.

It has its own processes: plug-ins and logs must not disturb the timed operations, and NCCL reads
their variables only once in a process. Where new ranks cannot be started, those that measured have
reported what they know (run/measured_cases.py), and the other cases are unknown.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec

from cclmark.errors import EXIT_OK
from cclmark.explain.chaining import chaining_notices
from cclmark.explain.second_process import without_second_process
from cclmark.launch.attempt import Attempt
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.plan.libraries import plug_ins_of
from cclmark.rendezvous.messages import RankStatus
from cclmark.results.item_results import Result
from cclmark.results.schema import Condition, Explanation, Paths


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
