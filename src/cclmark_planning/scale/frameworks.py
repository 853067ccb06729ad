"""Implementations of parallel training, and the bytes of their elements."""

from __future__ import annotations

TORCH, MEGATRON = "torch", "megatron"
FRAMEWORKS = (TORCH, MEGATRON)
#: The bytes of an element of activations and gathered parameters, and of gradients in torch.
PRECISIONS = {"bf16": (2, 2), "fp16": (2, 2), "fp8": (2, 2), "fp32": (4, 4), "mixed": (2, 4)}
GRADIENTS = {"bf16": 2, "fp16": 2, "fp32": 4}
