"""A matrix product of torch beside a collective, where no library of the vendor is known for it."""

from __future__ import annotations

import math
from typing import Any

from cclmark import _engine as engine
from cclmark.rank.torch_backend import load_torch, module_of, tensor_device

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
