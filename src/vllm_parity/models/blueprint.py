"""From an entry of ``models.toml`` to the exact content of a model's folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.errors import ModelError
from vllm_parity.matrix.models import DraftModel, HubModel, SeedModel, find_model
from vllm_parity.matrix.models import Recipe as Kind
from vllm_parity.models import heads, qwen2_audio, qwen3, qwen3_vl
from vllm_parity.models.decoder import Decoder
from vllm_parity.models.qwen3_vl import Vision
from vllm_parity.models.tensors import safetensors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vllm_parity.matrix.models import ModelSpec
    from vllm_parity.models.recipe import Recipe

_RECIPES: dict[str, Callable[[Decoder], Recipe]] = {
    "qwen3": qwen3.recipe,
    "qwen2-audio": qwen2_audio.recipe,
    "eagle": heads.eagle,
    "eagle3": heads.eagle3,
}


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """Everything that decides the bytes of a made model; `sha256` is the weights' pinned hash."""

    name: str
    recipe: Recipe
    seed: int
    noise: float
    sha256: str

    def weights(self) -> bytes:
        """Draw the weights: the content of ``model.safetensors``."""
        return safetensors(self.recipe.tensors, self.seed, noise=self.noise)

    @property
    def digest(self) -> str:
        """A SHA-256 over the names and hashes of all files, the weights included."""
        lines = [f"{self.sha256}  weights\n"]
        for name, content in sorted(self.recipe.files.items()):
            lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def blueprint(model: ModelSpec, models: Mapping[str, ModelSpec]) -> Blueprint:
    """Work out how a model is made; `models` holds the target of a draft."""
    if isinstance(model, HubModel):
        message = (
            f"{model.name} is not made from a seed: it is {model.repo} at {model.revision} "
            "on the Hugging Face hub"
        )
        raise ModelError(message)
    if isinstance(model, DraftModel):
        base, noise = find_model(model.target, models), model.noise
    else:
        base, noise = model, 0.0
    if not isinstance(base, SeedModel):
        message = f"{model.name}: its target {base.name} is not made from a seed"
        raise ModelError(message)
    return Blueprint(
        name=model.name,
        recipe=_recipe(base),
        seed=base.seed,
        noise=noise,
        sha256=model.sha256,
    )


def _recipe(model: SeedModel) -> Recipe:
    decoder = Decoder(**model.sizes)
    if model.recipe is Kind.QWEN3_VL:
        return qwen3_vl.recipe(decoder, Vision(**model.vision))
    return _RECIPES[model.recipe](decoder)
