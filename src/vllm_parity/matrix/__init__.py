"""The matrix: axes, cells, loading and selection. Standard library only."""

from __future__ import annotations

from vllm_parity.matrix.axes import (
    Contrast,
    Execution,
    Family,
    LogprobsMode,
    Method,
    Modality,
    Platform,
    Switch,
    Tier,
    Transport,
)
from vllm_parity.matrix.cells import Cell
from vllm_parity.matrix.load import FamilySettings, Matrix, load_matrix
from vllm_parity.matrix.platforms import PlatformSettings, load_platforms
from vllm_parity.matrix.select import Selection, select

__all__ = [
    "Cell",
    "Contrast",
    "Execution",
    "Family",
    "FamilySettings",
    "LogprobsMode",
    "Matrix",
    "Method",
    "Modality",
    "Platform",
    "PlatformSettings",
    "Selection",
    "Switch",
    "Tier",
    "Transport",
    "load_matrix",
    "load_platforms",
    "select",
]
