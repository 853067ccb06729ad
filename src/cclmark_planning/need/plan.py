"""Items of ``cclmark need``: a training job, and what its devices can do."""

from __future__ import annotations

import msgspec

from cclmark.work.counts import NotNegative, Positive
from cclmark.work.items import OfFormulas
from cclmark_planning.scale.step import HiddenShares, Network
from cclmark_planning.scale.training_job import TrainingJob

NEED = "need"


class Assumption(msgspec.Struct, frozen=True):
    """A figure that a plan stands on, in words. ``source``: where it comes from.

    ``measured``: whether a run measured it.
    """

    name: str
    figure: str
    source: str
    measured: bool = False


class Need(msgspec.Struct, OfFormulas, frozen=True, omit_defaults=True):
    """A job whose network is sought.

    ``network``: what is known of it; with a line rate between nodes it is judged. ``flops``: the
    floating-point operations that a device computes in a second, ``memory_bps``: the bytes that its
    memory moves, ``memory_bytes``: its size, 0 if unknown. ``share``: by which a step may take
    longer than on an ideal network between nodes. ``variant``: what differs from the job that was
    asked for, empty for that.
    """

    job: TrainingJob
    network: Network
    flops: Positive
    memory_bps: Positive
    share: Positive
    hidden: HiddenShares = HiddenShares()
    variant: str = ""
    memory_bytes: NotNegative = 0.0
    assumptions: tuple[Assumption, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return NEED

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""
        return "need"

    @property
    def library(self) -> str:
        """The implementation whose messages are counted."""
        return self.job.framework

    def describe(self) -> str:
        """The job in words, for messages."""
        return f"{self.job.describe()}{f' with {self.variant}' if self.variant else ''}"

    def series(self) -> Need:
        """The key that the numbers of devices of one job share."""
        job = self.job
        alike = msgspec.structs.replace(job.layout, dp=1)
        return msgspec.structs.replace(
            self, job=msgspec.structs.replace(job, layout=alike, batch=1)
        )
