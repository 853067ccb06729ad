"""A backend of torch.distributed that moves nothing, for ``--import``: gloo but for

- all_to_all, of which every rank copies its own input to its output,
- reduce_scatter, in which every rank adds up its own parts.
"""

import torch.distributed as dist


class Copying(dist.ProcessGroup):
    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self):  # noqa: N802 - torch calls it
        return "copying"

    def allreduce(self, tensors, options=None):
        return self._gloo.allreduce(tensors, options or dist.AllreduceOptions())

    def alltoall(self, outputs, inputs, options=None):
        for received, sent in zip(outputs, inputs, strict=True):
            received.copy_(sent)
        return self.barrier()

    def alltoall_base(self, received, sent, received_counts, sent_counts, options=None):
        received.copy_(sent)
        return self.barrier()

    def reduce_scatter(self, outputs, inputs, options=None):
        for output, parts in zip(outputs, inputs, strict=True):
            output.copy_(sum(parts))
        return self.barrier()

    def barrier(self, options=None):
        return self._gloo.barrier(options or dist.BarrierOptions())


def _make(store, rank, size, timeout):
    return Copying(store, rank, size, timeout)


dist.Backend.register_backend("copying", _make, devices=["cpu"])
