"""A check of a host: what it judges by, what a failure costs and how it is fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

#: Of a check. ``unknown``: cannot tell; ``absent``: not applicable to the host.
State = Literal["pass", "fail", "unknown", "absent"]
#: How grave a failure is: ``bad`` breaks or slows communication much, ``look`` somewhat.
Grade = Literal["bad", "look"]
Certainty = Literal["certain", "likely", "possible"]
#: The steps of a ladder, the mildest first.
Step = Literal["setting", "reset", "reboot", "service"]

_MOST_PASSED, _MOST_FAILED = 3, 64  # signals that are kept
_KERNEL_LOG, _MOST_LINES, _LINE_LENGTH = "kernel log", 3, 140
ROOT = "root: sudo cclmark doctor"


class Signal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that was seen at a place of the host, and its limit. ``is_ok``: whether it holds."""

    where: str
    seen: str
    limit: str = ""
    is_ok: bool = True


class Remedy(msgspec.Struct, frozen=True):
    """A step of the ladder, and what to do."""

    step: Step
    action: str


def setting(action: str) -> Remedy:
    """A change of a setting, the mildest step."""
    return Remedy("setting", action)


def reset(action: str) -> Remedy:
    """A reset of a device or a link."""
    return Remedy("reset", action)


def reboot(action: str) -> Remedy:
    """A restart of the host."""
    return Remedy("reboot", action)


def service(action: str) -> Remedy:
    """Work on the hardware, the last step."""
    return Remedy("service", action)


class CheckOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a check found. ``signals``: those that failed, else what was seen.

    ``reason``: of a check that cannot tell or is not applicable; ``needs``: what would tell.
    ``cost``, ``remedies``, ``source`` of the limit, ``certainty``: of a failure. ``measured``: the
    cost on this host, if it was measured.
    """

    check: str
    title: str
    state: State
    grade: Grade = "bad"
    signals: list[Signal] = []
    reason: str = ""
    needs: str = ""
    cost: str = ""
    remedies: list[Remedy] = []
    source: str = ""
    certainty: Certainty = "certain"
    measured: str = ""


class NotApplicableError(Exception):
    """The host has nothing that the check is about."""


class CannotTellError(Exception):
    """What the check needs cannot be read. ``needs``: what would tell."""

    def __init__(self, reason: str, needs: str = "") -> None:
        super().__init__(reason)
        self.needs = needs


@dataclass
class Judged:
    """What a check sees, part by part. A part that is unknown makes no check pass.

    ``cost``, ``remedies``, ``source``, ``grade`` and ``certainty`` replace those of the check.
    """

    signals: list[Signal] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    cost: str = ""
    remedies: Sequence[Remedy] = ()
    source: str = ""
    grade: Grade | None = None
    certainty: Certainty | None = None

    def see(self, where: str, seen: object, limit: object = "", *, ok: bool = True) -> None:
        """Adds a value. ``ok``: whether it is within ``limit``."""
        self.signals.append(Signal(where, str(seen), str(limit), ok))

    def see_lines(self, lines: Sequence[str], limit: str, none: str) -> None:
        """Adds lines of the kernel's log that should not be there; without any, ``none``."""
        for line in lines[:_MOST_LINES]:
            self.see(_KERNEL_LOG, line[:_LINE_LENGTH], limit, ok=False)
        if not lines:
            self.see(_KERNEL_LOG, none)

    def cannot_tell(self, reason: str, needs: str = "") -> None:
        """Adds a part that cannot be read."""
        self.unknown.append((reason, needs))


class ExaminedHost(Protocol):
    """What is required of a host besides what ``judge`` of a check reads."""

    def knows(self, check: str) -> bool:
        """Whether the host, which may be a recorded one, has what the check reads."""


@dataclass(frozen=True)
class HostCheck:
    """A check. ``id``: for --only and --skip. ``title``: what is checked, a noun.

    ``judge`` returns what it sees on a doctor.host.Host, and raises NotApplicableError or
    CannotTellError.
    ``cost``: what a failure costs, with its source. ``fix``: the ladder. ``source``: of the limit.
    ``counters``: whether it judges counters, which takes an interval.
    """

    id: str
    title: str
    judge: Callable[[Any], Judged]
    cost: str
    fix: Sequence[Remedy]
    source: str
    grade: Grade = "bad"
    certainty: Certainty = "certain"
    counters: bool = False

    def on(self, host: ExaminedHost) -> CheckOutcome:
        """What the check finds on a host; never raises for what the host answers."""
        if not host.knows(self.id):
            reason = "this version's check is newer than the recording"
            return self._without(reason, "a new recording: cclmark doctor --record FILE")
        try:
            found = self.judge(host)
        except NotApplicableError as error:
            return CheckOutcome(self.id, self.title, "absent", reason=str(error))
        except CannotTellError as error:
            return self._without(str(error), error.needs)
        bad = [one for one in found.signals if not one.is_ok]
        if bad:
            remedies = [*(found.remedies or self.fix)]
            return CheckOutcome(
                *(self.id, self.title, "fail", found.grade or self.grade, bad[:_MOST_FAILED]),
                cost=found.cost or self.cost,
                remedies=remedies,
                source=found.source or self.source,
                certainty=found.certainty or self.certainty,
            )
        if found.unknown or not found.signals:
            reason, needs = (found.unknown or [("nothing could be read", "")])[0]
            more = f" (and {len(found.unknown) - 1} more)" if len(found.unknown) > 1 else ""
            return self._without(reason + more, needs)
        return CheckOutcome(self.id, self.title, "pass", signals=found.signals[:_MOST_PASSED])

    def _without(self, reason: str, needs: str) -> CheckOutcome:
        return CheckOutcome(self.id, self.title, "unknown", reason=reason, needs=needs)
