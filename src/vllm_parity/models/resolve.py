"""From the names of models in engine settings to what vLLM loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm_parity.errors import ModelError
from vllm_parity.matrix.models import HubModel, find_model
from vllm_parity.models.cache import model_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vllm_parity.matrix.models import ModelSpec


def resolve(
    settings: Mapping[str, Any],
    models: Mapping[str, ModelSpec],
    notify: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """Put a folder in place of each built-in model's name, repository and revision of a hub's.

    Raises:
        ModelError: where a built-in model cannot be made, or no revision is pinned.

    """
    found = _found(settings["model"], models, notify)
    if "revision" in found:
        # vLLM would take the tokenizer of whatever is newest.
        found["tokenizer_revision"] = found["revision"]
    resolved = {**settings, **found}
    speculative = settings.get("speculative_config")
    if speculative and "model" in speculative:
        draft = _found(speculative["model"], models, notify)
        resolved["speculative_config"] = {**speculative, **draft}
    return resolved


def _found(
    name: str, models: Mapping[str, ModelSpec], notify: Callable[[str], object]
) -> dict[str, str]:
    model = find_model(name, models)
    if not isinstance(model, HubModel):
        return {"model": str(model_path(name, notify=notify, models=models))}
    if model.revision is None:
        message = f"models.toml pins no revision of {name}: run `vllm-parity models --pin {name}`"
        raise ModelError(message)
    return {"model": model.repo, "revision": model.revision}
