"""Shapes of transformers: dimensions, parameter counts, floating-point operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.counts import AtLeastOne, Count

GPT, LLAMA, BLOOM = "gpt", "llama", "bloom"

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Family: TypeAlias = str
else:
    Family = Literal[GPT, LLAMA, BLOOM]


class LatentAttention(msgspec.Struct, frozen=True):
    """Attention through low-rank projections (DeepSeek-V2, arXiv 2405.04434, section 2.1).

    ``query_rank``: 0 if queries are projected at once. ``unrotated``, ``rotated``: the widths of a
    head of queries and keys without and with rotary positions. ``value``: that of its values.
    """

    query_rank: Count
    key_value_rank: AtLeastOne
    unrotated: AtLeastOne
    rotated: AtLeastOne
    value: AtLeastOne


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """The shape of a decoder-only transformer.

    ``family``: GPT (learned positions, LayerNorm, biases, GELU, the output head shares the weights
    of the embedding), BLOOM (the same with a norm of the embedding in place of positions) or LLAMA
    (rotary positions, RMSNorm, no biases, SwiGLU). ``width``: of the residual stream. ``hidden``:
    of the feed-forward network, or of each expert. ``context``: the longest sequence. ``experts``:
    0 for a dense model; each token passes ``active_experts`` and all ``shared_experts``.
    ``head_size``: of a head of attention, 0 for the width divided by the heads. ``head_norms``:
    whether queries and keys of a head are normalized, ``query_biases``: whether their projections
    and those of values have biases. ``dense_layers``: the first layers, which have a network of
    ``dense_hidden`` in place of experts. ``latent``: None for usual attention.
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
    head_size: Count = 0
    head_norms: bool = False
    query_biases: bool = False
    shared_experts: Count = 0
    dense_layers: Count = 0
    dense_hidden: Count = 0
    latent: LatentAttention | None = None

    @property
    def head_width(self) -> int:
        """The width of an attention head."""
        return self.head_size or self.width // self.heads

    @property
    def has_biases(self) -> bool:
        """Whether linear layers and norms have biases."""
        return self.family != LLAMA

    @property
    def projected(self) -> int:
        """The width of queries, keys and values together."""
        return (self.heads + 2 * self.key_value_heads) * self.head_width

    @property
    def key_value_width(self) -> int:
        """The elements of keys and values of a token that attention reads in a layer."""
        if self.latent is None:
            return 2 * self.key_value_heads * self.head_width
        one = self.latent
        return self.heads * (one.unrotated + one.rotated + one.value)

    @property
    def embedding_parameters(self) -> int:
        """The parameters of the token embedding, and of learned positions or its norm."""
        rows = {GPT: self.context, BLOOM: 2}.get(self.family, 0)
        return (self.vocabulary + rows) * self.width

    @property
    def head_parameters(self) -> int:
        """The parameters of the last norm and of an untied output head."""
        return self.norm_parameters + (0 if self.tied else self.vocabulary * self.width)

    @property
    def norm_parameters(self) -> int:
        """The parameters of one norm."""
        return 2 * self.width if self.has_biases else self.width

    @property
    def attention_matrices(self) -> int:
        """The parameters of the matrices of attention that tensor parallelism divides by heads."""
        if self.latent is None:
            return self.width * (self.projected + self.heads * self.head_width)
        one = self.latent
        queries = (one.query_rank or self.width) * (one.unrotated + one.rotated)
        keys_and_values = one.key_value_rank * (one.unrotated + one.value)
        return self.heads * (queries + keys_and_values + one.value * self.width)

    @property
    def attention_parameters(self) -> int:
        """The parameters of the attention of a layer."""
        if self.latent is not None:
            one = self.latent
            ranks = one.query_rank + one.key_value_rank
            return self.attention_matrices + self.width * (ranks + one.rotated) + ranks
        biases = self.projected + self.width if self.has_biases else 0
        biases += self.projected * self.query_biases + 2 * self.head_width * self.head_norms
        return self.attention_matrices + biases

    @property
    def expert_parameters(self) -> int:
        """The parameters of all experts of a layer, 0 for a dense model; without shared ones."""
        return self.experts * 3 * self.width * self.hidden

    @property
    def network_matrices(self) -> int:
        """The parameters of the matrices of a dense network, or of shared experts."""
        if self.experts:
            return self.shared_experts * 3 * self.width * self.hidden
        return (2 if self.has_biases else 3) * self.width * self.hidden

    @property
    def layer_parameters(self) -> int:
        """The parameters of a layer, with all experts; of the last one where layers differ."""
        network = self.network_matrices + self.expert_parameters + self.experts * self.width
        if self.has_biases:
            network += self.hidden + self.width
        return self.attention_parameters + network + 2 * self.norm_parameters

    @property
    def parameters(self) -> int:
        """The parameters of the model; a shared output head counts once."""
        layers = (self.layers - self.dense_layers) * self.layer_parameters
        if self.dense_layers:
            layers += self.dense_layers * self.dense_layer.layer_parameters
        return self.embedding_parameters + layers + self.head_parameters

    @property
    def dense_layer(self) -> Model:
        """The model whose layers are as the first ones, see ``dense_layers``."""
        return msgspec.structs.replace(
            self,
            **{"hidden": self.dense_hidden, "experts": 0, "active_experts": 0},
            **{"shared_experts": 0, "dense_layers": 0},
        )

    @property
    def multiplied_parameters(self) -> int:
        """The weights that each token is multiplied with: matrices of layers, and the output head.

        The look-up of the embedding is no multiplication; only active experts count.
        """
        network = self.network_matrices + self.experts * self.width
        network += self.active_experts * 3 * self.width * self.hidden
        attention = self.attention_matrices
        if self.latent is not None:
            one = self.latent
            attention += self.width * (one.query_rank + one.key_value_rank + one.rotated)
        layers = (self.layers - self.dense_layers) * (attention + network)
        if self.dense_layers:
            layers += self.dense_layers * (attention + 3 * self.width * self.dense_hidden)
        return layers + self.vocabulary * self.width

    def operations_per_token(self, sequence: int) -> float:
        """The floating-point operations of forward and backward pass for a token.

        ``6 N + 12 L H Q T`` (Chowdhery et al., PaLM, arXiv 2204.02311, appendix B) with N =
        ``multiplied_parameters``. Recomputation does not count, and attention counts in full
        although it is causal.
        """
        return 6.0 * self.multiplied_parameters + self.attention_operations(sequence)

    def attention_operations(self, sequence: int) -> float:
        """The part of operations_per_token that grows with the sequence: ``12 L H Q T``.

        Half of it multiplies queries with keys, the other half the outcome with values.
        """
        widths = 2 * self.head_width
        if self.latent is not None:
            widths = self.latent.unrotated + self.latent.rotated + self.latent.value
        return 6.0 * self.layers * self.heads * widths * sequence

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
