"""Assigns logs to runs of a program, where a directory contains logs of several runs.

Every process of a command has the identity of its run in its log. The commands of several hosts,
which profile one job together, have different ones, but their processes share communicators: each
has other ranks of them. Repetitions of a job on one host have the same ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from cclmark.profile.profile_log import ProfileLog

_SHOWN = 12  # characters of an identity
_MOST_HOSTS = 3  # in words


@dataclass
class LoggedRun:
    """The logs of one run. ``identities``: of the commands of its hosts; "" for older logs.

    ``members``: the ranks of groups that its processes have: (identity of the group, rank).
    """

    identities: list[str]
    logs: list[ProfileLog] = field(default_factory=list)
    members: set[tuple[str, int]] = field(default_factory=set)

    def add(self, logs: Sequence[ProfileLog]) -> None:
        """Adds logs of processes of this run."""
        self.logs += logs
        self.members.update(*(one.members for one in logs))

    @property
    def begin_ns(self) -> int:
        """When the first process loaded the plug-in, in nanoseconds since 1970."""
        return min(one.log.begin_realtime_ns for one in self.logs)

    @property
    def name(self) -> str:
        """By which it is chosen; empty for logs without an identity."""
        return min(self.identities)[:_SHOWN]

    @property
    def text(self) -> str:
        """What distinguishes it, in words."""
        begin = datetime.fromtimestamp(self.begin_ns / 1e9, timezone.utc)
        hosts = [*dict.fromkeys(one.log.host for one in self.logs)]
        more = f" and {len(hosts) - _MOST_HOSTS} more hosts" if len(hosts) > _MOST_HOSTS else ""
        return (
            f"{self.name or 'none'} (begun {begin:%Y-%m-%d %H:%M:%S} UTC, {len(self.logs)} "
            f"{'process' if len(self.logs) == 1 else 'processes'} on "
            f"{', '.join(hosts[:_MOST_HOSTS])}{more})"
        )


def runs_of(logs: Sequence[ProfileLog]) -> list[LoggedRun]:
    """Returns the runs of logs, in the order of their begin."""
    by_identity: dict[str, LoggedRun] = {}
    for log in logs:
        identity = log.log.run
        by_identity.setdefault(identity, LoggedRun([identity])).add([log])
    runs: list[LoggedRun] = []
    for run in sorted(by_identity.values(), key=lambda one: one.begin_ns):
        partner = next((one for one in runs if _are_one(one, run)), None)
        if partner is None:
            runs.append(run)
        else:
            partner.identities += run.identities
            partner.add(run.logs)
    return runs


def _are_one(one: LoggedRun, other: LoggedRun) -> bool:
    """Whether processes of both have different ranks of the same communicators."""
    if one.members & other.members:
        return False
    groups = {identity for identity, _ in other.members}
    return any(identity in groups for identity, _ in one.members)


def is_of(run: LoggedRun, chosen: str) -> bool:
    """Whether ``chosen``, the first characters of an ID or "none", selects a run."""
    if chosen == "none":
        return "" in run.identities
    return any(identity and identity.startswith(chosen) for identity in run.identities)
