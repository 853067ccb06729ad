"""A backend of torch.distributed under which replicas drift apart, for ``--import``: gloo but for

- all_reduce, whose first element is 0.5 too large on rank 1.
"""

import torch.distributed as dist
from over_gloo import OverGloo, register


class Drifting(OverGloo):
    name = "drifting"

    def allreduce(self, tensors, options=None):
        work = super().allreduce(tensors, options)
        work.wait()
        if self._number == 1 and tensors[0].is_floating_point():
            tensors[0].view(-1)[0] += 0.5
        return work

    def broadcast(self, tensors, options):
        return self._gloo.broadcast(tensors, options)

    def allgather(self, outputs, inputs, options=None):
        return self._gloo.allgather(outputs, inputs, options or dist.AllgatherOptions())


register(Drifting)
