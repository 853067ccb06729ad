"""A backend of torch.distributed with known faults, for ``--import``: gloo but for

- all_reduce, whose first element is one too large on rank 1,
- broadcast, which rank 1 refuses while the others take part,
- barrier, which no rank supports,
- all_to_all, in which rank 1 never takes part.
"""

import time

import torch
import torch.distributed as dist


class Broken(dist.ProcessGroup):
    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._number = rank

    def getBackendName(self):  # noqa: N802 - torch calls it
        return "broken"

    def allreduce(self, tensors, options=None):
        work = self._gloo.allreduce(tensors, options or dist.AllreduceOptions())
        work.wait()
        if self._number == 1 and tensors[0].numel():
            tensors[0].view(-1)[0] += 1
        return work

    def broadcast(self, tensors, options):
        if self._number == 1:
            raise RuntimeError("out of luck")
        return self._gloo.broadcast(tensors, options)

    def barrier(self, opts=None):
        raise RuntimeError("broken does not support barrier")

    def allgather(self, outputs, inputs, options=None):
        return self._gloo.allgather(outputs, inputs, options or dist.AllgatherOptions())

    def alltoall(self, outputs, inputs, options=None):
        if self._number == 1:
            time.sleep(600)
        return self._gloo.alltoall(outputs, inputs, options or dist.AllToAllOptions())

    def reduce(self, tensors, options):
        return self._gloo.reduce(tensors, options)


def _make(store, rank, size, timeout):
    return Broken(store, rank, size, timeout)


dist.Backend.register_backend("broken", _make, devices=["cpu"])
assert torch
