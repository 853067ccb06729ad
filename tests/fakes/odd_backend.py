"""A backend of torch.distributed whose rank 1 fails in words that often mean "unsupported":

- all_reduce, in which the others then wait for it,
- broadcast, of which the root is done without it.
"""

import torch
import torch.distributed as dist


class Odd(dist.ProcessGroup):
    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._number = rank

    def getBackendName(self):  # noqa: N802 - torch calls it
        return "odd"

    def allreduce(self, tensors, options=None):
        if self._number == 1:
            raise RuntimeError("ibv_reg_mr failed: Operation not supported")
        return self._gloo.allreduce(tensors, options or dist.AllreduceOptions())

    def broadcast(self, tensors, options):
        if self._number == 1:
            raise RuntimeError("ibv_reg_mr failed: Operation not supported")
        done = torch.futures.Future()
        done.set_result(None)
        return torch._C._distributed_c10d._create_work_from_future(done)


def _make(store, rank, size, timeout):
    return Odd(store, rank, size, timeout)


dist.Backend.register_backend("odd", _make, devices=["cpu"])
