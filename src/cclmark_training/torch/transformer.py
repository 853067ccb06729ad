"""Decoder-only transformers: GPT-2, LLaMA and mixtures of experts.

A model is created on torch's meta device, distributed, and then filled with values that depend on
the seed and the name of each parameter alone. So every parallelism starts from the same values.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's users call it
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from cclmark.work.models import GPT, Model

_DEVIATION = (
    0.02  # of weights (Radford et al., Language Models are Unsupervised Multitask Learners)
)
_EPSILON = 1e-5


class Transformer(nn.Module):
    """A model, or a part of it: a range of layers, with the embedding and the head if it has them.

    ``forward`` maps tokens (batch, sequence), or in a part without embedding the activations
    (batch, sequence, width), to logits (batch, sequence, vocabulary) or activations.
    ``sequence_parts``: of the sequence, of which the activations are one.
    """

    sequence_parts = 1

    def __init__(
        self, model: Model, layers: range | None = None, *, first: bool = True, last: bool = True
    ) -> None:
        super().__init__()
        self.model = model
        self.embedding = (
            nn.Embedding(model.vocabulary, model.width) if first or (last and model.tied) else None
        )
        learned = first and model.family == GPT
        self.positions = nn.Embedding(model.context, model.width) if learned else None
        # Keys are the numbers of layers in the whole model.
        self.layers = nn.ModuleDict(
            {str(number): Layer(model) for number in layers or range(model.layers)}
        )
        self.norm = _norm(model) if last else None
        own_head = last and not model.tied
        self.head = nn.Linear(model.width, model.vocabulary, bias=False) if own_head else None
        self.is_first = first

    def forward(self, tokens: Tensor) -> Tensor:
        """See the class."""
        x = tokens
        if self.is_first and self.embedding is not None:
            x = self.embedding(tokens)
            if self.positions is not None:
                x = x + self.positions.weight[: tokens.shape[1]]
        rotation = None
        if self.model.family != GPT:
            length = x.shape[1] * self.sequence_parts
            rotation = rotation_of(self.model, length, x.device, x.dtype)
        for layer in self.layers.values():
            x = layer(x, rotation)
        if self.norm is None:
            return x
        x = self.norm(x)
        if self.head is not None:
            return self.head(x)
        assert self.embedding is not None
        return F.linear(x, self.embedding.weight)


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a norm and beside a residual connection."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.attention_norm = _norm(model)
        self.attention = Attention(model)
        self.network_norm = _norm(model)
        self.network = _network(model)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        """Maps activations (batch, sequence, width) to activations."""
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.network(self.network_norm(x))


class Attention(nn.Module):
    """Causal attention with grouped queries.

    One matrix projects queries, keys and values, grouped by key head: the queries of the group, its
    key, its value. So ranks of tensor parallelism get whole groups.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.head_width = model.head_width
        self.queries = model.heads // model.key_value_heads
        self.project = nn.Linear(model.width, model.projected, bias=model.has_biases)
        self.output = nn.Linear(model.width, model.width, bias=model.has_biases)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        """Maps activations (batch, sequence, width) to activations."""
        batch, sequence, _ = x.shape
        groups = self.project(x).view(batch, sequence, -1, self.queries + 2, self.head_width)
        query, key, value = groups.split((self.queries, 1, 1), dim=3)
        query, key, value = (one.flatten(2, 3).transpose(1, 2) for one in (query, key, value))
        if rotation is not None:
            query, key = rotated(query, rotation), rotated(key, rotation)
        mixed = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=self.queries > 1
        )
        return self.output(mixed.transpose(1, 2).flatten(2))


class Perceptron(nn.Module):
    """The feed-forward network of GPT-2."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.up = nn.Linear(model.width, model.hidden)
        self.down = nn.Linear(model.hidden, model.width)

    def forward(self, x: Tensor) -> Tensor:
        """Maps activations to activations."""
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Gated(nn.Module):
    """The feed-forward network of LLaMA: SwiGLU (Shazeer, arXiv 2002.05202)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.gate = nn.Linear(model.width, model.hidden, bias=False)
        self.up = nn.Linear(model.width, model.hidden, bias=False)
        self.down = nn.Linear(model.hidden, model.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Maps activations to activations."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    """A mixture of experts: each token passes those with the largest weights of the router.

    No token is dropped. ``compute``: maps rows, sorted by expert, and the number of rows of each
    expert to the outputs of the experts; expert parallelism replaces it. ``balance_weight``: of the
    loss that balances the experts, 0 for none; it is not part of the reported loss.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.active = model.active_experts
        self.router = nn.Linear(model.width, model.experts, bias=False)
        self.experts = Experts(model)
        self.compute: Callable[[Tensor, Tensor], Tensor] = self.experts.on_all
        self.balance_weight = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Maps activations to activations."""
        tokens = x.reshape(-1, x.shape[-1])
        probabilities = self.router(tokens).float().softmax(dim=-1)
        scores, chosen = probabilities.topk(self.active, dim=-1)
        scores = scores / scores.sum(dim=-1, keepdim=True)
        experts = chosen.flatten()
        order = experts.argsort(stable=True)
        counts = torch.zeros(self.router.out_features, dtype=torch.int64, device=x.device)
        counts.scatter_add_(0, experts, torch.ones_like(experts))
        rows = order // self.active
        outputs = self.compute(tokens[rows], counts)
        weighted = outputs * scores.flatten()[order].unsqueeze(1).to(outputs.dtype)
        # Under autocast the experts' outputs have another type than their inputs.
        mixed = torch.zeros_like(tokens).index_add(0, rows, weighted.to(tokens.dtype)).view_as(x)
        if not self.balance_weight:
            return mixed
        found: Tensor = _Beside.apply(mixed, self.balance_weight * imbalance(probabilities, counts))
        return found


def imbalance(probabilities: Tensor, counts: Tensor) -> Tensor:
    """How unequally a router uses the experts: 1 if all get as much, their number if one gets all.

    ``E * sum(f_i * P_i)`` (Fedus et al., Switch Transformers, arXiv 2101.03961, equations 4 to 6,
    without its weight): f_i is the share of the choices that are expert i, P_i its mean
    probability. ``probabilities``: (tokens, experts); ``counts``: the choices of each expert.
    """
    shares = counts / counts.sum()
    return len(counts) * (shares * probabilities.mean(dim=0)).sum()


class _Beside(torch.autograd.Function):
    """Activations as they are; the backward pass adds the gradient of a loss of their own.

    So a loss within a layer needs no place in the outputs of the model, and a stage of a pipeline
    can have one.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, activations: Tensor, loss: Tensor) -> Tensor:
        """Returns the activations."""
        return activations.view_as(activations)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the gradients of the activations and of the loss."""
        return gradient, torch.ones((), device=gradient.device)


class Experts(nn.Module):
    """The SwiGLU networks of some experts, with their matrices in common tensors."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        inner = (model.experts, model.hidden, model.width)
        self.gate = nn.Parameter(torch.empty(inner))
        self.up = nn.Parameter(torch.empty(inner))
        self.down = nn.Parameter(torch.empty(model.experts, model.width, model.hidden))

    def on_all(self, rows: Tensor, counts: Tensor) -> Tensor:
        """The outputs for rows sorted by expert; ``counts``: the rows of each expert."""
        parts = rows.split(counts.tolist())
        outputs = [
            F.linear(
                F.silu(F.linear(part, self.gate[number])) * F.linear(part, self.up[number]),
                self.down[number],
            )
            for number, part in enumerate(parts)
        ]
        return torch.cat(outputs)


def _network(model: Model) -> nn.Module:
    if model.experts:
        return Mixture(model)
    return Perceptron(model) if model.family == GPT else Gated(model)


def _norm(model: Model) -> nn.Module:
    if model.has_biases:
        return nn.LayerNorm(model.width, eps=_EPSILON)
    return nn.RMSNorm(model.width, eps=_EPSILON)


def rotation_of(
    model: Model, sequence: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The cosines and sines of rotary positions (Su et al., arXiv 2104.09864): (sequence, head)."""
    pairs = torch.arange(0, model.head_width, 2, device=device, dtype=torch.float32)
    frequencies = model.rotation_base ** (-pairs / model.head_width)
    angles = torch.arange(sequence, device=device, dtype=torch.float32)[:, None] * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotated(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Applies rotary positions to heads (batch, head, sequence, head width)."""
    low, high = x.chunk(2, dim=-1)
    return x * rotation[0] + torch.cat((-high, low), dim=-1) * rotation[1]


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross entropy in float32; targets (batch, sequence)."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def initial_value(name: str, shape: torch.Size, model: Model, seed: int, like: Tensor) -> Tensor:
    """The initial values of a whole parameter: on the device and with the type of ``like``."""
    value = torch.empty(shape, device=like.device, dtype=like.dtype)
    if name.endswith("bias"):
        return value.zero_()
    if "norm" in name:
        return value.fill_(1.0)
    generator = torch.Generator(like.device).manual_seed(_seed_of(seed, name))
    into_residual = name.endswith((".output.weight", ".down.weight", ".down"))
    deviation = _DEVIATION / (2 * model.layers) ** 0.5 if into_residual else _DEVIATION
    return value.normal_(0.0, deviation, generator=generator)


def _seed_of(seed: int, name: str) -> int:
    # torch's generator on the host uses 32 bits of a seed.
    return zlib.crc32(f"{seed} {name}".encode())
