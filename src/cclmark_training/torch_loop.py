"""The items of a rank that torch.distributed works for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cclmark._engine as engine
from cclmark.journal.item_results import Result
from cclmark.rank.context import RankContext
from cclmark.rank.item_loop import measure_items
from cclmark.rank.torch_backend import (
    PATIENCE_S,
    ProcessGroup,
    describe_backend,
    load_torch,
    one_line,
    tensor_device,
)
from cclmark.work.items import Item


class TorchLoop:
    """The items of a rank that torch.distributed works for, in step with the other ranks.

    A kind defines ``open`` and ``measure``, and what differs from the other members.
    """

    #: Whether a failure while the process group is destroyed belongs to the last item.
    has_variants = False

    def __init__(self, context: RankContext, items: Sequence[Item], backend: str) -> None:
        self.context = context
        self.rank = context.rank
        self.job = context.job
        self.backend = backend
        self._items = items

    def run(self) -> None:
        """Loads torch, introduces the rank, measures; rank 0 reports. Raises MissingError."""
        context, rank, job, backend = self.context, self.rank, self.job, self.backend
        context.share_processors(alone=False)
        rank.enter("loading the library")
        torch = load_torch(backend, job.modules, job.runtime)
        self.require(torch)
        context.introduce([describe_backend(torch, backend, job.runtime)])
        device = tensor_device(torch, job.runtime, context.devices[0].info.index)
        rank.enter("communicator creation")
        group = ProcessGroup(rank, torch, backend, device, self.timeout_s)
        try:
            group.make()
        except Exception as error:  # any exception means that the backend is unavailable
            raise engine.MissingError(
                f"torch cannot create a process group with backend {backend}: {self.words(error)}"
            ) from None
        self.open(torch, device, group)
        measure_items(rank, job.pending or range(len(self._items)), self.measure)
        if not self.has_variants:
            rank.case_index = -1
        self.finish()
        rank.enter("shutdown")
        group.close()
        rank.case_index = -1
        rank.enter("finished")

    @property
    def timeout_s(self) -> float:
        """torch's timeout, after the deadline: the launcher finds waiting ranks in the call."""
        return self.job.settings.timeout_s + PATIENCE_S

    def words(self, error: Exception) -> str:
        """The reason why there is no process group."""
        return one_line(error)

    def require(self, torch: Any) -> None:
        """Loads what else the items require. Raises MissingError."""

    def open(self, torch: Any, device: Any, group: ProcessGroup) -> None:
        """Opens what measures, on torch's ``device``, after ``group`` was created."""

    def measure(self, index: int) -> Result:
        """Measures the item with this index."""
        raise NotImplementedError

    def finish(self) -> None:
        """Called after the last result."""
