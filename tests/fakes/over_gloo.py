"""What the backends of torch.distributed have in common that tests make of gloo."""

import torch.distributed as dist


class OverGloo(dist.ProcessGroup):
    """gloo, of which subclasses do some operations otherwise. ``name``: that of the backend."""

    name = ""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._number = rank

    def getBackendName(self):  # noqa: N802 - torch calls it
        return self.name

    def allreduce(self, tensors, options=None):
        return self._gloo.allreduce(tensors, options or dist.AllreduceOptions())


def register(kind):
    """Makes a backend of a subclass."""

    def make(store, rank, size, timeout):
        return kind(store, rank, size, timeout)

    dist.Backend.register_backend(kind.name, make, devices=["cpu"])
