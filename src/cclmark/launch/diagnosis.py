"""The diagnosis of a failed run from the last reports of all ranks, with the culprit first.

``StallWatch`` finds failures that a stop of the supervising process itself explains.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cclmark.base.grouping import by_key
from cclmark.base.signals import signal_name
from cclmark.launch.coordinator import Coordinator
from cclmark.rendezvous.board import Operations, Status
from cclmark.rendezvous.messages import Failed
from cclmark.work.items import Item

_WITH_OPERATIONS = ("warm-up", "timing", "replaying", "verification", "explaining", "tracing")
_AT_REST = "waiting for other pairs"


def verdict(statuses: Mapping[int, Status], cases: Sequence[Item]) -> str:
    """The sentence on ranks of which none died, empty if their states show no difference.

    ``statuses`` by rank. Ranks that are idle while other pairs measure are ignored.
    """
    involved = {rank: one for rank, one in statuses.items() if one.phase != _AT_REST}
    if len(involved) < 2:
        return ""
    places = _gather(involved, lambda status: _place(status, cases))
    if len(places) > 1:
        return _apart(places)
    ((place, _),) = places.items()
    counts = {r: one.operations for r, one in involved.items() if one.operations is not None}
    (phase,) = {status.phase for status in involved.values()}
    counting = len(counts) > 1 and phase in _WITH_OPERATIONS
    if not counting or len({one.entered for one in counts.values()}) == 1:
        batches = _gather(involved, lambda status: f"at batch {status.batches + 1} {place}")
        if len(batches) > 1:
            return _apart(batches)
    if not counting:
        return ""
    unknown = sorted(set(involved) - set(counts))
    return _by_counts(counts) + (f"; {_ranks(unknown)} reported no counts" if unknown else "")


def _gather(statuses: Mapping[int, Status], where: Callable[[Status], str]) -> dict[str, list[int]]:
    """The ranks in each place."""
    return by_key((where(status), rank) for rank, status in statuses.items())


def _place(status: Status, cases: Sequence[Item]) -> str:
    if 0 <= status.case_index < len(cases):
        return f"in {status.phase} of {cases[status.case_index].describe()}"
    return status.phase if status.phase == "finished" else f"in {status.phase}"


def _apart(places: Mapping[str, list[int]]) -> str:
    """A sentence on ranks in different places. The largest group is called the others."""
    ordered = sorted(places.items(), key=lambda item: (len(item[1]), item[1]))
    most = len(ordered[-1][1])
    if most > 1 and len(ordered[-2][1]) < most:
        *few, (rest, _) = ordered
        return f"{_each(few)}; the others are {rest}"
    return _each(sorted(ordered, key=lambda item: item[1]))


def _each(places: Sequence[tuple[str, list[int]]]) -> str:
    return ", ".join(
        f"{_ranks(ranks)} {'is' if len(ranks) == 1 else 'are'} {place}" for place, ranks in places
    )


def _by_counts(counts: Mapping[int, Operations]) -> str:
    fewest = min(one.entered for one in counts.values())
    most = max(one.entered for one in counts.values())
    if fewest == most:
        return _abreast(counts, most)
    call = fewest + 1
    behind = [rank for rank, one in counts.items() if one.entered == fewest]
    ahead = [rank for rank in counts if rank not in behind]
    waiting = [rank for rank in ahead if counts[rank].complete < call]
    sentence = f"{_ranks(behind)} {_have(behind)} not entered call {call}; "
    if not waiting:
        return sentence + f"{_others(ahead)} {_have(ahead)} completed it"
    subject = _others(ahead) if waiting == ahead else _ranks(waiting)
    sentence += f"{subject} {'waits' if len(waiting) == 1 else 'wait'} in it"
    if waiting != ahead:
        done = [rank for rank in ahead if rank not in waiting]
        sentence += f", {_ranks(done)} {_have(done)} completed it"
    elif most > call:
        sentence += f", with calls up to {most} behind it"
    return sentence


def _abreast(counts: Mapping[int, Operations], entered: int) -> str:
    """A sentence on ranks that have all entered the same number of calls."""
    if entered == 0:
        return "no rank has entered a call"
    late = [rank for rank, one in counts.items() if one.complete < entered]
    if not late:
        return f"all ranks have completed call {entered} and entered no other"
    if len(late) < len(counts):
        return (
            f"all ranks have entered call {entered}; {_ranks(late)} {_have(late)} not completed it"
        )
    known = min(one.complete for one in counts.values())
    sentence = f"all ranks have entered call {entered} and none completed it"
    if known == entered - 1:
        return sentence
    return f"{sentence}: one of calls {known + 1} to {entered} hangs"


def _ranks(ranks: Sequence[int]) -> str:
    names = [str(rank) for rank in sorted(ranks)]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _others(ranks: Sequence[int]) -> str:
    return "the others" if len(ranks) > 1 else _ranks(ranks)


def _have(ranks: Sequence[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


_OWN_FAILURES = ("usage", "error", "missing", "refused")
_OFFSET = re.compile(r"\+0x[0-9a-f]+")


@dataclass(frozen=True)
class RankState:
    """The known state of one rank of a failed run.

    ``device``: its runtime and index ("cuda:3"). ``exit_status``: negative for a signal, None while
    the process runs. ``stopped``: halted by a signal. ``failure``: the failure that the rank
    reported, and ``heard`` its position among all reports, since one failure soon causes others.
    ``failed_at_s``: the time of the failure, by a clock that all ranks have in common; None if
    there is none.
    ``in_phase_s``: the time since the rank entered the phase in ``status``, by the clock of its
    host, None if unknown. ``stack``: the stack of its main thread, innermost frame first, one frame
    per line. ``silent_s``: the time since the last message of its supervisor if that is lost, None
    otherwise. The other fields may then be out of date.
    """

    rank: int
    device: str
    pid: int
    status: Status
    exit_status: int | None
    stopped: bool
    failure: Failed | None
    heard: int = 0
    failed_at_s: float | None = None
    in_phase_s: float | None = None
    stack: Sequence[str] = ()
    silent_s: float | None = None


def diagnose(
    states: Sequence[RankState], cases: Sequence[Item], *, cause_is_known: bool = False
) -> str:
    """Reports the first failure, its place, and the states of the other ranks.

    What all ranks refuse alike is reported in their words alone: no rank is to blame.
    ``cause_is_known``: the cause is outside the ranks, so only their states are reported.
    """
    culprit = culprit_of(states)
    lost = any(state.silent_s is not None for state in states)
    if cause_is_known or (lost and hangs(culprit)):
        return _whereabouts(states, cases)
    if culprit.failure is not None and culprit.failure.kind == "refused":
        return culprit.failure.message
    among = ", among the first ranks to fail" if _is_one_of_the_first(culprit, states) else ""
    lines = [f"{_name(culprit)} {_what_happened(culprit)} {_where(culprit, cases)}{among}"]
    if culprit.failure is not None and culprit.failure.kind != "aborted":
        lines.append(f"  {culprit.failure.message}")
    hang = all(_may_hang(state) for state in states)
    if hang:
        sentence = verdict({state.rank: state.status for state in states}, cases)
        lines += [f"  {sentence}"] if sentence else []
    stacks: dict[str, int] = {}
    progress = _progress(culprit) if culprit.failure is None or hang else []
    lines += [f"  {', '.join(progress)}"] if progress else []
    lines += _stack(culprit, stacks)
    for state in states:
        if state is not culprit:
            progress = _progress(state) if hang else []
            place = ", ".join([_where(state, cases), *progress])
            lines.append(f"  {_name(state)}: {place}{_remark(state)}")
            lines += _stack(state, stacks)
    return "\n".join(lines)


def _whereabouts(states: Sequence[RankState], cases: Sequence[Item]) -> str:
    """The states of all ranks as far as known, without comparisons, since some may be outdated."""
    stacks: dict[str, int] = {}
    lines = []
    for state in states:
        failure = state.failure
        if state.silent_s is None:
            place = ", ".join([_where(state, cases), *_progress(state)])
        elif failure is not None:
            place = _place_in_case(failure.phase, failure.case_index, cases)
        else:
            place = f"{_where(state, cases)} {state.silent_s:.0f} s ago, no report since"
        lines.append(f"{_name(state)}: {place}{_remark(state)}")
        if state.silent_s is None:
            lines += [line[2:] for line in _stack(state, stacks)]
    return "\n".join(lines)


def hangs(state: RankState) -> bool:
    """Whether a rank waits, or has timed out, and is not stopped."""
    return _may_hang(state) and not state.stopped


def _may_hang(state: RankState) -> bool:
    """Whether a rank neither died nor failed by itself: it waits, has timed out or was aborted."""
    if state.failure is None:
        return state.exit_status is None
    return state.failure.kind in ("timeout", "aborted")


def _stack(state: RankState, seen: dict[str, int]) -> list[str]:
    """The lines of a rank's stack, or a reference to an earlier rank with the same stack."""
    if not state.stack:
        return []
    first = seen.setdefault(_OFFSET.sub("", "\n".join(state.stack)), state.rank)
    if first != state.rank:
        return [f"    in the same calls as rank {first}"]
    return [f"    {line}" for line in state.stack]


def exit_kind(states: Sequence[RankState]) -> str:
    """What ended the run: usage, missing, refused, error, timeout or died."""
    culprit = culprit_of(states)
    if culprit.failure is not None and culprit.failure.kind != "aborted":
        return culprit.failure.kind
    return "died"


def culprit_of(states: Sequence[RankState]) -> RankState:
    """The rank to blame: a rank that died, else one that is stopped, else one that failed.

    Of several that failed, the first one: by a common clock, otherwise by the arrival of reports.
    Otherwise the rank that is furthest behind: among ranks without a report, else among ranks that
    timed out.
    """

    def died_silently(state: RankState) -> bool:
        return state.exit_status is not None and state.failure is None

    for blame in (
        lambda s: died_silently(s) and s.exit_status != 0,
        lambda s: s.stopped,
        _failed_by_itself,
    ):
        blamed = [state for state in states if blame(state)]
        if blamed:
            # A killed rank takes precedence over ranks that exited because of it.
            return min(blamed, key=lambda state: (*_when(state), (state.exit_status or 0) >= 0))
    silent = [state for state in states if state.failure is None]
    late = [s for s in states if s.failure is not None and s.failure.kind == "timeout"]
    return _furthest_behind(silent or late or states)


def _failed_by_itself(state: RankState) -> bool:
    return state.failure is not None and state.failure.kind in _OWN_FAILURES


def _when(state: RankState) -> tuple[float, int]:
    """The position of a failure in time. Ranks without a time precede: they reported none."""
    return state.failed_at_s or 0.0, state.heard


def _is_one_of_the_first(culprit: RankState, states: Sequence[RankState]) -> bool:
    """Whether other ranks failed as well, and no clock decides which of them was the first."""
    others = [one for one in states if one is not culprit and _failed_by_itself(one)]
    known = all(one.failed_at_s is not None for one in [culprit, *others])
    return _failed_by_itself(culprit) and bool(others) and not known


def _furthest_behind(states: Sequence[RankState]) -> RankState:
    """The rank furthest behind: by case, by operations if all count them, then by idle time."""
    counts = [state.status.operations for state in states]
    ages_s = [state.in_phase_s for state in states]

    def progress(place: int) -> tuple[int, int, float]:
        count, age_s, status = counts[place], ages_s[place], states[place].status
        entered = 0 if count is None or None in counts else count.entered
        # Where an age is unknown, all times are assumed to be from one clock.
        moved_s = status.since_s if age_s is None or None in ages_s else -age_s
        return max(status.case_index, -1), entered, moved_s

    return states[min(range(len(states)), key=progress)]


def _name(state: RankState) -> str:
    pid = f", pid {state.pid}" if state.pid else ""  # a rank under mpirun sends its pid in Hello
    return f"rank {state.rank} ({state.device}{pid})"


def _what_happened(state: RankState) -> str:
    if _failed_by_itself(state):
        return "failed during"
    if state.stopped:
        return "is stopped (SIGSTOP or a debugger) in"
    status = state.exit_status
    if state.failure is None and status is not None:
        if status < 0:
            return f"was killed by {signal_name(-status)} during"
        return f"exited with status {status} during"
    return "did not get any further than"


def _where(state: RankState, cases: Sequence[Item]) -> str:
    return _place_in_case(state.status.phase, state.status.case_index, cases)


def _place_in_case(phase: str, case_index: int, cases: Sequence[Item]) -> str:
    return f"{phase} of {cases[case_index].describe()}" if 0 <= case_index < len(cases) else phase


def _progress(state: RankState) -> list[str]:
    """The time of a rank in its phase and its counts of operations, as far as known."""
    parts = [] if state.in_phase_s is None else [f"for {state.in_phase_s:.1f} s"]
    if state.status.case_index >= 0 and state.status.operations is not None:
        parts.append(_counts(state.status.operations))
    return parts


def _counts(operations: Operations) -> str:
    noun = "operation" if operations.entered == 1 else "operations"
    text = f"{operations.entered} {noun} entered, {operations.complete} complete"
    in_batch = operations.entered - operations.before_batch
    if operations.before_batch > 0 and in_batch > 0:
        done = max(0, operations.complete - operations.before_batch)
        text += f" (in this batch {in_batch} and {done})"
    return text


_REMARKS: Mapping[str, str] = {
    "aborted": " (ended because of this failure)",
    "timeout": "",
}


def _remark(state: RankState) -> str:
    if state.failure is None:
        return ""
    if state.failure.kind == "timeout":
        return f" ({state.failure.message})"
    return _REMARKS.get(state.failure.kind, "")


_STALL_S = 3.0  # the shortest pause of this process that counts as a stall
_STALL_SHARE = 0.5  # of the time that a rank waited: from there the stall explains the wait
_AFTER_STALL_S = 10.0  # the consequences of a stall appear within this time


class StallWatch:
    """Detects stalls of this process, so that ranks and other processes are not blamed for them."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._ran_s: float | None = None
        self._stall_s = 0.0
        self._stall_ended_s = float("-inf")

    def note(self) -> None:
        """Records that this process runs. After a stall, the silence of the others restarts."""
        before_s, now_s = self._ran_s, time.monotonic()
        self._ran_s = now_s
        if before_s is None or now_s < before_s + _STALL_S:
            return
        self._stall_s, self._stall_ended_s = now_s - before_s, now_s
        for agent in self._coordinator.remote:
            agent.heard_s = now_s

    def explanation(self, culprit: RankState, failed_s: float) -> str:
        """A sentence that this process was stopped or blocked, if that explains the failure.

        ``failed_s``: the time of the failure. A stall explains ranks that waited, and ranks that
        exited at their deadline and could not report it. Empty otherwise.
        """
        left = culprit.failure is None and (culprit.exit_status or 0) > 0
        # A rank that waited for this process did so for most of its time in the phase.
        waited = hangs(culprit) and self._stall_s >= _STALL_SHARE * (culprit.in_phase_s or 0.0)
        if failed_s > self._stall_ended_s + _AFTER_STALL_S or not (waited or left):
            return ""
        join = self._coordinator.joins[0]
        return (
            f"process 0 (pid {join.pid} on {join.host.machine.hostname}), which supervises the "
            f"run, was stopped or blocked for {self._stall_s:.0f} s (SIGSTOP, a debugger, or "
            "output that was not read)"
        )
