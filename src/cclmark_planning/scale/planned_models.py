"""Models of which jobs are planned: published ones, own dimensions, and files of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.models import BLOOM, GPT, LLAMA, MODELS, LatentAttention, Model
from cclmark.work.thresholds import meant

_MEGATRON_VOCABULARY = 51_200
_LLAMA2_VOCABULARY, _LLAMA3_VOCABULARY, _QWEN3_VOCABULARY = 32_000, 128_256, 151_936
_MOST = 1 << 24  # of a dimension: more is a typing error
_MOST_LAYERS = 10_000
_MOST_BYTES = 1 << 20  # of a config.json


def _gpt(name: str, width: int, layers: int, heads: int, vocabulary: int, context: int) -> Model:
    return Model(
        *(name, GPT, vocabulary, width, layers, heads, heads, 4 * width, context), tied=True
    )


def _llama(
    name: str,
    width: int,
    layers: int,
    heads: tuple[int, int],
    hidden: int,
    vocabulary: int,
    context: int,
    **others: Any,
) -> Model:
    return Model(name, LLAMA, vocabulary, width, layers, *heads, hidden, context, **others)


def _qwen3(
    name: str, width: int, layers: int, heads: tuple[int, int], hidden: int, **others: Any
) -> Model:
    shared = {"head_size": 128, "head_norms": True, "rotation_base": 1e6, **others}
    return _llama(name, width, layers, heads, hidden, _QWEN3_VOCABULARY, 40_960, **shared)


_DEEPSEEK_V3 = Model(
    *("deepseek-v3", LLAMA, 129_280, 7168, 61, 128, 128, 2048, 163_840),
    experts=256,
    active_experts=8,
    shared_experts=1,
    dense_layers=3,
    dense_hidden=18_432,
    latent=LatentAttention(1536, 512, 128, 64, 128),
)
# Dimensions: GPT-3, arXiv 2005.14165, table 2.1; Megatron, arXiv 2205.05198, table 3; BLOOM, arXiv
# 2211.05100, table 3; LLaMA, arXiv 2302.13971, table 2; Llama 2, arXiv 2307.09288; Llama 3, arXiv
# 2407.21783, table 3; Mixtral, arXiv 2401.04088, table 1; Qwen3, arXiv 2505.09388, tables 1 and 2;
# DeepSeek-V3, arXiv 2412.19437, section 4.2. The rest of each is in its published config.json.
_PLANNED = (
    _gpt("gpt3-6.7b", 4096, 32, 32, 50_257, 2048),
    _gpt("gpt3-13b", 5120, 40, 40, 50_257, 2048),
    _gpt("gpt3-175b", 12_288, 96, 96, 50_257, 2048),
    _gpt("megatron-22b", 6144, 48, 64, _MEGATRON_VOCABULARY, 2048),
    _gpt("megatron-175b", 12_288, 96, 96, _MEGATRON_VOCABULARY, 2048),
    _gpt("megatron-530b", 20_480, 105, 128, _MEGATRON_VOCABULARY, 2048),
    _gpt("megatron-1t", 25_600, 128, 160, _MEGATRON_VOCABULARY, 2048),
    Model("bloom-176b", BLOOM, 250_880, 14_336, 70, 112, 112, 57_344, 2048, tied=True),
    _llama("llama-7b", 4096, 32, (32, 32), 11_008, _LLAMA2_VOCABULARY, 2048),
    _llama("llama-65b", 8192, 80, (64, 64), 22_016, _LLAMA2_VOCABULARY, 2048),
    _llama("llama2-7b", 4096, 32, (32, 32), 11_008, _LLAMA2_VOCABULARY, 4096),
    _llama("llama2-13b", 5120, 40, (40, 40), 13_824, _LLAMA2_VOCABULARY, 4096),
    _llama("llama2-70b", 8192, 80, (64, 8), 28_672, _LLAMA2_VOCABULARY, 4096),
    _llama("llama3.1-8b", 4096, 32, (32, 8), 14_336, _LLAMA3_VOCABULARY, 131_072),
    _llama("llama3.1-70b", 8192, 80, (64, 8), 28_672, _LLAMA3_VOCABULARY, 131_072),
    _llama("llama3.1-405b", 16_384, 126, (128, 8), 53_248, _LLAMA3_VOCABULARY, 131_072),
    _llama(
        *("mixtral-8x22b", 6144, 56, (48, 8), 16_384, 32_768, 65_536), experts=8, active_experts=2
    ),
    _qwen3("qwen3-8b", 4096, 36, (32, 8), 12_288),
    _qwen3("qwen3-14b", 5120, 40, (40, 8), 17_408),
    _qwen3("qwen3-32b", 5120, 64, (64, 8), 25_600),
    _qwen3("qwen3-30b-a3b", 2048, 48, (32, 4), 768, experts=128, active_experts=8),
    _qwen3("qwen3-235b-a22b", 4096, 94, (64, 4), 1536, experts=128, active_experts=8),
    _DEEPSEEK_V3,
)
#: All models with names: those that ``cclmark train`` trains, and larger ones.
ALL_MODELS: dict[str, Model] = {**MODELS, **{model.name: model for model in _PLANNED}}
#: Other names of the same dimensions.
_ALIASES = {"gpt3": "gpt3-175b"}
_OWN = (
    *("width", "layers", "heads", "key_value_heads", "hidden", "vocabulary", "context"),
    *("experts", "active_experts", "head_size"),
)


def planned_model(text: str) -> Model:
    """The model that ``--model`` means.

    A name; dimensions, ``width=3072,layers=30,heads=32`` with further ones; or the path of a
    config.json of Hugging Face. Raises UsageError.
    """
    name = text.strip().lower()
    if found := ALL_MODELS.get(_ALIASES.get(name, name)):
        return found
    if "=" in text:
        return _of_dimensions(text)
    if "/" in text or name.endswith(".json"):
        return model_of_config(Path(text))
    known = [*ALL_MODELS, *_ALIASES]
    raise UsageError(
        f"--model {text}: unknown model{meant(name, known)} Choose from {', '.join(known)}, or "
        "write dimensions (width=4096,layers=32,heads=32) or the path of a config.json"
    )


def _of_dimensions(text: str) -> Model:
    family, numbers = LLAMA, dict[str, int]()
    for part in text.split(","):
        name, _, value = (word.strip().lower().replace("-", "_") for word in part.partition("="))
        if name == "family":
            family = value
        elif name in _OWN:
            numbers[name] = _number(value, f"--model {part.strip()}")
        else:
            raise UsageError(
                f"--model {text}: {name!r} is no dimension: choose from family, {', '.join(_OWN)}"
            )
    if family not in (GPT, LLAMA, BLOOM):
        raise UsageError(f"--model {text}: family is {GPT}, {LLAMA} or {BLOOM}, not {family!r}")
    for name in ("width", "layers", "heads"):
        if name not in numbers:
            raise UsageError(
                f"--model {text}: {name} is missing: width, layers, heads are required"
            )
    width, heads = numbers["width"], numbers["heads"]
    hidden = 4 * width if family != LLAMA else -(-8 * width // 3 // 256) * 256
    usual = {"key_value_heads": heads, "hidden": hidden, "context": 1 << 20}
    usual["vocabulary"] = _LLAMA3_VOCABULARY if family == LLAMA else _MEGATRON_VOCABULARY
    return _valid(
        {"name": "own model", "family": family, "tied": family != LLAMA, **usual, **numbers},
        f"--model {text}",
    )


def _number(value: object, where: str) -> int:
    number = value
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        number = int(value[:20])
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _MOST:
        raise UsageError(f"{where}: {value!r} is not a whole number from 1 to {_MOST}")
    return number


def _valid(fields: Mapping[str, Any], where: str) -> Model:
    """The model with these fields. Raises UsageError where they contradict each other."""
    model = Model(**fields)
    groups = model.key_value_heads
    if model.layers > _MOST_LAYERS:
        raise UsageError(f"{where}: {model.layers} layers are more than {_MOST_LAYERS}")
    if not model.head_size and model.latent is None and model.width % model.heads:
        raise UsageError(f"{where}: a width of {model.width} has no {model.heads} equal heads")
    if model.heads % groups:
        raise UsageError(f"{where}: {model.heads} heads cannot share {groups} key-value heads")
    if model.experts and not 0 < model.active_experts <= model.experts:
        raise UsageError(
            f"{where}: of {model.experts} experts, each token passes {model.active_experts}"
        )
    if model.active_experts and not model.experts:
        raise UsageError(f"{where}: active experts without experts")
    if model.dense_layers > model.layers:
        raise UsageError(
            f"{where}: {model.dense_layers} dense layers are more than all {model.layers}"
        )
    return model


_RENAMED = {
    **{"n_embd": "hidden_size", "n_embed": "hidden_size", "n_layer": "num_hidden_layers"},
    **{"n_head": "num_attention_heads", "n_positions": "max_position_embeddings"},
    **{"n_inner": "intermediate_size", "seq_length": "max_position_embeddings"},
}
_CONFIGURED = {"gpt2": GPT, "bloom": BLOOM}
_CONFIGURED |= dict.fromkeys(
    ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "deepseek_v2", "deepseek_v3"),
    LLAMA,
)
_TIED = ("gpt2", "bloom")  # where tie_word_embeddings is not stated


def model_of_config(path: Path) -> Model:
    """The model of a config.json of Hugging Face's transformers. Raises UsageError.

    A family whose parameters are not known exactly is refused.
    """
    where = f"--model {path}"
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{where}: not a regular file")
        with path.open("rb") as file:
            read = msgspec.json.decode(file.read(_MOST_BYTES))
    except OSError as error:
        raise UsageError(f"{where}: cannot read the file: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{where}: the file is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise UsageError(f"{where}: the file is not the config.json of a model")
    if isinstance(read.get("text_config"), dict):
        read = read["text_config"]
    kind = read.get("model_type")
    if not isinstance(kind, str) or kind not in _CONFIGURED:
        raise UsageError(
            f"{where}: model_type {kind!r} is not supported: choose from {', '.join(_CONFIGURED)}, "
            "or write the dimensions (width=4096,layers=32,heads=32)"
        )
    config = {_RENAMED.get(name, name): value for name, value in read.items() if value is not None}
    return _valid(_fields_of(kind, config, where, path), where)


def _fields_of(kind: str, config: Mapping[str, Any], where: str, path: Path) -> dict[str, Any]:
    def number(name: str, usual: int | None = None) -> int:
        if name not in config and usual is not None:
            return usual
        if name not in config:
            raise UsageError(f"{where}: {name} is missing")
        return _number(config[name], f"{where}: {name}")

    family = _CONFIGURED[kind]
    width, heads = number("hidden_size"), number("num_attention_heads")
    fields: dict[str, Any] = {
        "name": path.parent.name if path.name == "config.json" and path.parent.name else path.stem,
        "family": family,
        "vocabulary": number("vocab_size"),
        "width": width,
        "layers": number("num_hidden_layers"),
        "heads": heads,
        "key_value_heads": number("num_key_value_heads", heads),
        "hidden": number("intermediate_size", None if family == LLAMA else 4 * width),
        "context": number("max_position_embeddings", 2048),
        "tied": bool(config.get("tie_word_embeddings", kind in _TIED)),
        "head_size": number("head_dim", 0),
        "head_norms": kind in ("qwen3", "qwen3_moe"),
        "query_biases": kind == "qwen2" or bool(config.get("attention_bias", False)),
    }
    for name in ("num_local_experts", "num_experts", "n_routed_experts"):
        if name in config:
            fields |= _experts_of(kind, name, number, config, where)
    if kind.startswith("deepseek"):
        fields |= {"head_size": 0, "key_value_heads": heads}
        fields["latent"] = LatentAttention(
            number("q_lora_rank", 0),
            number("kv_lora_rank"),
            number("qk_nope_head_dim"),
            number("qk_rope_head_dim"),
            number("v_head_dim"),
        )
    return fields


def _experts_of(
    kind: str, name: str, number: Any, config: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """The fields on experts. Raises UsageError for layers that are not alike."""
    if config.get("decoder_sparse_step", 1) != 1 or config.get("mlp_only_layers"):
        raise UsageError(f"{where}: layers with experts between dense ones are not supported")
    if config.get("moe_layer_freq", 1) != 1:
        raise UsageError(f"{where}: moe_layer_freq is not 1, which is not supported")
    found = {"experts": number(name), "active_experts": number("num_experts_per_tok")}
    if kind == "mixtral":
        return found
    found["hidden"] = number("moe_intermediate_size")
    if config.get("n_shared_experts"):
        found["shared_experts"] = number("n_shared_experts")
    if config.get("first_k_dense_replace"):
        found["dense_layers"] = number("first_k_dense_replace")
        found["dense_hidden"] = number("intermediate_size")
    return found
