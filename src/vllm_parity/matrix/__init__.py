"""The matrix: axes, cells, models, platforms; loading and selection. Standard library only."""

from __future__ import annotations

from vllm_parity.matrix.axes import (
    Attention,
    CacheStart,
    Contrast,
    Dtype,
    EncoderAttention,
    Execution,
    Family,
    LogprobsMode,
    Method,
    Modality,
    Models,
    Platform,
    Switch,
    Tier,
    Transport,
    Workload,
)
from vllm_parity.matrix.cells import Cell
from vllm_parity.matrix.load import FamilySettings, Matrix, load_matrix
from vllm_parity.matrix.models import (
    DraftModel,
    HubModel,
    ModelSpec,
    Nudge,
    SeedModel,
    find_model,
    load_models,
)
from vllm_parity.matrix.platforms import PlatformSettings, Variable, load_platforms
from vllm_parity.matrix.select import Selection, find_cell, select

__all__ = [
    "Attention",
    "CacheStart",
    "Cell",
    "Contrast",
    "DraftModel",
    "Dtype",
    "EncoderAttention",
    "Execution",
    "Family",
    "FamilySettings",
    "HubModel",
    "LogprobsMode",
    "Matrix",
    "Method",
    "Modality",
    "ModelSpec",
    "Models",
    "Nudge",
    "Platform",
    "PlatformSettings",
    "SeedModel",
    "Selection",
    "Switch",
    "Tier",
    "Transport",
    "Variable",
    "Workload",
    "find_cell",
    "find_model",
    "load_matrix",
    "load_models",
    "load_platforms",
    "select",
]
