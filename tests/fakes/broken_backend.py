"""A backend of torch.distributed with known faults, for ``--import``: gloo but for

- all_reduce, whose first element is one too large on rank 1,
- broadcast, which rank 1 refuses while the others take part,
- barrier and gather, which no rank supports,
- all_to_all, in which rank 1 never takes part.
"""

import time

import torch.distributed as dist
from over_gloo import OverGloo, register


class Broken(OverGloo):
    name = "broken"

    def allreduce(self, tensors, options=None):
        work = super().allreduce(tensors, options)
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

    def gather(self, outputs, inputs, options=None):
        raise RuntimeError("broken does not support gather")

    def allgather(self, outputs, inputs, options=None):
        return self._gloo.allgather(outputs, inputs, options or dist.AllgatherOptions())

    def alltoall(self, outputs, inputs, options=None):
        if self._number == 1:
            time.sleep(600)
        return self._gloo.alltoall(outputs, inputs, options or dist.AllToAllOptions())

    def reduce(self, tensors, options):
        return self._gloo.reduce(tensors, options)


register(Broken)
