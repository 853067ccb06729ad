"""Torch for the engine: buffers, its stream, and a matrix product beside a collective.

Vendors' plug-ins allocate with the runtime that the engine uses: an address of one is valid in the
other. Torch has no views of the engine's memory on every device, and not every plug-in can run on
a stream that it did not create, so the engine works on what torch has. The product serves where no
library of the vendor is known for it.
"""

from __future__ import annotations

import math
from typing import Any

import cclmark._engine as engine
from cclmark.rank.torch_backend import load_torch, module_of, tensor_device

_allocated: dict[int, Any] = {}  # the tensors of all buffers by their addresses


class TorchMemory:
    """Buffers of torch's caching allocator."""

    def __init__(self, device: engine.Device) -> None:
        info = device.info
        self._torch = load_torch("", [], info.runtime)
        self._place = tensor_device(self._torch, info.runtime, info.index)

    def allocate(self, size_bytes: int) -> int:
        """Returns the address of a new tensor. Raises OutOfMemoryError."""
        try:
            tensor = self._torch.empty(size_bytes, dtype=self._torch.uint8, device=self._place)
        except RuntimeError as error:  # of types that differ between devices
            if "out of memory" not in str(error).lower():
                raise
            raise engine.OutOfMemoryError(str(error).partition("\n")[0]) from None
        _allocated[tensor.data_ptr()] = tensor
        return int(tensor.data_ptr())

    def release(self, address: int) -> None:
        """Returns the tensor's memory to the device, where other allocators find it."""
        del _allocated[address]
        module_of(self._torch, self._place).empty_cache()


def bytes_at(address: int, size_bytes: int) -> Any:
    """The part of a buffer of TorchMemory, as a tensor of bytes."""
    for begin, tensor in _allocated.items():
        offset = address - begin
        if offset >= 0 and offset + size_bytes <= tensor.numel():
            return tensor[offset : offset + size_bytes]
    raise engine.EngineError(f"torch has no buffer of {size_bytes} bytes at {address:#x}")


class TorchStream:
    """The current stream, timed by events, as OwnStream of the engine. ``module``: torch.npu, …"""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._stream = module.current_stream()
        self._marks: dict[int, Any] = {}

    def record(self, mark: int) -> None:
        """Records an event behind the operations so far."""
        event = self._marks.get(mark)
        if event is None:
            event = self._marks[mark] = self._module.Event(enable_timing=True)
        event.record(self._stream)

    def elapsed_s(self, begin: int, end: int) -> float:
        """The time between two marks, NaN if events of these devices measure none."""
        try:
            return float(self._marks[begin].elapsed_time(self._marks[end])) / 1e3
        except (RuntimeError, AttributeError):
            return math.nan

    def synchronize(self) -> None:
        """Waits for the operations so far."""
        self._stream.synchronize()


_TILE = 64  # the matrices repeat this many rows and columns
_LARGEST = 4  # elements are whole numbers from -4 to 4
_WIDTH = 2  # bytes of an element
_MATRICES = 3


def torch_product_bytes(order: int) -> int:
    """The memory of a product of matrices with ``order`` rows."""
    return _MATRICES * _WIDTH * order * order


class TorchProduct:
    """The product of two square bfloat16 matrices with ``order`` rows, on the engine's streams.

    See Compute in the engine. Raises MissingError without torch, UnsupportedError if torch cannot
    work on a stream that it did not create.
    """

    def __init__(self, device: engine.Device, order: int) -> None:
        info = device.info
        self._torch = torch = load_torch("", [], info.runtime)
        self._place = tensor_device(torch, info.runtime, info.index)
        self._module = module_of(torch, self._place)
        if not hasattr(self._module, "ExternalStream"):
            raise engine.UnsupportedError(
                f"torch.{self._place.type} has no ExternalStream, so torch cannot multiply "
                "matrices on a stream beside the collective"
            )
        self.work = 2.0 * order**3
        self.implementation = f"torch {torch.__version__}"
        self.path = str(torch.__path__[0])
        self._order = order
        self._stream = 0
        self._tiles = [self._tile(seed) for seed in (1, 2)]
        self._factors = [self._whole(tile).to(self._place) for tile in self._tiles]
        self._output = torch.empty_like(self._factors[0])
        self._module.synchronize(self._place)

    def enqueue(self, stream: int) -> None:
        """Multiplies once."""
        self._use(stream)
        self._torch.mm(*self._factors, out=self._output)

    def poison(self, stream: int) -> None:
        """Overwrites the output."""
        self._use(stream)
        self._output.fill_(math.nan)

    def check(self) -> tuple[int, int, float, float]:
        """The wrong elements, the first of them, its expected and its actual value."""
        torch, order = self._torch, self._order
        first, second = (tile.to(torch.float64) for tile in self._tiles)
        inner = torch.bincount(torch.arange(order) % _TILE, minlength=_TILE).to(torch.float64)
        tile = ((first * inner) @ second).to(torch.bfloat16)
        wanted, got = self._whole(tile), self._output.cpu()
        places = (got != wanted).reshape(-1).nonzero()
        if not len(places):
            return 0, 0, 0.0, 0.0
        place = int(places[0])
        expected, actual = (float(one.reshape(-1)[place]) for one in (wanted, got))
        return len(places), place, expected, actual

    def _use(self, stream: int) -> None:
        if stream != self._stream:
            self._module.set_stream(self._module.ExternalStream(stream, device=self._place.index))
            self._stream = stream

    def _tile(self, seed: int) -> Any:
        torch = self._torch
        generator = torch.Generator().manual_seed(seed)
        span = (-_LARGEST, _LARGEST + 1)
        return torch.randint(*span, (_TILE, _TILE), generator=generator).to(torch.bfloat16)

    def _whole(self, tile: Any) -> Any:
        """The matrix that repeats a tile."""
        times = -(-self._order // _TILE)
        return tile.repeat(times, times)[: self._order, : self._order].contiguous()
