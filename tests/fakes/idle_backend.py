"""A backend of torch.distributed that does nothing, for ``--import``.

Every operation is done at once and leaves its outputs as they were.
"""

import torch
import torch.distributed as dist
from over_gloo import register


class _Done(dist.Work):
    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(None)
        return future


class Idle(dist.ProcessGroup):
    name = "idle"

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)

    def getBackendName(self):  # noqa: N802 - torch calls it
        return self.name


def _nothing(self, *arguments, **named):
    return _Done()


_OPERATIONS = (
    *("allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "_allgather_base"),
    *("allgather_coalesced", "allgather_into_tensor_coalesced", "gather", "scatter", "barrier"),
    *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "alltoall"),
    *("alltoall_base", "send", "recv", "recv_anysource"),
)
for _operation in _OPERATIONS:
    setattr(Idle, _operation, _nothing)

register(Idle)
