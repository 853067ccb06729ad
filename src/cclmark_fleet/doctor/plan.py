"""Items of ``cclmark doctor``: a host and the checks of it."""

from __future__ import annotations

import msgspec

from cclmark.work.counts import NotNegative

DOCTOR = "doctor"


class Examination(msgspec.Struct, frozen=True, omit_defaults=True):
    """A host that is examined. ``origin``: the file of a recorded host, empty for a live one.

    ``checks``: their ids. ``interval_s``: between readings of counters, as asked for.
    """

    host: str
    checks: tuple[str, ...]
    interval_s: NotNegative = 0.0
    origin: str = ""

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return DOCTOR

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""
        return "doctor"

    @property
    def library(self) -> str:
        """The library, backend or engine that performs it."""
        return "cclmark"

    @property
    def ccl(self) -> str:
        """Empty: no CCL takes part."""
        return ""

    @property
    def size_bytes(self) -> int:
        """0: an examination has no size."""
        return 0

    @property
    def ranks(self) -> int:
        """0: no rank takes part."""
        return 0

    def describe(self) -> str:
        """The examination in words, for messages."""
        return f"{len(self.checks)} checks of {self.host}"

    def is_within(self, devices: int) -> bool:
        """True: it names no device."""
        return True

    def series(self) -> Examination:
        """The key that the hosts of a run share."""
        return msgspec.structs.replace(self, host="", origin="")
