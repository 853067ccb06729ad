"""Buffers of torch for the engine, and torch's stream.

Vendors' plug-ins allocate with the runtime that the engine uses: an address of one is valid in the
other. Torch has no views of the engine's memory on every device, and not every plug-in can run on
a stream that it did not create, so the engine works on what torch has.
"""

from __future__ import annotations

import math
from typing import Any

from cclmark import _engine as engine
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
