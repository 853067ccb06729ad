"""Outcomes of several hosts together, and what differs between hosts: pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from cclmark.base.grouping import by_key
from cclmark_fleet.doctor.result import ExaminationResult
from cclmark_fleet.hosts.check import CheckOutcome, State

_GRADES = ("bad", "look")
# What costs communication if hosts differ in it, by the name of the fact.
_COSTS = {
    "GPUs": "the job waits for the host with fewer or slower ones",
    "driver": "NVLink between hosts and peer memory require one version",
    "NCCL": "ranks with different versions do not connect, or choose different algorithms",
    "RDMA": "collectives wait for the host with fewer or slower rails",
    "MTU": "large packets of one host do not reach the other",
    "PFC": "one host loses packets that the other one pauses for",
}
_COUNTED = ("GPUs", "RDMA")
_NOT_SET = "not set"
_OF_VARIABLES = "ranks that disagree hang, fail, or choose different algorithms and transports"
_VARIABLE = re.compile(r"(?:NCCL|RCCL|HCCL|UCX|FI|TORCH_NCCL)_\w+")
# Variables that name what is of the host itself, or write logs.
_OF_HOST = re.compile(
    r"NCCL_(?:HOSTID|VERSION|COMM_ID|(?:OOB_NET|SOCKET)_IFNAME|IB_HCA|\w*(?:DEBUG|DUMP|TOPO|TRACE)\w*)|"
    r"HCCL_(?:IF_IP|SOCKET_IFNAME)|UCX_(?:NET_DEVICES|LOG\w*)|FI_LOG\w*|\w+_FILE"
)
_STATES: dict[State, str] = {
    "fail": "failed",
    "pass": "passed",
    "unknown": "cannot tell",
    "absent": "not applicable",
}


class HostFailure(NamedTuple):
    """A check that failed on some hosts: the outcome of each, by the name of the host."""

    check: str
    by_host: Sequence[tuple[str, CheckOutcome]]

    @property
    def first(self) -> CheckOutcome:
        """The gravest outcome."""
        outcomes = [one for _, one in self.by_host]
        return min(outcomes, key=lambda one: _GRADES.index(one.grade))


class HostDifference(NamedTuple):
    """What is not the same on all hosts. ``usual``: the value of most, with their ``number``.

    ``others``: the other values, each with its hosts.
    """

    subject: str
    usual: str
    number: int
    others: Sequence[tuple[str, Sequence[str]]]

    @property
    def cost(self) -> str:
        """What the difference of a fact costs communication; empty if nothing."""
        if _VARIABLE.fullmatch(self.subject) and not _OF_HOST.fullmatch(self.subject):
            return _OF_VARIABLES
        known = {self.usual, *(text for text, _ in self.others)} - {_NOT_SET}
        if len(known) < 2 and self.subject not in _COUNTED:
            return ""  # what is not there may be not readable
        return _COSTS.get(self.subject, "")


def failures_of(results: Sequence[ExaminationResult]) -> list[HostFailure]:
    """The checks that failed, the gravest first, then those of most hosts."""
    failed = by_key(
        (one.check, (result.examination.host, one))
        for result in results
        for one in result.of("fail")
    )
    found = [HostFailure(check, own) for check, own in failed.items()]
    return sorted(found, key=lambda one: (_GRADES.index(one.first.grade), -len(one.by_host)))


def with_state(
    results: Sequence[ExaminationResult], state: State
) -> dict[str, list[tuple[str, CheckOutcome]]]:
    """The outcomes with a state and their hosts, by check."""
    return by_key(
        (one.check, (result.examination.host, one))
        for result in results
        for one in result.of(state)
    )


def differences_of(results: Sequence[ExaminationResult]) -> list[HostDifference]:
    """What differs between hosts: failed checks first, then facts, then other states.

    A value that one half of the hosts or less has is another one.
    """
    if len(results) < 2:
        return []
    values: dict[str, dict[str, list[str]]] = {}
    names = dict.fromkeys(name for result in results for name in result.facts)
    for result in results:
        host = result.examination.host
        for one in result.outcomes:
            text = _STATES[one.state]
            values.setdefault(one.check, {}).setdefault(text, []).append(host)
        for name in names:
            text = result.facts.get(name) or _NOT_SET
            values.setdefault(name, {}).setdefault(text, []).append(host)
    found = []
    for subject, own in values.items():
        if len(own) > 1:
            usual, *others = sorted(own.items(), key=lambda one: -len(one[1]))
            found.append(HostDifference(subject, usual[0], len(usual[1]), others))
    return sorted(found, key=_order)


def harmful_of(differences: Sequence[HostDifference]) -> list[HostDifference]:
    """The differences that cost communication."""
    return [one for one in differences if one.cost]


def _order(one: HostDifference) -> tuple[int, int]:
    texts = {one.usual, *(text for text, _ in one.others)}
    by_state = 0 if "failed" in texts else 2 if texts <= {*_STATES.values()} else 1
    return by_state, sum(len(hosts) for _, hosts in one.others)


def counts_of(results: Sequence[ExaminationResult]) -> dict[State, int]:
    """The number of outcomes by state."""
    return {state: sum(len(one.of(state)) for one in results) for state in _STATES}
