"""Why a run ended: from what each rank last said, to one sentence that names the culprit."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cclmark.rendezvous.board import Status
from cclmark.rendezvous.messages import Failed, Thing


@dataclass(frozen=True)
class RankState:
    """What is known of one rank when a run goes wrong.

    ``device`` is its runtime and index ("cuda:3");
    ``exit_status`` is negative for a signal and None while the process lives; ``stopped`` means
    halted by a signal; ``failure`` is what the rank itself reported, as the ``heard``-th of all:
    where one fails, others soon do because of it.
    """

    rank: int
    device: str
    pid: int
    status: Status
    exit_status: int | None
    stopped: bool
    failure: Failed | None
    heard: int = 0


def diagnose(states: Sequence[RankState], cases: Sequence[Thing]) -> str:
    """Names what went wrong first, where, and what the others were doing."""
    culprit = culprit_of(states)
    lines = [f"{_name(culprit)} {_what_happened(culprit)} {_where(culprit, cases)}"]
    if culprit.failure is not None and culprit.failure.kind != "aborted":
        lines.append(f"  {culprit.failure.message}")
    for state in states:
        if state is not culprit:
            lines.append(f"  {_name(state)}: {_where(state, cases)}{_remark(state)}")
    return "\n".join(lines)


def exit_kind(states: Sequence[RankState]) -> str:
    """The kind of the failure that ended the run: missing, error, timeout or died."""
    culprit = culprit_of(states)
    if culprit.failure is not None and culprit.failure.kind != "aborted":
        return culprit.failure.kind
    return "died"


def culprit_of(states: Sequence[RankState]) -> RankState:
    """The rank to blame: died, then stopped, then failed, then the one that is furthest
    behind: of those that say nothing, else of those whose time was over.
    """

    def died_silently(state: RankState) -> bool:
        return state.exit_status is not None and state.failure is None

    def failed(state: RankState) -> bool:
        return state.failure is not None and state.failure.kind in ("error", "missing")

    for blame in (lambda s: died_silently(s) and s.exit_status != 0, lambda s: s.stopped, failed):
        blamed = [state for state in states if blame(state)]
        if blamed:
            return min(blamed, key=lambda state: state.heard)
    silent = [state for state in states if state.failure is None]
    late = [s for s in states if s.failure is not None and s.failure.kind == "timeout"]
    return min(silent or late or states, key=lambda state: _progress(state.status))


def _progress(status: Status) -> tuple[int, float]:
    return status.case_index if status.case_index >= 0 else -1, status.since_s


def _name(state: RankState) -> str:
    return f"rank {state.rank} ({state.device}, pid {state.pid})"


def _what_happened(state: RankState) -> str:
    if state.failure is not None and state.failure.kind in ("error", "missing"):
        return "failed during"
    if state.stopped:
        return "is stopped (SIGSTOP or a debugger) in"
    status = state.exit_status
    if state.failure is None and status is not None:
        if status < 0:
            return f"was killed by {_signal_name(-status)} during"
        return f"exited with status {status} during"
    return "did not get any further than"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _where(state: RankState, cases: Sequence[Thing]) -> str:
    status = state.status
    place = status.phase
    if 0 <= status.case_index < len(cases):
        place += f" of {cases[status.case_index].describe()}"
    return place


_REMARKS: Mapping[str, str] = {
    "aborted": " (stopped because of it)",
    "timeout": "",
}


def _remark(state: RankState) -> str:
    if state.failure is None:
        return ""
    if state.failure.kind == "timeout":
        return f" ({state.failure.message})"
    return _REMARKS.get(state.failure.kind, "")
