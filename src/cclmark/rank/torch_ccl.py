"""torch.distributed as a library: the calls of a training program, timed like other libraries.

Tensors are the buffers that the engine fills and checks: on some devices its own, on others torch's
(see work/torch_devices.py). Each call is bound to its tensors on the first use of an address in the
buffers. The timed region contains torch's call and one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import cclmark._engine as engine
from cclmark.rank.rank import Rank
from cclmark.rank.torch_backend import (
    PATIENCE_S,
    ProcessGroup,
    cannot,
    describe_backend,
    load_torch,
    module_of,
    one_line,
    tensor_device,
)
from cclmark.rank.torch_tensors import TorchStream, bytes_at
from cclmark.work.operations import DTYPE_BYTES
from cclmark.work.torch_devices import TORCH_DEVICES

_DTYPES = {"fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}  # others are called the same
_REDUCTIONS = {"sum": "SUM", "prod": "PRODUCT", "min": "MIN", "max": "MAX", "avg": "AVG"}
_IN_PLACE_ONLY = "torch.distributed supports {0} in place only: use --placement in-place"
_ROUTES = {
    "all_gather": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "alltoall": "all_to_all_single",
    "alltoallv": "all_to_all_single",
    "sendrecv": "batch_isend_irecv",
}

RunOperation = Callable[[], Any]
Prepare = Callable[[int, int], RunOperation]


def route_of(operation: str) -> str:
    """The torch function that an operation calls, ``native`` if it has the same name."""
    return _ROUTES.get(operation, "native")


class TorchLibrary:
    """torch with one backend, loaded."""

    def __init__(self, backend: str, modules: Sequence[str], runtime: str) -> None:
        """Raises MissingError with a remedy if torch or the backend is missing."""
        self._backend = backend
        self._of_some: ProcessGroup | None = None
        self._torch = load_torch(backend, modules, runtime)
        self.descriptions = [describe_backend(self._torch, backend, runtime)]

    def join(
        self, rank: Rank, device: engine.Device, options: Mapping[str, str] | None = None
    ) -> engine.Communicator:
        """Creates the default process group over all ranks. Raises MissingError on any error."""
        group = self._group(rank, device)
        group.options = {**group.options, **(options or {})}
        return self._joined(rank, device, group)

    def start(self, rank: Rank, device: engine.Device) -> None:
        """Prepares all ranks to join groups of some of them. See NativeLibrary.start."""
        self._of_some = self._group(rank, device)
        self._of_some.connect()

    def join_some(
        self, rank: Rank, device: engine.Device, members: Sequence[int], name: str
    ) -> engine.Communicator:
        """Creates the communicator of some ranks. See NativeLibrary.join_some."""
        assert self._of_some is not None
        return self._joined(rank, device, self._of_some, members, name)

    def _group(self, rank: Rank, device: engine.Device) -> ProcessGroup:
        place = tensor_device(self._torch, device.info.runtime, device.info.index)
        # Longer than the deadline, so that the launcher finds waiting ranks still in the operation.
        timeout_s = rank.job.settings.timeout_s + PATIENCE_S
        return ProcessGroup(rank, self._torch, self._backend, place, timeout_s)

    def _joined(
        self,
        rank: Rank,
        device: engine.Device,
        group: ProcessGroup,
        members: Sequence[int] = (),
        name: str = "",
    ) -> engine.Communicator:
        try:
            group.make(members, name)
        except Exception as error:  # any exception means that the backend is unavailable
            raise engine.MissingError(
                f"torch cannot create a process group with backend {self._backend}: "
                f"{one_line(error)}"
            ) from None
        return engine.adapt(TorchCommunicator(rank, self._torch, group, device))


class TorchCommunicator:
    """The engine's communicator interface: binds calls to an operation, then to addresses."""

    def __init__(self, rank: Rank, torch: Any, group: ProcessGroup, device: engine.Device) -> None:
        self._rank, self._ranks = group.rank, group.size
        self._torch, self._dist = torch, torch.distributed
        self._group, self._device = group, device
        self._place = tensor_device(torch, device.info.runtime, device.info.index)
        self._module = module_of(torch, self._place)
        self._shares_memory = TORCH_DEVICES[device.info.runtime].shares_memory
        #: Torch's stream if it does not run on the engine's, else None.
        self.own_stream = None if self._shares_memory else TorchStream(self._module)
        self._bound = ""  # the operation that was bound last
        self._coalescing: Any = None

    def __del__(self) -> None:
        """Destroys the process group."""
        self._group.close()

    def route(self, operation: str) -> str:
        """See route_of."""
        return route_of(operation)

    def begin_group(self) -> None:
        """Begins to coalesce calls of the bound operation. Raises UnsupportedError.

        all_reduce has a coalesced form in every backend; other operations are grouped by a backend
        of devices between its own start and end.
        """
        manager = getattr(self._dist, "_coalescing_manager", None)
        if manager is None:
            raise engine.UnsupportedError(
                f"torch {self._torch.__version__} has no function that coalesces calls"
            )
        is_direct = self._bound == "all_reduce"
        if not is_direct and (self._module is None or self._bound == "sendrecv"):
            raise engine.UnsupportedError(
                f"torch.distributed does not support groups of operations of {self._bound} with "
                "this backend"
            )
        self._coalescing = manager(device=None if is_direct else self._place)
        self._coalescing.__enter__()

    def end_group(self) -> None:
        """Launches the calls since ``begin_group`` as one. Raises UnsupportedError, EngineError."""
        manager, self._coalescing = self._coalescing, None
        try:
            manager.__exit__(None, None, None)
        except Exception as error:  # torch and its plug-ins may raise any exception
            text = f"{self._bound}, coalesced: {one_line(error)}"
            if cannot(error):
                raise engine.UnsupportedError(text) from None
            raise engine.EngineError(f"torch.distributed {text}") from None

    def bind(
        self, operation: engine.Operation, stream: int
    ) -> tuple[Callable[[int, int], None], Callable[[int, int], None]]:
        """Two functions of the input and output addresses: for preparation and for each call.

        This function and both results may raise UnsupportedError, but only until the operation has
        succeeded once, so that all ranks detect it at the same point.
        """
        name, dtype = operation.collective, operation.dtype
        self._bound = name
        kind = getattr(self._torch, _DTYPES.get(dtype, dtype), None)
        if kind is None:
            raise engine.UnsupportedError(f"torch {self._torch.__version__} has no {dtype}")
        if self._module is not None and self._shares_memory:
            self._module.set_stream(
                self._module.ExternalStream(stream, device=self._device.info.index)
            )
        binding = _Binding(
            self._dist,
            partial(engine.tensor_at, device=self._device) if self._shares_memory else bytes_at,
            kind,
            DTYPE_BYTES[dtype],
            *(self._rank, self._ranks, operation.count, operation.root, operation.matrix),
            getattr(self._dist.ReduceOp, _REDUCTIONS[operation.reduction]),
        )
        bound: Prepare | None = getattr(binding, name, None)
        if bound is None:
            raise engine.UnsupportedError(f"no function of torch is known for {name}")
        prepared: dict[tuple[int, int], RunOperation] = {}
        done = False

        def fail(error: Exception) -> None:
            text = f"{name}: {one_line(error)}"
            if cannot(error) and not done:
                raise engine.UnsupportedError(text) from None
            raise engine.EngineError(f"torch.distributed {text}") from None

        def prepare(send: int, receive: int) -> None:
            try:
                prepared[send, receive] = bound(send, receive)
            except engine.EngineError:
                raise
            except Exception as error:  # torch and its plug-ins may raise any exception
                fail(error)

        def enqueue(send: int, receive: int) -> None:
            nonlocal done
            try:
                prepared[send, receive]()
                done = True
            except Exception as error:
                fail(error)

        return prepare, enqueue


@dataclass
class _Binding:
    """An operation without its buffers. Each method returns the call for two addresses.

    ``bytes_at``: the tensor of bytes at an address. ``count`` and ``matrix``: see Operation in
    engine/core/operation.hpp. ``reduction``: of torch.
    """

    _dist: Any
    _bytes_at: Callable[[int, int], Any]
    _dtype: Any
    _width: int
    _rank: int
    _ranks: int
    count: int
    root: int
    matrix: Sequence[int]
    reduction: Any

    def all_reduce(self, send: int, receive: int) -> RunOperation:
        own = self._in_place("all_reduce", send, receive)
        return partial(self._dist.all_reduce, own, self.reduction)

    def broadcast(self, send: int, receive: int) -> RunOperation:
        return partial(self._dist.broadcast, self._in_place("broadcast", send, receive), self.root)

    def reduce(self, send: int, receive: int) -> RunOperation:
        own = self._in_place("reduce", send, receive)
        return partial(self._dist.reduce, own, self.root, self.reduction)

    def all_gather(self, send: int, receive: int) -> RunOperation:
        whole = self._tensor(receive, self.count * self._ranks)
        return partial(self._dist.all_gather_into_tensor, whole, self._tensor(send, self.count))

    def reduce_scatter(self, send: int, receive: int) -> RunOperation:
        whole = self._tensor(send, self.count * self._ranks)
        own = self._tensor(receive, self.count)
        return partial(self._dist.reduce_scatter_tensor, own, whole, self.reduction)

    def alltoall(self, send: int, receive: int) -> RunOperation:
        whole, own = (self._tensor(one, self.count * self._ranks) for one in (receive, send))
        return partial(self._dist.all_to_all_single, whole, own)

    def alltoallv(self, send: int, receive: int) -> RunOperation:
        n = self._ranks
        sent = list(self.matrix[self._rank * n : (self._rank + 1) * n])
        received = list(self.matrix[self._rank :: n])
        whole, own = self._tensor(receive, sum(received)), self._tensor(send, sum(sent))
        return partial(self._dist.all_to_all_single, whole, own, received, sent)

    def gather(self, send: int, receive: int) -> RunOperation:
        parts = self._parts(receive) if self._rank == self.root else None
        return partial(self._dist.gather, self._tensor(send, self.count), parts, self.root)

    def scatter(self, send: int, receive: int) -> RunOperation:
        parts = self._parts(send) if self._rank == self.root else None
        return partial(self._dist.scatter, self._tensor(receive, self.count), parts, self.root)

    def sendrecv(self, send: int, receive: int) -> RunOperation:
        dist = self._dist
        right, left = (self._rank + 1) % self._ranks, (self._rank - 1) % self._ranks
        pair = [
            dist.P2POp(dist.isend, self._tensor(send, self.count), right),
            dist.P2POp(dist.irecv, self._tensor(receive, self.count), left),
        ]

        def run() -> None:
            for work in dist.batch_isend_irecv(pair):
                work.wait()

        return run

    def barrier(self, send: int, receive: int) -> RunOperation:
        barrier: RunOperation = self._dist.barrier
        return barrier

    def _tensor(self, address: int, count: int) -> Any:
        return self._bytes_at(address, count * self._width).view(self._dtype)

    def _parts(self, address: int) -> list[Any]:
        return list(self._tensor(address, self.count * self._ranks).split(self.count))

    def _in_place(self, name: str, send: int, receive: int) -> Any:
        if send != receive:
            raise engine.UnsupportedError(_IN_PLACE_ONLY.format(name))
        return self._tensor(receive, self.count)
