"""Names of models become what vLLM loads: a folder, or a repository at its pinned revision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vllm_parity.errors import ModelError
from vllm_parity.matrix import HubModel, load_models
from vllm_parity.models.resolve import resolve

MODELS = load_models()


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VLLM_PARITY_CACHE", str(tmp_path))


def test_built_in_models_are_folders() -> None:
    settings: dict[str, Any] = {
        "model": "tiny-qwen3",
        "seed": 1,
        "speculative_config": {"method": "eagle", "model": "tiny-eagle"},
    }
    found = resolve(settings, MODELS)
    assert found.keys() == settings.keys()
    assert (Path(found["model"]) / "model.safetensors").is_file()
    assert (Path(found["speculative_config"]["model"]) / "model.safetensors").is_file()
    assert settings["speculative_config"]["model"] == "tiny-eagle"


def test_models_of_the_hub_are_pinned_with_their_tokenizers_and_drafts() -> None:
    target, head = MODELS["llama-3.1-8b-instruct"], MODELS["llama-3.1-8b-eagle3"]
    assert isinstance(target, HubModel)
    assert isinstance(head, HubModel)
    settings = {
        "model": target.name,
        "speculative_config": {"method": "eagle3", "model": head.name},
    }
    assert resolve(settings, MODELS) == {
        "model": target.repo,
        "revision": target.revision,
        "tokenizer_revision": target.revision,
        "speculative_config": {"method": "eagle3", "model": head.repo, "revision": head.revision},
    }


def test_ngram_has_no_model() -> None:
    settings = {"model": "tiny-qwen3", "speculative_config": {"method": "ngram"}}
    assert resolve(settings, MODELS)["speculative_config"] == {"method": "ngram"}


def test_without_a_revision_it_is_not_loaded() -> None:
    with pytest.raises(ModelError, match=r"run `vllm-parity models --pin llama-3\.1-8b-eagle`"):
        resolve({"model": "llama-3.1-8b-eagle"}, MODELS)
