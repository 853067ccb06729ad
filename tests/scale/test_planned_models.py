"""Models of which jobs are planned."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark_planning.scale.planned_models import ALL_MODELS, model_of_config, planned_model

# Parameters as the papers and model cards print them, in the digits that they have.
PUBLISHED = {
    "gpt2": 124_439_808,
    "llama-7b": 6_738_415_616,
    "llama-65b": 65.2e9,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_630_071_296,
    "bloom-176b": 176_247_271_424,
    "gpt3-175b": 174_600e6,
    "megatron-1t": 1_008.0e9,
    "qwen3-30b-a3b": 30.5e9,
    "qwen3-235b-a22b": 235.1e9,
    "deepseek-v3": 671.0e9,
}
# One model in the words of several families.
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "max_position_embeddings": 8192,
}
QWEN3_MOE = {
    **LLAMA,
    "model_type": "qwen3_moe",
    **{"hidden_size": 2048, "num_hidden_layers": 48, "num_key_value_heads": 4, "head_dim": 128},
    **{"vocab_size": 151_936, "num_experts": 128, "num_experts_per_tok": 8},
    **{"moe_intermediate_size": 768, "max_position_embeddings": 40_960},
}
DEEPSEEK = {
    **{"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18_432},
    **{"num_attention_heads": 128, "num_hidden_layers": 61, "num_key_value_heads": 128},
    **{"vocab_size": 129_280, "max_position_embeddings": 163_840, "q_lora_rank": 1536},
    **{"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
    **{"n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1},
    **{"moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1},
}
GPT2 = {
    **{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50_257},
    "n_positions": 1024,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name):
    assert ALL_MODELS[name].parameters == pytest.approx(PUBLISHED[name], rel=0.005)


def test_active_parameters_of_experts_are_the_published_ones():
    # 3.3 x 10^9 of Qwen3-30B-A3B, 37 x 10^9 of DeepSeek-V3, of which the embedding is a part.
    for name, active in (("qwen3-30b-a3b", 3.3e9), ("deepseek-v3", 37e9)):
        model = ALL_MODELS[name]
        multiplied = model.multiplied_parameters + model.vocabulary * model.width
        assert multiplied == pytest.approx(active, rel=0.02)


def written(tmp_path, config):
    path = tmp_path / "own" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA, "llama3-8b"),
        (QWEN3_MOE, "qwen3-30b-a3b"),
        (DEEPSEEK, "deepseek-v3"),
        (GPT2, "gpt2"),
        ({"model_type": "x", "text_config": LLAMA}, "llama3-8b"),
    ],
)
def test_a_configuration_has_the_parameters_of_the_known_model(tmp_path, config, name):
    model, known = model_of_config(written(tmp_path, config)), ALL_MODELS[name]
    assert (model.name, model.parameters) == ("own", known.parameters)
    assert model.operations_per_token(1024) == known.operations_per_token(1024)
    assert model.key_value_width == known.key_value_width


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("", "the file is not JSON"),
        ("[1]", "the file is not the config.json"),
        ({"model_type": "mamba"}, "'mamba' is not supported: choose from gpt2"),
        ({**LLAMA, "hidden_size": None}, "hidden_size is missing"),
        ({**LLAMA, "hidden_size": "wide"}, "hidden_size: 'wide' is not a whole number"),
        ({**LLAMA, "num_hidden_layers": 0}, "0 is not a whole number"),
        ({**LLAMA, "num_hidden_layers": 20_000}, "20000 layers are more than 10000"),
        ({**LLAMA, "vocab_size": 1e12}, "is not a whole number"),
        ({**LLAMA, "num_attention_heads": 30}, "has no 30 equal heads"),
        ({**LLAMA, "num_key_value_heads": 5}, "32 heads cannot share 5"),
        ({**QWEN3_MOE, "num_experts_per_tok": 200}, "of 128 experts, each token passes 200"),
        ({**QWEN3_MOE, "decoder_sparse_step": 2}, "between dense ones are not supported"),
        ({**DEEPSEEK, "first_k_dense_replace": 99}, "99 dense layers are more than all 61"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(tmp_path, config, reason):
    with pytest.raises(UsageError, match=reason):
        model_of_config(written(tmp_path, config))


@given(
    st.dictionaries(
        st.sampled_from([*LLAMA, *DEEPSEEK, *GPT2, "num_experts", "head_dim", "n_inner"]),
        st.one_of(
            st.integers(-2, 9000), st.floats(), st.text(max_size=5), st.none(), st.lists(st.none())
        ),
    ),
    st.sampled_from([LLAMA, QWEN3_MOE, DEEPSEEK, GPT2]),
)
def test_any_configuration_is_a_model_or_an_error(tmp_path_factory, changes, base):
    path = tmp_path_factory.getbasetemp() / "some.json"
    path.write_text(json.dumps({**base, **changes}))
    try:
        assert model_of_config(path).parameters > 0
    except UsageError as error:
        assert str(path) in str(error)


def test_own_dimensions_and_other_names():
    own = planned_model("width=4096,layers=32,heads=32,key_value_heads=8,hidden=14336,context=8192")
    assert own.parameters == ALL_MODELS["llama3-8b"].parameters
    assert planned_model("GPT3") is ALL_MODELS["gpt3-175b"]
    longer = planned_model("Llama3.1-8B")
    assert (longer.parameters, longer.context) == (ALL_MODELS["llama3-8b"].parameters, 131_072)
    gpt = planned_model("family=gpt,width=768,layers=12,heads=12,vocabulary=50257,context=1024")
    assert gpt.parameters == ALL_MODELS["gpt2"].parameters


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("llama3-9b", "unknown model.*llama3-8b"),
        ("width=4096,layers=2", "heads is missing"),
        ("width=4096,layers=2,heads=x", "'x' is not a whole number"),
        ("width=4096,layers=2,depth=3", "'depth' is no dimension"),
        ("family=mamba,width=4096,layers=2,heads=4", "family is gpt, llama or bloom"),
        ("width=4096,layers=2,heads=4,active_experts=2", "active experts without experts"),
        ("missing/config.json", "cannot read the file"),
    ],
)
def test_an_unknown_model_is_refused(text, reason):
    with pytest.raises(UsageError, match=reason):
        planned_model(text)
