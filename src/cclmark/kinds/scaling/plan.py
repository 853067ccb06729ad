"""Items of step predictions: a training job on a number of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.kinds.need.plan import Need
from cclmark.work.counts import NotNegative
from cclmark.work.items import OfFormulas

SCALING = "scaling"
#: What a job is: a measured one, the batch of all GPUs fixed, the batch of a GPU fixed, a layout.
MEASURED, STRONG, WEAK, LAYOUT = "measured", "strong", "weak", "layout"
PURPOSES = (MEASURED, STRONG, WEAK, LAYOUT)

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Purpose: TypeAlias = str
else:
    Purpose = Literal[PURPOSES]


class ScaledJob(msgspec.Struct, OfFormulas, frozen=True, omit_defaults=True):
    """A job whose step is sought. ``need``: job, network and rate of compute.

    ``compute_spread``: standard deviation of the logarithm of that rate. ``memory_bytes``: of a
    GPU, 0 if unknown.
    """

    need: Need
    purpose: Purpose
    compute_spread: NotNegative
    memory_bytes: NotNegative = 0.0

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return SCALING

    @property
    def work(self) -> str:
        """The operation, or the command that performs the work."""
        return "predict"

    @property
    def library(self) -> str:
        """The implementation of training."""
        return self.need.library

    def describe(self) -> str:
        """The job in words, for messages."""
        return self.need.describe()

    def series(self) -> ScaledJob:
        """The key that the numbers of devices of one job share."""
        return msgspec.structs.replace(self, need=self.need.series())
