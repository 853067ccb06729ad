import json

import pytest

from cclmark.base.errors import UsageError
from cclmark_planning.scale.planned_models import ALL_MODELS, model_of_config, planned_model
from goldens import refusal, require_outcomes
from places import TESTS

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
#: Configurations of known models, in the words of their families.
CONFIGS = json.loads((TESTS / "scale" / "configs.json").read_text())


def test_parameters_are_the_published_ones():
    for name, parameters in PUBLISHED.items():
        assert ALL_MODELS[name].parameters == pytest.approx(parameters, rel=0.005), name


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


def test_a_configuration_has_the_parameters_of_the_known_model(tmp_path):
    nested = {"model_type": "x", "text_config": CONFIGS["llama3-8b"]}
    for name, config in [*CONFIGS.items(), ("llama3-8b", nested)]:
        model, known = model_of_config(written(tmp_path, config)), ALL_MODELS[name]
        assert (model.name, model.parameters) == ("own", known.parameters)
        assert model.operations_per_token(1024) == known.operations_per_token(1024)
        assert model.key_value_width == known.key_value_width


def test_configurations_and_names_that_cannot_be_are_refused(tmp_path):
    """The text of a file, what is changed in the configuration of a known model, or ``--model``."""

    def outcome(line):
        name, _, changes = line.partition(" ")
        if name == "--model":
            return refusal(planned_model, changes)
        config = {**CONFIGS[name], **json.loads(changes)} if name in CONFIGS else line
        path = written(tmp_path, config)
        return refusal(model_of_config, path).replace(str(path), "FILE")

    require_outcomes(TESTS / "scale" / "refused_configs.txt", outcome)
    with pytest.raises(UsageError, match="the file is not JSON"):
        model_of_config(written(tmp_path, ""))


def test_own_dimensions_and_other_names():
    own = planned_model("width=4096,layers=32,heads=32,key_value_heads=8,hidden=14336,context=8192")
    assert own.parameters == ALL_MODELS["llama3-8b"].parameters
    assert planned_model("GPT3") is ALL_MODELS["gpt3-175b"]
    longer = planned_model("Llama3.1-8B")
    assert (longer.parameters, longer.context) == (ALL_MODELS["llama3-8b"].parameters, 131_072)
    gpt = planned_model("family=gpt,width=768,layers=12,heads=12,vocabulary=50257,context=1024")
    assert gpt.parameters == ALL_MODELS["gpt2"].parameters
