"""How the items of a kind of work are launched: in one piece, or round after round with variants.

New ranks follow the first ones after a hang, and where a variant requires other processes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, cast

import msgspec

from cclmark.base.errors import EXIT_DIED, EXIT_INTERRUPTED, EXIT_MISSING, EXIT_OK, EXIT_USAGE
from cclmark.base.grouping import by_key
from cclmark.explain.chaining import chaining_notices, without_second_process
from cclmark.journal.item_results import Result
from cclmark.journal.schema import Explanation, Paths
from cclmark.launch.attempt import run_attempt
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.rendezvous.messages import Failed, RankStatus
from cclmark.work.libraries import plug_ins_of
from cclmark.work.variants import LIBRARY, Assignment, Variant, Varied

_STATUS = {"timeout": "timeout", "error": "died"}
_MOST_IN_A_ROW = 3  # consecutive hangs, after which the next case would probably hang too
_STATUS_OF_VARIANT = {"timeout": "timeout", "missing": "skipped"}
#: Begins the reason of trials that are skipped because another one of their variant failed.
FAILED_BEFORE = "the variant failed before"
_CREATION = ("communicator creation", "allocating buffers")  # phases of ranks
Processes = tuple[tuple[Assignment, ...], bool]


def launch_items(request: Request, listener: Listener) -> Outcome:
    """Measures the items of ``request`` with as many attempts as required."""
    if request.kind.carry is not None:
        return _run_without_failed(request, listener)
    if not request.kind.in_rounds:
        return _run(request, listener)
    experiment = ExperimentLaunch(request, listener)
    outcome = experiment.run()
    return experiment.judged(outcome) if request.kind.requires_variant else outcome


def explain_items(
    request: Request, measured: Collection[int], listener: Listener, outcome: Outcome
) -> Outcome:
    """Observes what libraries do in items with these indices, measured with ``outcome``.

    Returns ``outcome``, or one with the reason if an item could not be explained because a rank
    failed. The explanations go to ``listener``.
    """
    if not request.kind.in_rounds:
        return _explain(request, measured, listener, outcome)
    found = ExperimentLaunch(request, listener, begun=True).explain(measured)
    return outcome if found.exit_code == EXIT_OK else replace(found, phases_s=outcome.phases_s)


def _run(request: Request, listener: Listener) -> Outcome:
    """Runs all attempts. Skipped cases get results with their status and the reason."""
    items, kind, tally = request.items, request.kind, _Tally(listener)
    in_a_row = 0
    while True:
        before = len(tally.done)
        tally.begin_attempt()
        outcome = run_attempt(request, tally)
        failure = outcome.failure
        if failure is None or not _may_go_on(request, outcome, failure):
            return outcome
        in_a_row = 1 if len(tally.done) > before else in_a_row + 1
        culprit = items[failure.case_index]
        reason = failure.message if kind.independent else outcome.message.partition("\n")[0]
        if culprit.describe() not in reason:
            reason = f"{failure.phase} of {culprit.describe()}: {reason}"
        todo = request.pending or range(len(items))
        left = [index for index in todo if index not in tally.done]
        pending = []
        for index in left:
            item = items[index]
            if index == failure.case_index or kind.falls_with(item, culprit, failure.phase):
                status, report = _STATUS[failure.kind], outcome.message
                tally.result(kind.failed(index, item, status, reason, report))
            else:
                pending.append(index)
        if len(pending) == len(left):
            return outcome  # another attempt would repeat the same cases
        if not pending:
            if not kind.independent:
                listener.notice(outcome.message)
            return Outcome(EXIT_OK, phases_s=outcome.phases_s)
        if not kind.independent:
            if in_a_row >= _MOST_IN_A_ROW:
                return Outcome(
                    EXIT_DIED,
                    f"{outcome.message}\n{in_a_row} consecutive cases hung: the remaining "
                    "cases are not measured",
                    outcome.phases_s,
                )
            listener.notice(f"{outcome.message}\nnew ranks continue with the next case")
        request = replace(request, pending=pending)


def _run_without_failed(request: Request, listener: Listener) -> Outcome:
    """Runs attempts, each without the devices that failed in an earlier one, until all is measured.

    Results keep the numbers that devices have in the first attempt. Ends after two attempts in a
    row without a result, and where only one device is left.
    """
    tally = _Kept(listener)
    carry, coordinator, attachment = request.kind.carry, request.coordinator, request.attachment
    assert carry is not None and coordinator is not None and isinstance(attachment, bytes)
    devices, failed = list(range(len(request.processes))), dict[int, str]()
    planned = [*(request.pending or range(len(request.items)))]
    in_vain = 0
    while True:
        known = [*request.carried, *tally.results]
        first = carry(attachment, devices, failed, known)
        now = replace(request, attachment=[first, *[b""] * (len(devices) - 1)])
        before = len(tally.done)
        tally.begin_attempt()
        outcome = run_attempt(now, tally)
        in_vain = 0 if len(tally.done) > before else in_vain + 1
        if outcome.exit_code != EXIT_DIED or request.starts_ranks_once:
            return outcome
        left = [index for index in planned if index not in tally.done]
        ranks = coordinator.leave_out(outcome.rank)
        if not left or not ranks or in_vain > 1 or len(devices) - len(ranks) < 2:
            return outcome
        reason = outcome.message.partition("\n")[0]
        failed |= {devices[rank]: reason for rank in ranks}
        listener.notice(f"{outcome.message}\nthe others continue without")
        devices = [one for rank, one in enumerate(devices) if rank not in ranks]
        request = replace(request, pending=left, devices=coordinator.devices)


def _may_go_on(request: Request, outcome: Outcome, failure: Failed) -> bool:
    """Whether new ranks may continue with another case."""
    return (
        not request.starts_ranks_once
        and outcome.exit_code == EXIT_DIED
        and failure.kind in request.kind.forgiven
        and failure.case_index in range(len(request.items))
        and request.kind.forgives(request.items[failure.case_index])
        and (request.kind.independent or request.settings.cycles == 1)
    )


class _Tally(Listener):
    """Passes the introduction on only once, and records completed items."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.done: set[int] = set()
        self._attempts = 0
        self._has_started = False
        self._repeats = False
        self._reported: set[str] = set()

    def begin_attempt(self) -> None:
        """Begins an attempt. From the second one on, suppresses notices until the ranks are up."""
        self._attempts += 1
        self._repeats = self._attempts > 1

    def started(self, surroundings: Surroundings) -> None:
        if not self._has_started:  # the first attempt may end before
            self._has_started = True
            super().started(surroundings)
        self._repeats = False

    def result(self, result: Result) -> None:
        self.done.add(result.index)
        super().result(result)

    def notice(self, text: str) -> None:
        """Reports a notice of the ranks, once if those of later attempts have it too."""
        if not self._repeats and text not in self._reported:
            self._reported.add(text)
            super().notice(text)


class _Kept(_Tally):
    """Also keeps the results."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.results: list[Result] = []

    def result(self, result: Result) -> None:
        self.results.append(result)
        super().result(result)


def _explain(
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
    found = run_attempt(again, explanations)
    if found.exit_code == EXIT_OK:
        return outcome
    missing = len(pending) - explanations.number
    message = f"{missing} of {len(pending)} cases are not explained: {found.message}"
    return replace(found, message=message, phases_s=outcome.phases_s)


def _leave_unknown(request: Request, indices: Sequence[int], listener: Listener) -> None:
    """Explains cases as unknown, with the reason, which is also reported once for each library."""
    by_library = by_key((request.items[index].ccl, index) for index in indices)
    for ccl, own in by_library.items():
        reason = without_second_process(ccl)
        for index in own:
            listener.explanation(Explanation(index, reason=reason))
        are = "1 case is" if len(own) == 1 else f"{len(own)} cases are"
        listener.notice(f"{are} not explained: {reason}")


class _Explanations(Listener):
    """Passes on explanations and paths: the rest was reported when the cases were measured."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener
        self.number = 0

    def explanation(self, explanation: Explanation) -> None:
        self.number += 1
        self._listener.explanation(explanation)

    def paths(self, paths: Paths) -> None:
        self._listener.paths(paths)

    def progress(self, rank_status: RankStatus) -> None:
        self._listener.progress(rank_status)


class ExperimentLaunch:
    """Measures the trials of a request, each variant next to the default in every round."""

    def __init__(self, request: Request, listener: Listener, *, begun: bool = False) -> None:
        """``begun``: the listener has received the surroundings."""
        self._request = request
        self._listener = _InTurn(listener, begun=begun)
        self._trials = cast("Sequence[Varied]", request.items)
        #: Why a variant is not measured any more.
        self._failed: dict[Variant, str] = {}
        #: The exit code of the attempt in which a variant failed.
        self.failures: dict[Variant, int] = {}
        #: The seconds of communicators and their buffers, in all attempts that were complete.
        self.creation_s = 0.0

    def run(self) -> Outcome:
        """Runs all rounds.

        A variant that hangs, crashes or cannot be created is recorded and skipped from then on. A
        failure of the default ends the experiment.
        """
        pending = self._request.pending or range(len(self._trials))
        outcome = Outcome(EXIT_OK)
        for number in sorted({self._trials[index].round for index in pending}):
            own = [index for index in pending if self._trials[index].round == number]
            for group in _in_turn(_groups(self._trials, own), number):
                outcome = self._measure(group, number)
                if outcome.exit_code != EXIT_OK:
                    return outcome
        return outcome

    def explain(self, measured: Collection[int]) -> Outcome:
        """Observes the measured trials of the first round. Returns the first failure, if any."""
        seen: dict[Varied, int] = {}
        for index in sorted(measured):
            seen.setdefault(_without_round(self._trials[index]), index)
        worst = Outcome(EXIT_OK)
        wanted = [index for index in seen.values() if not self._trials[index].variant.control]
        for group in _groups(self._trials, wanted).values():
            outcome = self._attempt(group, explain=True)
            if outcome.exit_code == EXIT_INTERRUPTED:
                return outcome
            if outcome.exit_code != EXIT_OK and worst.exit_code == EXIT_OK:
                names = dict.fromkeys(self._trials[one].variant.describe() for one in group)
                message = f"not explained: {', '.join(names)}: {outcome.message}"
                worst = replace(outcome, message=message)
        return worst

    def observe(self, indices: Sequence[int]) -> Outcome:
        """Observes trials, whether or not they were measured. Returns the first failure, if any."""
        for group in _groups(self._trials, indices).values():
            outcome = self._attempt(group, explain=True)
            if outcome.exit_code != EXIT_OK:
                return outcome
        return Outcome(EXIT_OK)

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome, or a failure if every variant other than the default failed."""
        variants = {one.variant for one in self._trials if not one.variant.is_default}
        if outcome.exit_code != EXIT_OK or not variants or variants - self._failed.keys():
            return outcome
        reasons = [f"{one.describe()}: {self._failed[one]}" for one in variants]
        message = f"no variant could be measured: {min(reasons)}"
        return replace(outcome, exit_code=worst_of(self.failures.values()), message=message)

    def _measure(self, group: Sequence[int], number: int = 0) -> Outcome:
        """Measures trials in one set of processes, and in new ones after a failure."""
        todo = self._by_variant(group, number)
        while True:
            todo = [index for index in todo if not self._is_skipped(index)]
            if not todo:
                return Outcome(EXIT_OK)
            outcome = self._attempt(todo)
            coordinator = self._request.coordinator
            is_lost = coordinator is not None and coordinator.lost()  # no variant is the reason
            if is_lost or outcome.exit_code not in (EXIT_DIED, EXIT_MISSING, EXIT_USAGE):
                return outcome
            left = [index for index in todo if index not in self._listener.done]
            culprit = self._culprit(outcome, todo, left)
            variant = self._trials[culprit].variant
            if variant.is_default:
                return outcome
            # After its last result, a variant may still fail when its communicator is destroyed.
            if culprit in left:
                self._record_failure(culprit, outcome)
                left.remove(culprit)
            self._give_up(variant, outcome)
            todo = left

    def _by_variant(self, group: Sequence[int], number: int) -> list[int]:
        """The trials, those of a variant together, each round beginning with another variant."""
        variants = list(dict.fromkeys(self._trials[index].variant for index in group))
        begin = number % len(variants)
        order = {one: place for place, one in enumerate(variants[begin:] + variants[:begin])}
        return sorted(group, key=lambda index: order[self._trials[index].variant])

    def _attempt(self, group: Sequence[int], *, explain: bool = False) -> Outcome:
        first = self._trials[group[0]].variant
        library = first.value_of(LIBRARY)
        # A file of the command belongs to its library, not to another one.
        path = library if "/" in library else "" if library else self._request.ccl_path
        self._listener.begin(group)
        own = replace(
            self._request,
            planned=[self._trials[index] for index in group],
            pending=(),
            environment={**self._request.environment, **_environment(first)},
            ccl_path=path,
            explain=explain,
            warnings=() if explain else self._request.warnings,
        )
        # Ranks of another library are started directly.
        own = replace(own, mpirun=own.mpirun if own.by_mpi else "")
        outcome = run_attempt(own, self._listener)
        self.creation_s += sum(outcome.phases_s.get(phase, 0.0) for phase in _CREATION)
        return outcome

    def _culprit(self, outcome: Outcome, group: Sequence[int], left: Sequence[int]) -> int:
        """A trial of the variant that failed.

        The one that the culprit was working on. If it has a result already, the next trial of its
        variant, or itself if there is none. Without that knowledge the first one without a result.
        """
        reported = self._listener.index_of(outcome.case_index)
        if reported < 0:
            return left[0] if left else group[-1]
        variant = self._trials[reported].variant
        own = [index for index in left if self._trials[index].variant == variant]
        return reported if reported in left or not own else own[0]

    def _record_failure(self, index: int, outcome: Outcome) -> None:
        kind = outcome.failure.kind if outcome.failure is not None else ""
        if outcome.exit_code == EXIT_MISSING:
            kind = "missing"
        reason = _reason(outcome)
        status = _STATUS_OF_VARIANT.get(kind, "died")
        trial = self._trials[index]
        self._listener.record(
            self._request.kind.failed(index, trial, status, reason, outcome.message)
        )

    def _give_up(self, variant: Variant, outcome: Outcome) -> None:
        """Measures the variant no more."""
        self._failed[variant] = _reason(outcome)
        self.failures[variant] = outcome.exit_code
        self._listener.notice(f"{variant.describe()} is not measured any more: {outcome.message}")

    def _is_skipped(self, index: int) -> bool:
        """Records a trial of a variant that has failed before."""
        trial = self._trials[index]
        reason = self._failed.get(trial.variant)
        if reason is None:
            return False
        text = f"{FAILED_BEFORE}: {reason}"
        self._listener.record(self._request.kind.failed(index, trial, "skipped", text))
        return True


def worst_of(exit_codes: Iterable[int]) -> int:
    """The exit code of a run in which everything failed: that of a death before that of a lack."""
    found = set(exit_codes)
    return next((one for one in (EXIT_DIED, EXIT_MISSING, EXIT_USAGE) if one in found), EXIT_DIED)


class Starts(NamedTuple):
    """What trials of one round start: sets of processes, and communicators in all of them."""

    processes: int
    communicators: int


def starts_of(trials: Sequence[Varied]) -> Starts:
    """What trials of one round start before they are measured."""
    groups = _groups(trials, range(len(trials))).values()
    variants = [{trials[index].variant for index in group} for group in groups]
    return Starts(len(groups), sum(map(len, variants)))


def _reason(outcome: Outcome) -> str:
    """What failed, and the first line of why: the rest of the message follows it, indented."""
    first, *others = outcome.message.splitlines() or [""]
    why = others[0].strip() if others and others[0].startswith("  ") else ""
    return f"{first.rstrip(':')}: {why}" if why else first


def _without_round(trial: Varied) -> Varied:
    first: Varied = msgspec.structs.replace(cast("Any", trial), round=0)
    return first


def _environment(variant: Variant) -> dict[str, str]:
    return {one.name: one.value for one in variant.process if one.is_variable}


def _groups(trials: Sequence[Varied], indices: Sequence[int]) -> dict[Processes, list[int]]:
    """The trials that share processes, in the order of the plan.

    The control has its own processes if some variants require their own: the noise between
    processes is part of their ratios.
    """
    apart = any(trials[index].variant.process for index in indices)
    groups: dict[Processes, list[int]] = {}
    for index in indices:
        variant = trials[index].variant
        groups.setdefault((variant.process, apart and variant.control), []).append(index)
    return groups


def _in_turn(groups: dict[Processes, list[int]], number: int) -> Iterator[list[int]]:
    """The groups, each round beginning with another one: what drifts affects all alike."""
    listed = list(groups.values())
    begin = number % len(listed)
    yield from listed[begin:] + listed[:begin]


class _InTurn(Listener):
    """Passes the events of several attempts on as one run.

    Results of an attempt get the index of the whole plan. The surroundings are passed on once, and
    notices of later attempts only if they are new.
    """

    def __init__(self, listener: Listener, *, begun: bool) -> None:
        super().__init__(listener)
        self._group: Sequence[int] = ()
        self._begun = begun
        self._noticed: set[str] = set()
        self.done: set[int] = set()

    def begin(self, group: Sequence[int]) -> None:
        """Begins an attempt with these trials."""
        self._group = group

    def index_of(self, place: int) -> int:
        """The index in the whole plan of a trial of the current attempt; -1 for none."""
        return self._group[place] if 0 <= place < len(self._group) else -1

    def record(self, result: Result) -> None:
        """Passes on a result with an index of the whole plan."""
        self.done.add(result.index)
        super().result(result)

    def started(self, surroundings: Surroundings) -> None:
        if not self._begun:
            self._begun = True
            super().started(surroundings)

    def result(self, result: Result) -> None:
        placed = copy(result)
        placed.index = self.index_of(result.index)
        self.record(placed)

    def explanation(self, explanation: Explanation) -> None:
        index = self.index_of(explanation.index)
        super().explanation(msgspec.structs.replace(explanation, index=index))

    def notice(self, text: str) -> None:
        if text not in self._noticed:
            self._noticed.add(text)
            super().notice(text)

    def progress(self, rank_status: RankStatus) -> None:
        index = self.index_of(rank_status.case_index)
        super().progress(msgspec.structs.replace(rank_status, case_index=index))
