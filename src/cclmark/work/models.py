"""Shapes of transformers: dimensions, parameter counts, floating-point operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.counts import AtLeastOne, Count

GPT, LLAMA = "gpt", "llama"

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Family: TypeAlias = str
else:
    Family = Literal[GPT, LLAMA]


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """The shape of a decoder-only transformer.

    ``family``: GPT (learned positions, LayerNorm, biases, GELU, the output head shares the weights
    of the embedding) or LLAMA (rotary positions, RMSNorm, no biases, SwiGLU). ``width``: of the
    residual stream. ``hidden``: of the feed-forward network, or of each expert. ``context``: the
    longest sequence. ``experts``: 0 for a dense model; each token passes ``active_experts``.
    """

    name: str
    family: Family
    vocabulary: AtLeastOne
    width: AtLeastOne
    layers: AtLeastOne
    heads: AtLeastOne
    key_value_heads: AtLeastOne
    hidden: AtLeastOne
    context: AtLeastOne
    tied: bool = False
    rotation_base: float = 10_000.0
    experts: Count = 0
    active_experts: Count = 0

    @property
    def head_width(self) -> int:
        """The width of an attention head."""
        return self.width // self.heads

    @property
    def has_biases(self) -> bool:
        """Whether linear layers and norms have biases."""
        return self.family == GPT

    @property
    def projected(self) -> int:
        """The width of queries, keys and values together."""
        return (self.heads + 2 * self.key_value_heads) * self.head_width

    @property
    def embedding_parameters(self) -> int:
        """The parameters of the token embedding and of learned positions."""
        positions = self.context if self.family == GPT else 0
        return (self.vocabulary + positions) * self.width

    @property
    def head_parameters(self) -> int:
        """The parameters of the last norm and of an untied output head."""
        return self.norm_parameters + (0 if self.tied else self.vocabulary * self.width)

    @property
    def norm_parameters(self) -> int:
        """The parameters of one norm."""
        return 2 * self.width if self.has_biases else self.width

    @property
    def attention_parameters(self) -> int:
        """The parameters of the attention of a layer."""
        biases = self.projected + self.width if self.has_biases else 0
        return self.width * (self.projected + self.width) + biases

    @property
    def expert_parameters(self) -> int:
        """The parameters of all experts of a layer, 0 for a dense model."""
        return self.experts * 3 * self.width * self.hidden

    @property
    def layer_parameters(self) -> int:
        """The parameters of a layer, with all experts."""
        if self.experts:
            network = self.expert_parameters + self.experts * self.width
        elif self.family == GPT:
            network = 2 * self.width * self.hidden + self.hidden + self.width
        else:
            network = 3 * self.width * self.hidden
        return self.attention_parameters + network + 2 * self.norm_parameters

    @property
    def parameters(self) -> int:
        """The parameters of the model; a shared output head counts once."""
        layers = self.layers * self.layer_parameters
        return self.embedding_parameters + layers + self.head_parameters

    @property
    def multiplied_parameters(self) -> int:
        """The weights that each token is multiplied with: matrices of layers, and the output head.

        The look-up of the embedding is no multiplication; only active experts count.
        """
        matrices = 2 if self.family == GPT else 3
        network = matrices * self.width * self.hidden * max(self.active_experts, 1)
        network += self.experts * self.width
        layer = self.width * (self.projected + self.width) + network
        return self.layers * layer + self.vocabulary * self.width

    def operations_per_token(self, sequence: int) -> float:
        """The floating-point operations of forward and backward pass for a token.

        ``6 N + 12 L H Q T`` (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B) with N =
        ``multiplied_parameters``. Recomputation does not count, and attention counts in full
        although it is causal.
        """
        return 6.0 * self.multiplied_parameters + 12.0 * self.layers * self.width * sequence

    def with_layers(self, layers: int) -> Model:
        """The model with another number of layers."""
        return msgspec.structs.replace(self, layers=layers)

    def with_vocabulary(self, vocabulary: int) -> Model:
        """The model with another number of tokens."""
        return msgspec.structs.replace(self, vocabulary=vocabulary)

    def describe(self) -> str:
        """The model in words: ``gpt2, 12 layers, 124,439,808 parameters``."""
        return f"{self.name}, {self.layers} layers, {self.parameters:,} parameters"


def _gpt(name: str, width: int, layers: int, heads: int) -> Model:
    return Model(name, GPT, 50257, width, layers, heads, heads, 4 * width, 1024, tied=True)


def _llama(
    name: str,
    width: int,
    layers: int,
    heads: int,
    hidden: int,
    *,
    tied: bool = False,
    context: int = 8192,
) -> Model:
    return Model(
        name, LLAMA, 128256, width, layers, heads, 8, hidden, context, tied, rotation_base=500_000.0
    )


#: gpt2-254m: the width of gpt2-medium with 16 layers. The tiny ones are for hosts and tests.
_MODELS = (
    Model("tiny", GPT, 512, 64, 2, 4, 4, 256, 128, tied=True),
    Model("tiny-llama", LLAMA, 512, 64, 4, 4, 2, 176, 128),
    Model("tiny-moe", LLAMA, 512, 64, 2, 4, 2, 96, 128, experts=4, active_experts=2),
    _gpt("gpt2", 768, 12, 12),
    _gpt("gpt2-254m", 1024, 16, 16),
    _gpt("gpt2-medium", 1024, 24, 16),
    _gpt("gpt2-large", 1280, 36, 20),
    _gpt("gpt2-xl", 1600, 48, 25),
    _llama("llama3.2-1b", 2048, 16, 32, 8192, tied=True, context=131072),
    _llama("llama3-8b", 4096, 32, 32, 14336),
    _llama("llama3-70b", 8192, 80, 64, 28672),
    Model(
        *("mixtral-8x7b", LLAMA, 32000, 4096, 32, 32, 8, 14336, 32768),
        rotation_base=1e6,
        experts=8,
        active_experts=2,
    ),
)
MODELS = {model.name: model for model in _MODELS}


def find_model(name: str, layers: int | None) -> Model:
    """The model ``name``, with ``layers`` layers if given. Raises UsageError."""
    model = MODELS.get(name)
    if model is None:
        raise UsageError(f"--model {name}: unknown model: choose from {', '.join(MODELS)}")
    return model if layers is None else model.with_layers(layers)
