"""Synthetic tokens: a function of the seed, the batch and the sequence."""

from __future__ import annotations

import math
import zlib

import torch
from torch import Tensor

#: Steps use these batches in turn.
BATCHES = 16


def token_batches(
    seed: int, vocabulary: int, sequences: range, length: int, device: torch.device
) -> list[Tensor]:
    """BATCHES tensors (sequences, length + 1) of 64-bit tokens; the last column is only a target.

    ``sequences``: the numbers of this rank's sequences in each batch of all ranks. The frequency of
    token k is nearly proportional to 1 / (k + 1.5), as in natural languages (Zipf's law), so that
    the loss falls.
    """
    return [
        torch.stack(
            [_sequence(seed, batch, number, vocabulary, length + 1) for number in sequences]
        ).to(device)
        for batch in range(BATCHES)
    ]


def _sequence(seed: int, batch: int, number: int, vocabulary: int, length: int) -> Tensor:
    # torch's generator on the host uses 32 bits of a seed.
    own_seed = zlib.crc32(f"{seed} {number} {batch}".encode())
    generator = torch.Generator().manual_seed(own_seed)
    uniform = torch.rand(length, generator=generator, dtype=torch.float64)
    tokens = torch.exp(uniform * math.log(vocabulary + 1)).long() - 1
    return tokens.clamp_(0, vocabulary - 1)
