"""A backend of torch.distributed that does nothing, for ``--import``.

Every operation is done at once and leaves its outputs as they were.
"""

import resource
from pathlib import Path

import torch
import torch.distributed as dist
from over_gloo import register


def _limit_memory():
    """Sizes of objects that are not received have any value: torch must not get what they say."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most_bytes = pages * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))


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

_limit_memory()
register(Idle)
