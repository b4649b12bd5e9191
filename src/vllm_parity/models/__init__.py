"""Small models made from a seed: nothing is downloaded, and every byte is known beforehand."""

from __future__ import annotations

from vllm_parity.models.cache import cache_root, model_path
from vllm_parity.models.catalog import (
    DraftModel,
    HubModel,
    ModelSpec,
    Nudge,
    SeedModel,
    drafts_of,
    find_model,
    load_models,
)

__all__ = [
    "DraftModel",
    "HubModel",
    "ModelSpec",
    "Nudge",
    "SeedModel",
    "cache_root",
    "drafts_of",
    "find_model",
    "load_models",
    "model_path",
]
