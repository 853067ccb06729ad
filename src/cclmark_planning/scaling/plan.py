"""Items of step predictions: a training job on a number of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.work.counts import NotNegative
from cclmark.work.items import OfFormulas
from cclmark_planning.need.plan import Assumption, Need
from cclmark_planning.scale.profiled_step import GrownStep
from cclmark_planning.scale.step import Network
from cclmark_planning.scale.training_job import TrainingJob

SCALING = "scaling"
#: What a job is: a measured one, the batch of all GPUs fixed, the batch of a GPU fixed, a layout.
MEASURED, STRONG, WEAK, LAYOUT = "measured", "strong", "weak", "layout"
PURPOSES = (MEASURED, STRONG, WEAK, LAYOUT)

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Purpose: TypeAlias = str
else:
    Purpose = Literal[PURPOSES]


class ScaledProgram(msgspec.Struct, frozen=True, omit_defaults=True):
    """A profiled program on more devices, and the network that it has there."""

    step: GrownStep
    network: Network
    assumptions: tuple[Assumption, ...] = ()


class ScaledJob(msgspec.Struct, OfFormulas, frozen=True, omit_defaults=True):
    """A job whose step is sought: of a model (``need``: job, network and rate of compute) or of a
    profiled ``program``, one of the two.

    ``compute_spread``: standard deviation of the logarithm of the rate of compute.
    ``memory_bytes``: of a GPU, 0 if unknown.
    """

    need: Need | None
    purpose: Purpose
    compute_spread: NotNegative
    memory_bytes: NotNegative = 0.0
    program: ScaledProgram | None = None

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
        """The implementation of training, or the program."""
        return self.of_model.library if self.program is None else self.name

    @property
    def of_model(self) -> Need:
        """The job of a model. Raises ValueError for a program."""
        if self.need is None:
            raise ValueError("the step is that of a program")
        return self.need

    @property
    def _job(self) -> TrainingJob | GrownStep:
        return self.of_model.job if self.program is None else self.program.step

    @property
    def name(self) -> str:
        """The model, or the program."""
        job = self._job
        return job.measured.name if isinstance(job, GrownStep) else job.model.name

    @property
    def devices(self) -> int:
        """The number of GPUs."""
        return self._job.devices

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self._job.nodes

    @property
    def per_node(self) -> int:
        """The GPUs of a node."""
        return self._job.per_node

    @property
    def tokens(self) -> int:
        """The tokens of a step, 0 if unknown."""
        return self._job.tokens

    @property
    def work_done(self) -> float:
        """What a step does, in a unit of the job: its tokens, or the work of a replica."""
        job = self._job
        if not isinstance(job, GrownStep):
            return job.tokens
        return job.measured.devices * (1 if job.same_batch else job.copies)

    @property
    def layout(self) -> str:
        """How GPUs divide the work, in words; empty for a program."""
        return "" if self.need is None else self.need.job.layout.describe()

    @property
    def batch(self) -> int | None:
        """The sequences of a step, None for a program."""
        return None if self.need is None else self.need.job.batch

    @property
    def micro_batch(self) -> int | None:
        """The sequences that a replica computes at once, None for a program."""
        return None if self.need is None else self.need.job.micro_batch

    @property
    def sequence(self) -> int | None:
        """The tokens of a sequence, None for a program."""
        return None if self.need is None else self.need.job.sequence

    @property
    def network(self) -> Network:
        """What devices can send."""
        return self.of_model.network if self.program is None else self.program.network

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The figures that the step stands on."""
        return self.of_model.assumptions if self.program is None else self.program.assumptions

    def describe(self) -> str:
        """The job in words, for messages."""
        return self._job.describe() if self.need is None else self.need.describe()

    def series(self) -> ScaledJob:
        """The key that the numbers of devices of one job share."""
        if self.program is None:
            return msgspec.structs.replace(self, need=self.of_model.series())
        alike = msgspec.structs.replace(self.program.step, copies=1)
        return msgspec.structs.replace(
            self, program=msgspec.structs.replace(self.program, step=alike)
        )
