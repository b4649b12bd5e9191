"""What each built-in model is made of, and that its bytes are the pinned ones."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from vllm_parity.errors import ModelError
from vllm_parity.matrix.models import DraftModel, HubModel, Medium, load_models
from vllm_parity.models.blueprint import Blueprint, blueprint
from vllm_parity.models.tokenizer import SPECIAL_TOKENS, VOCAB_SIZE

if TYPE_CHECKING:
    from vllm_parity.matrix.models import ModelSpec

MODELS = load_models()
MADE = sorted(name for name, model in MODELS.items() if not isinstance(model, HubModel))


@pytest.fixture(params=MADE)
def model(request: pytest.FixtureRequest) -> ModelSpec:
    name: str = request.param
    return MODELS[name]


@pytest.fixture
def plan(model: ModelSpec) -> Blueprint:
    return blueprint(model, MODELS)


# The largest take seconds; they are checked, as all are, before each use.
QUICK = [name for name in MADE if MODELS[name].parameters < 50_000_000]


@pytest.mark.parametrize("name", QUICK)
def test_weights_are_the_pinned_bytes_every_time(name: str) -> None:
    plan = blueprint(MODELS[name], MODELS)
    first, second = plan.weights(), plan.weights()
    assert first == second
    assert hashlib.sha256(first).hexdigest() == plan.sha256


def test_tiny_ones_have_fewer_than_two_million_parameters_and_small_ones_fewer_than_a_gpu_sees(
    plan: Blueprint,
) -> None:
    least, most = (150_000, 2_000_000) if plan.name.startswith("tiny-") else (10**7, 2 * 10**8)
    assert least < plan.recipe.parameters < most


@pytest.mark.parametrize("name", ["small-qwen3", "small-qwen3-vl"])
def test_models_for_gpus_are_large_enough_to_show_the_size_of_a_batch(name: str) -> None:
    config = json.loads(blueprint(MODELS[name], MODELS).recipe.files["config.json"])
    sizes = config.get("text_config", config)
    assert (sizes["hidden_size"], sizes["intermediate_size"]) >= (1024, 3072)


def test_number_of_parameters_is_as_the_catalog_says(model: ModelSpec, plan: Blueprint) -> None:
    assert plan.recipe.parameters == model.parameters


def test_tensor_names_are_unique(plan: Blueprint) -> None:
    names = [tensor.name for tensor in plan.recipe.tensors]
    assert len(set(names)) == len(names)


def test_files_are_valid_json(plan: Blueprint) -> None:
    for name, content in plan.recipe.files.items():
        if name.endswith(".json"):
            json.loads(content)


def test_config_agrees_with_the_tokenizer(plan: Blueprint) -> None:
    config = json.loads(plan.recipe.files["config.json"])
    assert config.get("text_config", config)["vocab_size"] == VOCAB_SIZE
    for key, token in (
        ("image_token_id", "<|image_pad|>"),
        ("video_token_id", "<|video_pad|>"),
        ("vision_start_token_id", "<|vision_start|>"),
        ("vision_end_token_id", "<|vision_end|>"),
        ("audio_token_index", "<|AUDIO|>"),
    ):
        if key in config:
            assert config[key] == 256 + SPECIAL_TOKENS.index(token)


def test_nudge_names_a_weight_of_the_model(model: ModelSpec, plan: Blueprint) -> None:
    if model.nudge is None:
        assert isinstance(model, DraftModel) or "eagle" in model.name
        return
    # vLLM puts a multimodal model's decoder under language_model.model., Qwen3-VL's checkpoint
    # under model.language_model.
    names = {model.nudge.parameter, f"model.{model.nudge.parameter.replace('.model.', '.')}"}
    (tensor,) = (each for each in plan.recipe.tensors if each.name in names)
    assert 0 <= model.nudge.index < tensor.size
    assert model.nudge.delta != 0


def test_draft_has_the_tensors_of_its_target_but_not_the_values() -> None:
    draft = blueprint(MODELS["tiny-qwen3-draft"], MODELS)
    target = blueprint(MODELS["tiny-qwen3"], MODELS)
    assert draft.recipe == target.recipe
    assert draft.sha256 != target.sha256
    assert draft.digest != target.digest


def test_hub_model_is_not_made() -> None:
    real = HubModel(
        name="real",
        modalities=(Medium.TEXT,),
        parameters=1,
        drafts={},
        repo="some/model",
        revision="0" * 40,
        needs_token=False,
        built_in=None,
    )
    with pytest.raises(ModelError, match="not made from a seed: it is some/model at 000"):
        blueprint(real, {"real": real})
